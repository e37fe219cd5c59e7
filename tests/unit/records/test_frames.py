"""Records as data frames."""

import math

import pytest

import gmc_bench as gmc
from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.records.store import write_record
from tests.support.records import make_record


@pytest.fixture
def folder(tmp_path):
    """Two records and a file that is none."""
    write_record(tmp_path / "runs" / "a" / "record.json", make_record(seed=1))
    write_record(tmp_path / "runs" / "b" / "record.json", make_record(seed=2))
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "record.json").write_text("{}")
    return tmp_path / "runs"


def test_a_row_per_run(folder):
    records = gmc.load_records(folder)
    frame = records.to_pandas()
    assert list(frame["path"]) == ["a/record.json", "b/record.json"]
    assert list(frame["seed"]) == [1, 2]
    # Worked out at `make_record`: the test body that is a train body does not count.
    assert list(frame["train_return"]) == [150.0, 150.0]
    assert list(frame["test_return"]) == [30.0, 30.0]


def test_a_row_per_episode(folder):
    records = gmc.load_records(folder)
    frame = records.episodes()
    assert len(frame) == sum(len(part.episodes) for item in records for part in item.returns)
    means = frame.groupby(["path", "split", "mode", "body"])["episode_return"].mean()
    for item in records.stored:
        for part in item.record.returns:
            place = (item.path, part.split, part.mode, part.body)
            assert math.isclose(means[place], part.mean_return)


def test_a_row_per_point_of_a_curve(folder):
    records = gmc.load_records(folder)
    frame = records.curves()
    assert list(frame.loc[frame["seed"] == 1, "env_steps"]) == [
        point.env_steps for point in records[0].learning_curve
    ]


def test_frames_without_rows_have_columns(folder):
    records = gmc.load_records(folder)
    none = records[:0]
    for rows, empty in (
        (records.to_pandas(), none.to_pandas()),
        (records.curves(), none.curves()),
    ):
        assert list(empty.columns) == list(rows.columns)
    assert len(none.episodes()) == 0
    assert set(none.episodes().columns) <= set(records.episodes().columns)


@pytest.mark.parametrize(("split", "mode"), [("tst", "deterministic"), ("test", "det")])
def test_scores_of_no_split_or_mode_are_refused(split, mode):
    with pytest.raises(ConfigError, match=f"got '{split}' and '{mode}'"):
        make_record().score(split, mode)


def test_records_are_a_sequence_and_name_what_they_refuse(folder):
    records = gmc.load_records(folder)
    assert [record.seed for record in records] == [1, 2]
    assert records[1].seed == 2
    assert [record.seed for record in records[1:]] == [2]
    assert [item.path for item in records.refused] == ["c/record.json"]
    assert repr(records) == "<2 records, 1 refused files>"


def test_one_file_will_do_and_no_folder_will_not(folder, tmp_path):
    (record,) = gmc.load_records(str(folder / "a" / "record.json"))
    assert record.seed == 1
    with pytest.raises(RecordError, match="nowhere does not exist"):
        gmc.load_records(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert gmc.load_records(tmp_path / "empty").to_pandas().empty
