"""`gmc-bench export`: a run's policy as one file for a robot's computer."""

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import say
from gmc_bench.cli.parser import add_verb
from gmc_bench.core.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from gmc_bench.deployment.interface import Manifest
    from gmc_bench.experiments.session import Session
    from gmc_bench.policies.policy import Policy
    from gmc_bench.tasks.velocity import VelocityTask
    from gmc_bench.tokens.table import MorphologyTable

EXAMPLES = (
    "gmc-bench export runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1",
    "gmc-bench export runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1 --out walk.onnx",
)
TOLERANCE = 1e-5
"""How far actions of the file may be from the network's, in units of action."""
_CHECKED = 200  # random observations
_SUFFIX = ".onnx"


@dataclass(frozen=True, eq=False)
class TrainedQuadrupeds:
    """A finished run of the quadruped suite."""

    policy: "Policy"
    table: "MorphologyTable"
    manifest: "Manifest"
    task: "VelocityTask"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "export",
        "Write the policy of a finished run on quadrupeds as one ONNX file.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="folder of a finished run")
    add("--format", choices=("onnx",), default="onnx", help="of the file (default: onnx)")
    add("--out", metavar="FILE", type=Path, help="default: RUN_DIR/policy.onnx")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    path = parsed.out or parsed.run_dir / f"policy{_SUFFIX}"
    if path.suffix != _SUFFIX:
        raise ConfigError(f"--out is {path}; give a file that ends in {_SUFFIX}")
    run = open_run(parsed.run_dir)
    from gmc_bench.deployment.export import export_onnx, load_package
    from gmc_bench.deployment.graph import PolicyGraph
    from gmc_bench.deployment.policies import OnnxPolicy, TorchPolicy, largest_difference

    for package in ("onnx", "onnxscript", "onnxruntime"):
        load_package(package)  # what is missing is said before the long part
    export_onnx(PolicyGraph(run.policy, run.table), run.manifest, path)
    trained = TorchPolicy(run.policy, run.table, run.manifest)
    apart = largest_difference(trained, OnnxPolicy(path), _CHECKED)
    if not apart <= TOLERANCE:
        path.unlink()
        raise PluginError(
            f"actions of the exported policy differ by up to {apart:.1e} from the network's, "
            f"expected at most {TOLERANCE:.0e}; deploy the run's folder instead"
        )
    say(f"robots  {', '.join(run.manifest.robots)}")
    say(f"check   actions within {apart:.1e} of the network's on {_CHECKED} random observations")
    say(f"policy  {path}")
    return 0


def open_run(run_dir: Path) -> TrainedQuadrupeds:
    """Load the policy of a finished run on quadrupeds.

    Raises:
        ConfigError: the run is about other bodies, or its networks run in bfloat16.
        GmcBenchError: there is no such run, or its files are damaged.
    """
    from gmc_bench.training.run_folder import RunFolder

    folder = RunFolder(run_dir)  # first, because loading the rest takes seconds
    import torch

    from gmc_bench.envs.cores import tabulate
    from gmc_bench.experiments.session import load_trained, open_session
    from gmc_bench.records.store import read_record
    from gmc_bench.tasks.velocity import VelocityTask
    from gmc_bench.training.run_config import read_run_config

    session = open_session(read_run_config(folder.config))
    task = session.task
    if not isinstance(task, VelocityTask):
        raise ConfigError(
            f"policies are deployed on quadrupeds, but this run's task is {task.id}; give a run "
            f"of the suite 'quadruped-friction'"
        )
    if session.config.precision != "float32":
        raise ConfigError(
            f"policies are deployed in float32, but this run's networks work in "
            f"{session.config.precision}; give a run with --precision float32"
        )
    record = read_record(folder.record) if folder.record.exists() else None
    policy = load_trained(session, folder, record.weights_digest if record else None)
    torch.set_num_threads(1)
    bodies = session.bodies.split("train")
    table = tabulate(task, bodies, session.spec)
    weights = hashlib.sha256(folder.policy.read_bytes()).hexdigest()
    manifest = _describe(session, policy, weights)
    policy.model.cpu()
    return TrainedQuadrupeds(policy, table, manifest, task)


def _describe(session: "Session", policy: "Policy", weights: str) -> "Manifest":
    import gmc_bench
    from gmc_bench.deployment.interface import make_manifest
    from gmc_bench.robots.bodies import RobotBody
    from gmc_bench.tasks.velocity import VelocityTask

    config = session.config
    statistics = hashlib.sha256()
    for name, values in sorted(policy.normalizer.get_state().items()):
        statistics.update(name.encode() + values.tobytes())
    origin = {
        "gmc_bench_version": gmc_bench.__version__,
        "method": session.method.id,
        "method_version": session.method.version,
        "suite": config.suite,
        "task": config.task,
        "morphologies": config.morphologies,
        "protocol": config.protocol.name,
        "seed": config.seed,
        "unofficial_reasons": list(config.unofficial_reasons),
        "weights_digest": weights,
        "statistics_digest": statistics.hexdigest(),
    }
    bodies = [body for body in session.bodies.split("train") if isinstance(body, RobotBody)]
    assert isinstance(session.task, VelocityTask)
    return make_manifest(session.task, bodies, session.spec, origin)
