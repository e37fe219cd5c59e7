"""Which records of a leaderboard stand for a run, and what is made of one."""

import hashlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import CheckpointError, RecordError, RunFolderError
from gmc_bench.experiments import reuse
from gmc_bench.experiments.method import method_of
from gmc_bench.experiments.recorded import RecordedRun
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.reuse import KnownRuns
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.records.ledger import Ledger, LedgerEntry, append
from gmc_bench.records.store import LEDGER_NAME, read_stored_record, write_atomic, write_record
from gmc_bench.records.weights import weights_name
from gmc_bench.sim.batch import available_threads
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from tests.support.records import digest_of, make_record

SPEC = ExperimentSpec(
    method="recmorph", suite="unimal", task="ft", bodies="tiny", protocol="smoke", threads=1
)


def test_of_several_records_of_a_run_the_latest_with_weights_is_taken(tmp_path, monkeypatch):
    config = resolve(SPEC).config
    method, task, suite = method_of(config), TASKS.get(config.task), SUITES.get(config.suite)
    usual = {
        "method": method.id, "method_version": method.version, "config": config.identity(),
        "seed": 1, "task_digest": definition_digest(task),
        "suite_digest": definition_digest(suite.only(task.id)),
        "versions": {**make_record().versions, "mujoco": version("mujoco")},
    }  # fmt: skip
    listed = []

    def add(kind, path, digest):
        entry = {"kind": kind, "path": path, "digest": digest, "previous": "0" * 64}
        listed.append(LedgerEntry(number=len(listed) + 1, **entry))

    stopped = {"official": False, "unofficial_reasons": ("it was stopped",), "learning_curve": ()}
    others = (
        {"method_version": 99},
        {"versions": {**usual["versions"], "mujoco": "0.1"}},
        {"task_digest": digest_of("another task")},
        {"suite_digest": digest_of("another suite")},
        {"config": {**config.identity(), "precision": "bfloat16"}},
        {"seed": 2},
        {"status": "incomplete", "env_steps": 1000, "env_steps_per_s": 100.0, **stopped},
    )
    # What was measured otherwise is newer and has weights.
    each = [({}, True), ({}, True), ({}, False), *((change, True) for change in others)]
    for place, (change, kept) in enumerate(each):
        weights = digest_of(str(place))
        record = make_record(**{**usual, **change, "weights_digest": weights})
        path = f"results/{config.suite}/{config.task}/{method.id}/run-seed1-{place}.json"
        write_record(tmp_path / path, record)
        add("record", path, read_stored_record(tmp_path / path).digest)
        add("signature", f"{path}.minisig", digest_of("signature"))
        if kept:
            add("weights", f"weights/{weights}.safetensors", weights)
    (tmp_path / LEDGER_NAME).touch()
    monkeypatch.setattr(reuse, "read_ledger", lambda path: Ledger(tuple(listed), "0" * 64))
    known = KnownRuns(tmp_path)
    found = known.find(config)
    assert found is not None
    assert found.record.weights_digest == digest_of("1")
    assert known.find(resolve(SPEC.replace(seed=2)).config) is None
    second = [entry.path for entry in listed if entry.kind == "record"][1]
    write_record(tmp_path / second, record)
    with pytest.raises(RecordError, match="run-seed1-1"):  # it is another one than was added
        known.find(config)


ACTING = b"what acts of the weights"


@pytest.fixture
def recorded(tmp_path):
    """Return the record of a run with seed 3, in a leaderboard that keeps what acts of it."""
    root, whole = tmp_path / "board", digest_of("all weights")
    config = resolve(SPEC.replace(seed=3)).config
    path = f"results/{config.suite}/{config.task}/recmorph/run-seed3-0.json"
    hardware = {**make_record().hardware.model_dump(), "threads": 10_000}
    record = make_record(
        method="recmorph", config=config.identity(), seed=3, weights_digest=whole, hardware=hardware
    )
    write_record(root / path, record)
    kept = root / weights_name(whole)
    kept.parent.mkdir()
    kept.write_bytes(ACTING)
    append(root / LEDGER_NAME, "weights", weights_name(whole), hashlib.sha256(ACTING).hexdigest())
    append(root / LEDGER_NAME, "record", path, read_stored_record(root / path).digest)
    return root / path


def played_here():
    """Return what a record has of the settings of that run, on this machine's fewer cores."""
    config = resolve(SPEC.replace(seed=3)).config
    here = {"threads": available_threads(), "device": "cpu"}
    # A record states the task's digest beside its settings.
    return replace(config, **here, unofficial_reasons=(), git_commit=None, task_digest=None)


def test_what_is_taken_is_the_folder_of_a_finished_run(recorded, tmp_path):
    root = tmp_path / "board"
    known, stored = KnownRuns(root), read_stored_record(recorded)
    known.restore(stored, tmp_path / "taken")
    folder = RunFolder(tmp_path / "taken")
    assert folder.read_config() == played_here()
    assert folder.record.read_bytes() == recorded.read_bytes()
    assert folder.read_policy() == ACTING
    folder.policy.write_bytes(b"other weights")
    with pytest.raises(CheckpointError, match="is damaged"):
        folder.read_policy()
    folder.record.unlink()  # whoever made it was killed on the way there
    known.restore(stored, folder.path)
    assert folder.read_policy() == ACTING
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(RunFolderError):
        known.restore(stored, tmp_path / "mine")
    (root / weights_name(digest_of("all weights"))).write_bytes(b"other weights")
    with pytest.raises(CheckpointError, match="another file than the one that was added"):
        known.restore(stored, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("written", range(4))
def test_a_kill_on_the_way_leaves_no_run_that_seems_begun_here(
    recorded, tmp_path, monkeypatch, written
):
    known, stored, path = (
        KnownRuns(tmp_path / "board"),
        read_stored_record(recorded),
        tmp_path / "r",
    )
    files = iter(range(written))

    def write(*file):
        if next(files, None) is None:
            raise KeyboardInterrupt
        write_atomic(*file)

    with monkeypatch.context() as killing:
        killing.setattr(reuse, "write_atomic", write)
        with pytest.raises(KeyboardInterrupt):
            known.restore(stored, path)
    assert (path / "kept.json").is_file() or not (path / "config.yaml").is_file()
    known.restore(stored, path)
    assert RunFolder(path).read_policy() == ACTING


def test_a_record_is_read_like_the_folder_of_its_run(recorded):
    run = RecordedRun(recorded)
    assert run.path == Path("media", "run-seed3-0")
    assert run.read_config() == played_here()
    assert (run.record, run.read_record()) == (recorded, read_stored_record(recorded).record)
    assert run.policy.read_bytes() == run.read_policy() == ACTING
    with pytest.raises(RunFolderError, match="can be continued in its folder only"):
        run.__enter__()
