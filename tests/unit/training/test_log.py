"""Training curves as TensorBoard reads them."""

import resource

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmc_bench.core.errors import StorageError
from gmc_bench.training import log as log_module
from gmc_bench.training.log import EventLog, read_scalars


def read(folder):
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_what_was_written(tmp_path):
    with EventLog(tmp_path / "logs", 0) as log:
        log.write({"train/return": None, "ppo/loss": 0.5}, 64)
        log.write({"train/return": 2.0, "ppo/loss": 0.25}, 128)
    assert read(tmp_path / "logs") == {
        "train/return": [(128, 2.0)],
        "ppo/loss": [(64, 0.5), (128, 0.25)],
    }


def test_steps_that_are_run_again_are_dropped(tmp_path):
    with EventLog(tmp_path, 0) as log:
        for step in (64, 128, 192):
            log.write({"ppo/loss": float(step)}, step)
    with EventLog(tmp_path, 128) as log:
        log.write({"ppo/loss": -1.0}, 192)
    assert read(tmp_path)["ppo/loss"] == [(64, 64.0), (128, 128.0), (192, -1.0)]


def test_no_step_is_lost_when_the_clock_goes_back(tmp_path, monkeypatch):
    for day, first in ((9.0, 0), (3.0, 128), (5.0, 192)):
        monkeypatch.setattr(log_module.time, "time", lambda day=day: day * 86400)
        with EventLog(tmp_path, first) as log:
            log.write({"ppo/loss": day}, first + 64)
    assert read(tmp_path)["ppo/loss"] == [(64, 9.0), (192, 3.0), (256, 5.0)]
    assert [step for step, _ in read_scalars(tmp_path, 0, 256)] == [64, 192, 256]


def test_numbers_between_two_steps_are_read_as_they_were_logged_last(tmp_path):
    """What was logged beyond a checkpoint is of steps that are run again."""
    with EventLog(tmp_path, 0) as log:
        for step in (64, 128, 192):
            log.write({"ppo/loss": float(step), "train/return": None}, step)
    with EventLog(tmp_path, 128) as log:
        for step in (192, 256):
            log.write({"ppo/loss": -float(step), "train/return": 0.5}, step)
    expected = [(128, {"ppo/loss": 128.0}), (192, {"ppo/loss": -192.0, "train/return": 0.5})]
    assert list(read_scalars(tmp_path, 64, 192)) == expected
    assert list(read_scalars(tmp_path, 192, 192)) == []


def test_a_full_disk_is_one_sentence(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with (  # noqa: PT012 - closing must not raise anything else
            pytest.raises(StorageError, match=r"File too large; .* --resume"),
            EventLog(tmp_path, 0) as log,  # which is closed while the disk is still full
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
            log.write({f"ppo/loss_{number}": 1.0 for number in range(30)}, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        EventLog(tmp_path / "file" / "logs", 0)
