"""A file that is there already is replaced by a good one only."""

from types import SimpleNamespace

import pytest

from gmc_bench.core.errors import CheckpointError, ConfigError, PluginError
from gmc_bench.deployment import trained
from gmc_bench.deployment.trained import export_run, open_run
from gmc_bench.tasks.quadruped_velocity import TASK


@pytest.fixture
def opened(subject, monkeypatch):
    """A run that is open already, whose file acts like it; what is read back is listed."""
    run = trained.TrainedQuadrupeds(subject.trained, subject.table, subject.manifest, TASK)
    read = []
    monkeypatch.setattr(trained, "open_run", lambda _: run)
    monkeypatch.setattr(trained, "load_package", lambda _: None)
    monkeypatch.setattr(trained, "export_onnx", lambda *_: b"fresh")
    monkeypatch.setattr(trained, "OnnxPolicy", lambda *given: read.append(given))
    monkeypatch.setattr(trained, "largest_difference", lambda *_: 1e-6)
    return read


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "walk.onnx"
    path.write_bytes(b"old")
    return path


def test_a_good_file_takes_the_place_of_an_old_one(opened, subject, path, tmp_path):
    assert export_run(tmp_path, path) == (path, subject.manifest, 1e-6)
    assert opened == [(path, b"fresh")]  # what is written is what was compared
    assert path.read_bytes() == b"fresh"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("apart", [1.0, 1.1e-5, float("nan")])
def test_a_file_that_acts_otherwise_is_not_kept(opened, path, tmp_path, monkeypatch, apart):
    monkeypatch.setattr(trained, "largest_difference", lambda *_: apart)
    with pytest.raises(PluginError, match=r"differ by up to .* expected at most 1e-05"):
        export_run(tmp_path, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_policy_that_depends_on_another_order_of_limbs_is_not_exported(
    opened, subject, path, tmp_path, monkeypatch
):
    monkeypatch.setattr(subject.trained, "order", "bfs")
    assert export_run(tmp_path, path)[2] == 1e-6  # it does not depend on it
    path.write_bytes(b"old")
    monkeypatch.setattr(trained, "largest_difference", lambda *_: 0.034)
    with pytest.raises(ConfigError, match=r"order dfs, but this run has --tokens\.order bfs, and"):
        export_run(tmp_path, path)
    assert path.read_bytes() == b"old"


def test_a_file_that_cannot_be_read_back_is_not_kept(opened, path, tmp_path, monkeypatch):
    def refuse(*_):
        raise CheckpointError("no")

    monkeypatch.setattr(trained, "OnnxPolicy", refuse)
    with pytest.raises(CheckpointError, match="no"):
        export_run(tmp_path, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_no_file_to_write(tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "open_run", None)  # not even begun
    (tmp_path / "walk.onnx").mkdir()
    with pytest.raises(ConfigError, match=r"walk.onnx; give a file that ends in .onnx"):
        export_run(tmp_path, tmp_path / "walk.onnx")


@pytest.mark.parametrize("precision", ["bfloat16", "tf32"])
def test_networks_of_another_precision_are_not_deployed(precision, tmp_path, monkeypatch):
    session = SimpleNamespace(task=TASK, config=SimpleNamespace(precision=precision))
    opened = SimpleNamespace(session=session)
    monkeypatch.setattr(trained.Experiment, "open", lambda _: opened)
    with pytest.raises(ConfigError, match=f"work in {precision}; give a run with --precision flo"):
        open_run(tmp_path)
