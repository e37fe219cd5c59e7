"""`gmc-bench evaluate`: score the policy of a finished run again, also on other bodies."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import add_verb, integer
from gmc_bench.core.table import aligned, number

if TYPE_CHECKING:
    from gmc_bench.experiments.evaluation import Evaluation

EXAMPLES = (
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1 "
    "--split test --episodes 16 --json",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1 "
    "--morphologies gmc-unimal-mini+damping-v1",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1 --untrained",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1 --sensor-dropout",
)

SEEN = " (seen in training)"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "evaluate", "Score the policy of a finished run again.", EXAMPLES)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="a finished run, or a record")
    text = "only this split (default: both, of --morphologies the test split)"
    add("--split", choices=("train", "test"), help=text)
    add("--episodes", metavar="N", type=integer(1), help="per body and mode")
    text = "score on this set instead of the run's, without training or new observation statistics"
    add("--morphologies", metavar="SET", help=text)
    text = "one limb of every body, which follows from the run's seed, shows the policy only zeros"
    add("--sensor-dropout", action="store_true", help=text)
    add("--untrained", action="store_true", help="score the weights that training started from")
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment.open(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli.display import Display

    with Display() as display:
        experiment.subscribe(display)
        found = experiment.evaluate(
            bodies=parsed.morphologies,
            split=parsed.split,
            episodes=parsed.episodes,
            untrained=parsed.untrained,
            sensor_dropout=parsed.sensor_dropout,
        )
    if parsed.json:
        say_json({"run": str(parsed.run_dir), **found.to_dict()})
    else:
        _show(found)
    return 0


def _show(found: "Evaluation") -> None:
    """Print a row per body and mode, and the summary."""
    from gmc_bench.records.summary import HEADINGS, summarize

    note("")
    headings = ["body", "split", "mode", "return", "length"]
    rows = []
    for item in found.returns:
        seen = item.split == "test" and item.seen_in_train
        name = item.body + (SEEN if seen else "")
        length = sum(e.length for e in item.episodes) / len(item.episodes)
        rows.append([name, item.split, item.mode, number(item.mean_return), number(length, 0)])
        if found.silent_limbs is not None:
            rows[-1].append(found.silent_limbs[item.split][item.body])
    say(aligned([*headings, *(["hidden limb"] if found.silent_limbs is not None else [])], rows))
    say()
    say(aligned(HEADINGS, summarize(found.returns, found.scored.task.metres_per_return)))
