"""Rows whose bodies have joint drives: how they start, what disturbs them, how they move."""

from collections.abc import Sequence

import numpy as np

from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.terms import Term
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.model import CompiledModel, Scene
from gmc_bench.tasks.motion import TOUCHING, Joints, Motion
from gmc_bench.tasks.spec import Draw, EventTerm, Task

_CLEARANCE = 0.01
"""Height of the lowest foot above the highest ground at the start, m."""
_ONLY_AT_RESETS = ("base_mass", "position", "heading", "joint_angle")
_NEVER = 1e12
"""Seconds that no episode lasts; control steps of much longer times would overflow."""
_SET = ("friction", "strength", "base_mass")
"""Targets whose values replace others; those of the rest are added."""


def make_joints(robots: Sequence[CompiledRobot]) -> Joints:
    """Return the constants of the bodies' joints, one row per body."""
    found = [compiled.robot for compiled in robots]
    return Joints(
        stance=np.array([robot.pose.angles for robot in found]),
        soft_limits=np.array([robot.soft_ranges for robot in found]),
        torque_limits=np.array([[k.joint.torque_limit for k in robot.links] for robot in found]),
        action_scale=np.array([robot.gains.action_scale for robot in found]),
        base_height=np.array([robot.pose.base_height for robot in found]),
    )


def _require_own_ground(task: Task) -> None:
    """Check that a task has no ground but that of bodies with drives."""
    plain = Scene(floor="")
    places = ("terrain", "floor", "assets", "spawn", "start_offset", "start_orientation")
    for name in places:
        if getattr(task.scene, name) != getattr(plain, name):
            raise ConfigError(
                f"the scene of the task {task.id!r} has {name!r}, but bodies with joint drives "
                f"stand on a plane at z = 0, or on 'rough' ground; leave it out (floor='')"
            )
    if task.ground_height != 0.0:
        raise ConfigError(
            f"the task {task.id!r} has a ground_height of {task.ground_height}, but bodies with "
            f"joint drives stand on a plane at z = 0; use 0.0"
        )


class DrivenRows:
    """What an environment core keeps of B rows with joint drives.

    Args:
        task: gives the events and the action limit.
        models: of M bodies, each on every ground of the scene.
        simulator: of those models.

    Raises:
        ConfigError: an event that can happen at resets only has an interval `every`, or a scene
            or `ground_height` that bodies with drives cannot have.
    """

    def __init__(
        self, task: Task, models: Sequence[CompiledModel], simulator: BatchSimulator
    ) -> None:
        for event in task.events:
            if event.every and event.target in _ONLY_AT_RESETS:
                raise ConfigError(
                    f"the event {event.name!r} of the task {task.id!r} changes {event.target!r}, "
                    f"which only resets can; leave out 'every'"
                )
        _require_own_ground(task)
        self._task = task
        self._simulator = simulator
        robots = [model.robot for model in models if model.robot is not None]
        self._grounds = task.scene.num_grounds
        self.joints = make_joints(robots[:: self._grounds])
        relief = [float(r.model.hfield_size[0, 2]) if r.model.nhfield else 0.0 for r in robots]
        self._start_height = np.array([r.robot.pose.base_height + _CLEARANCE for r in robots])
        self._start_height += relief
        state = simulator.drive_state
        self.action: DoubleArray = np.zeros(state.torque.shape)
        """(B, A) float64, the latest action, clipped to the task's `action_clip`."""
        self.air_time: DoubleArray = np.zeros((simulator.num_envs, state.contacts.shape[1] - 1))
        """(B, F) float64, s, how long each of F feet has been in the air: during a step up to the
        step before, and up to now once `count_air_time` has added it."""
        self._events = {e.name: Term(task.id, "event", e.name, e.function) for e in task.events}
        self._widths: dict[str, tuple[int, ...]] = {
            "friction": (2,),
            "position": (1, 2, 3),
            "joint_angle": (state.torque.shape[1],),
            "base_velocity": (1, 2, 3, 4, 5, 6),
        }
        self._timed = [event for event in task.events if event.every]
        self._due: IntArray = np.zeros((simulator.num_envs, len(self._timed)), np.int64)

    @property
    def bodies(self) -> IntArray:
        """(B,) int64, the body each row hosts."""
        return self._simulator.model_index // self._grounds

    @property
    def heading(self) -> DoubleArray:
        """(B,) float64, rad, yaw of the bases in the world."""
        found: DoubleArray = self._simulator.drive_state.base[:, 12]
        return found

    def kept(self) -> dict[str, Array]:
        """Return what continues the rows beside the simulator, by name."""
        return {
            "action": self.action,
            "air_time": self.air_time,
            "due": self._due,
        }

    def start(self, rows: IntArray, bodies: IntArray) -> None:
        """Start new episodes with what the task's events draw.

        Args:
            rows: (K,) int64, without repeats.
            bodies: (K,) int64, the body that each of them hosts from now on.
        """
        task, simulator, count = self._task, self._simulator, len(rows)
        models = bodies * self._grounds
        if task.scene.rough:
            models = models + (simulator.draw_uniform(rows) < task.scene.rough.share)
        simulator.assign(rows, models)
        joints = self.joints.of(bodies)
        nominal = FRICTION_PAIRS["nominal"]
        values: dict[str, DoubleArray] = {
            "friction": np.tile((nominal.static, nominal.dynamic), (count, 1)),
            "strength": np.ones(count),
            "base_mass": np.ones(count),
            "position": np.zeros((count, 3)),
            "heading": np.zeros(count),
            "base_velocity": np.zeros((count, 6)),
            "joint_angle": np.zeros(joints.stance.shape),
        }
        for event in task.events:
            if event.every:
                self._schedule(event, rows, np.zeros(count, np.int64))
                continue
            drawn, value = self._drawn(event, rows), values[event.target]
            if event.target in _SET:
                value[:] = drawn
            elif value.ndim == 1:
                value += drawn
            else:
                value[:, : drawn.shape[1]] += drawn
        self._place(rows, joints, values)
        self.action[rows] = 0.0
        self.air_time[rows] = 0.0

    def _place(self, rows: IntArray, joints: Joints, values: dict[str, DoubleArray]) -> None:
        simulator = self._simulator
        model, index = simulator.model(int(rows[0])), simulator.model_index[rows]
        qpos, qvel = np.zeros((len(rows), model.nq)), np.zeros((len(rows), model.nv))
        qpos[:, :3] = values["position"]
        qpos[:, 2] += self._start_height[index]
        qpos[:, 3], qpos[:, 6] = np.cos(values["heading"] / 2), np.sin(values["heading"] / 2)
        angles = joints.stance + values["joint_angle"]
        angles = np.clip(angles, joints.soft_limits[..., 0], joints.soft_limits[..., 1])
        np.put_along_axis(qpos, simulator.drives.joints[index, :, 0], angles, axis=1)
        qvel[:, :6] = values["base_velocity"]
        simulator.drive_state.friction[rows] = values["friction"]
        simulator.drive_state.strength[rows] = values["strength"]
        simulator.place(rows, qpos, qvel, base_mass=values["base_mass"])

    def _draw(self, rows: IntArray) -> Draw:
        def uniform(count: int) -> DoubleArray:
            return 2.0 * self._simulator.draw_uniform(rows, count) - 1.0

        return Draw(uniform, len(rows), self.action.shape[1])

    def _drawn(self, event: EventTerm, rows: IntArray) -> Array:
        """Return what an event draws for rows (K,), by the shape that its target asks for."""
        count, target, term = len(rows), event.target, self._events[event.name]
        widths = self._widths.get(target)
        shapes = [(count, width) for width in widths] if widths else [(count,)]
        value = term(self._draw(rows), *shapes)
        term.require_finite(value)
        smallest = value.min(initial=np.inf)
        if target in _SET and (smallest < 0.0 or (target == "base_mass" and smallest == 0.0)):
            wanted = "be positive" if target == "base_mass" else "not be negative"
            raise PluginError(
                f"the event {event.name!r} of the task {self._task.id!r} drew {smallest:g} for "
                f"{target!r}; it must {wanted}"
            )
        return value

    def _schedule(self, event: EventTerm, rows: IntArray, now: IntArray) -> None:
        assert event.every is not None
        low, high = event.every
        seconds = low + (high - low) * self._simulator.draw_uniform(rows)
        # Rounding puts some whole numbers of steps just below themselves, e.g. 0.58 s / 0.02 s.
        steps = np.minimum(seconds, _NEVER) / self._simulator.control_dt + 1e-9
        self._due[rows, self._timed.index(event)] = now + steps.astype(np.int64)

    def disturb(self, episode_length: IntArray) -> None:
        """Apply the timed events that are due.

        Args:
            episode_length: (B,) int64, control steps since each row's last reset.
        """
        for number, event in enumerate(self._timed):
            rows = np.flatnonzero(episode_length >= self._due[:, number])
            if not len(rows):
                continue
            value = self._drawn(event, rows)
            if event.target == "base_velocity":
                self._simulator.push(rows, value)
            elif event.target == "friction":
                self._simulator.set_friction(rows, value)
            else:
                self._simulator.drive_state.strength[rows] = value
            self._schedule(event, rows, episode_length[rows])

    def clip(self, actions: FloatArray) -> DoubleArray:
        """Return the drives' part of actions (B, N), clipped to `action_clip`: (B, A) float64."""
        bound = np.inf if self._task.action_clip is None else self._task.action_clip
        return np.clip(actions[:, : self.action.shape[1]].astype(np.float64), -bound, bound)

    def targets(self, action: DoubleArray) -> DoubleArray:
        """Return the angles (B, A), rad, that actions (B, A) ask of the drives."""
        joints, bodies = self.joints, self.bodies
        found: DoubleArray = joints.stance[bodies] + joints.action_scale[bodies, None] * action
        return found

    def motion(self, rows: IntArray | None = None) -> Motion:
        """Return how rows (K,) move, or all."""
        chosen = slice(None) if rows is None else rows
        state = self._simulator.drive_state
        base, joints = state.base[chosen], state.joint_state[chosen]
        return Motion(
            joints=self.joints.of(self.bodies[chosen]),
            position=base[:, :3],
            base_linear_velocity=base[:, 3:6],
            base_angular_velocity=base[:, 6:9],
            gravity=base[:, 9:12],
            heading=base[:, 12],
            joint_angle=joints[..., 0],
            joint_velocity=joints[..., 1],
            contacts=state.contacts[chosen],
            effort=state.effort[chosen],
            air_time=self.air_time[chosen],
        )

    def count_air_time(self) -> None:
        """Add the latest control step to the time that feet have been in the air."""
        touching = self._simulator.drive_state.contacts[:, :-1] > TOUCHING
        self.air_time = np.where(touching, 0.0, self.air_time + self._simulator.control_dt)
