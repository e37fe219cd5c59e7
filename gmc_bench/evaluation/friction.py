"""How well a policy tracks a velocity on slippery and on grippy ground.

Every robot walks straight ahead on a plane, with nothing but the friction of its feet changed. The
command holds the heading, as in IsaacLab and legged_gym, unless it is to be left alone. A robot
that falls, or whose episode is over, starts again until the time is up, and every control step
counts: falls are shown beside tracking, never left out. The same roll-outs are also read as a
single life, which ends with the first fall.

Source:
    The RecMorph paper, tables "nominal-friction quadruped benchmark" and its appendix: friction
    pairs, metrics and robots. It states neither command, horizon, number of environments nor what
    follows a fall: 1 m/s and 100 s are what its numbers imply (a robot that stands still has an
    RMSE of 1; the best progress is 98 m).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.envs.core import TIME_LIMIT
from gmc_bench.envs.velocity_core import FELL, VelocityCore
from gmc_bench.evaluation.evaluate import MAX_ROWS
from gmc_bench.evaluation.friction_metrics import Friction, Track, make_result
from gmc_bench.evaluation.friction_options import Heading
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.policies.policy import Policy
from gmc_bench.robots.bodies import RobotBody
from gmc_bench.robots.friction import FrictionPair, FrictionRule, sliding_speeds
from gmc_bench.robots.mjcf import SolverOptions
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.tasks.velocity import Commands, VelocityTask

EPISODE_SECONDS = 20.0
"""A robot that has not fallen starts again after this time, s."""
LOADED = 1.0
"""Force from which a foot counts as on the ground, N."""


@dataclass(frozen=True, kw_only=True)
class FrictionSize:
    """How much a protocol measures; numbers of different sizes are never put together."""

    num_envs: int
    """Environments per robot and friction."""
    seconds: float
    """Time that each of them runs, s."""
    forward: float
    """Commanded velocity, straight ahead, m/s."""


FRICTION_SIZES: Mapping[str, FrictionSize] = {
    "smoke": FrictionSize(num_envs=2, seconds=4.0, forward=0.5),
    "lite": FrictionSize(num_envs=32, seconds=20.0, forward=0.5),
    "paper": FrictionSize(num_envs=256, seconds=100.0, forward=1.0),
}
"""By name of the protocol."""


def friction_size(protocol: str) -> FrictionSize:
    """Return how much a protocol measures.

    Raises:
        ConfigError: that is not known of the protocol.
    """
    if protocol not in FRICTION_SIZES:
        raise ConfigError(
            f"what the protocol {protocol!r} measures on each friction is not known; use one of "
            f"{', '.join(FRICTION_SIZES)}"
        )
    return FRICTION_SIZES[protocol]


def control_steps(task: VelocityTask, seconds: float) -> int:
    """Return how many control steps of a task fill a time."""
    return round(seconds / (SolverOptions().timestep * task.num_substeps))


def measure_friction(
    policy: Policy,
    task: VelocityTask,
    bodies: Sequence[RobotBody],
    *,
    pairs: Mapping[str, FrictionPair],
    rule: FrictionRule,
    heading: Heading = "held",
    forward: float,
    seconds: float,
    num_envs: int,
    seed: int,
    num_threads: int | None = None,
    noise: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure a policy's mean actions on every robot and friction.

    The command is (`forward`, 0, 0) in the base's yaw frame; where the heading is held, a yaw rate
    turns the robot back to where it headed at its start. Start states are the same for all
    frictions.

    Args:
        policy: who acts; not changed.
        task: what it was trained on.
        bodies: M robots; for separate weights per body, those of training in their order.
        pairs: frictions by name.
        rule: how a pair becomes one coefficient.
        heading: whether the command holds the heading.
        forward: commanded velocity, m/s.
        seconds: time per environment, s.
        num_envs: environments per robot and friction.
        seed: of the start states, and of the observation noise.
        num_threads: threads that step; default all.
        noise: whether observations are noisy, as in training.
        on_progress: called with the number of control steps just done.

    Returns:
        One result per friction and robot, friction by friction, see `make_result`.

    Raises:
        ConfigError: no time, no environments, or bodies that are no quadrupeds.
    """
    steps = control_steps(task, seconds)
    if steps < 1 or num_envs < 1:
        raise ConfigError(
            f"friction is measured over at least one control step of one environment, got "
            f"{seconds} s and {num_envs} environments; raise them"
        )
    robot = np.repeat(np.arange(len(bodies)), num_envs)
    streams = spawn_streams(seed, len(robot))
    horizon = min(control_steps(task, EPISODE_SECONDS), steps)
    commands = Commands.fixed(forward, held=heading == "held")
    results = []
    for name, pair in pairs.items():
        changed = replace(task.undisturbed(pair, commands), friction_rule=rule, horizon=horizon)
        if noise:
            disturbances = replace(changed.disturbances, observation=1.0)
            changed = replace(changed, disturbances=disturbances)
        tracks = []
        for first in range(0, len(robot), MAX_ROWS):
            rows = slice(first, first + MAX_ROWS)
            core = VelocityCore(
                changed,
                bodies,
                len(robot[rows]),
                token_spec=policy.spec,
                num_threads=num_threads,
            )
            with policy.acting():
                bound = policy.on(core.table, core.num_envs)
                tracks.append(
                    _roll_out(core, bound, robot[rows], streams[rows], steps, on_progress)
                )
        whole = _joined(tracks)
        options = core.simulator.robots[0].model.opt
        friction = Friction(
            name=name,
            pair=pair,
            rule=rule,
            heading=heading,
            cone="elliptic" if options.cone else "pyramidal",
            impratio=float(options.impratio),
            sim_dt=core.simulator.sim_dt,
        )
        command = (forward, 0.0)
        for index, body in enumerate(bodies):
            results.append(
                make_result(
                    whole.rows(robot == index), command, body, friction, core.simulator.control_dt
                )
            )
    return results


def _roll_out(
    core: VelocityCore,
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
    heading = core.simulator.base[:, 12].copy()
    base = core.simulator.base
    for step in range(steps):
        before = base[:, :2].copy()
        result = core.step(bound.act(core))
        moved = base[:, :2] - before
        track.velocity[step] = core.yaw_velocity()
        track.advance[step] = moved[:, 0] * np.cos(heading) + moved[:, 1] * np.sin(heading)
        track.walked[step] = np.hypot(moved[:, 0], moved[:, 1])
        track.slipped[step] = _slip(core)
        track.tilt[step] = core.tilt()
        track.fell[step] = result.events[FELL]
        track.time_up[step] = result.events[TIME_LIMIT]
        track.diverged[step] = broken = result.diverged
        for values in (track.velocity, track.advance, track.walked, track.slipped, track.tilt):
            values[step, broken] = 0.0
        again = np.flatnonzero(result.terminated | result.truncated)
        if len(again):
            core.reset(again, robot[again])
            bound.start(again, robot[again])
            heading[again] = base[again, 12]
        if on_progress:
            on_progress(core.num_envs)
    return track


def _slip(core: VelocityCore) -> DoubleArray:
    """Return (B,) float64, m, how far loaded feet slid in the latest control step.

    Speeds and forces are those at the beginning of the last physics step.
    """
    simulator = core.simulator
    found = np.zeros(core.num_envs)
    loaded = simulator.contacts[:, :4] > LOADED
    for row in np.flatnonzero(loaded.any(axis=1)).tolist():
        feet = simulator.robots[int(simulator.robot_index[row])].foot_geoms[loaded[row]]
        speeds = sliding_speeds(simulator.model(row), simulator.data(row), feet.tolist())
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
