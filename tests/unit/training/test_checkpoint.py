"""Checkpoints on disk: nothing is lost, nothing damaged is read."""

import json
import os
import resource
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import safetensors.numpy

from gmc_bench.core.config import json_digest
from gmc_bench.core.errors import CheckpointError, StorageError
from gmc_bench.training.checkpoint import (
    Checkpoint,
    encode_tensors,
    list_checkpoints,
    read_checkpoint,
    read_latest,
    write_checkpoint,
)

RUN = "a" * 64


def checkpoint(iteration=3, run=RUN, size=50):
    random = np.random.default_rng(iteration)
    return Checkpoint(
        run=run,
        iteration=iteration,
        state={
            "policy": {"w": random.random((size, 3), np.float32), "n": np.array(2.5)},
            "statistics": {
                "sampler": {"count": random.integers(0, 9, 7), "seen": np.array([True, False])},
                "rate": 0.1,
            },
            "progress": {"curve": [{"env_steps": 64, "mean_return": None}], "episodes": 7},
        },
    )


@contextmanager
def largest_file(size):
    """Let no file grow beyond `size` bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_names_of_weights_may_have_the_separator_of_groups(tmp_path):
    state = {"policy": {"actor.a/b.w": np.ones(2), "/": np.zeros(3), "more": {"c/d": np.ones(1)}}}
    write_checkpoint(tmp_path, Checkpoint(run=RUN, iteration=1, state=state))
    found = read_latest(tmp_path, RUN).state["policy"]
    assert set(found) == {"actor.a/b.w", "/", "more"}
    assert np.array_equal(found["actor.a/b.w"], np.ones(2))
    assert list(found["more"]) == ["c/d"]


def test_what_is_written_is_read(tmp_path):
    written = checkpoint()
    path = write_checkpoint(tmp_path / "checkpoints", written)
    found = read_latest(tmp_path / "checkpoints", RUN)
    assert path.name == "00000003"
    assert (found.run, found.iteration) == (RUN, 3)
    assert sorted(item.name for item in path.iterdir()) == [
        "checkpoint.json", "policy.safetensors", "statistics.safetensors",
    ]  # fmt: skip
    assert found.state["progress"] == written.state["progress"]
    assert found.state["statistics"]["rate"] == 0.1
    for names in (("policy", "w"), ("policy", "n"), ("statistics", "sampler", "count"),
                  ("statistics", "sampler", "seen")):  # fmt: skip
        value, expected = found.state, written.state
        for name in names:
            value, expected = value[name], expected[name]
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_a_checkpoint_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Contents, then their entries, then the folder's: a power cut leaves all of it or nothing."""
    synced, sync = [], os.fsync

    def note(handle):
        sync(handle)
        names = sorted(path.name for path in tmp_path.iterdir())
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size, names))

    monkeypatch.setattr(os, "fsync", note)
    path = write_checkpoint(tmp_path, checkpoint())
    *contents, (own, _, hidden), (entry, _, names) = synced
    files = {(file.stat().st_ino, file.stat().st_size) for file in path.iterdir()}
    assert {(number, size) for number, size, _ in contents} == files
    assert own == path.stat().st_ino
    assert all(path.name not in seen for seen in (hidden, *(seen for _, _, seen in contents)))
    assert entry == tmp_path.stat().st_ino
    assert names == [path.name]


def test_nothing_is_pickled(tmp_path):
    manifest, *arrays = sorted(write_checkpoint(tmp_path, checkpoint()).iterdir())
    assert json.loads(manifest.read_bytes())["iteration"] == 3
    found = [sorted(safetensors.numpy.load(file.read_bytes())) for file in arrays]
    assert found == [["n", "w"], ["sampler/count", "sampler/seen"]]


def test_equal_tensors_give_equal_bytes():
    one = {"b": np.arange(3.0), "a": np.ones((2, 2), np.float32)}
    other = {"a": np.ones((2, 2), np.float32, order="F"), "b": np.arange(6.0)[::2] / 2}
    assert encode_tensors(one) == encode_tensors(other)


def test_a_run_without_checkpoints_has_none(tmp_path):
    assert read_latest(tmp_path / "absent", RUN) is None
    assert list_checkpoints(tmp_path) == []


def test_only_the_two_newest_are_kept(tmp_path):
    for iteration in (1, 2, 10):
        write_checkpoint(tmp_path, checkpoint(iteration))
    assert [path.name for path in list_checkpoints(tmp_path)] == ["00000002", "00000010"]
    assert read_latest(tmp_path, RUN).iteration == 10


def test_writing_an_iteration_again_replaces_it(tmp_path):
    write_checkpoint(tmp_path, checkpoint(4, size=10))
    write_checkpoint(tmp_path, checkpoint(4, size=20))
    assert read_latest(tmp_path, RUN).state["policy"]["w"].shape == (20, 3)


def test_what_a_killed_process_left_behind_is_not_read_and_swept_away(tmp_path):
    write_checkpoint(tmp_path, checkpoint(1))
    unfinished = tmp_path / ".00000002.tmp"
    unfinished.mkdir()
    (unfinished / "policy.safetensors").write_bytes(b"half")
    assert read_latest(tmp_path, RUN).iteration == 1
    write_checkpoint(tmp_path, checkpoint(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000003"]


FILES = ("checkpoint.json", "policy.safetensors", "statistics.safetensors")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(5))
def test_a_flipped_bit_is_noticed(tmp_path, name, seed):
    for iteration in (1, 2):
        path = write_checkpoint(tmp_path, checkpoint(iteration))
    random = np.random.default_rng(seed)
    data = bytearray((path / name).read_bytes())
    data[random.integers(len(data))] ^= 1 << int(random.integers(8))
    (path / name).write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        read_latest(tmp_path, RUN)
    message = str(caught.value)
    assert name in message
    assert f"delete the folder {path} to resume from 00000001" in message
    shutil.rmtree(path)
    assert read_latest(tmp_path, RUN).iteration == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [0, 1, 0.5])
def test_a_truncated_file_is_noticed(tmp_path, name, keep):
    path = write_checkpoint(tmp_path, checkpoint())
    data = (path / name).read_bytes()
    (path / name).write_bytes(data[: int(len(data) * keep) - (keep == 1)])
    with pytest.raises(CheckpointError, match=f"{name}.*delete the folder .* start the run again"):
        read_latest(tmp_path, RUN)


@pytest.mark.parametrize("text", ["[]", "{}", "null"])
def test_a_manifest_of_something_else_is_noticed(tmp_path, text):
    path = write_checkpoint(tmp_path, checkpoint())
    (path / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"is damaged: checkpoint\.json was changed"):
        read_checkpoint(path, RUN)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("schema_version"),
        lambda manifest: manifest.pop("run"),
        lambda manifest: manifest.pop("iteration"),
        lambda manifest: manifest.pop("state"),
        lambda manifest: manifest.update(state=[]),
        lambda manifest: manifest["state"].update(policy=3),
        lambda manifest: manifest["state"]["statistics"].update(sampler=3),
        lambda manifest: manifest.pop("files"),
        lambda manifest: manifest.update(files=[]),
        lambda manifest: manifest["state"].update(more=json.loads("[" * 100 + "]" * 100)),
    ],
)
def test_a_manifest_that_was_changed_with_its_digest_is_refused(tmp_path, change):
    path = write_checkpoint(tmp_path, checkpoint())
    change_manifest(path, change)
    with pytest.raises(CheckpointError, match=r"is damaged: checkpoint\.json|has layout None"):
        read_checkpoint(path, RUN)


def test_a_manifest_that_is_nested_too_deeply_to_read_is_refused(tmp_path):
    path = write_checkpoint(tmp_path, checkpoint())
    (path / "checkpoint.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"is damaged: checkpoint\.json is not what was wri"):
        read_checkpoint(path, RUN)


@pytest.mark.parametrize("name", ["../kept.safetensors", "{}/kept.safetensors", "..", "kept.bin"])
def test_a_manifest_cannot_name_files_elsewhere(tmp_path, name):
    path = write_checkpoint(tmp_path / "checkpoints", checkpoint())
    for folder in (tmp_path, tmp_path / "checkpoints"):
        shutil.copy(path / "policy.safetensors", folder / "kept.safetensors")
    shutil.copy(path / "policy.safetensors", path / "kept.bin")

    def change(manifest):
        manifest["files"][name.format(tmp_path)] = manifest["files"]["policy.safetensors"]

    change_manifest(path, change)
    with pytest.raises(CheckpointError, match=r"is no name of a file \.safetensors"):
        read_checkpoint(path, RUN)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path, name):
    path = write_checkpoint(tmp_path, checkpoint())
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(CheckpointError, match=f"{name} is no regular file"):
        read_checkpoint(path, RUN)


def change_manifest(path, change):
    """Change what a checkpoint says of itself, and its digest with it."""
    file = path / "checkpoint.json"
    manifest = json.loads(file.read_bytes())
    change(manifest)
    manifest.pop("digest")
    file.write_text(json.dumps({**manifest, "digest": json_digest(manifest)}))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(tmp_path, name):
    path = write_checkpoint(tmp_path, checkpoint())
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} cannot be read"):
        read_checkpoint(path, RUN)


def test_another_layout_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gmc_bench.training.checkpoint.SCHEMA_VERSION", 2)
    path = write_checkpoint(tmp_path, checkpoint())
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"has layout 2, but this version .* reads layout 4"):
        read_checkpoint(path, RUN)


def test_the_checkpoint_of_another_run_is_refused_and_not_to_be_deleted(tmp_path):
    write_checkpoint(tmp_path, checkpoint(run="b" * 64))
    with pytest.raises(CheckpointError, match="a run with other settings; put back") as caught:
        read_latest(tmp_path, RUN)
    assert "delete" not in str(caught.value)


def test_where_memory_is_short_nothing_is_to_be_deleted(tmp_path, monkeypatch):
    def refuse(data, origin):
        raise MemoryError

    write_checkpoint(tmp_path, checkpoint())
    monkeypatch.setattr("gmc_bench.training.checkpoint.decode_tensors", refuse)
    with pytest.raises(
        CheckpointError, match=r"too little memory to read .* as it is: fr"
    ) as caught:
        read_latest(tmp_path, RUN)
    assert "delete" not in str(caught.value)


def test_a_full_disk_leaves_the_earlier_checkpoints_alone(tmp_path):
    for iteration in (1, 2):
        write_checkpoint(tmp_path, checkpoint(iteration))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with (
        largest_file(10_000),
        pytest.raises(StorageError, match=r"File too large; free some space.* --resume"),
    ):
        write_checkpoint(tmp_path, checkpoint(3, size=5000))
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        write_checkpoint(tmp_path / "file" / "checkpoints", checkpoint())
