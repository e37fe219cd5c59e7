"""The rules of a leaderboard: each refuses under its name, and then nothing is written."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gmc_bench.core.errors import CheckpointError, RecordError
from gmc_bench.leaderboard import submission
from gmc_bench.leaderboard.board import read_board
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.leaderboard.submission import (
    POLICY,
    RULES,
    Rules,
    Submission,
    SubmissionError,
    add,
    read_finished_run,
)
from gmc_bench.records.ledger import Kind, append, read_ledger
from gmc_bench.records.schema import TunedSettings
from gmc_bench.records.signature import signature_file
from gmc_bench.records.store import LEDGER_NAME, RECORD_NAME, read_record, write_record
from gmc_bench.records.weights import MAX_MIB, weights_name
from gmc_bench.robots.friction import FrictionPair
from gmc_bench.suites.measured import FrictionMeasurement
from tests.support.records import (
    AFTER_TUNING,
    UNTRAINED,
    digest_of,
    make_friction,
    make_record,
    make_returns,
)

SEEDS = (1, 2, 3)
CONFIG: dict[str, Any] = {
    "method": "demo",
    "protocol": {"env_steps": 2000, "seeds": list(SEEDS)},
    "suite": "unimal-v1",
}
TRAIN = make_returns("train", {"a": [50.0, 150.0], "b": [200.0, 210.0]})
TEST = make_returns("test", {"b": [180.0, 1.0], "c": [10.0, 30.0], "d": [40.0, 2.0]}, seen={"b"})
INSTALLED = Rules(
    task=str(make_record().task_digest),
    protocol=make_record().protocol_digest,
    suite=digest_of("suite"),
    method_version=1,
    controller="shared",
    config=CONFIG,
    seeds=SEEDS,
    env_steps=2000,
    steps_per_iteration=1000,
    episodes=2,
    parts=(("train", "deterministic"), ("test", "deterministic")),
    friction=None,
)


def _run(folder: Path, seed: int, rules: Rules | None = INSTALLED, **changes: Any) -> Submission:
    """Make a run folder; its weights are a text that depends on method and seed."""
    weights = f"weights {changes.get('method', 'demo')} {seed}"
    fields = {
        "seed": seed,
        "protocol_seeds": SEEDS,
        "config": CONFIG,
        "returns": TRAIN + TEST,
        "weights_digest": digest_of(weights),
    }
    write_record(folder / RECORD_NAME, make_record(**{**fields, **changes}))
    (folder / POLICY).write_text(weights)
    return Submission(
        folder, read_finished_run(folder), rules, lambda: b"acting " + weights.encode()
    )


def _contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def runs(tmp_path: Path) -> list[Submission]:
    return [_run(tmp_path / "runs" / str(seed), seed) for seed in SEEDS]


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Return a leaderboard with a row of another method."""
    root = tmp_path / "board"
    add([_run(tmp_path / "old" / str(s), s, method="old") for s in SEEDS], root)
    return root


def _refuse(submissions: list[Submission], root: Path, rule: str, *words: str) -> str:
    """Add runs, which must be refused, and return the sentence."""
    before = _contents(root)
    with pytest.raises(SubmissionError) as caught:
        add(submissions, root)
    assert _contents(root) == before
    sentence = str(caught.value)
    assert f"is refused by the rule '{rule}' ({RULES[rule]}): " in sentence
    assert sentence.endswith("; nothing was added")
    assert "\n" not in sentence
    for word in words:
        assert word in sentence
    assert caught.value.exit_code == 2
    return sentence


def test_all_seeds_in_one_command(board: Path, runs: list[Submission]) -> None:
    written = add(runs, board)
    assert [path.read_bytes() for path in written] == [
        (item.folder / RECORD_NAME).read_bytes() for item in runs
    ]
    assert [path.relative_to(board).as_posix() for path in written] == [
        f"results/unimal-v1/unimal-ft-v1/demo/lite-demo-set-v1-seed{item.record.seed}-"
        f"{item.stored.digest[:16]}.json"
        for item in runs
    ]
    entries = read_ledger(board / LEDGER_NAME).entries
    assert [entry.kind for entry in entries] == ["weights", "record"] * 6
    assert [board / entry.path for entry in entries[7::2]] == written
    assert [entry.digest for entry in entries[7::2]] == [item.stored.digest for item in runs]
    found = read_board(board)
    for item, entry in zip(runs, entries[6::2], strict=True):
        kept = found.weights[str(item.record.weights_digest)]
        assert kept.read() == (board / entry.path).read_bytes() == item.weights()
        assert entry.path == f"weights/{item.record.weights_digest}.safetensors"
    assert [item.record.method for item in found.records] == ["old"] * 3 + ["demo"] * 3
    assert (found.refused, found.verified) == ((), frozenset())


def test_a_new_leaderboard_is_made(tmp_path: Path, runs: list[Submission]) -> None:
    root = tmp_path / "new" / "board"
    assert len(add(runs, root)) == 3
    assert read_board(root).length == 6


def test_further_seeds_of_a_complete_row(tmp_path: Path) -> None:
    root = tmp_path / "board"
    # A protocol that leaves its seeds open asks for those that are given.
    open_seeds = {"protocol_seeds": (), "rules": _with(seeds=())}
    add([_run(tmp_path / "7", 7, method="open", **open_seeds)], root)
    add([_run(tmp_path / "8", 8, method="open", **open_seeds)], root)
    assert [item.record.seed for item in read_board(root).records] == [7, 8]


def _with(**changes: Any) -> Rules:
    return Rules(**{**vars(INSTALLED), **changes})


MEASURED = FrictionMeasurement(
    num_envs=2,
    seconds=4.0,
    forward=0.5,
    pairs={"low": FrictionPair(static=0.3, dynamic=0.2)},
    direction_pair="low",
    directions={"left": (0.0, 0.3, 0.0)},
)


def _measured(**changes: Any) -> list[dict[str, Any]]:
    """Return the frictions of the train bodies under `MEASURED`, with changes of the first."""
    found = [
        {
            **make_friction()[0],
            **{"num_envs": MEASURED.num_envs, "seconds": MEASURED.seconds},
            **{"robot": item.body, "robot_digest": item.body_digest},
            **{"direction": direction, "command": command},
        }
        for _, direction, command in MEASURED.conditions
        for item in TRAIN
    ]
    return [{**found[0], **changes}, *found[1:]]


@pytest.mark.parametrize(
    ("friction", "problem"),
    [
        (_measured()[1:], "1 of 4 results on friction are missing"),
        (None, "4 of 4 results on friction are missing"),
        (_measured(robot="go1"), "1 of 4 results on friction are missing"),
        (_measured(num_envs=1), "a on friction 'low' was measured in another way"),
        (_measured(seconds=3.7), "a on friction 'low' was measured in another way"),
        (_measured(static=0.9), "a on friction 'low' was measured in another way"),
        (_measured(dynamic=0.1), "a on friction 'low' was measured in another way"),
        (_measured(rule="static"), "a on friction 'low' was measured in another way"),
        (_measured(heading="free"), "a on friction 'low' was measured in another way"),
        (_measured(command=[1.0, 0.0, 0.0]), "a on friction 'low' was measured in another way"),
        (_measured(robot_origin="mine.xml"), "a on friction 'low' was measured in another way"),
        (_measured(robot_digest="1" * 64), "a on friction 'low' was measured in another way"),
    ],
)
def test_frictions_are_those_that_the_suite_measures(
    tmp_path: Path, friction: list[dict[str, Any]] | None, problem: str
) -> None:
    item = _run(tmp_path / "run", 1, _with(friction=MEASURED), friction=friction)
    with pytest.raises(SubmissionError, match="refused by the rule 'complete'") as caught:
        add([item], tmp_path / "board")
    assert problem in str(caught.value)


def test_frictions_that_the_suite_does_not_measure_are_refused(tmp_path: Path) -> None:
    # In whole control steps a measurement may last a little less than its rule asks for.
    item = _run(tmp_path / "whole", 1, _with(friction=MEASURED), friction=_measured(seconds=3.9))
    add([item], tmp_path / "measured")
    with pytest.raises(SubmissionError, match="frictions, which its suite does not measure"):
        add([_run(tmp_path / "run", 1, friction=_measured())], tmp_path / "board")


def test_no_action_on_two_tasks_has_one_file_of_weights(tmp_path: Path) -> None:
    """Nothing acts on either; only the description of the observations differs."""
    root, digest = tmp_path / "board", digest_of("nothing")
    for method in ("here", "there"):
        item = _run(tmp_path / method, 1, method=method, weights_digest=digest, **UNTRAINED)
        (item.folder / POLICY).write_text("nothing")
        rules = _with(env_steps=0, config=UNTRAINED["config"])
        add([replace(item, rules=rules, weights=method.encode)], root)
    assert len(read_board(root).records) == 2
    assert read_board(root).weights[digest].read() == b"here"


def test_every_file_is_there_before_its_line_in_the_ledger(
    tmp_path: Path, runs: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a kill in between leaves a file that is refused, and no line without its file."""
    there = []

    def note(ledger: Path, kind: Kind, file: str, digest: str) -> None:
        there.append((kind, (ledger.parent / file).is_file()))
        append(ledger, kind, file, digest)

    monkeypatch.setattr(submission, "append", note)
    monkeypatch.setattr(submission, "missing_signature", lambda *_: "")
    signature_file(runs[0].folder / RECORD_NAME).write_text("signed")
    add(runs[:1], tmp_path / "board")
    assert there == [("weights", True), ("record", True), ("signature", True)]


def test_what_was_left_out_of_an_interrupted_command_can_be_added(
    board: Path, runs: list[Submission]
) -> None:
    add(runs, board)
    # As if the command had been killed between the second run's weights and its record.
    ledger = board / LEDGER_NAME
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:9]))
    assert len(read_board(board).refused) == 3
    _refuse(runs, board, "duplicate")
    assert len(add(runs[1:], board)) == 2
    assert read_board(board).refused == ()


def test_installed_rules_are_those_of_the_kind_of_run() -> None:
    record = make_record(method="recmorph")
    plain, tuned = installed_rules(record), installed_rules(record, tuned=True)
    assert plain is not None
    assert tuned is not None
    # The protocol's own values are official, too; a record says whether it has them.
    assert (plain.tuning, plain.config == tuned.config) == (None, False)
    assert tuned.tuning is not None
    assert installed_rules(make_record(method="recmorph", **AFTER_TUNING)) == tuned
    assert (plain.controller, {split for split, _ in plain.parts}) == ("shared", {"train", "test"})
    first = installed_rules(make_record(method="recmorph", **UNTRAINED))
    assert first is not None
    assert (first.env_steps, plain.env_steps) == (0, 488 * 4096)  # of 2,000,000
    alone = installed_rules(make_record(method="mlp"))
    assert alone is not None
    assert (alone.controller, {split for split, _ in alone.parts}) == ("single_robot", {"train"})
    assert installed_rules(make_record(method="elsewhere")) is None


def test_adding_again_is_refused(board: Path, runs: list[Submission]) -> None:
    add(runs, board)
    for again in (runs, runs[1:2]):
        _refuse(again, board, "duplicate", "is of the same method and seed")


def test_a_better_run_of_the_same_seed_is_refused(
    tmp_path: Path, board: Path, runs: list[Submission]
) -> None:
    add(runs, board)
    better = make_returns("test", {"b": [1e4] * 2, "c": [1e4] * 2, "d": [1e4] * 2}, seen={"b"})
    other = _run(tmp_path / "better", 2, returns=TRAIN + better)
    _refuse([other], board, "duplicate", "is of the same method and seed")


def test_two_runs_of_one_seed_in_one_command(
    tmp_path: Path, board: Path, runs: list[Submission]
) -> None:
    twin = _run(tmp_path / "twin", 2, created="2025-02-01T00:00:00Z")
    _refuse([*runs, twin], board, "duplicate", "twin", "is of the same method and seed")
    _refuse([*runs, runs[0]], board, "duplicate", "is of the same method and seed")


def test_one_training_under_several_seeds(
    tmp_path: Path, board: Path, runs: list[Submission]
) -> None:
    best = _run(tmp_path / "best", 3, weights_digest=digest_of("weights demo 1"))
    (best.folder / POLICY).write_text("weights demo 1")
    _refuse([*runs[:2], best], board, "duplicate", "has the same weights")
    stolen = _run(tmp_path / "stolen", 3, weights_digest=digest_of("weights old 1"))
    (stolen.folder / POLICY).write_text("weights old 1")
    _refuse([*runs[:2], stolen], board, "duplicate", "has the same weights")


def test_missing_seeds_are_named(board: Path, runs: list[Submission]) -> None:
    _refuse(runs[2:], board, "missing-seeds", "no run for seed 1, 2; add it before or with this")
    _refuse([runs[0], runs[2]], board, "missing-seeds", "no run for seed 2;")
    _refuse([runs[1]], board, "missing-seeds", "no run for seed 1; add")
    add(runs[:1], board)
    _refuse(runs[2:], board, "missing-seeds", "no run for seed 2;")
    add(runs[1:], board)


def test_other_settings_or_bodies_do_not_fill_a_row(
    tmp_path: Path, board: Path, runs: list[Submission]
) -> None:
    config = {**CONFIG, "suite": "other"}
    other = _run(tmp_path / "other", 3, config=config, rules=_with(config=config))
    _refuse([*runs[:2], other], board, "missing-seeds", "no run for seed 1, 2")
    bodies = {**make_record().morphologies.model_dump(), "digest": digest_of("other set")}
    other = _run(tmp_path / "bodies", 3, morphologies=bodies)
    _refuse([*runs[:2], other], board, "missing-seeds", "no run for seed 1, 2")


def test_a_version_of_a_method_is_tuned_once(tmp_path: Path, board: Path) -> None:
    def tuned(
        name: str, seed: int, rate: float, version: int = 1, preset: str = "lite", **more: Any
    ) -> Submission:
        config = {**CONFIG, "ppo": {"lr": rate}, "preset": preset, **more.pop("config", {})}
        kept = {**AFTER_TUNING["tuning"], "settings": {"ppo.lr": rate}}
        kept_here = TunedSettings.model_validate(kept)
        steps = more.get("env_steps", INSTALLED.env_steps)
        rules = _with(config=config, method_version=version, tuning=kept_here, env_steps=steps)
        changes = {"tuning": kept, "config": config, "method_version": version, "rules": rules}
        changes |= {"preset": preset, **more}
        weights = {"weights_digest": digest_of(f"weights {name}")}
        run = _run(tmp_path / name, seed, **changes, **weights)
        (run.folder / POLICY).write_text(f"weights {name}")
        return run

    first, again = tuned("first", 1, 0.002), tuned("again", 1, 0.003)
    _refuse([first, again], board, "tuned-once", str(first.folder), "raise the method's version")
    add([first, _run(tmp_path / "untuned", 1)], board)
    _refuse([again], board, "tuned-once", "of version 1 has other ones")
    add([tuned("second", 2, 0.002), tuned("raised", 1, 0.003, version=2)], board)
    add([tuned("large", 1, 0.003, preset="paper")], board)  # another network
    add([tuned("floor", 1, 0.003, **UNTRAINED)], board)  # initial weights have no use for them
    add([tuned("third", 3, 0.002)], board)


INCOMPLETE = {"status": "incomplete", "env_steps": 1000, "env_steps_per_s": 100.0}
UNOFFICIAL = {"official": False, "unofficial_reasons": ("the protocol's env_steps was changed",)}
COMMIT = "a" * 40
HARD_BODY_SEEN = make_returns(
    "test", {"b": [180.0] * 2, "c": [10.0] * 2, "d": [40.0] * 2}, seen={"b", "c"}
)
END = make_record().learning_curve[-1].model_dump()
LONGER = {**CONFIG, "protocol": {**CONFIG["protocol"], "env_steps": 9000}}

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "complete",
        {**INCOMPLETE, **UNOFFICIAL, "learning_curve": ()},
        "1000 of 2000 steps were trained",
    ),
    ("complete", {"returns": TRAIN + TEST[:2]}, "not every test body was scored"),
    ("complete", {"returns": TRAIN[:1] + TEST}, "1 of 2 bodies were scored in train"),
    (
        "complete",
        {"returns": (*TRAIN, *TEST[:2], *make_returns("test", {"d": [40.0]}))},
        "1 of 2 episodes of test body 'd' are there",
    ),
    (
        "complete",
        {"returns": (*TRAIN, *TEST[:2], *make_returns("test", {"d": [40.0] * 9}))},
        "9 of 2 episodes of test body 'd' are there",
    ),
    (
        "complete",
        {"returns": TRAIN + HARD_BODY_SEEN},
        "seen_in_train of test body 'c' contradicts its body_digest",
    ),
    ("official", UNOFFICIAL, "the protocol's env_steps was changed"),
    ("official", {"config": LONGER}, "config.protocol.env_steps differ from an official run's"),
    ("official", {"config": {**CONFIG, "lr": 1}}, "config.lr differ from an official run's"),
    (
        "official",
        {"config": {"suite": {"id": "unimal-v1"}, "protocol": CONFIG["protocol"]}},
        "config.method, config.suite differ from an official run's",
    ),
    ("official", {"protocol_seeds": (1,)}, "protocol_seeds differ from an official run's"),
    ("official", {"protocol_seeds": ()}, "protocol_seeds differ from an official run's"),
    ("official", {"suite_digest": "0" * 64}, "suite_digest differ from an official run's"),
    ("official", {"tuning": AFTER_TUNING["tuning"]}, "tuning differ from an official run's"),
    ("official", {"env_steps_planned": 1000}, "env_steps_planned differ from an official run's"),
    (
        "official",
        {
            "env_steps": 3000,
            "env_steps_per_s": 300.0,
            "learning_curve": [{**END, "env_steps": 3000}],
        },
        "env_steps differ from an official run's",
    ),
    ("official", {"learning_curve": [END]}, "has 1 points; an official run has one every 1000 env"),
    (
        "official",
        {"learning_curve": [{**END, "env_steps": 900}, END]},
        "has 2 points; an official run has one every 1000 env",
    ),
    (
        "registered-method",
        {"config": {**CONFIG, "method": "mine.py:SPEC", "method_source_digest": "f" * 64}},
        "the method was given as mine.py:SPEC",
    ),
    ("registered-method", {"method_version": 2}, "version 2 of it was run, 1 is installed"),
    (
        "registered-method",
        {"controller": "single_robot", "returns": TRAIN},
        "it is shared, the record says single_robot",
    ),
    ("clean-commit", {"git_commit": COMMIT, "git_dirty": True}, f"differed from commit {COMMIT}"),
    (
        "clean-commit",
        {"git_commit": None, "git_dirty": None},
        "it states no commit; run again in a",
    ),
    ("not-in-future", {"created": "2999-01-31T23:59:59Z"}, "it says 2999-01-31T23:59:59Z, and"),
    ("current-rules", {"task_digest": None}, "the installed version has another task; run again"),
    ("current-rules", {"task_digest": digest_of("old")}, "has another task; run again"),
    ("current-rules", {"protocol_digest": digest_of("old")}, "has another protocol; run again"),
    ("current-rules", {"rules": None}, "protocol lite of unimal-v1 is not installed"),
    ("weights", {"weights_digest": digest_of("swapped")}, "is missing or has another digest"),
]


@pytest.mark.parametrize(("rule", "changes", "reason"), BROKEN, ids=[case[2] for case in BROKEN])
def test_a_broken_rule(
    tmp_path: Path,
    board: Path,
    runs: list[Submission],
    rule: str,
    changes: dict[str, Any],
    reason: str,
) -> None:
    bad = _run(tmp_path / "bad", 1, **changes)
    assert str(bad.folder) in _refuse([*runs[1:], bad], board, rule, reason)


@pytest.mark.parametrize(("hours", "refused"), [(-1, False), (23, False), (25, True)])
def test_clocks_may_differ_by_a_day(
    tmp_path: Path, board: Path, hours: int, *, refused: bool
) -> None:
    made = datetime.now(UTC) + timedelta(hours=hours)
    run = _run(tmp_path / "run", 1, created=made.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if refused:
        _refuse([run], board, "not-in-future", "set the clock that is wrong")
    else:
        add([run], board)


def test_every_rule_was_broken_here() -> None:
    of_several_runs = {"duplicate", "tuned-once", "missing-seeds"}  # in tests of their own above
    signed = {"signature"}  # with the verb
    assert {rule for rule, _, _ in BROKEN} == set(RULES) - of_several_runs - signed


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("weights demo 2")])
def test_a_checkpoint_that_is_gone_or_of_another_run(
    board: Path, runs: list[Submission], change: Callable[[Path], Any]
) -> None:
    change(runs[0].folder / POLICY)
    _refuse(runs, board, "weights", str(runs[0].folder / POLICY))


def test_a_single_robot_reference(tmp_path: Path, board: Path) -> None:
    rules = _with(controller="single_robot", parts=(("train", "deterministic"),))
    changes = {"method": "mlp", "controller": "single_robot", "returns": TRAIN, "rules": rules}
    runs = [_run(tmp_path / str(seed), seed, **changes) for seed in SEEDS]
    # It has no place that somebody could doubt, so weights that are too large stay away.
    large = replace(runs[2], weights=lambda: bytes(MAX_MIB * 2**20 + 1))
    just = replace(runs[1], weights=lambda: bytes(MAX_MIB * 2**20))
    assert len(add([runs[0], just, large], board)) == 3
    found = read_board(board)
    assert len(found.weights[str(just.record.weights_digest)].read()) == MAX_MIB * 2**20
    assert len(found.weights) == len(found.records) - 1


def test_weights_that_the_leaderboard_cannot_keep(board: Path, runs: list[Submission]) -> None:
    large = replace(runs[2], weights=lambda: bytes((MAX_MIB + 1) * 2**20))
    _refuse([*runs[:2], large], board, "weights", f"what acts of its weights takes {MAX_MIB + 1}.0")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Path.unlink, r"lists weights/\w+\.safetensors, which is missing; restore the file"),
        (
            lambda path: path.write_bytes(b"other"),
            r"another file than the one .*; restore the file",
        ),
    ],
)
def test_kept_weights_that_are_gone_or_changed(
    board: Path, change: Callable[[Path], Any], reason: str
) -> None:
    kept = next(iter(read_board(board).weights.values()))
    change(kept.path)
    with pytest.raises(RecordError, match=reason) as caught:
        read_board(board)
    assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError, match="restore the file"):
        kept.read()


def test_weights_that_no_line_lists_are_shown(board: Path) -> None:
    (board / weights_name("0" * 64)).write_bytes(b"mine")
    (refused,) = read_board(board).refused
    assert refused.path == weights_name("0" * 64)
    assert "it is not in the ledger" in refused.reason


def test_a_folder_of_runs_is_not_made_a_leaderboard(tmp_path: Path, runs: list[Submission]) -> None:
    before = _contents(tmp_path / "runs")
    # Its runs would no longer count, because no ledger lists them.
    with pytest.raises(RecordError, match="holds records that no ledger lists"):
        add(runs, tmp_path / "runs")
    assert _contents(tmp_path / "runs") == before


def test_a_leaderboard_without_its_ledger_is_not_started_again(
    board: Path, runs: list[Submission]
) -> None:
    (board / LEDGER_NAME).unlink()
    with pytest.raises(RecordError, match=r"restore its ledger\.jsonl"):
        add(runs, board)
    assert not (board / LEDGER_NAME).exists()


def test_a_damaged_leaderboard_takes_nothing(board: Path, runs: list[Submission]) -> None:
    victim = board / read_ledger(board / LEDGER_NAME).entries[0].path
    victim.unlink()
    before = _contents(board)
    with pytest.raises(RecordError, match=re.escape("which is missing; restore the file")):
        add(runs, board)
    assert _contents(board) == before


def test_a_folder_without_a_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"is not the folder of a finished run .*--resume"):
        read_finished_run(tmp_path)
    with pytest.raises(RecordError, match=r"is not the folder of a finished run .* printed$"):
        read_finished_run(tmp_path / "absent")


def test_a_folder_of_several_runs_names_those_that_can_be_added(tmp_path: Path) -> None:
    for name in ("b-seed2", "a-seed1", "begun"):
        (tmp_path / name).mkdir()
        if name != "begun":
            (tmp_path / name / RECORD_NAME).touch()
    expected = r"holds several runs, .* that are finished \(a-seed1, b-seed2\)$"
    with pytest.raises(RecordError, match=expected):
        read_finished_run(tmp_path)


def test_an_edited_record(tmp_path: Path, runs: list[Submission]) -> None:
    path = runs[0].folder / RECORD_NAME
    path.write_bytes(path.read_bytes().replace(b'"episode_return":40', b'"episode_return":90'))
    with pytest.raises(RecordError, match="was changed after it was written"):
        read_finished_run(runs[0].folder)
    assert read_record(runs[1].folder / RECORD_NAME).seed == 2
