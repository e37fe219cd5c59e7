"""Every kind of file that gmc-bench reads back, real and small, with the function that reads it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, load_set, store_set
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.config import sealed_yaml, to_dict
from gmc_bench.deployment.export import export_onnx
from gmc_bench.deployment.graph import PolicyGraph
from gmc_bench.deployment.interface import make_manifest
from gmc_bench.deployment.policies import OnnxPolicy
from gmc_bench.envs.bodies import tabulate
from gmc_bench.experiments import cell_state, tracking
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.reuse import KnownRuns
from gmc_bench.experiments.run_folder import KEPT, LAUNCH, POLICY, RunFolder
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep_folder import read_runs, runs_to_yaml
from gmc_bench.experiments.sweep_launch import Launch, read_launch, write_launch
from gmc_bench.experiments.trials import RETURN, read_return
from gmc_bench.experiments.tuning import Tuning, TuningSpec
from gmc_bench.generation.journal import Journal, Judged
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.recipe import Recipe
from gmc_bench.leaderboard.board import read_board
from gmc_bench.policies.policy import Policy
from gmc_bench.profiling.report import ROOT
from gmc_bench.records.ledger import append, read_ledger
from gmc_bench.records.store import LEDGER_NAME, read_stored_record, sealed, write_atomic
from gmc_bench.records.weights import LEADERBOARD
from gmc_bench.robots import ROBOTS
from gmc_bench.studies.request import Request, read_request
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.checkpoint import list_checkpoints, read_latest
from gmc_bench.training.log import read_scalars
from gmc_bench.training.run_config import read_run_config

TINY = "tiny"
"""Id of a set of two train and two test bodies."""
SMALL: dict[str, Any] = {
    "num_envs": 4, "rollout_length": 32, "env_steps": 384, "ppo.batch_size": 64,
    "evaluation.episodes": 1,
}  # fmt: skip
"""Settings of the protocol `smoke` under which a run takes a second."""
NARROW = {"model.width": 8, "model.hidden": 8}
"""Settings of RecMorph for a network of a few kilobytes."""
RECIPE = Recipe(seed=1, train=4, test=3, limbs=(3, 5))


class KeptFiles(NamedTuple):
    """Files of one kind, in a folder of their own."""

    name: str
    folder: Path
    files: tuple[str, ...]
    """What may be damaged, relative to the folder."""
    read: Callable[[], Any]
    """Returns what the files hold, as values that can be compared."""
    is_less: Callable[[Any, Any], bool] = lambda found, whole: False
    """Whether what came out is what was there without the damaged part, so that the reader saw the
    damage: it says so of what it may leave out, because that is made again."""


def tiny_set() -> MorphologySet:
    """Return four small bodies."""
    return MorphologySet(
        id=TINY,
        splits={"train": (chain(3), star(3)), "test": (biped(), chain(3))},
        source="made for tests",
        licence="MIT",
        notes=("test bodies that are also train bodies: chain-3",),
    )


def make_kept_files(base: Path) -> list[KeptFiles]:
    """Make all of them, by a short run and what belongs to it.

    Args:
        base: an empty folder; `DATA_VARIABLE` points into it from now on.
    """
    os.environ[DATA_VARIABLE] = str(base / "data")
    torch.set_num_threads(1)
    kept = store_set(tiny_set())
    run = base / "run"
    spec = ExperimentSpec(
        method="recmorph", suite="unimal", task="ft", protocol="smoke", bodies=TINY,
        settings={**SMALL, **NARROW}, threads=1, checkpoint_interval=0,
    )  # fmt: skip
    experiment = Experiment(spec, out=run)
    experiment.run()
    files = [f"{kept.name}/{path.name}" for path in sorted(kept.iterdir())]
    return [
        *_of_run(base, run, experiment),
        KeptFiles("body set", kept.parent, ("current", *files), lambda: load_set(TINY)),
        _journal(base / "journal"),
        *_lists(base / "sweep", spec),
        *_of_tuning(base / "tuning"),
        *_states(base / "states"),
        *_leaderboard(base / "board"),
        _onnx(base / "onnx"),
    ]


def _of_run(base: Path, run: Path, experiment: Experiment) -> list[KeptFiles]:
    folder = RunFolder(run)
    newest = list_checkpoints(folder.checkpoints)[-1]
    digest = experiment.config.run_digest
    (events,) = folder.logs.iterdir()
    saved = base / "saved"
    experiment.policy.save(saved / "policy.safetensors")

    def checkpoint() -> Any:
        found = read_latest(folder.checkpoints, digest)
        return None if found is None else (found.iteration, _flat(found.state))

    return [
        KeptFiles("checkpoint", newest, _names(newest), checkpoint),
        KeptFiles("policy of a run", run, ("policy.safetensors",), folder.read_policy),
        KeptFiles("record", run, ("record.json",), lambda: read_stored_record(folder.record)),
        KeptFiles("config.yaml", run, ("config.yaml",), lambda: read_run_config(folder.config)),
        KeptFiles(
            "training curves", folder.logs, (events.name,),
            lambda: [(step, sorted(found.items())) for step, found in
                     read_scalars(folder.logs, 0, 10**9)],
            lambda found, whole: all(item in whole for item in found),
        ),
        KeptFiles(
            "saved policy", saved, _names(saved), lambda: _policy(saved / "policy.safetensors")
        ),
    ]  # fmt: skip


def _flat(state: Any) -> Any:
    """Return nested groups of arrays as values that can be compared."""
    if isinstance(state, dict):
        return {name: _flat(value) for name, value in state.items()}
    if isinstance(state, np.ndarray):
        return state.dtype.str, state.shape, state.tobytes()
    return state


def _policy(path: Path) -> Any:
    found = Policy.load(path)
    config = to_dict(found.model.config), to_dict(found.spec), found.order, found.model.precision
    return found.method, config, found.normalizer.mode, _flat(found.tensors())


def _names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir()))


def _journal(folder: Path) -> KeptFiles:
    path = folder / "journal.jsonl"
    book = Journal(path, RECIPE)
    for index in range(20):
        verdict = Verdict(fault="mass" if index % 3 else "", best_distance=0.1 * index)
        book.add(Judged(index=index, digest=f"{index:064x}", verdict=verdict))
    book.close()

    def read() -> Any:
        found = Journal(path, RECIPE)
        found.close()
        return found.judged

    return KeptFiles(
        "journal of a search", folder, (path.name,), read,
        lambda found, whole: found.items() <= whole.items(),
    )  # fmt: skip


def _lists(folder: Path, spec: ExperimentSpec) -> list[KeptFiles]:
    """Return the lists of what a sweep and a study consist of."""
    folder.mkdir()
    specs = {
        f"{task}_{seed}": spec.replace(task=task, seed=seed)
        for task in ("ft", "incline", "vt")
        for seed in range(1, 5)
    }
    runs = {name: resolve(item).config for name, item in specs.items()}
    plan, study = folder / "plan.yaml", folder / "study.yaml"
    plan.write_text(sealed_yaml(runs_to_yaml(runs)), encoding="utf-8")
    write_launch(folder, Launch(retries=3, options={"jobs": 2}).content())
    study.write_text(Request.make("gait", against="mlp").to_yaml(), encoding="utf-8")
    return [
        KeptFiles("plan.yaml", folder, (plan.name,), lambda: read_runs(plan)),
        KeptFiles("launch.yaml", folder, (LAUNCH,), lambda: Launch.from_dict(read_launch(folder))),
        KeptFiles("study.yaml", folder, (study.name,), lambda: read_request(study)),
    ]


def _of_tuning(folder: Path) -> list[KeptFiles]:
    folder.mkdir()
    text = sealed_yaml("".join(f"{name}: {value}\n" for name, value in _TUNING.items()))
    (folder / "tuning.yaml").write_text(text, encoding="utf-8")
    write_atomic(folder / RETURN, sealed({"training_return": 123.25}))
    return [
        KeptFiles("tuning.yaml", folder, ("tuning.yaml",), lambda: Tuning.open(folder).spec),
        KeptFiles("return of a trial", folder, (RETURN,), lambda: read_return(folder / RETURN)),
    ]


_TUNING = {
    name: list(value) if isinstance(value, tuple) else "null" if value is None else value
    for name, value in asdict(TuningSpec(method="recmorph")).items()
}


def _states(folder: Path) -> list[KeptFiles]:
    """Return what a sweep and a tracker know of a run."""
    state = cell_state.CellState(
        phase="failed", env_steps=12345, attempt=2, reason="It broke.", permanent=True
    )
    cell_state.write_state(folder, "a", state)
    place = cell_state.state_file(folder, "a")
    track = folder / "track" / "state.json"
    kept = tracking.TrackingState("wandb", "0123456789ab", 4096)
    kept.write(track)

    def read_track() -> Any:
        found = tracking.read_tracking_state(track, "wandb")
        return found if found.id == kept.id else None

    return [
        KeptFiles(
            "state of a cell", place.parent, (place.name,),
            lambda: cell_state.read_state(folder, "a"),
            lambda found, whole: bool(found == cell_state.CellState()),
        ),
        KeptFiles(
            "state of a tracker", track.parent, (track.name,), read_track,
            lambda found, whole: found is None,
        ),
    ]  # fmt: skip


def _leaderboard(folder: Path) -> list[KeptFiles]:
    """Return a part of the repository's leaderboard: records, weights and a verification."""
    root = ROOT / LEADERBOARD
    entries = read_ledger(root / LEDGER_NAME).entries
    weights = next(entry for entry in entries if entry.kind == "weights")
    records = {entry.digest: entry for entry in entries if entry.kind == "record"}
    owner = next(
        entry
        for entry in records.values()
        if read_stored_record(root / entry.path).record.weights_digest == Path(weights.path).stem
    )
    verification = next(entry for entry in entries if entry.kind == "verification")
    for entry in (owner, weights, verification):
        (folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / entry.path, folder / entry.path)
        append(folder / LEDGER_NAME, entry.kind, entry.path, entry.digest)
    every = (LEDGER_NAME, owner.path, weights.path, verification.path)
    taken = RunFolder(folder.with_name("taken"), create=True)
    KnownRuns(folder).restore(read_stored_record(folder / owner.path), taken.path)

    return [
        # Of a ledger whose last lines are gone, the files that they listed are named as refused.
        KeptFiles(
            "leaderboard", folder, every, lambda: read_board(folder),
            lambda found, whole: bool(found.refused),
        ),
        KeptFiles(
            "kept weights", folder, (weights.path,), lambda: _policy(folder / weights.path)
        ),
        KeptFiles("run of a leaderboard", taken.path, (POLICY, KEPT), taken.read_policy),
    ]  # fmt: skip


def _onnx(folder: Path) -> KeptFiles:
    """Return the exported policy of four quadrupeds."""
    folder.mkdir()
    bodies, spec = list(ROBOTS.values()), TokenSpec(14, 1, parts="actuators")
    task = TASKS.get("quadruped-velocity")
    table = tabulate(task, bodies, spec)
    changes = {"width": 8, "hidden": 8, "num_blocks": 1}
    policy = Policy.of_table("recmorph", table, config=changes)
    manifest = make_manifest(task, bodies, spec, {"method": "recmorph", "seed": 0})
    path = folder / "policy.onnx"
    path.write_bytes(export_onnx(PolicyGraph(policy, table), manifest))
    tokens = np.random.default_rng(0).standard_normal((1, 14, manifest.layout.num_features))

    def read() -> Any:
        found = OnnxPolicy(path)
        actions = found(tokens.astype(np.float32), bodies[0].name)
        return found.manifest.to_dict(), actions.tobytes()

    return KeptFiles("ONNX", folder, (path.name,), read)
