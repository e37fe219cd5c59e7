"""Quadrupeds that track velocities, B at a time: the counterpart of `EnvironmentCore`."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import DIVERGED, TIME_LIMIT, StepResult
from gmc_bench.robots.bodies import RobotBody
from gmc_bench.robots.mjcf import HeightField
from gmc_bench.robots.model import CompiledRobot, compile_robot
from gmc_bench.sim.legged import LeggedSimulator
from gmc_bench.tasks.velocity import VelocityTask
from gmc_bench.tokens.actuators import NUM_ACTUATORS, build_actuator_table
from gmc_bench.tokens.spec import FeatureSlice, TokenSpec

FELL = "fell"
NOISE = {
    "base_linear_velocity": 0.1,
    "base_angular_velocity": 0.2,
    "gravity": 0.05,
    "joint_offset": 0.01,
    "joint_velocity": 1.5,
}
"""Half widths of the observation noise before scaling: m/s, rad/s, 1, rad, rad/s.

Source: isaac-sim/IsaacLab, velocity task; the same as legged_gym's.
"""
_SCALES = {"base_angular_velocity": 0.25, "joint_velocity": 0.05}
_ROUGH_CELLS, _ROUGH_CELL = 480, 0.1
"""Micro-rough ground: cells of 0.1 m, 48 m wide: farther than the fastest command leads."""
_GROUNDS = 2  # a plane, and micro-rough ground
_WALKING = 0.1  # m/s; slower commands ask to stand


def compile_grounds(bodies: Sequence[RobotBody], task: VelocityTask) -> list[CompiledRobot]:
    """Return every robot on a plane and on its micro-rough ground, robot by robot."""
    found = []
    for body in bodies:
        robot = body.robot
        height = task.roughness * sum(np.linalg.norm(link.position) for link in robot.links[1:3])
        rng = np.random.default_rng(int(body.digest[:15], 16))
        cells = rng.uniform(0.0, height, (_ROUGH_CELLS, _ROUGH_CELLS))
        half = _ROUGH_CELLS * _ROUGH_CELL / 2
        rough = HeightField(heights=cells, half_extents=(half, half))
        found += [
            compile_robot(robot, contacts=True),
            compile_robot(robot, terrain=rough, contacts=True),
        ]
    return found


class VelocityCore:
    """B environments of velocity tracking over M robots, without any reset of its own.

    It has the attributes and methods of `EnvironmentCore`, so that whatever runs, trains or scores
    policies takes either.

    Args:
        task: what to do.
        morphologies: M quadrupeds.
        num_envs: B.
        token_spec: token layout; default twelve slots.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no robots, or a body that is no quadruped.
        TokenOverflowError: the layout is not one of actuators.
    """

    def __init__(
        self,
        task: VelocityTask,
        morphologies: Sequence[RobotBody],
        num_envs: int,
        *,
        token_spec: TokenSpec | None = None,
        num_threads: int | None = None,
    ) -> None:
        for body in morphologies:
            if not isinstance(body, RobotBody):
                raise ConfigError(
                    f"the task {task.id!r} is for quadrupeds, but {body.name!r} is none; use the "
                    f"set 'quadrupeds-v1'"
                )
        if not morphologies:
            raise ConfigError("an environment needs at least one body, got none")
        self.task = task
        self.spec = token_spec or TokenSpec(NUM_ACTUATORS, 1, parts="actuators")
        grounds = compile_grounds(morphologies, task)
        self.table = build_actuator_table(grounds[::_GROUNDS], self.spec)
        self.simulator = LeggedSimulator(
            grounds,
            num_envs,
            num_substeps=task.num_substeps,
            rule=task.friction_rule,
            num_threads=num_threads,
        )
        self.num_envs = num_envs
        robots = [body.robot for body in morphologies]
        self._default = np.array([robot.pose.angles for robot in robots])
        self._scale = np.array([robot.gains.action_scale for robot in robots])
        self._soft = np.array([robot.soft_ranges for robot in robots])
        self._limits = np.array([[k.joint.torque_limit for k in robot.links] for robot in robots])
        self._heights = np.array([robot.pose.base_height for robot in robots])
        self._roughness = np.array(
            [float(np.max(r.model.hfield_size[0, 2])) for r in grounds[1::_GROUNDS]]
        )
        self._joint_places = np.array([r.joint_qpos for r in grounds[::_GROUNDS]])
        self._slots = {group.name: slice(group.start, group.stop) for group in self._dynamic()}
        shape = (num_envs, self.spec.max_limbs, self.spec.num_dynamic)
        self.dynamic: FloatArray = np.zeros(shape, np.float32)
        """(B, L, Fd) float32, the current observation, noise included."""
        self.height_map: FloatArray | None = None
        self.morphology_index: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, the robot each row hosts."""
        self.episode_length: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, control steps since the last reset."""
        self.command: DoubleArray = np.zeros((num_envs, 3))
        """(B, 3) float64, m/s, m/s, rad/s, base's yaw frame."""
        self._heading: DoubleArray = np.full(num_envs, np.nan)  # rad, wanted; nan: none is
        self.action: DoubleArray = np.zeros((num_envs, NUM_ACTUATORS))
        """(B, 12) float64, the latest action, cut off at `action_clip`."""
        self._air: DoubleArray = np.zeros((num_envs, 4))
        self._next_push: IntArray = np.zeros(num_envs, np.int64)
        self._all_rows = np.arange(num_envs)

    def _dynamic(self) -> list[FeatureSlice]:
        return [group for group in self.spec.slices if group.kind == "dynamic"]

    def reset(self, rows: IntArray, morphology_index: IntArray) -> None:
        """Start new episodes.

        Args:
            rows: (K,) int64, without repeats.
            morphology_index: (K,) int64, the robot each of them hosts from now on.
        """
        task, simulator = self.task, self.simulator
        noise = task.disturbances
        rough = simulator.draw_uniform(rows) < task.rough_share
        simulator.assign(rows, morphology_index * _GROUNDS + rough)
        self.morphology_index[rows] = morphology_index
        drawn = 2.0 * simulator.draw_uniform(rows, 21 + NUM_ACTUATORS) - 1.0
        pair = np.array([(p.static, p.dynamic) for p in noise.friction])
        choice = np.minimum(((drawn[:, 0] + 1) / 2 * len(pair)).astype(np.int64), len(pair) - 1)
        simulator.strength[rows] = _between(noise.strength, drawn[:, 1])
        qpos = np.zeros((len(rows), 19))
        qpos[:, :2] = drawn[:, 3:5]
        clearance = 0.01 + np.where(rough, self._roughness[morphology_index], 0.0)
        qpos[:, 2] = self._heights[morphology_index] + clearance
        yaw = math.pi * drawn[:, 5] if task.commands.resample_s < 1e8 else 0.0 * drawn[:, 5]
        qpos[:, 3], qpos[:, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        angles = self._default[morphology_index] + noise.joint_noise * drawn[:, 21:]
        lower, upper = self._soft[morphology_index, :, 0], self._soft[morphology_index, :, 1]
        places = self._joint_places[morphology_index]
        np.put_along_axis(qpos, places, np.clip(angles, lower, upper), axis=1)
        qvel = np.zeros((len(rows), 18))
        qvel[:, :6] = noise.velocity_noise * drawn[:, 6:12]
        simulator.friction[rows] = pair[choice]
        simulator.place(rows, qpos, qvel, base_mass=_between(noise.base_mass, drawn[:, 2]))
        simulator.set_friction(rows, pair[choice])
        self.episode_length[rows] = 0
        self.action[rows] = 0.0
        self._air[rows] = 0.0
        self._next_push[rows] = self._push_time(drawn[:, 12])
        self._draw_commands(rows)
        self._observe(rows)

    def _push_time(self, drawn: DoubleArray) -> IntArray:
        seconds = _between(self.task.disturbances.push_s, drawn)
        return np.asarray(seconds / self.simulator.control_dt, np.int64)

    def _draw_commands(self, rows: IntArray) -> None:
        wanted = self.task.commands
        drawn = self.simulator.draw_uniform(rows, 6)
        ranges = (wanted.forward, wanted.lateral, wanted.yaw)
        command = np.stack(
            [_between(limits, 2 * drawn[:, k] - 1) for k, limits in enumerate(ranges)], axis=1
        )
        straight = drawn[:, 4] < wanted.straight
        command[straight] = 0.0
        command[straight, 0] = _between(wanted.straight_forward, 2 * drawn[straight, 0] - 1)
        standing = drawn[:, 3] < wanted.standing
        command[standing] = 0.0
        held = (straight | (drawn[:, 5] < wanted.held)) & ~standing
        self.command[rows] = command
        self._heading[rows] = np.where(held, self.simulator.base[rows, 12], np.nan)
        self._steer(rows)

    def _steer(self, rows: IntArray) -> None:
        """Turn the commands that hold a heading back to it."""
        rows = rows[~np.isnan(self._heading[rows])]
        wanted = self.task.commands
        missing = self._heading[rows] - self.simulator.base[rows, 12]
        missing = np.remainder(missing + math.pi, 2.0 * math.pi) - math.pi
        limit = wanted.heading_limit
        self.command[rows, 2] = np.clip(wanted.heading_gain * missing, -limit, limit)

    def step(self, actions: FloatArray) -> StepResult:
        """Apply one action to every row.

        Args:
            actions: (B, L, 1) float; those of padding are ignored, the others cut off at
                `action_clip`.

        Raises:
            ConfigError: the actions have another shape, or a row was never reset.
        """
        expected = (self.num_envs, self.spec.max_limbs, 1)
        if np.shape(actions) != expected:
            raise ConfigError(f"actions must have the shape {expected}, got {np.shape(actions)}")
        task, simulator, robot = self.task, self.simulator, self.morphology_index
        action = np.clip(
            actions[:, :NUM_ACTUATORS, 0].astype(np.float64), -task.action_clip, task.action_clip
        )
        velocity = simulator.joint_state[..., 1].copy()
        targets = self._default[robot] + self._scale[robot, None] * action
        simulator.step(targets)
        self.episode_length += 1
        diverged = simulator.diverged.copy()
        terms = self._reward_terms(action, velocity)
        self.action = action
        if task.rewards.only_positive:
            terms["cut_off"] = np.maximum(-np.sum(list(terms.values()), axis=0), 0.0)
        terms = {
            name: np.where(diverged, 0.0, value * simulator.control_dt)
            for name, value in terms.items()
        }
        reward = np.sum(list(terms.values()), axis=0)
        upright = -simulator.base[:, 11]
        fell = (upright < math.cos(math.radians(task.max_tilt_degrees))) | (
            simulator.contacts[:, 4] > task.base_contact
        )
        fell &= ~diverged
        time_up = (self.episode_length >= task.horizon) & ~fell & ~diverged
        self._disturb()
        before = self.dynamic[diverged].copy()
        self._observe(self._all_rows)
        self.dynamic[diverged] = before
        events = {FELL: fell, TIME_LIMIT: time_up, DIVERGED: diverged}
        return StepResult(reward, terms, fell, time_up | diverged, diverged, events, {})

    def _reward_terms(self, action: DoubleArray, velocity: DoubleArray) -> dict[str, DoubleArray]:
        """Return the weighted terms per second, (B,) each."""
        simulator, weights, robot = self.simulator, self.task.rewards, self.morphology_index
        base, dt = simulator.base, simulator.control_dt
        moving, asked = self.yaw_velocity(), self.command[:, :2]
        error = np.square(moving - asked).sum(axis=1)
        speed = np.linalg.norm(asked, axis=1)
        along = (moving * asked).sum(axis=1) / np.maximum(speed, 1e-6)
        turn = np.square(base[:, 8] - self.command[:, 2])
        acceleration = (simulator.joint_state[..., 1] - velocity) / dt
        angles = simulator.joint_state[..., 0]
        soft = self._soft[robot]
        beyond = np.maximum(soft[..., 0] - angles, 0.0) + np.maximum(angles - soft[..., 1], 0.0)
        effort = simulator.effort / np.square(self._limits[robot])
        touching = simulator.contacts[:, :4] > 1.0
        landed = touching & (self._air > 0.0)
        walking = speed > _WALKING
        air = (np.where(landed, self._air - 0.5, 0.0)).sum(axis=1) * walking
        self._air = np.where(touching, 0.0, self._air + dt)
        return {
            "track_linear": weights.track_linear * np.exp(-error / weights.sigma),
            "track_yaw": weights.track_yaw * np.exp(-turn / weights.sigma),
            "progress": weights.progress * np.minimum(along, 2.0 * speed - along) * walking,
            "vertical": weights.vertical * np.square(base[:, 5]),
            "roll_pitch": weights.roll_pitch * np.square(base[:, 6:8]).sum(axis=1),
            "tilt": weights.tilt * np.square(base[:, 9:11]).sum(axis=1),
            "torque": weights.torque * effort.sum(axis=1),
            "acceleration": weights.acceleration * np.square(acceleration).sum(axis=1),
            "action_rate": weights.action_rate * np.square(action - self.action).sum(axis=1),
            "air_time": weights.air_time * air,
            "joint_limits": weights.joint_limits * beyond.sum(axis=1),
        }

    def yaw_velocity(self) -> DoubleArray:
        """Return (B, 2) float64, m/s, horizontal velocity of the base in its yaw frame."""
        base = self.simulator.base
        # The vertical in the base frame is minus gravity; what remains is horizontal.
        up, velocity = -base[:, 9:12], base[:, 3:6]
        forward = np.zeros_like(up)
        forward[:, 0] = 1.0
        forward -= up * up[:, :1]
        forward /= np.linalg.norm(forward, axis=1, keepdims=True) + 1e-9
        left = np.cross(up, forward)
        return np.stack([(velocity * forward).sum(axis=1), (velocity * left).sum(axis=1)], axis=1)

    def tilt(self) -> DoubleArray:
        """Return (B,) float64, rad, angle between the base's vertical axis and the world's."""
        found: DoubleArray = np.arccos(np.clip(-self.simulator.base[:, 11], -1.0, 1.0))
        return found

    def _disturb(self) -> None:
        task, simulator = self.task, self.simulator
        steps = max(1, round(min(task.commands.resample_s, 1e6) / simulator.control_dt))
        again = np.flatnonzero(self.episode_length % steps == 0)
        if len(again):
            self._draw_commands(again)
        self._steer(self._all_rows)
        if task.disturbances.push > 0.0:
            due = np.flatnonzero(self.episode_length >= self._next_push)
            if len(due):
                drawn = 2.0 * simulator.draw_uniform(due, 3) - 1.0
                simulator.push(due, task.disturbances.push * drawn[:, :2])
                self._next_push[due] = self.episode_length[due] + self._push_time(drawn[:, 2])

    def _observe(self, rows: IntArray) -> None:
        """Write the tokens of some rows."""
        simulator, robot = self.simulator, self.morphology_index[rows]
        base, joints = simulator.base[rows], simulator.joint_state[rows]
        measured = {
            "base_linear_velocity": base[:, None, 3:6],
            "base_angular_velocity": base[:, None, 6:9],
            "gravity": base[:, None, 9:12],
            "joint_offset": (joints[..., 0] - self._default[robot])[..., None],
            "joint_velocity": joints[..., 1:2],
        }
        level = self.task.disturbances.observation
        if level > 0.0:
            drawn = 2.0 * simulator.draw_uniform(rows, 9 + 2 * NUM_ACTUATORS) - 1.0
            parts = np.split(drawn, [3, 6, 9, 9 + NUM_ACTUATORS], axis=1)
            for (name, value), noise in zip(measured.items(), parts, strict=True):
                measured[name] = value + level * NOISE[name] * noise.reshape(value.shape)
        soft = self._soft[robot]
        span = soft[..., 1] - soft[..., 0]
        angle = measured["joint_offset"][..., 0] + self._default[robot]
        values = {
            **{name: value * _SCALES.get(name, 1.0) for name, value in measured.items()},
            "command": self.command[rows, None],
            "previous_action": self.action[rows, :, None],
            "above_lower_limit": ((angle - soft[..., 0]) / span)[..., None],
            "below_upper_limit": ((soft[..., 1] - angle) / span)[..., None],
        }
        for name, value in values.items():
            self.dynamic[rows, :NUM_ACTUATORS, self._slots[name]] = value

    def _kept(self) -> dict[str, Array]:
        return {
            "dynamic": self.dynamic,
            "episode_length": self.episode_length,
            "morphology_index": self.morphology_index,
            "command": self.command,
            "action": self.action,
            "air": self._air,
            "next_push": self._next_push,
            "heading": self._heading,
        }

    def get_state(self) -> dict[str, Array]:
        """Return a copy of everything that continues the rows to the same bits, by name."""
        kept = {name: value.copy() for name, value in self._kept().items()}
        return self.simulator.get_state() | kept

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a core with the same task and robots."""
        self.simulator.set_state(state)
        for name, value in self._kept().items():
            value[:] = state[name]


def _between(limits: tuple[float, float], drawn: Array) -> DoubleArray:
    """Map numbers in [-1, 1) to a range."""
    low, high = limits
    found: DoubleArray = low + (high - low) * (drawn + 1.0) / 2.0
    return found
