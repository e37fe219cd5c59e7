"""A control loop at the policy's rate, with its clock, its safety and its verdict."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gmc_bench.deployment.adapter import Adapter, Readings
from gmc_bench.deployment.interface import Manifest
from gmc_bench.deployment.policies import Policy
from gmc_bench.deployment.robot import SimulatedRobot
from gmc_bench.deployment.trials import RAMP_SECONDS, SECONDS, Trial
from gmc_bench.tasks.velocity import VelocityTask
from gmc_bench.types import Array, DoubleArray

Outcome = Literal["success", "fell", "emergency stop", "motion not completed"]
STOP_TILT = 45.0
"""Degrees; more is an emergency."""
STOP_MARGIN = 0.05
"""rad beyond a hard limit that are an emergency; the engine's limits give way a little."""
STOP_TORQUE_SECONDS = 0.5
"""s at a joint's torque limit that are an emergency."""
COMPLETED_SHARE = 0.5
"""Mean velocity along the command, as a share of it, from which the motion counts as completed."""
_AT_LIMIT = 0.999  # of the torque limit
_WARM_UP = 20  # calls of the policy before the clock runs


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long something took, ms."""

    median: float
    p95: float
    largest: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Timing":
        """Summarise durations, s; all zero if there are none."""
        values = 1e3 * np.array(seconds or [0.0])
        return cls(
            median=float(np.median(values)),
            p95=float(np.quantile(values, 0.95)),
            largest=float(values.max()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialResult:
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
    policy_ms: Timing
    """From tokens to actions."""
    tick_ms: Timing
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
            **{name: getattr(self, name) for name in names},
            "policy_ms": vars(self.policy_ms),
            "tick_ms": vars(self.tick_ms),
            "deadline_misses": self.deadline_misses,
        }


class Watch:
    """The emergency stop of one robot.

    It trips at more than 45 degrees of tilt, at a joint beyond its hard limits, at a torque that
    stays at its limit for more than half a second, and at an action that is not finite. It sees
    readings only, as on a robot.
    """

    def __init__(self, adapter: Adapter, period: float) -> None:
        robot = adapter.interface
        self._hard = robot.hard_limits[robot.native]
        self._torques = robot.torque_limits[robot.native]
        self._names = robot.joint_names
        self._held = np.zeros(len(robot.native), np.int64)
        self._patience = round(STOP_TORQUE_SECONDS / period)

    def check(self, readings: Readings, targets: DoubleArray) -> str:
        """Return why to stop, or nothing."""
        if not np.isfinite(targets).all():
            return "an action is not finite"
        tilt = math.degrees(math.acos(min(max(-float(readings.gravity[2]), -1.0), 1.0)))
        if tilt > STOP_TILT:
            return f"the base tilts by more than {STOP_TILT:g} degrees"
        angles = readings.joint_angles
        beyond = np.maximum(self._hard[:, 0] - angles, angles - self._hard[:, 1])
        if beyond.max() > STOP_MARGIN:
            return f"{self._names[int(beyond.argmax())]} is beyond its hard limit"
        at_limit = np.abs(readings.joint_torques) >= _AT_LIMIT * self._torques
        self._held = np.where(at_limit, self._held + 1, 0)
        if self._held.max() > self._patience:
            joint = self._names[int(self._held.argmax())]
            return f"{joint} has been at its torque limit for {STOP_TORQUE_SECONDS:g} s"
        return ""


def run_trial(
    robot: SimulatedRobot,
    policy: Policy,
    trial: Trial,
    task: VelocityTask,
    *,
    seconds: float = SECONDS,
    realtime: bool = True,
    on_step: Callable[[], None] = lambda: None,
) -> TrialResult:
    """Run one trial.

    In real time, each control step starts when the wall clock says so; the time from reading to
    sending counts as latency on top of the drawn one, and a step that overruns delays the next.
    Otherwise steps follow each other at once, and the result depends on no clock.

    Args:
        robot: at its start.
        policy: controls it.
        trial: what is commanded.
        task: what counts as a fall.
        seconds: length of the trial.
        realtime: whether to keep to the wall clock.
        on_step: called after each control step.
    """
    name = robot.interface.name
    adapter = Adapter(_native_manifest(policy, robot), name)
    period = 1.0 / policy.manifest.rate
    substeps = round(period / robot.timestep)
    watch = Watch(adapter, period)
    wanted = np.array(trial.command)
    speed = float(np.linalg.norm(wanted[:2]))
    direction = wanted[:2] / max(speed, 1e-9)
    policy.reset()
    tokens = adapter.tokens(robot.read(), wanted)
    for _ in range(_WARM_UP):
        policy(tokens, name)
    policy.reset()
    policy_s: list[float] = []
    tick_s: list[float] = []
    states, along, misses = [robot.data.qpos.copy()], 0.0, 0
    outcome: Outcome = "success"
    reason = ""
    steps = round(seconds / period)
    due = time.perf_counter()
    for step in range(steps):
        if realtime:
            time.sleep(max(0.0, due - time.perf_counter()))
        start = time.perf_counter()
        command = wanted * min(1.0, (step + 1) * period / RAMP_SECONDS)
        readings = robot.read()
        tokens = adapter.tokens(readings, command)
        before = time.perf_counter()
        actions = policy(tokens, name)
        policy_s.append(time.perf_counter() - before)
        targets = adapter.targets(actions)
        reason = watch.check(readings, targets)
        if reason:
            outcome = "emergency stop"
            break
        robot.send(targets, late=time.perf_counter() - start if realtime else 0.0)
        robot.advance(substeps)
        took = time.perf_counter() - start
        tick_s.append(took)
        misses += took > period
        # A step that overruns moves all later ones: a robot does not catch up.
        due = max(due + period, time.perf_counter()) if realtime else due
        reason = fall_of(robot, task)
        if reason:
            outcome = "fell"
            break
        states.append(robot.data.qpos.copy())
        along += float(robot.yaw_velocity() @ direction)
        on_step()
    taken = len(states) - 1
    mean = along / max(taken, 1)
    if outcome == "success" and mean < COMPLETED_SHARE * speed:
        outcome = "motion not completed"
        reason = f"{mean:.2f} m/s along the command of {speed:.2f} m/s"
    return TrialResult(
        outcome=outcome,
        reason=reason,
        steps=taken,
        mean_velocity=mean,
        wanted_velocity=speed,
        policy_ms=Timing.of(policy_s),
        tick_ms=Timing.of(tick_s),
        deadline_misses=misses,
        states=np.stack(states),
    )


def fall_of(robot: SimulatedRobot, task: VelocityTask) -> str:
    """Return why a robot has fallen, as in training, or nothing."""
    if not robot.is_finite():
        return "the simulation broke"
    if math.degrees(robot.tilt()) > task.max_tilt_degrees:
        return f"the base tilts by more than {task.max_tilt_degrees:g} degrees"
    if robot.base_contact() > task.base_contact:
        return "the base touches the ground"
    return ""


def _native_manifest(policy: Policy, robot: SimulatedRobot) -> Manifest:
    """Return the policy's manifest with the joint order of this robot's software."""
    manifest = policy.manifest
    manifest.robot(robot.interface.name)  # refuses robots that the policy does not know
    return replace(manifest, robots={**manifest.robots, robot.interface.name: robot.interface})
