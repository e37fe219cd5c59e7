"""`gmc-bench render`: a video of an evaluation episode, or pictures of a set of bodies."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb, integer, seconds
from gmc_bench.core.errors import ConfigError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from gmc_bench.experiments.session import Session
    from gmc_bench.policies.policy import Policy
    from gmc_bench.records.schema import Episode, RunRecord
    from gmc_bench.rendering.replay import Replay

EXAMPLES = (
    "gmc-bench render runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 --body grown-00001",
    "gmc-bench render --stills gmc-unimal-mini",
    "gmc-bench render --stills gmc-unimal-mini --task unimal-vt --size 640x360",
)

VIDEO_SIZE = (320, 240)  # pixels
STILL_SIZE = (256, 256)  # pixels
_SIDES = (64, 4096)  # pixels


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "render",
        "Show an evaluation episode of a finished run as a video, or draw the bodies of a set.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, nargs="?", help="folder of a finished run")
    add("--body", metavar="ID", help="which body the episode is of; with --stills draw only this")
    add(
        "--split",
        choices=("train", "test"),
        help="where to look for the body (default: test, then train); with --stills draw only "
        "this split (default: both)",
    )
    add(
        "--mode",
        choices=("deterministic", "stochastic"),
        default="deterministic",
        help="how actions are chosen (default: deterministic)",
    )
    add("--episode", metavar="K", type=integer(1), default=1, help="from 1 (default: 1)")
    add(
        "--seconds",
        metavar="S",
        type=seconds(zero=False),
        help="show only the first S seconds of the episode (default: all of it)",
    )
    add("--stills", metavar="SET", help="draw every body of a set in its rest pose")
    add("--task", metavar="TASK", help="with --stills: draw the bodies at the start of a task")
    add(
        "--seed",
        metavar="N",
        type=integer(0),
        default=1,
        help="with --task: of random terrain (default: 1)",
    )
    add(
        "--size",
        metavar="WxH",
        type=_size,
        help="pixels, even (default: 320x240, with --stills 256x256)",
    )
    add("--fps", metavar="N", type=integer(1, 120), default=25, help="default: 25")
    add(
        "--out",
        metavar="PATH",
        type=Path,
        help="FILE.mp4 (default: in RUN_DIR/videos); with --stills a folder (default: media/SET, "
        "with --task media/SET/TASK)",
    )
    parser.set_defaults(execute=execute, parser=parser)


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]+)x([0-9]+)", text)
    low, high = _SIDES
    if found is None or not all(low <= int(side) <= high for side in found.groups()):
        raise argparse.ArgumentTypeError(
            f"must be width x height from {low} to {high} pixels, such as 320x240, got {text!r}"
        )
    width, height = int(found[1]), int(found[2])
    if width % 2 or height % 2:
        raise argparse.ArgumentTypeError(f"must be two even numbers, got {text!r}")
    return width, height


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    if (parsed.run_dir is None) == (parsed.stills is None):
        got = "neither" if parsed.stills is None else "both"
        raise ConfigError(f"expected RUN_DIR or --stills SET, got {got}; give one of them")
    if parsed.task is not None and parsed.stills is None:
        raise ConfigError("--task was given with RUN_DIR, which has a task; leave it out")
    return _stills(parsed) if parsed.run_dir is None else show_episode(parsed)


def _stills(parsed: argparse.Namespace) -> int:
    from gmc_bench.rendering.backend import import_engine

    import_engine()
    from tqdm import tqdm

    from gmc_bench.bodies.sets import load_limb_bodies
    from gmc_bench.rendering.stills import write_stills
    from gmc_bench.tasks import TASKS, Task

    task = TASKS.get(parsed.task) if parsed.task else None
    if task is not None and not isinstance(task, Task):
        raise ConfigError(f"stills show bodies of limbs, but {task.id} is about quadrupeds")
    bodies = load_limb_bodies(parsed.stills)
    splits = (parsed.split,) if parsed.split else ("train", "test")
    chosen = [body for split in splits for body in bodies.split(split)]
    if parsed.body is not None:
        names = [body.name for body in chosen]
        if parsed.body not in names:
            raise _no_such_body(parsed.body, splits, bodies.id, names)
        chosen = [body for body in chosen if body.name == parsed.body]
    folder = parsed.out or Path("media", bodies.id, *([task.id] if task else []))
    with tqdm(total=len(chosen), unit="body", desc="stills") as bar:
        report = write_stills(
            chosen,
            folder,
            parsed.size or STILL_SIZE,
            task=task,
            seed=parsed.seed,
            on_body=lambda: _advance(bar),
        )
    say(f"{report.drawn} drawn, {report.kept} kept, in  {report.folder}")
    say(f"contact sheet  {report.sheet}")
    return 0


def show_episode(parsed: argparse.Namespace) -> int:
    """Write the video that the options of a run's folder ask for; return the exit code.

    Raises:
        GmcBenchError: there is no such run or episode, or pictures cannot be drawn here.
    """
    from gmc_bench.rendering.backend import import_engine

    import_engine()
    if parsed.body is None:
        raise ConfigError("an episode was asked for without its body; add --body ID")
    from gmc_bench.training.run_folder import RunFolder

    folder = RunFolder(parsed.run_dir)  # first, because loading the rest takes seconds
    from tqdm import tqdm

    from gmc_bench.experiments import session as sessions
    from gmc_bench.records.store import read_record
    from gmc_bench.rendering.canvas import Canvas
    from gmc_bench.rendering.video import (
        VideoSettings,
        film_of,
        frame_steps,
        load_encoder,
        write_video,
    )
    from gmc_bench.training.run_config import read_run_config

    width, height = parsed.size or VIDEO_SIZE
    settings = VideoSettings(width=width, height=height, fps=parsed.fps)
    load_encoder()
    Canvas(64, 64).close()  # what is missing is said before the long part, not after it
    session = sessions.open_session(read_run_config(folder.config))
    task = sessions.limb_task(session)
    record = read_record(folder.record) if folder.record.exists() else None
    split, index = _find_body(session, parsed)
    _check_episode(session, parsed.episode)
    digest = record.weights_digest if record else None
    replay = _replay(session, sessions.load_trained(session, folder, digest), parsed, split, index)
    name = replay.morphology.name
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", f"{name}_{split}_{parsed.mode}_{parsed.episode}")
    path = parsed.out or folder.path / "videos" / f"{plain}.mp4"
    title = f"{name}, {split}, {parsed.mode} #{parsed.episode}"
    frames = len(frame_steps(replay.length, replay.control_dt, settings.fps))
    with tqdm(total=frames, unit="frame", desc="draw") as bar:
        write_video(
            path, film_of(replay, task, title, settings), settings, on_frame=lambda: _advance(bar)
        )
    say(f"{title}: {replay.length} steps, return {replay.episode_return!r}")
    _compare(replay, _recorded(record, split, parsed.mode, name, parsed.episode))
    say(f"video  {path}")
    return 0


def _advance(bar: Any) -> None:
    bar.update(1)


def _find_body(session: "Session", parsed: argparse.Namespace) -> tuple[str, int]:
    """Return the split of the body that was named, and its index there."""
    if session.method.capabilities.per_body:
        if parsed.split == "test":
            raise ConfigError(
                f"the method {session.method.id!r} has one policy for each training body and "
                f"cannot control the split 'test'; use --split train"
            )
        splits = ["train"]
    else:
        splits = [parsed.split] if parsed.split else ["test", "train"]
    known: list[str] = []
    for split in splits:
        names = [body.name for body in session.bodies.split(split)]
        if parsed.body in names:
            return split, names.index(parsed.body)
        known += names
    raise _no_such_body(parsed.body, splits, session.bodies.id, known)


def _no_such_body(
    name: str, splits: Sequence[str], bodies: str, known: Sequence[str]
) -> UnknownNameError:
    close = did_you_mean(name, known)
    if "did you mean" not in close:  # there may be hundreds
        close = f"; there are {len(known)}, such as {known[0]!r}"
    return UnknownNameError(
        f"the {' and '.join(splits)} bodies of {bodies} have none named {name!r}{close}"
    )


def _check_episode(session: "Session", episode: int) -> None:
    count = session.config.protocol.evaluation.episodes
    if episode > count:
        raise ConfigError(
            f"--episode is {episode}, but the run is scored on {count} per body and mode; give a "
            f"number from 1 to {count}"
        )


def _replay(
    session: "Session",
    policy: "Policy",
    parsed: argparse.Namespace,
    split: str,
    index: int,
) -> "Replay":
    import torch
    from tqdm import tqdm

    from gmc_bench.evaluation.evaluate import MAX_ROWS, Evaluation
    from gmc_bench.evaluation.one_episode import WantedEpisode
    from gmc_bench.experiments.scoring import evaluation_seed
    from gmc_bench.experiments.session import limb_task
    from gmc_bench.rendering.replay import replay_episode

    config = session.config
    torch.set_num_threads(config.threads)  # as for the score: the last bits depend on it
    episodes = config.protocol.evaluation.episodes
    # An episode that finds no free row waits for one.
    rounds = (index * episodes + parsed.episode - 1) // MAX_ROWS + 1
    with tqdm(total=session.task.horizon * rounds, unit="step", desc="replay") as bar:
        evaluation = Evaluation(
            task=limb_task(session),
            bodies=session.bodies.split(split),
            episodes=episodes,
            mode=parsed.mode,
            seed=evaluation_seed(config.seed, split, parsed.mode),
            num_threads=config.threads,
        )
        wanted = WantedEpisode(
            evaluation=evaluation, body=index, episode=parsed.episode - 1, seconds=parsed.seconds
        )
        return replay_episode(policy, wanted, lambda: _advance(bar))


def _recorded(
    record: "RunRecord | None", split: str, mode: str, body: str, episode: int
) -> "Episode | None":
    for item in record.returns if record else ():
        if (item.split, item.mode, item.body) == (split, mode, body):
            return item.episodes[episode - 1] if episode <= len(item.episodes) else None
    return None


def _compare(replay: "Replay", recorded: "Episode | None") -> None:
    """Say whether the episode shown is the one in the record."""
    if replay.ended is None:
        note("the episode goes on after the part that is shown")
    elif recorded is None:
        note("the run's record has no such episode to compare with")
    elif (replay.episode_return, replay.length) == (recorded.episode_return, recorded.length):
        say("this is the recorded episode, to the last bit")
    else:
        note(
            f"warning: the record has {recorded.length} steps, return "
            f"{recorded.episode_return!r}; another processor, or other versions than the "
            f"record's, give other numbers"
        )
