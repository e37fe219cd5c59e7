"""A leaderboard's folder: what is not exactly what was added is noticed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard import board as boards
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.board import (
    VERIFICATIONS,
    add_verification,
    ranked_part,
    read_board,
    says_something_new,
)
from gmc_bench.leaderboard.build import build, check, open_leaderboard
from gmc_bench.leaderboard.submission import SubmissionError, require_rules
from gmc_bench.records.ledger import BEGINNING, Kind, append, read_ledger
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import (
    LEDGER_NAME,
    read_stored_record,
    seal,
    write_atomic,
    write_record,
)
from gmc_bench.records.verification import Verification, VerifiedFriction, VerifiedPart
from gmc_bench.records.weights import MAX_MIB, weights_name
from tests.support.records import AFTER_TUNING, digest_of, make_record, make_returns, make_stored

pytestmark = pytest.mark.usefixtures("bare_figures")

SEEDS = (0, 1, 2)


def _record(seed: int, **changes: Any) -> RunRecord:
    fields = {"protocol_seeds": SEEDS, "weights_digest": digest_of(f"weights {seed}")}
    return make_record(seed=seed, **{**fields, **changes})


def _name(seed: int) -> str:
    return f"results/demo/{seed}.json"


def _make_board(root: Path) -> Path:
    """Return a leaderboard of one row of three seeds."""
    for seed in SEEDS:
        record = _record(seed)
        write_record(root / _name(seed), record)
        append(root / LEDGER_NAME, "record", _name(seed), make_stored(record).digest)
    return root


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return _make_board(tmp_path / "board")


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory, bare_figures: None) -> Path:
    root = _make_board(tmp_path_factory.mktemp("built"))
    build(root, root)
    assert check(root, root) == []
    return root


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """Return a leaderboard with tables that are up to date."""
    return Path(shutil.copytree(built_once, tmp_path / "board"))


def _verification(record: RunRecord, passed: bool, **changes: Any) -> Verification:
    split, mode = ranked_part(record)
    ranked = [item for item in record.returns if (item.split, item.mode) == (split, mode)]
    episode = {"episode_return": 1.0, "length": 10, "ended": "fell"}
    difference = {
        "split": split,
        "mode": mode,
        "body": ranked[0].body,
        "episode": 1,
        "recorded": episode,
        "found": {**episode, "episode_return": 2.0},
    }
    fields = {
        "record_digest": make_stored(record).digest,
        "weights_digest": record.weights_digest,
        "created": "2025-02-01T00:00:00Z",
        "comparison": "exact",
        "parts": [
            {
                "split": split,
                "mode": mode,
                "episodes": sum(len(item.episodes) for item in ranked),
                "differing": 0 if passed else 1,
                "mean_difference": 0.0,
                "margin": None,
                "passed": passed,
            }
        ],
        "first_difference": None if passed else difference,
        "passed": passed,
        "hardware": record.hardware.model_dump(),
        "versions": record.versions,
        "git_commit": None,
        "git_dirty": None,
    }
    return Verification.model_validate({**fields, **changes})


def _verified(root: Path) -> list[int]:
    found = read_board(root)
    return [item.record.seed for item in found.records if item.digest in found.verified]


def _row_is_verified(root: Path) -> bool:
    found = read_board(root)
    tables, _ = aggregate(found.records, found.verified)
    return tables[0].rows[0].verified


def test_what_the_ledger_lists_counts_in_its_order(board: Path) -> None:
    found = read_board(board)
    assert [item.path for item in found.records] == [_name(seed) for seed in SEEDS]
    assert [item.record for item in found.records] == [_record(seed) for seed in SEEDS]
    ledger = read_ledger(board / LEDGER_NAME)
    assert (found.length, found.head) == (3, ledger.head)
    assert (found.refused, found.verifications) == ((), ())


def test_a_folder_without_a_ledger_is_a_collection(tmp_path: Path) -> None:
    write_record(tmp_path / "run" / "record.json", _record(0))
    found = read_board(tmp_path)
    assert [item.path for item in found.records] == ["run/record.json"]
    assert (found.length, found.head, found.verified) == (0, BEGINNING, frozenset())


@pytest.mark.parametrize("folder", ["weights", "verifications"])
def test_check_names_a_ledger_that_is_missing(built: Path, folder: str) -> None:
    (built / LEDGER_NAME).unlink()
    (built / folder).mkdir()
    expected = rf"holds records that no ledger lists .* restore its {LEDGER_NAME}"
    with pytest.raises(RecordError, match=expected):
        check(built, built)


def test_tables_state_length_and_head(built: Path) -> None:
    head = read_ledger(built / LEDGER_NAME).head
    text = (built / "tables" / "README.md").read_text()
    assert f"The ledger has 3 lines; the last one's SHA-256 is `{head}`." in text


def test_a_cut_off_end_is_noticed_by_check(built: Path) -> None:
    ledger = built / LEDGER_NAME
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    assert built / "tables" / "README.md" in check(built, built)
    # With the record as well, so that nothing unlisted is left.
    (built / _name(2)).unlink()
    assert read_board(built).refused == ()
    assert built / "tables" / "README.md" in check(built, built)


def test_a_cut_off_verification_is_noticed_by_check(built: Path) -> None:
    path = add_verification(built, _verification(_record(0), passed=False))
    build(built, built)
    assert check(built, built) == []
    ledger = built / LEDGER_NAME
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    (left,) = read_board(built).refused
    assert left.path == path.relative_to(built).as_posix()
    assert left.reason.startswith("no line of the ledger lists this verification")
    assert check(built, built) == [built / "tables" / "README.md"]
    build(built, built)  # whoever hides it must hide the file, too
    assert left.path in (built / "tables" / "README.md").read_text()
    path.unlink()
    assert check(built, built) == [built / "tables" / "README.md"]


def test_another_last_line_is_noticed_by_check(built: Path) -> None:
    # Rewriting the end of the chain, record and all, leaves a valid chain with another head.
    record = _record(2, created="2025-06-01T00:00:00Z")
    write_record(built / _name(2), record)
    ledger = built / LEDGER_NAME
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    append(ledger, "record", _name(2), make_stored(record).digest)
    assert read_board(built).length == 3
    assert built / "tables" / "README.md" in check(built, built)


def test_a_lost_ledger_is_noticed_by_check(built: Path) -> None:
    (built / LEDGER_NAME).unlink()
    assert built / "tables" / "README.md" in check(built, built)


def test_an_emptied_ledger(board: Path) -> None:
    (board / LEDGER_NAME).write_bytes(b"")
    with pytest.raises(RecordError, match=r"none of the 3 record files in .* is valid"):
        open_leaderboard(board)


def _remove(path: Path) -> None:
    path.unlink()


def _edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"parameters":1000', b'"parameters":1001'))


def _respell(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()), sort_keys=True))


def _reseal(path: Path) -> None:
    better = make_returns("test", {"b": [180.0], "c": [900.0], "d": [900.0]}, seen={"b"})
    record = read_stored_record(path).record
    write_record(path, record.model_copy(update={"returns": record.returns[:2] + better}))


def _replace_by_sibling(path: Path) -> None:
    path.write_bytes((path.parent / "2.json").read_bytes())


def _turn_into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_verification(path: Path) -> None:
    write_atomic(path, seal(_verification(_record(0), passed=True)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_remove, "lists results/demo/0.json, which is missing; restore the file"),
        (_turn_into_folder, "lists results/demo/0.json, which is missing; restore the file"),
        (_edit, "0.json was changed after it was written"),
        (_respell, "0.json was changed after it was written"),
        (_reseal, "0.json is another file than the one that was added: the ledger expects"),
        (_replace_by_sibling, "0.json is another file than the one that was added: the ledger"),
        (_replace_by_verification, "0.json has schema_version None"),
    ],
)
def test_a_listed_record_that_is_not_what_was_added(
    board: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(board / _name(0))
    with pytest.raises(RecordError) as caught:
        read_board(board)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unlisted_record_is_refused_and_noticed(built: Path) -> None:
    for name in ("results/demo/3.json", "elsewhere/record.json"):
        write_record(built / name, _record(0, method="intruder"))
        found = read_board(built)
        assert [item.path for item in found.refused] == [name]
        assert "it is not in the ledger; add runs with" in found.refused[0].reason
        assert {item.record.method for item in found.records} == {"demo"}
        assert check(built, built) == [built / "tables" / "README.md"]
        (built / name).unlink()
    assert check(built, built) == []


def test_an_unlisted_damaged_file_is_refused(board: Path) -> None:
    (board / "results" / "broken.json").write_text("{")
    assert [item.path for item in read_board(board).refused] == ["results/broken.json"]


def test_a_copy_under_another_name_is_no_second_run(board: Path) -> None:
    (board / "results" / "copy.json").write_bytes(seal(_record(0)))
    digest = make_stored(_record(0)).digest
    append(board / LEDGER_NAME, "record", "results/copy.json", digest)
    found = read_board(board)
    tables, refused = aggregate(found.records, found.verified)
    assert [item.record.seed for item in tables[0].rows[0].runs] == [0, 1, 2]
    assert len(refused) == 1
    assert "is a copy of" in refused[0].reason


@pytest.mark.parametrize(
    "config",
    [{"method": "evil.py:SPEC"}, {"method": "m:SPEC"}, {"method_source_digest": digest_of("text")}],
)
def test_a_record_that_names_code_is_refused_unless_no_ledger_lists_it(
    board: Path, config: dict[str, Any]
) -> None:
    record = _record(3, config=config)
    write_record(board / _name(3), record)
    append(board / LEDGER_NAME, "record", _name(3), make_stored(record).digest)
    with pytest.raises(RecordError, match=r"3\.json names the method .* registered methods only"):
        read_board(board)
    (board / LEDGER_NAME).unlink()  # now it is a folder of runs
    assert len(read_board(board).records) == 4


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"official": False, "unofficial_reasons": ("other steps",)}, "official"),
        ({"git_dirty": True}, "clean-commit"),
        ({"git_commit": None, "git_dirty": None}, "clean-commit"),
        ({"created": "2999-01-01T00:00:00Z"}, "not-in-future"),
        ({"seed": 2}, "duplicate"),
        ({"weights_digest": digest_of("weights 1")}, "duplicate"),
        ({"weights_digest": digest_of("large")}, "weights"),
        ({"seed": 4}, "missing-seeds"),
    ],
)
def test_a_record_that_add_would_refuse_is_refused_by_check(
    board: Path, changes: dict[str, Any], rule: str
) -> None:
    record = _record(**{"seed": 3, **changes})
    write_record(board / _name(3), record)
    append(board / LEDGER_NAME, "record", _name(3), make_stored(record).digest)
    name = weights_name(digest_of("large"))
    write_atomic(board / name, b"0" * (MAX_MIB * 2**20 + 1))
    append(board / LEDGER_NAME, "weights", name, digest_of("0" * (MAX_MIB * 2**20 + 1)))
    with pytest.raises(SubmissionError, match=rf"demo/3\.json is refused by the rule '{rule}'"):
        check(board, board)
    (board / LEDGER_NAME).unlink()
    shutil.rmtree(board / "weights")  # now it is a folder of runs
    assert check(board, board)


def test_a_version_with_two_tunings_is_refused_by_check(board: Path) -> None:
    for seed, rate in enumerate((0.002, 0.003)):
        number = seed + 3
        kept = {**AFTER_TUNING["tuning"], "settings": {"ppo.lr": rate}}
        changes = {
            "config": {**make_record().config, "ppo": {"lr": rate}},
            "tuning": kept,
            "seed": seed,
        }
        record = _record(weights_digest=digest_of(f"tuned {rate}"), **changes)
        write_record(board / _name(number), record)
        append(board / LEDGER_NAME, "record", _name(number), make_stored(record).digest)
        if seed == 0:
            require_rules(read_board(board))
    with pytest.raises(SubmissionError, match=r"4\.json is refused by the rule 'tuned-once'"):
        check(board, board)


def test_a_row_is_verified_when_every_seed_is(board: Path) -> None:
    for seed in SEEDS:
        assert not _row_is_verified(board)
        path = add_verification(board, _verification(_record(seed), passed=True))
        assert path.parent == board / VERIFICATIONS
    assert _verified(board) == [0, 1, 2]
    assert _row_is_verified(board)
    assert [item.verification.passed for item in read_board(board).verifications] == [True] * 3


def test_the_last_verification_decides(board: Path) -> None:
    record = _record(1)
    outcomes = (True, False, True)
    for day, passed in enumerate(outcomes, 1):
        moment = f"2025-02-0{day}T00:00:00Z"
        add_verification(board, _verification(record, passed, created=moment))
        assert _verified(board) == ([1] if passed else [])
    listed = read_board(board).verifications
    assert tuple(item.verification.passed for item in listed) == outcomes


def _friction(passed: bool) -> VerifiedFriction:
    return VerifiedFriction(
        results=32, differing=0 if passed else 1, chance=None,
        first_difference=None if passed else "restarts.progress of go1", passed=passed,
    )  # fmt: skip


def test_less_than_what_failed_does_not_clear_a_failure(board: Path) -> None:
    record = _record(1)
    rank = _verification(record, passed=True)
    failed = rank.model_copy(update={"friction": _friction(False), "passed": False})
    whole = rank.model_copy(update={"friction": _friction(True)})
    states = []
    for verification in (rank, failed, rank, whole, failed, whole):
        number = len(states) + 1
        moment = {"created": f"2025-02-01T00:00:0{number}Z"}
        add_verification(board, verification.model_copy(update=moment))
        states.append(_verified(board))
        # What was told before, and nothing that would clear a failure, is told again.
        assert says_something_new(read_board(board), rank) is False
        assert says_something_new(read_board(board), whole) == (number in (1, 2, 3, 5))
    assert states == [[1], [], [], [1], [], [1]]


def test_a_failure_of_what_does_not_rank_stands_until_it_passes(board: Path) -> None:
    record, ranked = _record(1), _verification(_record(1), passed=True)
    failed = _verification(record, passed=False)
    train = {**NO_RANK, "differing": 1, "passed": False}
    for number, verification in enumerate(
        (ranked, failed.model_copy(update={"parts": (VerifiedPart(**train),)}), ranked)
    ):
        moment = {"created": f"2025-02-01T00:00:0{number}Z"}
        add_verification(board, verification.model_copy(update=moment))
    assert _verified(board) == []
    passed = (*ranked.parts, VerifiedPart(**NO_RANK))
    add_verification(board, ranked.model_copy(update={"parts": passed}))
    assert _verified(board) == [1]


def test_a_verification_is_there_before_its_line_in_the_ledger(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a kill in between leaves a file that does not count, and no line without its file."""
    there = []

    def note(ledger: Path, kind: Kind, file: str, digest: str) -> None:
        there.append((kind, (ledger.parent / file).is_file()))

    monkeypatch.setattr(boards, "append", note)
    add_verification(board, _verification(_record(0), passed=True))
    assert there == [("verification", True)]


def test_the_same_outcome_in_the_same_second_is_there_once(board: Path) -> None:
    verification = _verification(_record(0), passed=True)
    assert add_verification(board, verification) == add_verification(board, verification)
    assert read_board(board).length == 4


NO_RANK = {
    "split": "train",
    "mode": "deterministic",
    "episodes": 3,
    "differing": 0,
    "mean_difference": 0.0,
    "margin": None,
    "passed": True,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"parts": [NO_RANK]},
        {"parts": [{**NO_RANK, "split": "test", "mode": "stochastic"}]},
        {"parts": [{**NO_RANK, "split": "test", "episodes": 1}]},
        {"weights_digest": digest_of("other weights")},
    ],
)
def test_less_than_every_ranked_episode_from_its_weights_does_not_verify(
    board: Path, changes: dict[str, Any]
) -> None:
    add_verification(board, _verification(_record(0), passed=True, **changes))
    assert _verified(board) == []


def test_kept_weights_verify_and_a_pass_that_is_known_says_nothing_new(board: Path) -> None:
    record = _record(0)
    name = weights_name(str(record.weights_digest))
    write_atomic(board / name, b"acting")
    append(board / LEDGER_NAME, "weights", name, digest_of("acting"))
    found = _verification(record, passed=True, weights_digest=digest_of("acting"))
    other = _verification(_record(1), passed=True, weights_digest=digest_of("acting"))
    assert says_something_new(read_board(board), found)
    add_verification(board, found)
    add_verification(board, other)  # run from the weights of another record
    assert _verified(board) == [0]
    again = read_board(board)
    assert not says_something_new(again, found)
    assert says_something_new(again, _verification(record, passed=True, parts=[NO_RANK]))
    assert says_something_new(again, _verification(record, passed=False))
    whole = found.model_copy(update={"friction": _friction(True)})
    assert says_something_new(again, whole)
    add_verification(board, whole)
    assert not says_something_new(read_board(board), whole)
    assert not says_something_new(read_board(board), found)
    assert not says_something_new(again, _verification(_record(5, protocol_seeds=()), passed=False))


def test_a_reference_is_verified_by_its_train_bodies(tmp_path: Path) -> None:
    record = _record(
        0, controller="single_robot", returns=make_returns("train", {"a": [1.0], "b": [2.0]})
    )
    write_record(tmp_path / _name(0), record)
    append(tmp_path / LEDGER_NAME, "record", _name(0), make_stored(record).digest)
    add_verification(tmp_path, _verification(record, passed=True))
    assert _verified(tmp_path) == [0]


def test_a_verification_belongs_to_one_record(board: Path) -> None:
    stranger = _record(5, protocol_seeds=())
    before = (board / LEDGER_NAME).read_bytes()
    with pytest.raises(RecordError, match="does not list the record"):
        add_verification(board, _verification(stranger, passed=True))
    assert (board / LEDGER_NAME).read_bytes() == before
    assert not (board / VERIFICATIONS).exists()


def test_a_folder_of_runs_takes_no_verification(tmp_path: Path) -> None:
    write_record(tmp_path / "run" / "record.json", _record(0))
    verification = _verification(_record(0), passed=True)
    assert not says_something_new(read_board(tmp_path), verification)
    with pytest.raises(RecordError, match="cannot read the ledger"):
        add_verification(tmp_path, verification)
    assert not (tmp_path / LEDGER_NAME).exists()


def test_a_listed_verification_that_is_not_what_was_added(board: Path) -> None:
    path = add_verification(board, _verification(_record(0), passed=False))
    original = path.read_bytes()
    write_atomic(path, seal(_verification(_record(0), passed=True)))
    with pytest.raises(RecordError, match="is another file than the one that was added"):
        read_board(board)
    path.write_bytes(original.replace(b'"passed":false', b'"passed":true'))
    with pytest.raises(RecordError, match="was changed after it was written"):
        read_board(board)
    path.unlink()
    with pytest.raises(RecordError, match="which is missing; restore the file"):
        read_board(board)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("weights", weights_name(digest_of("weights 0"))), ("signature", f"{_name(0)}.minisig")],
)
def test_other_files_of_a_record_are_listed_and_what_was_added(
    board: Path, kind: Kind, name: str
) -> None:
    write_atomic(board / name, b"added")
    assert [item.path for item in read_board(board).refused] == [name]
    append(board / LEDGER_NAME, kind, name, digest_of("added"))
    assert read_board(board).refused == ()
    write_atomic(board / name, b"changed")
    with pytest.raises(RecordError, match=rf"{name} is another file than the one that was added"):
        read_board(board)


def test_an_unlisted_verification_does_not_count(board: Path) -> None:
    path = board / VERIFICATIONS / "mine.json"
    write_atomic(path, seal(_verification(_record(0), passed=True)))
    assert _verified(board) == []
    assert [item.path for item in read_board(board).refused] == ["verifications/mine.json"]


def test_a_listed_file_that_cannot_be_read_is_told_in_a_sentence(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = weights_name(digest_of("weights 0"))
    write_atomic(board / name, b"acting")
    append(board / LEDGER_NAME, "weights", name, digest_of("acting"))
    read = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path == board / name:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    said = rf"cannot read .*{name}, which the ledger lists: Permission denied; restore the file"
    with pytest.raises(RecordError, match=said):
        read_board(board)
    (refused,) = read_board(board, any_weights=True).refused
    assert refused.path == name


def test_a_line_in_the_middle_cannot_be_rewritten_with_its_file(board: Path) -> None:
    _reseal(board / _name(0))
    ledger = board / LEDGER_NAME
    lines = ledger.read_bytes().splitlines(keepends=True)
    old, new = json.loads(lines[0])["digest"], read_stored_record(board / _name(0)).digest
    changed = lines[0].replace(old.encode(), new.encode())
    ledger.write_bytes(changed + b"".join(lines[1:]))
    with pytest.raises(RecordError, match=r"line 2 of the ledger .* does not follow"):
        read_board(board)
