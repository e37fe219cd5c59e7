"""`gmc-bench deploy`: a policy on simulated robots in real time, in the paper's trials."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say, table
from gmc_bench.cli.parser import add_verb, integer, seconds
from gmc_bench.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from gmc_bench.deployment.policies import RobotPolicy
    from gmc_bench.deployment.report import Attempt
    from gmc_bench.deployment.trials import Trial
    from gmc_bench.robots.bodies import RobotBody
    from gmc_bench.robots.model import CompiledRobot
    from gmc_bench.tasks.velocity import VelocityTask

EXAMPLES = (
    "gmc-bench deploy runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1 --trial all",
    "gmc-bench deploy walk.onnx --robot go1 --trial forward --trials 3 --no-realtime",
)
ALL = "all"
_SUFFIX = ".onnx"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "deploy",
        "Run a policy on simulated quadrupeds at 50 Hz, and count the trials that succeed.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("policy", metavar="POLICY", type=Path, help="RUN_DIR, or FILE.onnx of 'gmc-bench export'")
    add("--trial", metavar="TRIAL", default=ALL, help="kind of trial (default: all of the paper's)")
    add("--robot", metavar="ROBOT", help="default: the paper's robot of the trial")
    add("--trials", metavar="N", type=integer(1), default=10, help="of each kind (default: 10)")
    add(
        "--seconds",
        metavar="S",
        type=seconds(zero=False),
        default=15.0,
        help="length of a trial (default: 15)",
    )
    add("--seed", metavar="N", type=integer(0), default=1, help="of disturbances (default: 1)")
    add(
        "--realtime",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep to the wall clock (default: yes)",
    )
    add(
        "--heading",
        choices=("held", "free"),
        default="held",
        help="whether the operator turns robots back to where they headed (default: held)",
    )
    add(
        "--robot-source",
        metavar="S",
        default="built-in",
        help="whose bodies are simulated: built-in or menagerie (default: built-in)",
    )
    add(
        "--video",
        nargs="?",
        const="first",
        choices=("first", "failed", "all"),
        help="also write videos: of the first trial of each kind and the first that fails (the "
        "default), of all that fail, or of all",
    )
    add("--out", metavar="DIR", type=Path, help="default: RUN_DIR/deploy, or FILE_deploy")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    if parsed.video:
        from gmc_bench.rendering.backend import import_engine

        import_engine()
    from gmc_bench.deployment.report import DISCLAIMER, HEADINGS, table_rows
    from gmc_bench.training.run_folder import new_folder

    trials = _trials(parsed)
    bodies = _bodies(parsed, trials)
    if parsed.video:
        _require_video()
    policy, task = _open(parsed.policy)
    for name in bodies:
        policy.manifest.robot(name)
    base = parsed.policy
    folder = parsed.out or (
        new_folder(base.parent, f"{base.stem}_deploy")
        if base.suffix == _SUFFIX
        else new_folder(base, "deploy")
    )
    attempts = _run(parsed, trials, policy, task, bodies, folder)
    _write(folder, attempts, policy, parsed)
    say(table(HEADINGS, table_rows(attempts)))
    say(DISCLAIMER)
    for attempt in attempts:
        if not attempt.result.succeeded:
            result = attempt.result
            note(
                f"{attempt.trial.id} {attempt.number + 1} on {attempt.robot}: {result.outcome} "
                f"after {result.steps} steps, {result.reason}"
            )
    say(f"report  {folder}")
    return 0


def _trials(parsed: argparse.Namespace) -> "list[Trial]":
    from gmc_bench.deployment.trials import TRIALS, get_trial
    from gmc_bench.robots import get_robot

    if parsed.trial != ALL:
        if parsed.robot is not None:
            get_robot(parsed.robot)
        if parsed.trial not in TRIALS:
            known = [*TRIALS, ALL]
            raise ConfigError(f"unknown trial {parsed.trial!r}{did_you_mean(parsed.trial, known)}")
        return [get_trial(parsed.trial)]
    if parsed.robot is not None:
        raise ConfigError(
            "--robot was given with all trials, which have robots of their own; add --trial TRIAL"
        )
    return list(TRIALS.values())


def _bodies(parsed: argparse.Namespace, trials: "list[Trial]") -> "dict[str, RobotBody]":
    """Return the bodies of the robots by name."""
    from gmc_bench.robots import get_robot
    from gmc_bench.robots.bodies import RobotBody
    from gmc_bench.robots.menagerie import ROBOT_SOURCES, bodies_from

    if parsed.robot_source not in ROBOT_SOURCES:
        raise ConfigError(
            f"unknown robot source {parsed.robot_source!r}"
            f"{did_you_mean(parsed.robot_source, ROBOT_SOURCES)}"
        )
    names = dict.fromkeys(parsed.robot or trial.robot for trial in trials)
    ours = [RobotBody(get_robot(name)) for name in names]
    return dict(zip(names, bodies_from(parsed.robot_source, ours), strict=True))


def _require_video() -> None:
    from gmc_bench.rendering.canvas import Canvas
    from gmc_bench.rendering.video import load_encoder

    load_encoder()
    Canvas(64, 64).close()  # what is missing is said before the long part, not after it


def _open(path: Path) -> "tuple[RobotPolicy, VelocityTask]":
    from gmc_bench.tasks.velocity import VelocityTask

    if path.suffix == _SUFFIX:
        from gmc_bench.deployment.policies import OnnxPolicy
        from gmc_bench.tasks import TASKS

        exported = OnnxPolicy(path)
        task = TASKS.get(str(exported.manifest.origin.get("task")))
        if not isinstance(task, VelocityTask):
            raise ConfigError(f"{path} is of the task {task.id}, which is not about quadrupeds")
        return exported, task
    from gmc_bench.cli.export import open_run
    from gmc_bench.deployment.policies import TorchPolicy

    run = open_run(path)
    return TorchPolicy(run.policy, run.table, run.manifest), run.task


def _run(
    parsed: argparse.Namespace,
    trials: "list[Trial]",
    policy: "RobotPolicy",
    task: "VelocityTask",
    bodies: "dict[str, RobotBody]",
    folder: Path,
) -> "list[Attempt]":
    from tqdm import tqdm

    from gmc_bench.deployment.loop import run_trial
    from gmc_bench.deployment.report import Attempt
    from gmc_bench.deployment.robot import SimulatedRobot
    from gmc_bench.deployment.trials import draw_conditions
    from gmc_bench.envs.velocity_core import compile_grounds

    attempts: list[Attempt] = []
    held = parsed.heading == "held"
    steps = round(parsed.seconds * policy.manifest.rate)
    with tqdm(total=len(trials) * parsed.trials * steps, unit="step", desc="deploy") as bar:

        def advance() -> None:
            bar.update(1)

        for trial in trials:
            name = parsed.robot or trial.robot
            grounds = compile_grounds([bodies[name]], task)
            shown: set[bool] = set()
            for number in range(parsed.trials):
                conditions = draw_conditions(trial, parsed.seed, number)
                ground = grounds[conditions.floor == "micro-rough"]
                robot = SimulatedRobot(ground, policy.manifest.robot(name), conditions)
                result = run_trial(
                    robot, policy, trial, task, seconds=parsed.seconds,
                    realtime=parsed.realtime, hold_heading=held, on_step=advance,
                )  # fmt: skip
                attempt = Attempt(
                    trial=trial, robot=name, number=number, seed=parsed.seed,
                    conditions=conditions, result=result, origin=bodies[name].origin,
                )  # fmt: skip
                attempts.append(attempt)
                if _wants_video(parsed.video, attempt, shown):
                    shown.add(result.succeeded)
                    _video(folder, attempt, ground, policy.manifest.rate)
    return attempts


def _wants_video(which: str | None, attempt: "Attempt", shown: set[bool]) -> bool:
    """Return whether a trial is shown.

    Args:
        which: of `--video`.
        attempt: the trial.
        shown: whether trials of this kind that failed, or succeeded, have been shown.
    """
    succeeded = attempt.result.succeeded
    if which == "first":
        return attempt.number == 0 or (not succeeded and False not in shown)
    return which == "all" or (which == "failed" and not succeeded)


def _video(folder: Path, attempt: "Attempt", ground: "CompiledRobot", rate: float) -> None:
    from gmc_bench.rendering.robots import film_of_robot
    from gmc_bench.rendering.video import VideoSettings, write_video

    number = attempt.number + 1
    path = folder / "videos" / f"{attempt.trial.id}_{attempt.robot}_{number}.mp4"
    title = f"{attempt.robot}, {attempt.trial.setting}, trial {number} (simulated)"
    ending = attempt.result.outcome
    film = film_of_robot(ground, attempt.result.states, 1.0 / rate, title, ending=ending)
    write_video(path, film, VideoSettings())


def _write(
    folder: Path, attempts: "list[Attempt]", policy: "RobotPolicy", parsed: argparse.Namespace
) -> None:
    from gmc_bench.core.errors import StorageError
    from gmc_bench.deployment import report
    from gmc_bench.records.store import sealed, write_atomic

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create {folder}: {error.strerror}; choose another --out"
        ) from error
    held = parsed.heading == "held"
    clock = (parsed.realtime, parsed.seconds)
    content = report.to_dict(attempts, policy.manifest.origin, *clock, hold_heading=held)
    markdown = report.to_markdown(attempts, *clock, hold_heading=held)
    write_atomic(folder / "table.md", markdown.encode())
    write_atomic(folder / "table.csv", report.to_csv(attempts).encode())
    write_atomic(folder / "deploy.json", sealed(content))
