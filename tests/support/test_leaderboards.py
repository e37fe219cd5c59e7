"""Made-up runs: equal for equal arguments, and with the effects that the statistics look for."""

import numpy as np
from numpy.testing import assert_array_less

from gmc_bench.records.schema import RunRecord
from tests.support.leaderboards import hostile_texts, synthetic_records


def _scores(record: RunRecord) -> list[float]:
    return [
        item.mean_return for item in record.returns if item.split == "test" and item.seen_in_train
    ] + [item.mean_return for item in record.returns if not item.seen_in_train]


def test_equal_arguments_give_equal_records() -> None:
    assert synthetic_records(2, 2, 5) == synthetic_records(2, 2, 5)


def test_there_is_one_official_record_per_method_and_seed() -> None:
    records = synthetic_records(3, 2, 5)
    assert {(record.method, record.seed) for record in records} == {
        (f"method-0{place}", seed) for place in (1, 2, 3) for seed in (0, 1)
    }
    assert all(record.official for record in records)


def test_better_methods_score_higher() -> None:
    records = synthetic_records(4, 8, 10)
    scores = [record.score("test", "deterministic") or 0.0 for record in records]
    means = np.reshape(scores, (4, 8)).mean(axis=1)
    assert_array_less(means[1:], means[:-1])


def test_all_bodies_share_the_effect_of_a_run() -> None:
    records = synthetic_records(1, 30, 20)
    scores = np.array([_scores(record) for record in records])
    # With independent noise alone the mean over 20 bodies would vary by a twentieth of that.
    normalized = scores / scores.mean(axis=0)
    own = (normalized - normalized.mean(axis=1, keepdims=True)).std()
    assert normalized.mean(axis=1).std() > own


def test_a_reference_has_train_bodies_only() -> None:
    reference = synthetic_records(1, 1, 4, reference=True)[-1]
    assert reference.controller == "single_robot"
    assert {item.split for item in reference.returns} == {"train"}


def test_hostile_texts_are_300_different_ones() -> None:
    texts = hostile_texts()
    assert len(set(texts)) == 300
    assert sum("window.hit" in text for text in texts) > 80
    assert any("\u202e" in text for text in texts)
    assert max(map(len, texts)) > 2000
