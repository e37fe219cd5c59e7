"""The real packages of trackers, each without a network, with a run that is stopped and goes on.

They are not among the requirements of the tests: `pip install wandb mlflow-skinny trackio`, best
into an environment of their own.
"""

import json
import signal
import sqlite3
import struct

import pytest

STEPS = list(range(128, 3073, 128))


@pytest.fixture
def tracked(gmc, finished_run, tmp_path, monkeypatch):
    """Return a function that tracks a run over a stop; its folder and record."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(track):
        path = tmp_path / "run"
        process = gmc.start_and_wait(path, 3, "run", *gmc.small, "--track", track, "--out", path)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        done = gmc("run", "--resume", path)
        assert done.stdout.lstrip().startswith("recmorph on unimal-ft-v1")  # nothing else speaks
        assert "tracks this run: " in done.stderr
        assert "any longer" not in done.stderr
        assert (path / "policy.safetensors").read_bytes() == (
            finished_run.path / "policy.safetensors"
        ).read_bytes()
        record = json.loads((path / "record.json").read_bytes())
        assert record["config_digest"] == finished_run.record["config_digest"]
        return path, record

    return run


def test_mlflow_has_one_run_with_every_step_once(tracked):
    client = pytest.importorskip("mlflow.tracking").MlflowClient
    client = client()
    client.search_experiments()  # makes the database, which is lost if it is stopped half-way
    _, record = tracked("mlflow:walks")
    experiment = client.get_experiment_by_name("walks").experiment_id
    (found,) = client.search_runs([experiment])
    assert found.info.status == "FINISHED"
    assert found.data.params["protocol.num_envs"] == "4"
    assert found.data.tags["record_digest"] == record["digest"]
    history = client.get_metric_history(found.info.run_id, "ppo/loss")
    assert [point.step for point in history] == STEPS
    assert found.data.metrics["score/training_return"] == record["training_return"]


def test_trackio_has_one_run_with_every_step_once(tracked, tmp_path):
    pytest.importorskip("trackio")
    _, record = tracked("trackio:walks")
    with sqlite3.connect(tmp_path / "trackio" / "walks.db") as database:
        rows = database.execute(
            "SELECT run_name, step, metrics FROM metrics ORDER BY id"
        ).fetchall()
    assert len({name for name, _, _ in rows}) == 1
    contents = [(step, json.loads(text)) for _, step, text in rows]
    assert [step for step, content in contents if "ppo/loss" in content] == STEPS
    assert contents[-1][1]["record_digest"] == record["digest"]


def test_wandb_has_files_of_one_run_with_every_step_once(tracked):
    records = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    path, record = tracked("wandb:walks")
    files = sorted((path / "tracking" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    found = [item for file in files for item in _records(file, records.Record)]
    runs = [item.run for item in found if item.WhichOneof("record_type") == "run"]
    assert {(run.run_id, run.project) for run in runs} == {(runs[0].run_id, "walks")}
    steps = [item.history.step.num for item in found if item.HasField("history")]
    assert steps == STEPS
    summaries = [part for item in found for part in item.summary.update]
    (digest,) = [json.loads(part.value_json) for part in summaries if part.key == "record_digest"]
    assert digest == record["digest"]
    for item in found:  # nothing about the machine
        assert item.WhichOneof("record_type") not in ("environment", "stats", "output_raw")
        assert not item.run.host


def _records(path, kind):
    """Yield what a file of W&B holds: LevelDB's log format in blocks of 32 KiB, after 7 bytes."""
    data, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, part = struct.unpack("<IHB", data[place : place + 7])
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if part in (1, 4):  # whole, or the last part
            yield kind.FromString(parts)
            parts = b""
