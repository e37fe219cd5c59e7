"""Trained quadruped policies from disk: a finished run, its record, or its exported file."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import gmc_bench
from gmc_bench.bodies.mjcf import SIM_DT
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.deployment.export import export_onnx, load_package
from gmc_bench.deployment.graph import PolicyGraph
from gmc_bench.deployment.interface import Manifest, make_manifest, require_deployable
from gmc_bench.deployment.policies import (
    OnnxPolicy,
    RobotPolicy,
    TorchPolicy,
    largest_difference,
)
from gmc_bench.envs.bodies import tabulate
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.run_folder import RunFolder, is_file
from gmc_bench.experiments.session import Session
from gmc_bench.policies.policy import Policy
from gmc_bench.records.store import make_folder, write_atomic
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.table import MorphologyTable

SUFFIX = ".onnx"
TOLERANCE = 1e-5
"""How far actions of the file may be from the network's, in units of action."""
NUM_CHECKED = 200
"""Random observations that an exported policy is compared on."""


@dataclass(frozen=True, eq=False)
class TrainedQuadrupeds:
    """A finished run of the quadruped suite."""

    policy: Policy
    table: MorphologyTable
    manifest: Manifest
    task: Task


def open_run(run_dir: Path) -> TrainedQuadrupeds:
    """Load the policy of a finished run on quadrupeds, or of a record with kept weights.

    Raises:
        ConfigError: the run is about other bodies, no robot can do its task, or its networks do not
            run in float32.
        GmcBenchError: there is no such run, or its files are damaged.
    """
    experiment = Experiment.open(run_dir)
    session = experiment.session
    task = session.task
    require_deployable(task)
    if session.config.precision != "float32":
        raise ConfigError(
            f"policies are deployed in float32, but this run's networks work in "
            f"{session.config.precision}; give a run with --precision float32"
        )
    policy = experiment.policy
    table = tabulate(task, session.bodies.split("train"), session.spec)
    manifest = _describe(session, task, policy, experiment.folder)
    policy.model.cpu()
    return TrainedQuadrupeds(policy, table, manifest, task)


def _describe(session: Session, task: Task, policy: Policy, folder: RunFolder) -> Manifest:
    config = session.config
    record = folder.find_record()
    if record is not None:  # its digest is of the whole policy; a board may keep a part
        version, weights = record.method_version, record.weights_digest
    else:
        version = session.method.version
        weights = hashlib.sha256(folder.policy.read_bytes()).hexdigest()
    statistics = hashlib.sha256()
    for name, values in sorted(policy.normalizer.get_state().items()):
        statistics.update(name.encode() + values.tobytes())
    origin = {
        "gmc_bench_version": gmc_bench.__version__,
        "method": session.method.id,
        "method_version": version,
        "suite": config.suite,
        "task": config.task,
        "morphologies": config.morphologies,
        "protocol": config.protocol.name,
        "seed": config.seed,
        # A record may have more: software that changed while its run was under way.
        "unofficial_reasons": list((record or config).unofficial_reasons),
        "weights_digest": weights,
        "statistics_digest": statistics.hexdigest(),
    }
    return make_manifest(task, session.bodies.split("train"), session.spec, origin)


def open_policy(path: Path) -> tuple[RobotPolicy, Task]:
    """Return the policy of a finished run, a record or a file of `export_run`, and its task.

    Raises:
        ConfigError: it is not about quadrupeds, no robot can do its task, the file says another
            rate than the task, or is of another kind.
        GmcBenchError: it cannot be read.
    """
    if path.suffix not in (SUFFIX, ".json") and is_file(path):
        raise ConfigError(
            f"a policy to deploy is RUN_DIR or FILE{SUFFIX} of 'gmc-bench export', got the file "
            f"{path}; give one of these"
        )
    if path.suffix != SUFFIX:
        run = open_run(path)
        return TorchPolicy(run.policy, run.table, run.manifest), run.task
    exported = OnnxPolicy(path)
    task = TASKS.get(str(exported.manifest.origin.get("task")))
    require_deployable(task)
    rate = 1.0 / (task.scene.num_substeps * SIM_DT)
    if not math.isclose(exported.manifest.rate, rate):
        raise ConfigError(
            f"{path} has a policy for {exported.manifest.rate:g} Hz, but its task {task.id!r} has "
            f"{rate:g} Hz; export the run again"
        )
    return exported, task


def export_run(run_dir: Path, path: Path | None = None) -> tuple[Path, Manifest, float]:
    """Write the policy of a finished run as ONNX, if it acts like the network.

    Args:
        run_dir: the run, or a record with kept weights.
        path: the file, which ends in `SUFFIX`; by default `policy.onnx` in the run's folder, which
            for a record is below `media`.

    Returns:
        The file, what it says, and how far its actions are from the network's at most.

    Raises:
        ConfigError: the file has another ending, packages are missing, or the policy depends on
            another order of limbs than `dfs`.
        PluginError: the network cannot be written, or the file acts otherwise.
        StorageError: the file cannot be written; an earlier file is untouched.
        GmcBenchError: see `open_run`.
    """
    path = path or Experiment.open(run_dir).folder.path / f"policy{SUFFIX}"
    if path.suffix != SUFFIX or path.is_dir():
        raise ConfigError(f"--out is {path}; give a file that ends in {SUFFIX}")
    run = open_run(run_dir)
    for package in ("onnx", "onnxscript", "onnxruntime"):
        load_package(package)  # what is missing is said before the long part
    make_folder(path.parent)
    data = export_onnx(PolicyGraph(run.policy, run.table), run.manifest)
    trained = TorchPolicy(run.policy, run.table, run.manifest)
    apart = largest_difference(trained, OnnxPolicy(path, data), NUM_CHECKED)
    if not apart <= TOLERANCE:
        if run.policy.order != "dfs":
            raise ConfigError(
                f"exported policies read limbs in the order dfs, but this run has --tokens.order "
                f"{run.policy.order}, and its method depends on it; deploy the run's folder instead"
            )
        raise PluginError(
            f"actions of the exported policy differ by up to {apart:.1e} from the network's, "
            f"expected at most {TOLERANCE:.0e}; deploy the run's folder instead"
        )
    write_atomic(path, data)
    return path, run.manifest, apart
