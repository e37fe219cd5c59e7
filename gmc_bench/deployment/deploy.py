"""Virtual deployment: a policy on simulated robots, in trials like the paper's."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from gmc_bench.core.arguments import require_count
from gmc_bench.core.config import coerce_fields
from gmc_bench.core.errors import ConfigError, GmcBenchError, did_you_mean
from gmc_bench.core.integers import require_recorded_seed
from gmc_bench.deployment import report
from gmc_bench.deployment.loop import run_trial
from gmc_bench.deployment.policies import RobotPolicy
from gmc_bench.deployment.report import Attempt
from gmc_bench.deployment.robot import SimulatedRobot
from gmc_bench.deployment.trained import SUFFIX, open_policy
from gmc_bench.deployment.trials import (
    MAX_SECONDS,
    MIN_SECONDS,
    NUM_TRIALS,
    RAMP_SECONDS,
    SECONDS,
    TRIALS,
    Trial,
    draw_conditions,
)
from gmc_bench.experiments.events import Listener, Remark, counter
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.run_folder import new_folder, require_unused
from gmc_bench.records.store import make_folder, sealed, write_atomic
from gmc_bench.rendering.episode import require_video
from gmc_bench.rendering.robots import film_of_robot
from gmc_bench.rendering.video import VideoSettings, write_video
from gmc_bench.robots import get_robot
from gmc_bench.robots.menagerie import ROBOT_SOURCES, RobotSource, bodies_from
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.robots.schema import Robot
from gmc_bench.sim.model import ROUGH_REACH, compile_grounds
from gmc_bench.tasks.spec import Task

ALL = "all"
_ROOM = 0.9  # of the way to the edge of rough ground: robots may be faster than their command
Videos = Literal["first", "failed", "all"]
"""Of the first trial of each kind and the first that fails, of all that fail, or of all."""


@dataclass(frozen=True, kw_only=True)
class DeployOptions:
    """Which trials are run, and how.

    Raises:
        ConfigError: a value does not fit its field, there is no trial, or a trial is too short or
            too long.
    """

    trial: str = ALL
    """Kind, or all of the paper's."""
    robot: str | None = None
    """For one kind of trial; `None` is the paper's."""
    trials: int = NUM_TRIALS
    """Of each kind."""
    seconds: float = SECONDS
    """Length of a trial, from `MIN_SECONDS` to `MAX_SECONDS`; on rough ground, at most what its
    size leaves room for at the commanded velocity."""
    seed: int = 1
    """Of disturbances."""
    realtime: bool = True
    """Whether to keep to the wall clock."""
    hold_heading: bool = True
    """Whether the operator turns robots back to where they headed."""
    robot_source: str = "built-in"
    """Whose bodies are simulated."""
    video: Videos | None = None

    def __post_init__(self) -> None:
        coerce_fields(self)
        require_count(self.trials, "'trials'", "trials of each kind")
        require_recorded_seed(self.seed)
        if not self.seconds >= MIN_SECONDS:
            raise ConfigError(
                f"a trial is {self.seconds:g} s long, but its command rises for {RAMP_SECONDS:g} "
                f"s; give at least {MIN_SECONDS:g} s"
            )
        if self.seconds > MAX_SECONDS:
            raise ConfigError(f"a trial is at most {MAX_SECONDS:,g} s long, got {self.seconds:g} s")

    def kinds(self) -> list[Trial]:
        """Return the kinds of trials.

        Raises:
            ConfigError: there is no such trial, or a robot was given for all.
            UnknownNameError: there is no such robot.
        """
        if self.trial != ALL:
            if self.robot is not None:
                get_robot(self.robot)
            if self.trial not in TRIALS:
                close = did_you_mean(self.trial, [*TRIALS, ALL])
                raise ConfigError(f"unknown trial {self.trial!r}{close}")
            return [TRIALS[self.trial]]
        if self.robot is not None:
            raise ConfigError(
                "--robot was given with all trials, which have robots of their own; add --trial "
                "TRIAL"
            )
        return list(TRIALS.values())

    def bodies(self) -> dict[str, Robot]:
        """Return the bodies of the robots by name.

        Raises:
            ConfigError: there is no such source, or its package is missing.
            MorphologyError: a robot's file does not fit.
        """
        if self.robot_source not in ROBOT_SOURCES:
            raise ConfigError(
                f"unknown robot source {self.robot_source!r}"
                f"{did_you_mean(self.robot_source, ROBOT_SOURCES)}"
            )
        source: RobotSource = self.robot_source
        names = dict.fromkeys(self.robot or trial.robot for trial in self.kinds())
        ours = [get_robot(name) for name in names]
        return dict(zip(names, bodies_from(source, ours), strict=True))


def deploy(
    path: Path,
    options: DeployOptions,
    out: Path | None = None,
    *,
    listener: Listener = lambda _: None,
) -> tuple[Path, list[Attempt]]:
    """Run trials, and write a report of them, also of those before an error or an interruption.

    Args:
        path: a finished run, a record with kept weights, or a file of `export_run`.
        options: which trials.
        out: folder of the report, absent or empty; by default a new one beside the file, or in
            the run's folder, which for a record is below `media`.
        listener: told of progress.

    Returns:
        The folder, and all trials.

    Raises:
        GmcBenchError: an option does not fit, the policy cannot be read, or a file not written.
    """
    bodies = options.bodies()
    if options.video:
        require_video()
    policy, task = open_policy(path)
    for name in bodies:
        policy.manifest.robot(name)
    require_room(options, task)
    folder = out or new_folder(*_place(path))
    require_unused(folder, resumes=False)
    make_folder(folder)
    attempts: list[Attempt] = []
    try:
        for attempt in _run(options, policy, task, bodies, folder, listener):
            attempts.append(attempt)
    except BaseException:  # minutes of trials are kept, whatever ended them
        if attempts:
            try:
                _write(folder, attempts, policy, options)
            except GmcBenchError as error:  # it must not hide what ended them
                listener(Remark(f"the trials so far have no report: {error}"))
            else:
                listener(Remark(f"report of the trials so far: {folder}"))
        raise
    _write(folder, attempts, policy, options)
    return folder, attempts


def require_room(options: DeployOptions, task: Task) -> None:
    """Refuse trials in which a robot would walk off the rough ground that a task may have.

    Raises:
        ConfigError: they are too long for it.
    """
    if task.scene.rough is None or options.trials < 2:  # the first is on the plane
        return
    for trial in options.kinds():
        longest = _ROOM * ROUGH_REACH / float(np.linalg.norm(trial.command[:2]))
        if options.seconds > longest:
            raise ConfigError(
                f"a trial is {options.seconds:g} s long, but the rough ground ends "
                f"{ROUGH_REACH:g} m from the start, and the robot of {trial.id!r} gets there; "
                f"give at most {math.floor(longest)} s"
            )


def _place(path: Path) -> tuple[Path, str]:
    """Return the folder for reports on a policy that nobody places, and their name in it."""
    if path.suffix == SUFFIX:
        return path.parent, f"{path.stem}_deploy"
    return Experiment.open(path).folder.path, "deploy"


def _run(
    options: DeployOptions,
    policy: RobotPolicy,
    task: Task,
    bodies: dict[str, Robot],
    folder: Path,
    listener: Listener,
) -> Iterator[Attempt]:
    kinds, rate = options.kinds(), policy.manifest.rate
    total = len(kinds) * options.trials * round(options.seconds * rate)
    advance = counter(listener, "deploy", "step", total)
    for trial in kinds:
        name = options.robot or trial.robot
        grounds = compile_grounds(bodies[name], task.scene)
        shown: set[bool] = set()
        for number in range(options.trials):
            rough = task.scene.rough is not None
            conditions = draw_conditions(trial, options.seed, number, rough=rough)
            ground = grounds[conditions.floor == "micro-rough"]
            robot = SimulatedRobot(
                ground, policy.manifest.robot(name), conditions, task.sensor_noise
            )
            result = run_trial(
                robot, policy, trial, task, seconds=options.seconds, realtime=options.realtime,
                hold_heading=options.hold_heading, on_step=advance,
            )  # fmt: skip
            attempt = Attempt(
                trial=trial, robot=name, number=number, seed=options.seed,
                conditions=conditions, result=result, origin=bodies[name].simulated_from,
            )  # fmt: skip
            yield attempt
            if wants_video(options.video, attempt, shown):
                shown.add(result.succeeded)
                _video(folder, attempt, ground, rate)


def wants_video(which: Videos | None, attempt: Attempt, shown: set[bool]) -> bool:
    """Return whether a video of a trial is written.

    Args:
        which: trials whose videos are asked for.
        attempt: the trial.
        shown: whether trials of this kind that failed, or succeeded, have been shown.
    """
    succeeded = attempt.result.succeeded
    if which == "first":
        return attempt.number == 0 or (not succeeded and False not in shown)
    return which == "all" or (which == "failed" and not succeeded)


def _video(folder: Path, attempt: Attempt, ground: CompiledRobot, rate: float) -> None:
    number, result = attempt.number + 1, attempt.result
    path = folder / "videos" / f"{attempt.trial.id}_{attempt.robot}_{number}.mp4"
    title = f"{attempt.robot}, {attempt.trial.setting}, trial {number} (simulated)"
    film = film_of_robot(ground, result.states, 1.0 / rate, title, ending=result.outcome)
    write_video(path, film, VideoSettings())


def _write(
    folder: Path, attempts: list[Attempt], policy: RobotPolicy, options: DeployOptions
) -> None:
    held, clock = options.hold_heading, (options.realtime, options.seconds)
    planned = len(options.kinds()) * options.trials
    table = report.make_table(attempts, *clock, planned=planned, hold_heading=held)
    origin = policy.manifest.origin
    content = report.to_dict(attempts, origin, *clock, planned=planned, hold_heading=held)
    write_atomic(folder / "table.md", table.to_markdown().encode())
    write_atomic(folder / "table.csv", table.to_csv().encode())
    write_atomic(folder / "deploy.json", sealed(content))
