"""`gmc-bench render`: a video of an evaluation episode, or pictures of a set of bodies."""

import argparse
import re
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb, amount, integer
from gmc_bench.core.errors import ConfigError

EXAMPLES = (
    "gmc-bench render runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1 --body NAME",
    "gmc-bench render --stills gmc-unimal-mini",
    "gmc-bench render --stills gmc-unimal-mini --task unimal-vt --size 640x360",
)

VIDEO_SIZE = (320, 240)  # pixels
STILL_SIZE = (256, 256)  # pixels
_SIDES = (64, 4096)  # pixels
_OF_EPISODES, _OF_STILLS = ("mode", "episode", "seconds", "fps"), ("task", "seed")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Show an evaluation episode of a finished run as a video, or draw the bodies of a set."
    parser = add_verb(verbs, "render", text, EXAMPLES)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, nargs="?", help="a finished run, or a record")
    add("--body", metavar="ID", help="which body the episode is of; with --stills draw only this")
    text = "where to look for the body (default: test, then train); of --stills draw only this"
    add("--split", choices=("train", "test"), help=f"{text} split (default: both)")
    text = "how actions are chosen (default: deterministic)"
    modes = ("deterministic", "stochastic")
    add("--mode", choices=modes, help=text)
    add("--episode", metavar="K", type=integer(1), help="from 1 (default: 1)")
    text = "show only the first S seconds of the episode (default: all of it)"
    add("--seconds", metavar="S", type=amount("seconds", zero=False), help=text)
    add("--stills", metavar="SET", help="draw every body of a set in its rest pose")
    add("--task", metavar="TASK", help="with --stills: draw the bodies at the start of a task")
    text = "with --task: of random terrain (default: 1)"
    add("--seed", metavar="N", type=integer(0), help=text)
    text = "pixels, even (default: 320x240, with --stills 256x256)"
    add("--size", metavar="WxH", type=_size, help=text)
    add("--fps", metavar="N", type=integer(1, 120), help="default: 25")
    text = "FILE.mp4 (default: in RUN_DIR/videos); with --stills a folder (default: media/SET, with"
    add("--out", metavar="PATH", type=Path, help=f"{text} --task media/SET/TASK)")
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
    if (parsed.run_dir is None) == (parsed.stills is None):
        got = "neither" if parsed.stills is None else "both"
        raise ConfigError(f"expected RUN_DIR or --stills SET, got {got}; give one of them")
    for name in _OF_STILLS if parsed.stills is None else _OF_EPISODES:
        if getattr(parsed, name) is not None:
            has = "RUN_DIR, which has a" if parsed.stills is None else "--stills, which have no"
            raise ConfigError(f"--{name} was given with {has} {name}; leave it out")
    if parsed.stills is not None and parsed.seed is not None and parsed.task is None:
        raise ConfigError(
            f"--seed {parsed.seed} was given without --task, and a rest pose has nothing random; "
            "add the task or leave the seed out"
        )
    from gmc_bench.rendering.backend import import_engine

    import_engine()
    return _stills(parsed) if parsed.run_dir is None else _episode(parsed)


def _stills(parsed: argparse.Namespace) -> int:
    from gmc_bench.cli.display import Display
    from gmc_bench.rendering.stills import bodies_to_draw, write_stills
    from gmc_bench.tasks import TASKS

    task = TASKS.get(parsed.task) if parsed.task else None
    if task is not None and task.parts != "limbs":
        raise ConfigError(f"stills show bodies of limbs, but {task.id} is about quadrupeds")
    set_id, chosen = bodies_to_draw(parsed.stills, parsed.split, parsed.body)
    folder = parsed.out or Path("media", set_id, *([task.id] if task else []))
    size, seed = parsed.size or STILL_SIZE, 1 if parsed.seed is None else parsed.seed
    with Display() as display:
        report = write_stills(chosen, folder, size, task=task, seed=seed, listener=display)
    say(f"{report.drawn} drawn, {report.kept} kept, in  {report.folder}")
    say(f"contact sheet  {report.sheet}")
    return 0


def _episode(parsed: argparse.Namespace) -> int:
    if parsed.body is None:
        raise ConfigError("an episode was asked for without its body; add --body ID")
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment.open(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli.display import Display
    from gmc_bench.rendering.episode import EpisodeChoice, render_episode
    from gmc_bench.rendering.video import VideoSettings

    width, height = parsed.size or VIDEO_SIZE
    settings = VideoSettings(width=width, height=height, fps=parsed.fps or 25)
    wanted = EpisodeChoice(
        body=parsed.body,
        split=parsed.split,
        mode=parsed.mode or "deterministic",
        episode=parsed.episode or 1,
        seconds=parsed.seconds,
    )
    with Display() as display:
        shown = render_episode(experiment, wanted, parsed.out, settings, listener=display)
    replay, recorded = shown.replay, shown.recorded
    say(f"{shown.title}: {replay.length} steps, return {replay.episode_return!r}")
    if replay.ended is None:
        note("the episode goes on after the part that is shown")
    elif recorded is None:
        note("the run's record has no such episode to compare with")
    elif shown.is_recorded:
        say("this is the recorded episode, to the last bit")
    else:
        note(
            f"warning: the record has {recorded.length} steps, return "
            f"{recorded.episode_return!r}; another processor, or other versions than the "
            f"record's, give other numbers"
        )
    say(f"video  {shown.path}")
    return 0
