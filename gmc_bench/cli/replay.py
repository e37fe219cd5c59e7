"""`gmc-bench replay` and `watch`: a policy in the browser, as it was recorded, or live."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb, integer

REPLAY = (
    "gmc-bench replay runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1",
    "gmc-bench replay runs/RUN --body NAME OTHER --split train",
)
WATCH = ("gmc-bench watch runs/RUN", "gmc-bench watch runs/RUN runs/OTHER --body NAME")


def add_parser(verbs: Any) -> None:
    """Add both verbs."""
    text = "Write recorded episodes of a run as one HTML file, in 3D."
    parser = add_verb(verbs, "replay", text, REPLAY)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="a finished run, or a record")
    text = "these bodies (default: the best, the median and the worst)"
    add("--body", metavar="ID", nargs="+", default=[], help=text)
    add("--all", action="store_true", help="all bodies")
    text = "of which bodies (default: test, or train if none other were scored)"
    add("--split", choices=("train", "test"), help=text)
    add("--mode", choices=("deterministic", "stochastic"), help="default: deterministic if scored")
    add("--out", metavar="FILE", type=Path, help="default: in RUN_DIR")
    parser.set_defaults(execute=execute, parser=parser)
    parser = add_verb(verbs, "watch", "Show policies live on a page of this machine.", WATCH)
    add = parser.add_argument
    add("runs", metavar="RUN_DIR", type=Path, nargs="+", help="finished runs, or records")
    add("--body", metavar="ID", help="to begin with (default: the first one)")
    text = "of 127.0.0.1 (default: 8765; 0 for any that is free)"
    add("--port", metavar="N", type=integer(0, 65535), default=8765, help=text)
    parser.set_defaults(execute=_watch, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb `replay`."""
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment.open(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli.display import Display
    from gmc_bench.rendering.web.replay import ReplayChoice, write_replay

    wanted = ReplayChoice(
        bodies=tuple(parsed.body), everything=parsed.all, split=parsed.split, mode=parsed.mode
    )
    with Display() as display:
        written = write_replay(experiment, wanted, parsed.out, listener=display)
    for text in written.remarks:
        note(text)
    say(f"replay of {written.shown} episodes  {written.path}")
    return 0


def _watch(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.rendering.web.live import LiveSimulation
    from gmc_bench.rendering.web.server import LiveServer

    server = LiveServer(LiveSimulation.of_runs(parsed.runs, body=parsed.body), parsed.port)
    say(f"open {server.url} in a browser on this machine; Ctrl-C ends it")
    server.serve()
    return 0
