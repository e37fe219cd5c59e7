"""The UNIMAL tasks for one body at a time, on MuJoCo's Python interface alone.

Written from the public description of the tasks and sharing no code with the batched path: no
kernels, no tables, no feature names. The ground under a cell of the height map is measured with
rays on the compiled model, so that it does not depend on any grid that the batched path keeps.

Source:
    Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, for flat ground, variable terrain and
    obstacles; Xiong et al. 2023 (ModuMorph), arXiv:2302.11070, for incline and exploration.
    Differs, as the batched tasks do: the height map follows the heading right after a reset too,
    rugged strips are not mirrored in y, cells beyond the array read its border, and the torso's
    `body_pos` is (0, 0, its height above the ground + 1) on every task. As in the public code, the
    cell of a place is 0.1 m beside it, towards -y.
"""

import copy
import math
from dataclasses import dataclass

import mujoco
import numpy as np

SLOPE = math.radians(10.0)
"""Angle of the incline; +x goes uphill."""
CELL = 0.1  # m, side of a cell of the height array
BORDER = 100  # cells of `BEYOND` on every side
BEYOND = -10.0  # m, height outside the terrain
WALL_CELLS = 10
WALL = 4.0  # m, height that the array holds for a wall
OBSTACLE = 3.0  # m, height that the array holds under a box
HALF_WIDTH = 20.0  # m, of every terrain with a height array

# Where the 17 time-varying numbers stand among the 52 of a token.
DYNAMIC = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 30, 31, 41, 42)
CONTEXT = tuple(place for place in range(52) if place not in DYNAMIC)

BACK_AND_FRONT = (
    -10, -6, -5, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 22,
    24, 28, 32, 40,
)  # fmt: skip
_ONE_SIDE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 22, 24, 28, 32, 40)
LEFT_TO_RIGHT = (*(-k for k in reversed(_ONE_SIDE[1:])), *_ONE_SIDE)
"""Rows of the height array run towards -y, so that the first are on the left."""
NUM_HEIGHTS = len(BACK_AND_FRONT) * len(LEFT_TO_RIGHT)


@dataclass(frozen=True)
class Rules:
    """What sets one task apart."""

    fall_ratio: float
    lateral_end: bool = False
    x_range: tuple[float, float] | None = None
    """West and east end of the height array, m; None for tasks without one."""
    walls: bool = False
    incline: bool = False
    counts_cells: bool = False


RULES = {
    "unimal-ft-v1": Rules(0.5),
    "unimal-incline-v1": Rules(0.2, lateral_end=True, incline=True),
    "unimal-exploration-v1": Rules(0.5, counts_cells=True),
    "unimal-obstacles-v1": Rules(0.5, lateral_end=True, x_range=(-3.0, 97.0), walls=True),
    "unimal-vt-v1": Rules(0.3, lateral_end=True, x_range=(-3.0, 107.0)),
}


@dataclass(frozen=True)
class PlainStep:
    """Everything that one control step of one body gives."""

    tokens: np.ndarray
    """(limbs, 52) float64."""
    reward: float
    reasons: frozenset[str]
    """Why the episode ended: `fell`, `edge`; empty while it goes on."""
    metric: float
    heights: np.ndarray | None
    """(1410,) float64, m above the torso's cell; None for tasks without a height map."""


class Ground:
    """Heights of whatever stands still in a model, by rays from above."""

    def __init__(self, model: mujoco.MjModel) -> None:
        # A copy, because the owner of the model may change its terrain later.
        self.model = copy.copy(model)
        self.static = model.body_weldid[model.geom_bodyid] == 0
        touches = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        self.model.geom_group[:] = np.where(self.static & touches, 0, 1)
        self.data = mujoco.MjData(self.model)
        mujoco.mj_kinematics(self.model, self.data)
        self._group = np.array([1, 0, 0, 0, 0, 0], np.uint8)
        self._geom = np.zeros(1, np.int32)

    def hit(self, start, direction) -> tuple[float, int]:
        """Return distance and geom of the first hit of a ray; (inf, -1) for none."""
        distance = mujoco.mj_ray(
            self.model,
            self.data,
            np.asarray(start, np.float64),
            np.asarray(direction, np.float64),
            self._group,
            True,
            -1,
            self._geom,
        )
        geom = int(self._geom[0])
        return (math.inf, -1) if geom < 0 else (distance, geom)

    def height(self, x: float, y: float) -> float:
        """Return the height of the highest surface at a place, m; -inf where there is none."""
        return 50.0 - self.hit((x, y, 50.0), (0.0, 0.0, -1.0))[0]

    def geom_below(self, x: float, y: float) -> int:
        """Return the highest geom at a place, -1 for none."""
        return self.hit((x, y, 50.0), (0.0, 0.0, -1.0))[1]


class HeightArray:
    """The height array of a terrain, measured cell by cell when asked for.

    Row 0 is at the largest y, column 0 at the smallest x; both are counted with the border.
    """

    def __init__(self, ground: Ground, x_range: tuple[float, float], walls: bool) -> None:
        self.ground = ground
        self.west, self.east = x_range
        self.walls = walls
        self.margin = BORDER + (WALL_CELLS if walls else 0)
        self.num_rows = round(2 * HALF_WIDTH / CELL) + 2 * self.margin
        self.num_columns = round((self.east - self.west) / CELL) + 2 * self.margin
        shape = (self.num_rows, self.num_columns)
        self._height = np.full(shape, np.nan)
        self._level = np.zeros(shape, bool)
        self._certain = np.zeros(shape, bool)

    def cell_of(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of a place, kept inside the array."""
        row = int(self.num_rows / 2 - math.floor(10.0 * y))
        column = int(10.0 * (-self.west) + self.margin + math.floor(10.0 * x))
        rows, columns = self._inside(row, column)
        return int(rows), int(columns)

    def _inside(self, rows, columns):
        return np.clip(rows, 0, self.num_rows - 1), np.clip(columns, 0, self.num_columns - 1)

    def look(self, rows, columns):
        """Return heights (m) of cells, whether they are level and whether rounding is certain."""
        cells = self._inside(rows, columns)
        unknown = np.isnan(self._height[cells])
        for row, column in set(zip(*(np.atleast_1d(part[unknown]) for part in cells), strict=True)):
            found = self._measure(int(row), int(column))
            self._height[row, column], self._level[row, column], self._certain[row, column] = found
        return self._height[cells], self._level[cells], self._certain[cells]

    def _measure(self, row: int, column: int) -> tuple[float, bool, bool]:
        if not self._within(row, column, BORDER):
            return BEYOND, True, True
        if not self._within(row, column, self.margin):
            return WALL, True, True
        left = self.west + (column - self.margin) * CELL
        top = HALF_WIDTH - (row - self.margin) * CELL
        value = self.ground.height(*self._sample_point(left, top))
        corners = [
            self.ground.height(x, y)
            for x in (left + 1e-6, left + CELL - 1e-6)
            for y in (top - 1e-6, top - CELL + 1e-6)
        ]
        level = max(*corners, value) - min(*corners, value) <= 1e-6
        if self.walls and value > 2.0:
            value = OBSTACLE
        # Fields with a slope are stretched by up to 4e-5, because their greatest height is rounded.
        certain = level or abs((1000.0 * value) % 1.0 - 0.5) > 0.1
        return round(value, 3), level, certain

    def _within(self, row: int, column: int, margin: int) -> bool:
        return (
            margin <= row < self.num_rows - margin and margin <= column < self.num_columns - margin
        )

    def _sample_point(self, left: float, top: float) -> tuple[float, float]:
        """Return where a cell is measured: its middle, or the one vertex of a height field in it.

        A field of n columns has n cells of the array but n - 1 gaps between its vertices, so
        vertex k lies inside cell k, a little farther right with every cell.
        """
        x, y = left + 0.5 * CELL, top - 0.5 * CELL
        model, geom = self.ground.model, self.ground.geom_below(x, y)
        if geom < 0 or model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_HFIELD:
            return x, y
        half_length, half_width = model.hfield_size[model.geom_dataid[geom]][:2]
        start = model.geom_pos[geom][0] - half_length
        return (
            start + _vertex(x - start, half_length, 2e-7),
            -half_width + _vertex(y + half_width, half_width, 3e-7),
        )


def _vertex(distance: float, half: float, beside: float) -> float:
    """Return the place of the vertex in the cell at a distance from the start of a field, m.

    It lies `beside` the vertex: a ray that meets an edge between two triangles falls through.
    """
    count = round(2 * half / CELL)
    place = math.floor(distance / CELL) * 2 * half / (count - 1) + beside
    return min(place, 2 * half - beside)


class PlainTask:
    """One task with one body: slow, plain, without resets of its own.

    Args:
        name: id of the task.
        model: the body in its scene.
        torso_height: of the body's file, m above the ground.
    """

    def __init__(self, name: str, model: mujoco.MjModel, torso_height: float) -> None:
        self.rules = RULES[name]
        self.torso_height = torso_height
        self.standing_height = torso_height - 0.2
        self.use_model(model)

    def use_model(self, model: mujoco.MjModel) -> None:
        """Continue with another terrain; call `reset_from` before the next step."""
        self.model = copy.copy(model)
        self.data = mujoco.MjData(self.model)
        self.array = None
        if self.rules.x_range is not None:
            self.array = HeightArray(Ground(model), self.rules.x_range, self.rules.walls)

    def reset_from(self, qpos, qvel) -> tuple[np.ndarray, np.ndarray | None]:
        """Start an episode from a state; return tokens (limbs, 52) and height map or None."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = qpos
        self.data.qvel[:] = qvel
        mujoco.mj_forward(self.model, self.data)
        self.visited: set[tuple[int, int]] = set()
        return self.tokens(), self.heights()

    def step(self, action) -> PlainStep:
        """Take (limbs, 2) actions, x hinge first; entries without a hinge are ignored."""
        chosen = [action[body - 1][column] for _, body, column in self._hinges()]
        self.data.ctrl[:] = np.clip(np.asarray(chosen, np.float64), -1.0, 1.0)
        x_before = float(self.data.xpos[1][0])
        for _ in range(4):
            mujoco.mj_step(self.model, self.data)
        # Velocities: the new joint velocities on the positions of the last engine step's start.
        mujoco.mj_comVel(self.model, self.data)
        reward, metric = self._judge(x_before)
        return PlainStep(self.tokens(), reward, self._reasons(), metric, self.heights())

    def _judge(self, x_before: float) -> tuple[float, float]:
        x, y, _ = (float(part) for part in self.data.xpos[1])
        speed = (x - x_before) / 0.02
        if self.rules.incline:
            start = math.cos(SLOPE) * (-75.0 + 2.0)
            return speed / math.cos(SLOPE), (x - start) / math.cos(SLOPE)
        if self.rules.counts_cells:
            cell = (math.floor(y + 50.0), math.floor(x))
            inside = 0 <= cell[0] < 100 and 0 <= cell[1] < 100
            new = inside and cell not in self.visited
            if new:
                self.visited.add(cell)
            return float(new), float(len(self.visited))
        return speed, x

    def _reasons(self) -> frozenset[str]:
        x, y, z = (float(part) for part in self.data.xpos[1])
        reasons = set()
        if round(z - self.ground_height(x, y), 3) <= self.rules.fall_ratio * self.standing_height:
            reasons.add("fell")
        if self.rules.lateral_end and abs(y) >= 19.0:
            reasons.add("edge")
        return frozenset(reasons)

    def ground_height(self, x: float, y: float) -> float:
        """Return the height that the torso's height is measured from, m."""
        if self.rules.incline:
            row, column = 200 - math.floor(10.0 * y), 750 + math.floor(10.0 * x)
            if not (0 <= row < 400 and 0 <= column < 1500):
                return BEYOND
            return round(math.tan(SLOPE) * math.floor(10.0 * x) / 10.0 + 1.0, 3)
        if self.array is None:
            return 1.0
        return max(self.array.look(*self.array.cell_of(x, y))[0], 0.0)

    def heights(self) -> np.ndarray | None:
        """Return the height map, (1410,) float64, or None."""
        if self.array is None:
            return None
        here = self.array.look(*self._torso_cell())[0]
        return self.array.look(*self._map_cells())[0] - here

    def level_heights(self) -> np.ndarray:
        """Return which numbers of the height map stand for level cells, (1410,) bool."""
        return self.array.look(*self._map_cells())[1]

    def certain_heights(self) -> np.ndarray:
        """Return which numbers of the height map do not hang on how a tie is rounded.

        (1410,) bool; ties are a place on a cell's border, a turned offset half way between two
        cells, and a height half way between two millimetres.
        """
        x, y = self.data.xpos[1][:2]
        # (10 x + 0.5) % 1 is 0.5 on a border.
        on_border = min(abs((10.0 * part + 0.5) % 1.0 - 0.5) for part in (x, y)) < 1e-6
        here = self.array.look(*self._torso_cell())[2]
        safe = [np.abs(part % 1.0 - 0.5) > 1e-6 for part in self._turned_offsets()]
        certain = self.array.look(*self._map_cells())[2]
        return safe[0] & safe[1] & certain & here & (not on_border)

    def _torso_cell(self) -> tuple[int, int]:
        x, y = self.data.xpos[1][:2]
        return self.array.cell_of(float(x), float(y))

    def heading(self) -> float:
        """Return the angle from world +x to the torso's x axis, seen from above, rad."""
        axes = self.data.xmat[1].reshape(3, 3)
        return math.atan2(axes[1, 0], axes[0, 0])

    def _turned_offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets in rows and columns of all cells of the map, (1410,) float64 each."""
        cosine, sine = math.cos(self.heading()), math.sin(self.heading())
        right = np.repeat(LEFT_TO_RIGHT, len(BACK_AND_FRONT))
        ahead = np.tile(BACK_AND_FRONT, len(LEFT_TO_RIGHT))
        return -sine * ahead + cosine * right, cosine * ahead + sine * right

    def _map_cells(self) -> tuple[np.ndarray, np.ndarray]:
        row, column = self._torso_cell()
        down, east = self._turned_offsets()
        return row + np.rint(down).astype(int), column + np.rint(east).astype(int)

    def tokens(self) -> np.ndarray:
        """Return the tokens of all limbs, (limbs, 52) float64."""
        found = np.zeros((self._num_limbs(), 52))
        for body in range(1, len(found) + 1):
            self._write_limb(body, found[body - 1])
        # The start position in the world would give the task away, so it is that of flat ground.
        found[0, 13:16] = 0.0, 0.0, self.torso_height + 1.0
        for joint, body, column in self._hinges():
            self._write_hinge(joint, 30 + 11 * column, found[body - 1])
        return found

    def _num_limbs(self) -> int:
        return int(np.count_nonzero(self.model.body_weldid != 0))

    def _write_limb(self, body: int, token: np.ndarray) -> None:
        model, data = self.model, self.data
        velocity = np.zeros(6)  # angular, linear
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        (geom,) = np.flatnonzero(model.geom_bodyid == body)
        token[0:3] = data.xpos[body]
        token[0] -= data.xpos[1][0]
        token[3:6] = velocity[3:]
        token[6:9] = velocity[:3]
        token[9:13] = data.xquat[body]
        token[13:16] = model.body_pos[body]
        token[16:19] = model.body_ipos[body]
        token[19:23] = model.body_iquat[body]
        token[23:27] = model.geom_quat[geom]
        token[27] = model.body_mass[body]
        token[28:30] = model.geom_size[geom][:2]

    def _write_hinge(self, joint: int, first: int, token: np.ndarray) -> None:
        model, data = self.model, self.data
        lower, upper = model.jnt_range[joint]
        (motor,) = np.flatnonzero(model.actuator_trnid[:, 0] == joint)
        token[first] = (data.qpos[model.jnt_qposadr[joint]] - lower) / (upper - lower)
        token[first + 1] = data.qvel[model.jnt_dofadr[joint]]
        token[first + 2 : first + 5] = model.jnt_pos[joint]
        token[first + 5 : first + 7] = lower, upper
        token[first + 7 : first + 10] = model.jnt_axis[joint]
        token[first + 10] = model.actuator_gear[motor][0]

    def _hinges(self):
        # In joint order, which is motor order; x hinges are column 0, y hinges column 1.
        for joint in range(1, self.model.njnt):
            column = {"limbx": 0, "limby": 1}[self.model.joint(joint).name.partition("/")[0]]
            yield joint, int(self.model.jnt_bodyid[joint]), column
