"""Records as data frames."""

import pytest

import gmc_bench as gmc
from gmc_bench.core.config import config_digest
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
    assert list(frame["seconds"]) == [10.0, 10.0]


def test_a_row_per_episode(folder):
    frame = gmc.load_records(folder).episodes()
    assert list(frame["path"]) == ["a/record.json"] * 7 + ["b/record.json"] * 7
    for _, run in frame.groupby("path"):
        rows = run[["split", "mode", "body", "episode", "episode_return", "length", "ended"]]
        assert list(rows.itertuples(index=False, name=None)) == [
            (split, "deterministic", body, number, value, 1000, "time_limit")
            for split, body, number, value in (
                ("train", "a", 0, 50.0), ("train", "a", 1, 150.0), ("train", "b", 0, 200.0),
                ("test", "b", 0, 180.0), ("test", "c", 0, 10.0), ("test", "c", 1, 30.0),
                ("test", "d", 0, 40.0),
            )
        ]  # fmt: skip


def test_a_row_per_point_of_a_curve(folder):
    frame = gmc.load_records(folder).curves()
    assert list(frame["seed"]) == [1, 1, 2, 2]
    assert list(frame["env_steps"]) == [1000, 2000] * 2
    assert list(frame["episodes"]) == [1, 5] * 2
    for name, value in (("mean_return", 90.0), ("mean_length", 400.0)):
        assert list(frame[name].isna()) == [True, False] * 2  # no episode ended before step 1000
        assert list(frame[name].dropna()) == [value] * 2


def test_frames_without_rows_have_columns(folder):
    records = gmc.load_records(folder)
    none = records[:0]
    for rows, empty in (
        (records.to_pandas(), none.to_pandas()),
        (records.episodes(), none.episodes()),
        (records.curves(), none.curves()),
    ):
        assert len(empty) == 0
        assert list(empty.columns) == list(rows.columns)


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


def varied(record, **changes):
    """Return a record with other settings."""
    config = {**record.config, **changes}
    return make_record(seed=record.seed, config=config, config_digest=config_digest(config))


def test_settings_that_differ_have_columns(tmp_path):
    """Those of one method on one task; what other columns tell of does not come twice."""
    first = make_record(seed=1)
    for place, (width, hidden, steps) in enumerate(
        [(8, [4], 64), (12, [4, [2, 1]], 128), (12, [4], 64)]
    ):
        rules = {**first.config.get("protocol", {}), "env_steps": steps, "ppo": {"lr": 1e-4}}
        model = {"width": width, "hidden": hidden, "layers": 2}
        record = varied(first, method_config=model, protocol=rules, morphologies=f"set-{place}")
        write_record(tmp_path / str(place) / "record.json", record)
    records = gmc.load_records(tmp_path)
    for frame in (records.to_pandas(), records.episodes(), records.curves()):
        rows = frame.groupby("path").first()
        assert list(rows["model.width"]) == [8, 12, 12]
        assert list(rows["model.hidden"]) == [(4,), (4, (2, 1)), (4,)]
        assert list(rows["protocol.env_steps"]) == [64, 128, 64]
        assert len(frame.groupby(["model.width", "model.hidden"])) == 3
        assert {name for name in frame.columns if "." in name or "morphologies" in name} == {
            "model.width", "model.hidden", "protocol.env_steps"
        }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("method", ("recmorph", "mlp")),
        ("preset", ("lite", "paper")),
        ("suite", ("unimal-v1", "larger-bodies-v1")),
        ("task", ("unimal-ft-v1", "unimal-vt-v1")),
        ("protocol", ("lite", "paper")),
    ],
)
def test_settings_of_unlike_runs_are_not_compared(tmp_path, field, values):
    for value, width in zip(values, (8, 12), strict=True):
        config = {**make_record().config, "method_config": {"width": width}}
        record = make_record(**{field: value}, config=config, config_digest=config_digest(config))
        write_record(tmp_path / value / "record.json", record)
    assert "model.width" not in gmc.load_records(tmp_path).to_pandas().columns


def test_numbers_that_are_missing_everywhere_are_numbers(tmp_path):
    record = make_record()
    points = [point.model_copy(update={"mean_return": None}) for point in record.learning_curve]
    missing = make_record(learning_curve=points, training_return=None, returns=[])
    write_record(tmp_path / "record.json", missing)
    records = gmc.load_records(tmp_path)
    assert len(records) == 1, records.refused
    for found in (records, records[:0]):
        curves, runs = found.curves(), found.to_pandas()
        assert curves["mean_return"].dtype == "float64"
        for name in ("training_return", "train_return", "test_return"):
            assert runs[name].dtype == "float64"


def test_a_record_is_shown_in_a_line():
    record = make_record()
    shown = "<record of demo on unimal-ft-v1, "
    for text in (repr(record), str(record), f"{record}"):
        assert text.startswith(shown)
        assert "\n" not in text
        assert len(text) < 300
    many = record.returns[0].model_copy(update={"episodes": record.returns[0].episodes * 100})
    assert len(repr(many)) < 300
    assert len(str(many)) < 300
