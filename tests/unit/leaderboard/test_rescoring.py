"""Kept evaluations, scored again."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import t

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.errors import RecordError
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.leaderboard import rescoring
from gmc_bench.leaderboard.board import Board
from gmc_bench.leaderboard.rescoring import verify_evaluation
from gmc_bench.records.kept import KeptEvaluation
from gmc_bench.records.ledger import BEGINNING
from gmc_bench.records.store import seal
from gmc_bench.records.verification import CONFIDENCE
from tests.support.records import digest_of, make_record, make_returns, make_stored

FOUND = {"even": (9.0, 11.0), "wild": (40.0, 60.0)}
"""Variances 2 and 200 of two episodes; the score is 30."""
ELSEWHERE = {"id": "elsewhere-v1", "digest": digest_of("elsewhere")}
"""Another set that a policy of the same weights was trained on."""


@pytest.fixture
def asked() -> list[tuple[Path, Mapping[str, Any]]]:
    """Collect the records that were opened, and what was asked of their policies."""
    return []


@pytest.fixture
def judge(tmp_path: Path, tiny_set: MorphologySet, monkeypatch: pytest.MonkeyPatch, asked):
    """Return what verifies a kept score, made on a machine, where `FOUND` comes out."""
    bodies = {"id": tiny_set.id, "digest": tiny_set.digest}
    sets = make_record().morphologies.model_dump()
    record, other = (make_record(morphologies={**sets, **named}) for named in (bodies, ELSEWHERE))
    stored = make_stored(other, "other.json"), make_stored(record, "record.json")
    board = Board(stored, (), (), 2, BEGINNING)

    def open_record(path: Path, **_: object) -> SimpleNamespace:
        def evaluate(**options: object) -> SimpleNamespace:
            asked.append((path.relative_to(tmp_path), options))
            config = SimpleNamespace(threads=record.hardware.threads)
            returns = make_returns("test", FOUND)
            return SimpleNamespace(returns=returns, trained=SimpleNamespace(config=config))

        return SimpleNamespace(evaluate=evaluate)

    monkeypatch.setattr(Experiment, "open", open_record)
    monkeypatch.setattr(rescoring, "collect_hardware", lambda threads: record.hardware)
    monkeypatch.setattr(rescoring, "collect_versions", lambda: record.versions)
    fields = ("method", "suite", "task", "protocol", "seed", "weights_digest")

    def verify(score: float, **changes: object) -> rescoring.VerificationOutcome:
        usual = {
            **{name: getattr(record, name) for name in fields},
            "trained_on": bodies, "morphologies": bodies, "split": "test",
            "sensor_dropout": False, "bodies": 2, "episodes": 2, "score": score,
            "versions": record.versions, "hardware": record.hardware,
        }  # fmt: skip
        kept = KeptEvaluation.model_validate({**usual, **changes})
        path = tmp_path / "evaluations" / "e.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(seal(kept))
        return verify_evaluation(path, board, tmp_path)

    return verify


def test_what_was_scored_is_scored_again(judge, asked, tiny_set: MorphologySet) -> None:
    usual = {"bodies": None, "split": "test", "mode": "deterministic", "episodes": 2}
    judge(30.0)
    assert asked.pop() == (Path("record.json"), {**usual, "sensor_dropout": False})
    judge(30.0, split="train", sensor_dropout=True, episodes=5)
    dropout = {**usual, "split": "train", "episodes": 5, "sensor_dropout": True}
    assert asked.pop() == (Path("record.json"), dropout)
    judge(30.0, trained_on=ELSEWHERE)
    ((path, options),) = asked
    assert (path, options["bodies"].digest) == (Path("other.json"), tiny_set.digest)


def test_on_the_machine_that_made_it_the_same_score_comes_out(judge) -> None:
    assert judge(30.0).kind == "verified"
    altered = judge(30.000001)
    assert (altered.kind, altered.text.partition(": ")[2]) == (
        "failed",
        "30.000001 kept, 30.0 found; on the machine and with the software that it states, the "
        "same must come out",
    )


def test_elsewhere_it_is_as_near_as_two_evaluations_are(judge) -> None:
    """By hand: the score's variance is (2 + 200) / 2 / 4 = 25.25, in shares of 1 and 100 of 101.

    So it has 101^2 / (1^2 + 100^2) = 1.02 degrees of freedom, not the 2 of equal variances.
    """
    record = make_record()
    freedom = 101**2 / 10_001
    limit = t.isf((1.0 - CONFIDENCE) / 2.0, freedom) * math.sqrt(2 * 25.25)
    assert limit > 10 * t.isf((1.0 - CONFIDENCE) / 2.0, 2) * math.sqrt(2 * 25.25)
    for made in (
        {"hardware": None},
        {"hardware": record.hardware.model_copy(update={"cpu": "another"})},
        {"versions": {**record.versions, "mujoco": "0.0.1"}},
    ):
        for way in (-1, 1):  # neither better nor worse
            assert judge(30.0 + 0.999 * way * limit, **made).kind == "verified"
            assert judge(30.0 + 1.001 * way * limit, **made).kind == "failed"


def test_scores_of_other_bodies_are_none_of_this_set(judge, asked, tiny_set: MorphologySet) -> None:
    other = {"id": tiny_set.id, "digest": digest_of("other")}
    for changes, said in (
        ({"bodies": 3}, "scores 3 bodies"),
        ({"morphologies": other}, "the hash"),
    ):
        with pytest.raises(RecordError, match=said):
            judge(30.0, **changes)
    assert asked == []
