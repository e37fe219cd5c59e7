"""Records on disk: whole or not at all, and never changed unnoticed."""

import errno
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from gmc_bench.core.errors import RecordError, StorageError
from gmc_bench.records import store
from gmc_bench.records.breakdown import DIRECTION_METRICS
from gmc_bench.records.schema import SCHEMA_VERSION
from gmc_bench.records.store import (
    LEDGER_NAME,
    canonical_json,
    read_record,
    read_records,
    read_sealed,
    read_stored_record,
    record_digest,
    sealed,
    write_atomic,
    write_record,
)
from gmc_bench.records.summary import command_tables
from tests.support.records import make_friction, make_record

RECORDS = Path(__file__).parents[2] / "fixtures" / "records"
FIXTURES = sorted(RECORDS.glob("*.json"))


def _forge(path: Path, **changes: Any) -> Path:
    """Write a record with fields changed and a digest that fits the changed content."""
    content = {**make_record().model_dump(mode="json"), **changes}
    content["digest"] = hashlib.sha256(canonical_json(content)).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json(content) + b"\n")
    return path


def test_canonical_json_by_hand() -> None:
    value = {
        "b": [1, 1.0, 0.1, 1e-7, 1e21, -0.0, True, None],
        "a": "é\n",
        "\U0001f600": "",
        "\uffff": "",
    }
    # Numbers as ECMAScript spells them; keys by UTF-16 code units, so an emoji precedes U+FFFF.
    expected = '{"a":"é\\n","b":[1,1,0.1,1e-7,1e+21,0,true,null],"\U0001f600":"","\uffff":""}'
    assert canonical_json(value) == expected.encode()
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_has_no_special_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="no canonical JSON"):
        canonical_json({"x": value})


def test_canonical_json_refuses_integers_that_other_readers_would_round() -> None:
    with pytest.raises(ValueError, match="no canonical JSON"):
        canonical_json({"x": 2**53 + 1})


def test_round_trip(tmp_path: Path) -> None:
    record = make_record(config={"note": "Größe ½ 日本", "x": 0.1 + 0.2, "none": None})
    path = tmp_path / "new" / "folders" / "record.json"
    write_record(path, record)
    assert read_record(path) == record
    assert [item.name for item in path.parent.iterdir()] == ["record.json"]


def test_the_file_is_canonical_and_its_digest_covers_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, make_record())
    data = path.read_bytes()
    content = json.loads(data)
    assert data == canonical_json(content) + b"\n"
    stated = content.pop("digest")
    assert stated == hashlib.sha256(canonical_json(content)).hexdigest()
    assert stated == record_digest(make_record())


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", make_record())
    write_record(tmp_path / "b.json", make_record())
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_an_edited_number_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, make_record(training_return=90.0))
    text = path.read_text(encoding="utf-8")
    assert text.count('"training_return":90,') == 1
    path.write_text(text.replace('"training_return":90,', '"training_return":99,'))
    with pytest.raises(RecordError, match="was changed after it was written"):
        read_record(path)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_another_spelling_of_the_same_content_is_an_edit(tmp_path: Path, fixture: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(fixture.read_text()), indent=2))
    with pytest.raises(RecordError, match="not spelled the one way"):
        read_record(path)


@pytest.mark.parametrize(
    "content",
    [{}, {"a": 1}, {"z": 1}, {"a": 1, "z": {"digest": "0" * 64}}, {"a": {"digest": "0" * 64}}],
    ids=str,
)
def test_the_digest_is_that_of_the_rest_wherever_it_stands(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    path, digest = tmp_path / "a.json", hashlib.sha256(canonical_json(content)).hexdigest()
    path.write_bytes(sealed(content))
    assert read_sealed(path) == (content, digest)
    for other in ("0" * 64, 7, [digest], {"digest": digest}):
        path.write_bytes(canonical_json({**content, "digest": other}) + b"\n")
        with pytest.raises(RecordError, match="was changed after it was written: its digest is"):
            read_sealed(path)
    path.write_bytes(canonical_json(content) + b"\n")
    with pytest.raises(RecordError, match="has no digest"):
        read_sealed(path)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_every_single_byte_edit_is_noticed(tmp_path: Path, fixture: Path) -> None:
    original = fixture.read_bytes()
    path = tmp_path / "record.json"
    generator = np.random.default_rng(zlib.crc32(fixture.name.encode()))
    for edit in range(1_000 // len(FIXTURES) + 1):
        data = bytearray(original)
        place = int(generator.integers(len(data)))
        kind = edit % 3
        if kind == 0:
            data[place] ^= int(generator.integers(1, 256))
        elif kind == 1:
            del data[place]
        else:
            data.insert(place, int(generator.integers(256)))
        path.write_bytes(data)
        with pytest.raises(RecordError):
            read_record(path)


def test_the_fixtures_cover_every_schema() -> None:
    versions = {json.loads(path.read_text())["schema_version"] for path in FIXTURES}
    assert versions == set(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_records_of_every_released_schema_load(fixture: Path) -> None:
    stored = read_stored_record(fixture)
    content = json.loads(fixture.read_text())
    assert stored.digest == content["digest"]
    assert stored.record.schema_version == SCHEMA_VERSION
    assert stored.record.seed == content["seed"]
    kept = stored.record.model_dump(mode="json")
    changed = {"digest", "schema_version", "hardware"}
    assert {name: kept[name] for name in content if name not in changed} == {
        name: value for name, value in content.items() if name not in changed
    }
    if content["schema_version"] == 1:
        assert stored.record.suite_digest is stored.record.task_digest is None
        assert stored.record.hardware.instructions is None
        assert stored.record.controller == "shared"


def test_an_old_run_scored_on_train_bodies_alone_was_of_a_single_robot_controller() -> None:
    content = json.loads((RECORDS / "v1-smoke.json").read_text())
    content["returns"] = [item for item in content["returns"] if item["split"] == "train"]
    assert store._upgrade_v1(content)["controller"] == "single_robot"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not readable JSON"),
        (b'{"a": 1', "is not readable JSON"),
        (b"\xff\xfe", "is not readable JSON"),
        (b"[" * 100_000, "is not readable JSON"),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "nested more than 64 levels deep; make them"),
        (b'{"a":' + b"[" * 63 + b"]" * 63 + b"}", "has schema_version None"),
        (b'{"a": 1, "a": 2}', "a key is given twice"),
        (b"[1]", "must hold a JSON object, got a list"),
        (b"{}", "has schema_version None, but this gmc-bench reads 1, 2; update"),
        (b'{"schema_version": 3}', "has schema_version 3, but this gmc-bench reads 1, 2"),
        (b'{"schema_version": true}', "has schema_version True"),
        (b'{"schema_version": [1]}', r"has schema_version \[1\]"),
        (b'{"schema_version": 1}', "has no digest"),
        (b'{"schema_version": 1, "digest": 5}', "its digest is 5 but"),
        (
            b'{"schema_version": 1, "digest": "0", "x": NaN}',
            "what no file with a digest can: ",
        ),
        (
            b'{"schema_version": 2, "x": 1' + b"0" * 400 + b"}",
            "what no file with a digest can: ",
        ),
        (
            b'{"schema_version": 1, "digest": "0", "x": 1e999}',
            "what no file with a digest can: ",
        ),
        (b'{"schema_version": 1, "digest": "0", "x": "\\ud800"}', "with a digest can: "),
    ],
)
def test_refuses_what_is_no_record(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(data)
    with pytest.raises(RecordError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


def test_refuses_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="No such file"):
        read_record(tmp_path / "record.json")
    with pytest.raises(RecordError, match="cannot read "):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "field 'seed' is invalid: .*greater than or equal to 0"),
        ({"score": 1}, "field 'score' is invalid: Extra inputs"),
        ({"official": False}, "fields contradict each other: .*unofficial_reasons is empty"),
    ],
)
def test_names_the_invalid_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_record(_forge(tmp_path / "record.json", **changes))


def test_names_an_invalid_field_deep_inside(tmp_path: Path) -> None:
    returns = [item.model_dump(mode="json") for item in make_record().returns]
    returns[1]["episodes"] = []
    with pytest.raises(RecordError, match=r"field 'returns\.1\.episodes' is invalid"):
        read_record(_forge(tmp_path / "record.json", returns=returns))


def _full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_record(path, make_record(seed=1))
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", _full_disk)
    with pytest.raises(StorageError, match=r"cannot write .*No space left on device; free"):
        write_record(path, make_record(seed=2))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_on_disk_with_all_its_content_when_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "x", []

    def note(handle: int) -> None:
        found = os.fstat(handle)
        synced.append((found.st_ino, found.st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    write_atomic(path, b"data")
    assert (path.stat().st_ino, 4, False) in synced


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "x", b"data")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        write_record(tmp_path / "file" / "record.json", make_record())
    (tmp_path / "record.json").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        write_record(tmp_path / "record.json", make_record())
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "record.json"]


def test_reads_records_below_a_folder(tmp_path: Path) -> None:
    write_record(tmp_path / "run-b" / "record.json", make_record(seed=1))
    write_record(tmp_path / "run-a" / "record.json", make_record(seed=2))
    write_record(tmp_path / "results" / "unimal-v1" / "demo" / "0.json", make_record(seed=3))
    (tmp_path / "run-a" / "config.json").write_text("{}")
    (tmp_path / "run-c").mkdir()
    (tmp_path / "run-c" / "record.json").write_text("{")
    _forge(tmp_path / "results" / "bad.json", seed=-1)

    found = read_records(tmp_path)

    assert [(item.path, item.record.seed) for item in found.records] == [
        ("results/unimal-v1/demo/0.json", 3),
        ("run-a/record.json", 2),
        ("run-b/record.json", 1),
    ]
    assert [item.path for item in found.refused] == ["results/bad.json", "run-c/record.json"]
    assert found.refused[0].reason.startswith("it is not a valid record: field 'seed' is invalid")
    assert found.refused[1].reason.startswith("it is not readable JSON")
    assert str(tmp_path) not in "".join(item.reason for item in found.refused)


def test_every_json_file_of_a_results_folder_is_a_record(tmp_path: Path) -> None:
    write_record(tmp_path / "results" / "demo" / "0.json", make_record())
    assert len(read_records(tmp_path / "results").records) == 1
    assert len(read_records(tmp_path / "results" / "demo").records) == 0
    (tmp_path / LEDGER_NAME).touch()  # a leaderboard
    assert len(read_records(tmp_path / "results" / "demo").records) == 1


def test_an_empty_folder_has_no_records_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert read_records(tmp_path) == ([], [])
    with pytest.raises(RecordError, match="does not exist"):
        read_records(tmp_path / "absent")


LOOPS = {
    "largest": 0.031, "median": 0.002, "percentile_99_9": 0.02, "largest_angle": 0.0,
    "opened": 3, "samples": 8000,
}  # fmt: skip


def test_only_records_of_bodies_with_loops_say_so(tmp_path: Path) -> None:
    content = make_record().model_dump(mode="json")
    assert "loops_opened" not in content
    assert not any("loops" in item for item in content["returns"])
    returns = [{**item, "loops": LOOPS} for item in content["returns"][:1]]
    returns += content["returns"][1:]
    record = make_record(returns=returns, loops_opened=7)
    write_record(tmp_path / "record.json", record)
    found = read_record(tmp_path / "record.json")
    assert found == record
    assert found.loops_opened == 7
    assert found.returns[0].loops is not None
    assert found.returns[0].loops.opened == 3
    assert found.returns[1].loops is None
    assert record_digest(record) != record_digest(make_record())


def test_only_records_of_suites_that_measure_frictions_hold_them(tmp_path: Path) -> None:
    assert "friction" not in make_record().model_dump(mode="json")
    record = make_record(friction=make_friction())
    write_record(tmp_path / "record.json", record)
    found = read_record(tmp_path / "record.json")
    assert found == record
    assert found.friction is not None
    assert [(item.friction, item.robot) for item in found.friction] == [
        ("low", "robot-1"), ("low", "robot-2"), ("high", "robot-1"), ("high", "robot-2"),
    ]  # fmt: skip
    assert found.friction[1].restarts["fall_rate"] is None
    assert record_digest(record) != record_digest(make_record())
    with pytest.raises(ValidationError, match="lists a robot twice on one friction"):
        make_record(friction=[*make_friction(), make_friction()[0]])


def test_a_summary_tells_means_over_robots_on_each_friction() -> None:
    assert command_tables(make_record()) == []
    ((headings, rows),) = command_tables(make_record(friction=make_friction()))
    assert headings[0] == "friction"
    assert rows == [
        ["low", "1.50", "3.00", "3.00", "-"],
        ["high", "15.00", "30.00", "3.00", "-"],
    ]


def test_straight_ahead_and_other_directions_are_told_apart() -> None:
    straight = make_friction()
    turns = [
        {**item, "direction": "turn-left", "restarts": {**item["restarts"], "turn_rmse": 0.5}}
        for item in make_friction()[2:]
    ]
    record = make_record(friction=[*straight, *turns])
    frictions, (headings, rows) = command_tables(record)
    assert [row[0] for row in frictions[1]] == ["low", "high"]
    assert headings == ("direction", *DIRECTION_METRICS)
    assert rows == [["forward", "15.00", "-", "-"], ["turn-left", "15.00", "0.50", "-"]]
    content = record.model_dump(mode="json")["friction"]
    assert ["direction" in item for item in content] == [False] * 4 + [True] * 2


def test_large_numbers_of_other_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    """RFC 8785 spells 1e17 without a point; only records of the first schema had integers so."""
    content = {"schema_version": 1, "max_seconds": 1e17}
    (tmp_path / "scaling.json").write_bytes(sealed(content))
    assert read_sealed(tmp_path / "scaling.json")[0] == content
