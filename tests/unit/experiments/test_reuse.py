"""Which records of a leaderboard stand for a run."""

from importlib.metadata import version

import pytest

from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import RecordError
from gmc_bench.experiments import reuse
from gmc_bench.experiments.method import method_of
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.reuse import KnownRuns
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.records.ledger import Ledger, LedgerEntry
from gmc_bench.records.store import LEDGER_NAME, read_stored_record, write_record
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
