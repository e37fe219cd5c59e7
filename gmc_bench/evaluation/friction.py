"""Velocity tracking of a policy on slippery and on grippy ground, and in all directions, measured.

Every robot walks straight ahead on a plane, with nothing but the friction of its feet changed; on
one of the frictions it is also commanded to go backward and sideways and to turn on the spot. The
command holds the heading, as in IsaacLab and legged_gym, unless that is left free. A robot
that falls, or whose episode is over, starts again until the time is up, and every control step
counts: falls are shown beside tracking, never left out. The same rollouts are also read as a
single life, which ends with the first fall.

Source:
    The RecMorph paper, Tables IV and V, and its appendix on friction: friction pairs, metrics and
    robots. It states neither command, horizon, number of environments nor what
    follows a fall: 1 m/s and 100 s are what its numbers imply (a robot that stands still has an
    RMSE of 1; the best progress is 98 m).
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.envs.bodies import require_bodies
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation.evaluate import MAX_ROWS
from gmc_bench.evaluation.friction_metrics import Track, make_result
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.policies.policy import Policy
from gmc_bench.robots.friction import FrictionPair, sliding_speeds
from gmc_bench.robots.schema import BUILT_IN, Robot
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.suites.measured import FrictionMeasurement, Velocity
from gmc_bench.tasks.commands import VelocityCommand, velocity_command
from gmc_bench.tasks.quadruped_velocity import undisturbed
from gmc_bench.tasks.spec import TIME_LIMIT, Task

EPISODE_SECONDS = 20.0
"""A robot that has not fallen starts again after this time, s."""


def measure_friction(
    policy: Policy,
    task: Task,
    bodies: Sequence[Robot],
    measurement: FrictionMeasurement,
    *,
    seed: int,
    num_threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure a policy's mean actions on every robot, friction and direction.

    Where the heading is held, a yaw rate turns the robot back to where it headed at its start.
    Start states are the same for all frictions and directions.

    Args:
        policy: who acts; not changed.
        task: what it was trained on.
        bodies: M robots; for separate weights per body, those of training in their order, whose
            simulated bodies may be those of other files.
        measurement: what is measured.
        seed: of the start states, and of the observation noise.
        num_threads: threads that step; default all.
        on_progress: called with the number of control steps just done.

    Returns:
        One result per condition (see `FrictionMeasurement.conditions`) and robot, condition by
        condition, see `make_result`.

    Raises:
        ConfigError: the task commands no velocities, or there are no bodies.
    """
    require_bodies(task, bodies)
    velocity_command(task)
    steps = task.control_steps(measurement.seconds)
    robot = np.repeat(np.arange(len(bodies)), measurement.num_envs)
    streams = spawn_streams(seed, len(robot))
    stand_ins = any(body.simulated_from != BUILT_IN for body in bodies)
    results = []
    for condition in measurement.conditions:
        friction, _, command = condition
        pair = measurement.pairs[friction]
        changed = _measured_task(task, pair, command, measurement, steps)
        tracks = []
        for first in range(0, len(robot), MAX_ROWS):
            rows = slice(first, first + MAX_ROWS)
            core = EnvironmentCore(
                changed,
                bodies,
                len(robot[rows]),
                token_spec=policy.spec,
                num_threads=num_threads,
            )
            with policy.acting():
                bound = policy.on(core.table, core.num_envs, stand_ins=stand_ins)
                tracks.append(
                    _roll_out(core, bound, robot[rows], streams[rows], steps, on_progress)
                )
        whole, models = _joined(tracks), core.simulator.models
        results += [
            make_result(whole.rows(robot == index), condition, models[index], measurement)
            for index in range(len(bodies))
        ]
    return results


def _measured_task(
    task: Task,
    pair: FrictionPair,
    command: Velocity,
    measurement: FrictionMeasurement,
    steps: int,
) -> Task:
    held = measurement.heading_of(command) == "held"
    calm = undisturbed(task, pair, VelocityCommand.fixed(*command, held=held))
    return replace(
        calm,
        scene=replace(calm.scene, friction_rule=measurement.rule),
        horizon=min(task.control_steps(EPISODE_SECONDS), steps),
        sensor_noise=task.sensor_noise if measurement.noise else calm.sensor_noise,
    )


def _roll_out(
    core: EnvironmentCore,
    bound: BoundPolicy,
    robot: IntArray,
    streams: Array,
    steps: int,
    on_progress: Callable[[int], None] | None,
) -> Track:
    """Run every row for a number of control steps, with a new start after each episode."""
    everyone = np.arange(core.num_envs)
    core.simulator.streams[:] = streams
    core.reset(everyone, robot)
    bound.start(everyone, robot)
    track = Track.empty(steps, core.num_envs)
    base = core.simulator.drive_state.base
    # Of the command in the world frame: resets add no yaw, so every episode begins with heading 0.
    heading = np.arctan2(core.command[:, 1], core.command[:, 0])
    for step in range(steps):
        before, turn = base[:, :2].copy(), core.command[:, 2].copy()
        result = core.step(bound.act(core))
        moved = base[:, :2] - before
        motion = core.motion
        track.velocity[step] = motion.level_velocity
        track.advance[step] = moved[:, 0] * np.cos(heading) + moved[:, 1] * np.sin(heading)
        track.walked[step] = np.hypot(moved[:, 0], moved[:, 1])
        track.slipped[step] = _slip(core)
        track.tilt[step] = motion.tilt
        track.astray[step] = motion.base_angular_velocity[:, 2] - turn
        track.fell[step] = result.terminated
        track.time_up[step] = result.events[TIME_LIMIT]
        track.diverged[step] = broken = result.diverged
        for values in track.numbers:
            values[step, broken] = 0.0
        again = np.flatnonzero(result.terminated | result.truncated)
        if len(again):
            core.reset(again, robot[again])
            bound.start(again, robot[again])
        if on_progress:
            on_progress(core.num_envs)
    return track


def _slip(core: EnvironmentCore) -> DoubleArray:
    """Return (B,) float64, m, how far loaded feet slid in the latest control step.

    Speeds and forces are those at the beginning of the last physics step.
    """
    simulator = core.simulator
    found = np.zeros(core.num_envs)
    loaded = core.motion.touching
    geoms = simulator.drives.feet[simulator.model_index, :, 1].astype(np.int64)
    for row in np.flatnonzero(loaded.any(axis=1)).tolist():
        feet = geoms[row, loaded[row]].tolist()
        speeds = sliding_speeds(simulator.model(row), simulator.data(row), feet)
        found[row] = float(speeds.sum()) * simulator.control_dt
    return found


def _joined(tracks: Sequence[Track]) -> Track:
    """Return the rows of several tracks side by side."""
    return Track(
        **{
            field.name: np.concatenate([getattr(track, field.name) for track in tracks], axis=1)
            for field in fields(Track)
        }
    )
