"""A control loop at the policy's rate, with its clock, its safety and its verdict."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.deployment.adapter import READ, Adapter, Readings, as_numbers
from gmc_bench.deployment.heading import HeadingHold
from gmc_bench.deployment.interface import Manifest
from gmc_bench.deployment.policies import RobotPolicy
from gmc_bench.deployment.robot import SimulatedRobot
from gmc_bench.deployment.trials import RAMP_SECONDS, SECONDS, Trial
from gmc_bench.tasks.commands import velocity_command
from gmc_bench.tasks.quadruped_velocity import BASE_CONTACT, MAX_TILT
from gmc_bench.tasks.spec import Task

Outcome = Literal["success", "fell", "emergency stop", "motion not completed"]
STOP_TILT = 45.0
"""Degrees; more is an emergency."""
STOP_MARGIN = 0.1
"""rad beyond a hard limit that are an emergency. The engine's limits are softer than steel: under
full torque these robots' joints come to rest up to 0.083 rad beyond them."""
STOP_MARGIN_SECONDS = 0.1
"""s that a joint must be that far beyond: legs thrown from limit to limit in the air are for no
more than 0.08 s."""
STOP_TORQUE_SECONDS = 0.5
"""s at a joint's torque limit that are an emergency."""
COMPLETED_SHARE = 0.5
"""Mean velocity along the command, as a share of it, from which the motion counts as completed."""
_BELOW = -0.5  # m; no ground is as low, so a base down there has walked off its edge
_UNIT = 0.2  # that the noise of sensors may change the length of gravity's direction
_AT_LIMIT = 0.999  # of the torque limit
_WARM_UP = 20  # calls of the policy before the clock runs


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long something took, ms."""

    median: float
    p95: float
    largest: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Latency":
        """Summarise durations, s; all zero if there are none."""
        values = 1e3 * np.array(seconds or [0.0])
        return cls(
            median=float(np.median(values)),
            p95=float(np.quantile(values, 0.95)),
            largest=float(values.max()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialOutcome:
    """One trial."""

    outcome: Outcome
    reason: str
    """What happened, for failures."""
    steps: int
    """Control steps."""
    mean_velocity: float
    """m/s along the command, over the whole trial, ramp included."""
    wanted_velocity: float
    """m/s."""
    progress: float
    """m along the heading of the start."""
    turned: float
    """Degrees, true heading at the end, less that of the start; positive to the left."""
    policy_ms: Latency
    """From tokens to actions."""
    tick_ms: Latency
    """From readings to the end of the control step's work, simulation included."""
    deadline_misses: int
    """Control steps whose work took longer than their time."""
    states: Array
    """(steps + 1, 19) float64, the engine's positions, for pictures."""

    @property
    def succeeded(self) -> bool:
        """Whether the commanded motion was completed without fall or emergency stop."""
        return self.outcome == "success"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the states."""
        names = ("outcome", "reason", "steps", "mean_velocity", "wanted_velocity")
        return {
            **{name: getattr(self, name) for name in (*names, "progress", "turned")},
            "policy_ms": vars(self.policy_ms),
            "tick_ms": vars(self.tick_ms),
            "deadline_misses": self.deadline_misses,
        }


class Watch:
    """The emergency stop of one robot.

    It trips at more than 45 degrees of tilt, at a joint that stays beyond its hard limits, at a
    torque that stays at its limit, and at a reading or an action that is not finite, a reading that
    is no numbers or not as many as it should be, or gravity that is no unit vector. It sees
    readings only, as on a robot.
    """

    def __init__(self, adapter: Adapter, period: float) -> None:
        robot = adapter.interface
        self._hard = robot.hard_limits[robot.native]
        self._torques = robot.torque_limits[robot.native]
        self._names = robot.joint_names
        self._strained = np.zeros(len(robot.native), np.int64)  # readings in a row
        self._beyond = np.zeros(len(robot.native), np.int64)
        self._period = period

    def broken(self, readings: Readings) -> str:
        """Return which reading no policy can be shown, or nothing."""
        for name, expected in READ.items():
            try:
                found = as_numbers(getattr(readings, name), f"the reading {name}", expected)
            except ConfigError as error:  # e.g. None of a lost sensor: the robot has to stop
                return str(error)
            if not np.isfinite(found).all():
                return f"the reading {name} is not finite"
        length = math.hypot(*map(float, readings.gravity))
        if abs(length - 1.0) > _UNIT:  # e.g. in m/s^2: tilts would look smaller than they are
            return f"the reading gravity must be a unit vector, got one of length {length:.3g}"
        return ""

    def check(self, readings: Readings, targets: DoubleArray) -> str:
        """Return why to stop, or nothing."""
        if not np.isfinite(targets).all():
            return "an action is not finite"
        tilt = math.degrees(math.acos(min(max(-float(readings.gravity[2]), -1.0), 1.0)))
        if tilt > STOP_TILT:
            return f"the base tilts by more than {STOP_TILT:g} degrees"
        angles = readings.joint_angles
        beyond = np.maximum(self._hard[:, 0] - angles, angles - self._hard[:, 1])
        self._beyond = np.where(beyond > STOP_MARGIN, self._beyond + 1, 0)
        if self._beyond.max() > round(STOP_MARGIN_SECONDS / self._period):
            joint = self._names[int(self._beyond.argmax())]
            return f"{joint} has been beyond its hard limit for {STOP_MARGIN_SECONDS:g} s"
        at_limit = np.abs(readings.joint_torques) >= _AT_LIMIT * self._torques
        self._strained = np.where(at_limit, self._strained + 1, 0)
        if self._strained.max() > round(STOP_TORQUE_SECONDS / self._period):
            joint = self._names[int(self._strained.argmax())]
            return f"{joint} has been at its torque limit for {STOP_TORQUE_SECONDS:g} s"
        return ""


def run_trial(
    robot: SimulatedRobot,
    policy: RobotPolicy,
    trial: Trial,
    task: Task,
    *,
    seconds: float = SECONDS,
    realtime: bool = True,
    hold_heading: bool = True,
    on_step: Callable[[], None] = lambda: None,
) -> TrialOutcome:
    """Run one trial.

    In real time, each control step starts when the wall clock says so; the time from reading to
    sending counts as latency on top of the drawn one, and a step that overruns delays the next.
    Otherwise steps follow each other at once, and the result depends on no clock.

    Args:
        robot: at its start.
        policy: controls it.
        trial: what is commanded.
        task: how its commands hold a heading.
        seconds: length of the trial.
        realtime: whether to keep to the wall clock.
        hold_heading: whether commands without a yaw rate lead the robot back to the heading that it
            believes to have left, as the training's do.
        on_step: called after each control step.
    """
    loop = _Loop(robot, policy, trial, task, hold_heading=hold_heading)
    period, substeps = loop.period, round(loop.period / robot.timestep)
    tick_s: list[float] = []
    states, along = [robot.data.qpos.copy()], 0.0
    outcome: Outcome = "success"
    reason = ""
    due = time.perf_counter()
    for step in range(round(seconds / period)):
        if realtime:
            time.sleep(max(0.0, due - time.perf_counter()))
        start = time.perf_counter()
        targets, reason = loop.control(step)
        if targets is None:
            outcome = "emergency stop"
            break
        robot.send(targets, late=time.perf_counter() - start if realtime else 0.0)
        robot.advance(substeps)
        tick_s.append(time.perf_counter() - start)
        # A step that overruns moves all later ones: a robot does not catch up.
        due = max(due + period, time.perf_counter()) if realtime else due
        reason = fall_of(robot)
        if reason:
            outcome = "fell"
            break
        states.append(robot.data.qpos.copy())
        along += float(robot.yaw_velocity() @ loop.direction)
        on_step()
    taken = len(states) - 1
    progress, turned = _displacement(np.stack(states))
    mean = along / max(taken, 1)
    if outcome == "success" and mean < COMPLETED_SHARE * loop.speed:
        outcome = "motion not completed"
        reason = f"{mean:.2f} m/s along the command of {loop.speed:.2f} m/s"
    return TrialOutcome(
        outcome=outcome,
        reason=reason,
        steps=taken,
        mean_velocity=mean,
        wanted_velocity=loop.speed,
        progress=progress,
        turned=turned,
        policy_ms=Latency.of(loop.policy_s),
        tick_ms=Latency.of(tick_s),
        deadline_misses=sum(took > period for took in tick_s),
        states=np.stack(states),
    )


class _Loop:
    """What happens in a control step between readings and targets; see `run_trial`."""

    def __init__(
        self,
        robot: SimulatedRobot,
        policy: RobotPolicy,
        trial: Trial,
        task: Task,
        *,
        hold_heading: bool,
    ) -> None:
        self.robot, self.policy = robot, policy
        self.adapter = Adapter(_native_manifest(policy, robot), robot.interface.name)
        self.period = 1.0 / policy.manifest.rate  # s
        self.wanted = np.array(trial.command)
        self.speed = float(np.linalg.norm(self.wanted[:2]))  # m/s
        self.direction = self.wanted[:2] / max(self.speed, 1e-9)
        commands = velocity_command(task)
        hold = HeadingHold(self.period, commands.heading_gain, commands.heading_limit)
        self._hold = hold if hold_heading and self.wanted[2] == 0.0 else None
        self._watch = Watch(self.adapter, self.period)
        self.policy_s: list[float] = []
        """Of every call of the policy."""
        policy.reset()
        tokens = self.adapter.tokens(robot.read(), self.wanted)
        tokens[~np.isfinite(tokens)] = 0.0  # the first step says which reading is broken
        for _ in range(_WARM_UP):
            policy(tokens, robot.interface.name)
        policy.reset()

    def control(self, step: int) -> tuple[DoubleArray | None, str]:
        """Return the drives' targets, or `None` and why to stop."""
        command = self.wanted * min(1.0, (step + 1) * self.period / RAMP_SECONDS)
        readings = self.robot.read()
        broken = self._watch.broken(readings)
        if broken:
            return None, broken
        if self._hold is not None:
            command[2] = self._hold.yaw_rate(readings)
        tokens = self.adapter.tokens(readings, command)
        before = time.perf_counter()
        actions = self.policy(tokens, self.robot.interface.name)
        self.policy_s.append(time.perf_counter() - before)
        targets = self.adapter.targets(actions)
        reason = self._watch.check(readings, targets)
        return (None if reason else targets), reason


def _displacement(states: Array) -> tuple[float, float]:
    """Return the distance along the start heading, m, and how far the heading turned, degrees."""
    w, x, y, z = states[:, 3:7].T
    heading = np.unwrap(np.arctan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z)))
    moved = states[-1, :2] - states[0, :2]
    along = moved @ np.array([math.cos(heading[0]), math.sin(heading[0])])
    return float(along), math.degrees(float(heading[-1] - heading[0]))


def fall_of(robot: SimulatedRobot) -> str:
    """Return why a robot has fallen, as in training or off the ground's edge, or nothing."""
    if not robot.is_finite():
        return "the simulation broke"
    if robot.data.qpos[2] < _BELOW:
        return "the robot left the ground"
    if math.degrees(robot.tilt()) > MAX_TILT:
        return f"the base tilts by more than {MAX_TILT:g} degrees"
    if robot.base_contact() > BASE_CONTACT:
        return "the base touches the ground"
    return ""


def _native_manifest(policy: RobotPolicy, robot: SimulatedRobot) -> Manifest:
    """Return the policy's manifest with the joint order of this robot's software."""
    manifest = policy.manifest
    manifest.robot(robot.interface.name)  # refuses robots that the policy does not know
    return replace(manifest, robots={**manifest.robots, robot.interface.name: robot.interface})
