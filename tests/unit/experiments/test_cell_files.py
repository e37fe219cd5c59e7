"""Files of a cell of a sweep that came from a machine which shares no folder with this one."""

import os

from gmc_bench.experiments.launchers import cell_files
from gmc_bench.experiments.launchers.cell_files import newest, pack, unpack
from gmc_bench.training.checkpoint import Checkpoint, list_checkpoints, write_checkpoint


def test_checkpoints_that_are_sent_again_and_again_do_not_pile_up(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "cell").mkdir(parents=True)
    (there / "cell" / "config.yaml").write_text("method: recmorph\n")
    for iteration in range(1, 6):
        found = write_checkpoint(
            there / "cell" / "checkpoints", Checkpoint("run", iteration, {"progress": {"n": 1}})
        )
        files = pack(there, "cell")
        assert {path for path in files if "checkpoints" in path} == {
            f"cell/checkpoints/{found.name}/checkpoint.json"
        }
        unpack(here, files)
        unpack(here, files)  # as a node does that begins with what the one before has sent
        assert newest(here, "cell") == newest(there, "cell")
    kept = list_checkpoints(here / "cell" / "checkpoints")
    assert [path.name for path in kept] == ["00000004", "00000005"]


def test_a_checkpoint_that_was_sent_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def note(handle):
        sync(handle)
        synced.append((os.fstat(handle).st_ino, final.exists()))

    folder = tmp_path / "here" / "cell" / "checkpoints"
    final = folder / "00000001"
    monkeypatch.setattr(os, "fsync", note)
    unpack(tmp_path / "here", {"cell/checkpoints/00000001/checkpoint.json": b"{}"})
    expected = [(final / "checkpoint.json", False), (final, False), (folder, True)]
    assert synced == [(path.stat().st_ino, there) for path, there in expected]


def test_a_record_arrives_last_and_no_lock_is_sent(tmp_path, monkeypatch):
    """A folder with a record counts as that of a finished run, whatever else it lacks."""
    cell = tmp_path / "cell"
    (cell / "logs").mkdir(parents=True)
    sent = ("config.yaml", "curve.csv", "logs/events", "policy.safetensors", "record.json")
    for name in (*sent, ".lock", ".lease", ".lease.1.tmp"):
        (cell / name).write_text(name)
    files = pack(tmp_path, "cell")
    assert files == {f"cell/{name}": name.encode() for name in sent}
    written = []
    monkeypatch.setattr(cell_files, "write_atomic", lambda path, data: written.append(path.name))
    unpack(tmp_path / "here", files)
    assert (written[0], written[-1]) == ("config.yaml", "record.json")
    assert len(written) == len(sent)
