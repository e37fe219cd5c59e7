"""`gmc-bench export`: a run's policy as one file for a robot's computer."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import say
from gmc_bench.cli.parser import add_verb

EXAMPLES = (
    "gmc-bench export runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1",
    "gmc-bench export runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1 --out walk.onnx",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Write the policy of a finished run on quadrupeds as one ONNX file."
    parser = add_verb(verbs, "export", text, EXAMPLES)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="a finished run, or a record")
    add("--format", choices=("onnx",), default="onnx", help="of the file (default: onnx)")
    add("--out", metavar="FILE", type=Path, help="default: RUN_DIR/policy.onnx")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    from gmc_bench.deployment.trained import NUM_CHECKED, export_run

    path, manifest, error = export_run(parsed.run_dir, parsed.out)
    say(f"robots  {', '.join(manifest.robots)}")
    say(f"check   actions within {error:.1e} of the network's on {NUM_CHECKED} random observations")
    say(f"policy  {path}")
    return 0
