"""From the motion of robots to what a friction table shows: pure functions of arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gmc_bench.core.types import BoolArray, DoubleArray, IntArray
from gmc_bench.sim.model import CompiledModel
from gmc_bench.suites.measured import Condition, FrictionMeasurement

MIN_WALKED = 0.1
"""Mean distance below which slip per metre is not given, m."""

READINGS = ("restarts", "single_life")
"""What follows a fall: a new start, or nothing."""


@dataclass(frozen=True, eq=False)
class Track:
    """What B environments did in T control steps; a row that ends an episode starts again."""

    velocity: DoubleArray
    """(T, B, 2) float64, horizontal velocity of the base in its yaw frame, m/s."""
    advance: DoubleArray
    """(T, B) float64, displacement of the base along the commanded direction, which is taken in the
    base's yaw frame at the start of the episode, m."""
    walked: DoubleArray
    """(T, B) float64, horizontal distance that the base moved, in any direction, m."""
    slipped: DoubleArray
    """(T, B) float64, how far feet slid while they were loaded, all four added, m."""
    tilt: DoubleArray
    """(T, B) float64, angle between the base's vertical axis and the world's, rad."""
    astray: DoubleArray
    """(T, B) float64, yaw rate less the commanded one, rad/s."""
    fell: BoolArray
    """(T, B) bool, the episode ended with a fall."""
    time_up: BoolArray
    """(T, B) bool, the episode ended without one."""
    diverged: BoolArray
    """(T, B) bool, the simulation broke: a fall, whose step is left out; the numbers are zero."""

    @classmethod
    def empty(cls, steps: int, rows: int) -> "Track":
        """Return a track in which nothing happened."""
        velocity, numbers = np.zeros((steps, rows, 2)), np.zeros((5, steps, rows))
        events = np.zeros((3, steps, rows), np.bool_)
        return cls(velocity, *numbers, *events)

    @property
    def numbers(self) -> tuple[DoubleArray, ...]:
        """The measured arrays, which are zero where the simulation diverged."""
        moved = (self.velocity, self.advance, self.walked, self.slipped)
        return (*moved, self.tilt, self.astray)

    def rows(self, chosen: BoolArray) -> "Track":
        """Return the rows that `chosen` (B,) bool marks."""
        return Track(**{field.name: getattr(self, field.name)[:, chosen] for field in fields(self)})


def tracking_metrics(track: Track, command: tuple[float, float]) -> dict[str, Any]:
    """Return the metrics over all steps, new starts after falls included.

    Args:
        track: T steps of B environments.
        command: wanted velocity in the yaw frame, m/s.

    Returns:
        Means over environments: `velocity_rmse` and `forward_rmse` (its forward part alone), m/s;
        `turn_rmse`, of the yaw rate, rad/s; `progress`, m, all episodes added, `None` where no
        velocity is asked for; `tilt_rms`, degrees; `walked` and `slipped`, m; `slip`, slid per
        walked metre, `None` where robots hardly move. Pooled over them: `fall_rate`, % of finished
        episodes, `None` without any; `episodes` (finished), `falls` and `diverged` (among the
        falls).
    """
    counted = ~track.diverged
    lost = track.fell | track.diverged
    falls, ended = int(lost.sum()), int((lost | track.time_up).sum())
    walked = _mean(np.sum(track.walked, axis=0, where=counted))
    slipped = _mean(np.sum(track.slipped, axis=0, where=counted))
    return {
        **_errors(track.velocity, command, counted),
        "turn_rmse": _mean(_root_mean(np.square(track.astray), counted)),
        "progress": _progress(track.advance, command, counted),
        "tilt_rms": _tilt_rms(track.tilt, counted),
        "fall_rate": 100.0 * falls / ended if ended else None,
        "walked": walked,
        "slipped": slipped,
        "slip": slipped / walked if walked >= MIN_WALKED else None,
        "episodes": ended,
        "falls": falls,
        "diverged": int(track.diverged.sum()),
    }


def single_life_metrics(track: Track, command: tuple[float, float]) -> dict[str, Any]:
    """Return the metrics as if every environment stopped at its first fall.

    After it the velocity counts as zero, progress stays, and tilt is not counted.

    Args:
        track: T steps of B environments.
        command: wanted velocity in the yaw frame, m/s.

    Returns:
        `velocity_rmse`, `forward_rmse`, `progress`, `tilt_rms` as in `tracking_metrics`;
        `fall_rate`, % of environments with a fall.
    """
    lost = track.fell | track.diverged
    before: IntArray = np.cumsum(lost, axis=0) - lost  # the step of the fall still counts
    alive: BoolArray = (before == 0) & ~track.diverged
    velocity = np.where(alive[..., None], track.velocity, 0.0)
    return {
        **_errors(velocity, command, np.ones_like(alive)),
        "progress": _progress(track.advance, command, alive),
        "tilt_rms": _tilt_rms(track.tilt, alive),
        "fall_rate": 100.0 * _mean(lost.any(axis=0)),
    }


def _errors(
    velocity: DoubleArray, command: tuple[float, float], counted: BoolArray
) -> dict[str, float]:
    squares = np.square(velocity - np.asarray(command))
    return {
        "velocity_rmse": _mean(_root_mean(squares.sum(axis=-1), counted)),
        "forward_rmse": _mean(_root_mean(squares[..., 0], counted)),
    }


def _progress(
    advance: DoubleArray, command: tuple[float, float], counted: BoolArray
) -> float | None:
    return _mean(np.sum(advance, axis=0, where=counted)) if any(command) else None


def _tilt_rms(tilt: DoubleArray, counted: BoolArray) -> float:
    return math.degrees(_mean(_root_mean(np.square(tilt), counted)))


def _root_mean(squares: DoubleArray, counted: BoolArray) -> DoubleArray:
    """Return the root of each environment's mean over the steps that count."""
    total = np.sum(squares, axis=0, where=counted)
    found: DoubleArray = np.sqrt(total / np.maximum(counted.sum(axis=0), 1))
    return found


def _mean(values: Any) -> float:
    return float(np.mean(values))


def make_result(
    track: Track,
    condition: Condition,
    compiled: CompiledModel,
    measurement: FrictionMeasurement,
) -> dict[str, Any]:
    """Return everything about one robot on one friction in one direction.

    Args:
        track: what its environments did.
        condition: one of `measurement.conditions`.
        compiled: the robot as it was simulated.
        measurement: how it was measured.

    Returns:
        `robot`, `robot_digest`, `robot_origin`; `friction` (name), `static`, `dynamic`, `rule`,
        `cone`, `impratio`, `sim_dt`; `direction`, `command`, `heading`, `seconds`,
        `num_envs`; `restarts` and `single_life`, the two readings, see `tracking_metrics` and
        `single_life_metrics`.
    """
    steps, num_envs = track.tilt.shape
    friction, direction, command = condition
    pair = measurement.pairs[friction]
    assert compiled.robot is not None
    robot, options = compiled.robot.robot, compiled.model.opt
    return {
        "robot": robot.name,
        "robot_digest": robot.digest,
        "robot_origin": robot.simulated_from,
        "friction": friction,
        "static": pair.static,
        "dynamic": pair.dynamic,
        "rule": measurement.rule,
        "cone": "elliptic" if options.cone else "pyramidal",
        "impratio": float(options.impratio),
        "sim_dt": compiled.sim_dt,
        "direction": direction,
        "command": list(command),
        "heading": measurement.heading_of(command),
        "seconds": steps * compiled.control_dt,
        "num_envs": num_envs,
        "restarts": tracking_metrics(track, command[:2]),
        "single_life": single_life_metrics(track, command[:2]),
    }


def macro_average(results: Sequence[dict[str, Any]], reading: str) -> dict[str, Any]:
    """Return the mean of every metric over robots, each robot counting the same.

    Args:
        results: of `make_result`, of one friction and direction.
        reading: one of `READINGS`.

    Returns:
        The metrics; `None` where one robot has none. Counts are left out.
    """
    there = [item[reading] for item in results]
    names = [name for name in there[0] if name not in ("episodes", "falls", "diverged")]
    found: dict[str, Any] = {}
    for name in names:
        values = [metrics[name] for metrics in there]
        complete = all(value is not None for value in values)
        found[name] = math.fsum(values) / len(values) if complete else None
    return found
