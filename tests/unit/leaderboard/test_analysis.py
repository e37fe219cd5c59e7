from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard.aggregate import ComparisonTable, aggregate
from gmc_bench.leaderboard.analysis import Estimate, RowAnalysis, TableAnalysis, analyse
from gmc_bench.leaderboard.breakdown import break_down
from gmc_bench.leaderboard.caveats import caveats
from gmc_bench.leaderboard.comparison import compare_means
from gmc_bench.leaderboard.stability import Ranking
from gmc_bench.leaderboard.statistics import crossed_mean, iqm, mean, run_interval
from gmc_bench.records.schema import RunRecord
from tests.support.leaderboards import synthetic_records
from tests.support.records import digest_of, make_record, make_returns, make_stored

T_2 = 4.302652729911275  # 97.5 % quantile of Student's t with 2 degrees of freedom


def _table(records: Sequence[RunRecord]) -> ComparisonTable:
    (table,), refused = aggregate(
        make_stored(record, f"{place}.json") for place, record in enumerate(records)
    )
    assert refused == []
    return table


def _analyse(records: Sequence[RunRecord]) -> TableAnalysis:
    return analyse(_table(records))


def _record(
    train: Mapping[str, Sequence[float]],
    test: Mapping[str, Sequence[float]] | None = None,
    **changes: Any,
) -> RunRecord:
    """Return a record of train bodies `a`, `b` and test bodies `b` (seen), `c`, `d`."""
    returns = make_returns("train", train)
    if test is None:
        changes["controller"] = "single_robot"
    else:
        returns += make_returns("test", {"b": [1e9], **test}, seen={"b"})
        # Other ways to choose actions do not count.
        returns += make_returns("test", {"c": [-1e9]}, mode="stochastic")
    return make_record(returns=returns, **changes)


def _shared(c: float, d: float, **changes: Any) -> RunRecord:
    return _record({"b": [4.0], "a": [1.0, 3.0]}, {"d": [d], "c": [c - 1.0, c + 1.0]}, **changes)


def test_scores_are_zero_shot_bodies_by_name_and_runs_by_seed() -> None:
    (row,) = _analyse([_shared(30.0, 40.0, seed=7), _shared(10.0, 20.0, seed=3)]).rows
    assert row.seeds == (3, 7)
    assert row.bodies == ("c", "d")
    assert row.scores.tolist() == [[10.0, 20.0], [30.0, 40.0]]
    assert row.train_bodies == ("a", "b")


def test_one_geometry_stands_for_no_others() -> None:
    train = {"a": [1.0], "b": [1.0]}
    alone = {"num_train": 2, "num_test": 2}
    sets = make_record().morphologies.model_copy(update=alone)
    analysis = _analyse(
        [
            _record(train, {"c": [level + seed]}, method=name, seed=seed, morphologies=sets)
            for name, level in (("far", 100.0), ("near", 10.0))
            for seed in range(3)
        ]
    )
    assert not analysis.bodies_are_sampled
    (pair,) = analysis.comparisons
    assert pair.significant_here
    assert pair.significant
    assert [row.group for row in analysis.rows] == [row.group_here for row in analysis.rows]


def test_statistics_of_a_row_by_hand() -> None:
    records = [_shared(c, d, seed=s) for s, (c, d) in enumerate([(8, 12), (10, 14), (14, 20)])]
    analysis = _analyse(records)
    (row,) = analysis.rows
    # Means of runs 10, 12, 17: mean 13, variance 13. Means of bodies 32 / 3 and 46 / 3.
    half = T_2 * (13.0 / 3.0) ** 0.5
    assert (row.mean.value, row.mean.low, row.mean.high) == pytest.approx(
        (13.0, 13.0 - half, 13.0 + half)
    )
    assert row.median.value == pytest.approx(13.0)
    assert row.iqm.value == 12.5  # 8 | 10 12 14 14 | 20
    assert row.worst_decile.value == pytest.approx(32.0 / 3.0)
    assert row.row.test_score is not None
    assert row.mean.value == pytest.approx(row.row.test_score.mean, rel=1e-14)
    assert row.iqm == run_interval(row.scores, iqm)
    assert row.crossed == crossed_mean(row.scores, np.arange(2))
    assert row.sampled is None  # one of the bodies has no sampled actions
    assert row.group == "a"
    # Only the second of the two points of the learning curve has a value.
    assert row.curve is not None
    assert (row.curve.env_steps.tolist(), row.curve.mean.tolist()) == ([2000], [90.0])
    assert row.curve_area is None
    assert analysis.reference is None
    assert analysis.comparisons == ()


def test_rankings_take_as_many_runs_of_every_row() -> None:
    """Of the method with three runs, all pairs: medians 4.5 and worst bodies 0.

    All its runs together have 3 on every body, by which both places would be the other way round.
    """
    scores = {"few": [[1.0, 4.0, 7.0]] * 2, "many": np.diag([9.0] * 3).tolist()}
    sets = make_record().morphologies.model_copy(update={"num_test": 4})
    analysis = _analyse(
        [
            _record(
                {"a": [1.0], "b": [1.0]},
                {body: [value] for body, value in zip("cde", run, strict=True)},
                method=method,
                seed=seed,
                morphologies=sets,
            )
            for method, runs in scores.items()
            for seed, run in enumerate(runs)
        ]
    )
    assert [row.row.key.method for row in analysis.rows] == ["few", "many"]
    found = {item.name: item for item in analysis.stability}
    assert found["Mean"] == Ranking("Mean", (1, 2), pytest.approx(1.0), 0)
    assert found["Median"] == Ranking("Median", (2, 1), pytest.approx(-1.0), 1)
    assert found["Worst decile"] == Ranking("Worst decile", (1, 2), pytest.approx(1.0), 0)


def test_every_statistic_ranks_by_its_own_numbers() -> None:
    sets = make_record().morphologies.model_copy(update={"num_test": 2})
    numbers = {
        "one": (9.0, 1.0, 5.0, 3.0),
        "two": (8.0, 3.0, 1.0, 5.0),
        "three": (7.0, 2.0, 3.0, 1.0),
    }
    analysis = _analyse(
        [
            make_record(
                returns=make_returns("train", {body: [train] for body in "ab"})
                + make_returns("test", {body: [score] for body in "cd"})
                + make_returns("test", {body: [sampled] for body in "cd"}, mode="stochastic"),
                method=method,
                training_return=training,
                morphologies=sets,
            )
            for method, (score, sampled, train, training) in numbers.items()
        ]
    )
    found = {item.name: item.ranks for item in analysis.stability}
    assert found == {
        **dict.fromkeys(("Mean", "Median", "IQM", "Worst decile"), (1, 2, 3)),
        "Sampled actions": (3, 1, 2),
        "Train score": (1, 3, 2),
        "Training return": (2, 1, 3),
    }


def test_rows_are_those_of_the_table_best_first() -> None:
    records = synthetic_records(4, 3, 6)
    table = _table(records)
    rows = analyse(table).rows
    assert [row.row for row in rows] == list(table.rows)
    values = [row.mean.value for row in rows]
    assert values == sorted(values, reverse=True)


def test_incomplete_rows_are_left_out() -> None:
    records = synthetic_records(3, 3, 4)
    del records[1]  # a seed of the best method
    analysis = _analyse(records)
    assert [row.row.key.method for row in analysis.rows] == ["method-02", "method-03"]
    assert [(c.first, c.second) for c in analysis.comparisons] == [(0, 1)]
    assert analysis.profiles.shape[0] == 2


def test_a_table_without_complete_rows_is_empty() -> None:
    analysis = _analyse(synthetic_records(1, 3, 4)[:2])
    assert (analysis.rows, analysis.comparisons) == ((), ())
    assert analysis.profiles.shape == (0, len(analysis.profile_scores))


def test_comparisons_by_hand() -> None:
    records = [
        _shared(1.01 * mean, 0.99 * mean, seed=seed, method=method)
        for method, means in {
            "far": (9.9, 10.0, 10.1),
            "near": (99.0, 100.0, 101.0),
            "best": (99.5, 101.0, 102.5),
        }.items()
        for seed, mean in enumerate(means)
    ]
    analysis = _analyse(records)
    assert [row.row.key.method for row in analysis.rows] == ["best", "near", "far"]
    assert [row.group for row in analysis.rows] == ["a", "a", "b"]
    pairs = {(item.first, item.second): item for item in analysis.comparisons}
    assert list(pairs) == [(0, 1), (0, 2), (1, 2)]
    assert {k: item.significant for k, item in pairs.items()} == {
        (0, 1): False,
        (0, 2): True,
        (1, 2): True,
    }
    # Relative variances of 1e-4, 1e-4 and (1.5 / 101)^2 are no more unlike than chance makes them:
    # pooled, with six degrees of freedom, t = 2.4469.
    pooled = (1e-4 + 1e-4 + (1.5 / 101.0) ** 2) / 3.0
    half = 2.4469118511 * (2.0 * pooled / 3.0) ** 0.5
    assert pairs[1, 2].ratio is not None
    ratio = pairs[1, 2].ratio.runs
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx(
        (10.0, 10.0 * np.exp(-half), 10.0 * np.exp(half))
    )
    assert pairs[1, 2].difference == pytest.approx(90.0)
    # Wins of 99.5, 101, 102.5 over 99, 100, 101: 1, 2 1/2 and 3 of 9 pairs, on both bodies.
    assert pairs[0, 1].probability_of_improvement.value == pytest.approx(6.5 / 9.0)
    assert pairs[0, 2].probability_of_improvement == Estimate(1.0, None, None)


@pytest.mark.parametrize(
    ("asked", "dearer"),
    [((0, 1, 2), {(0, 1), (1, 2)}), ((0, 1, 2, 3), set()), ((), set())],
)
def test_pairs_with_a_row_of_extra_seeds_are_corrected_for_repeated_looks(
    asked: tuple[int, ...], dearer: set[tuple[int, int]]
) -> None:
    records = [
        _shared(mean + seed % 2, mean - seed % 3, seed=seed, method=method, protocol_seeds=asked)
        for method, mean, count in (("best", 5.4, 3), ("more", 5.0, 4), ("last", 3.0, 3))
        for seed in range(count if asked != (0, 1, 2, 3) else 4)
    ]
    analysis = _analyse(records)
    assert [row.row.key.method for row in analysis.rows] == ["best", "more", "last"]
    scores = [row.scores for row in analysis.rows]
    for pair, plain in compare_means(scores, np.arange(2)).items():
        (found,) = [item for item in analysis.comparisons if (item.first, item.second) == pair]
        assert plain.p_runs is not None
        assert 0.0 < plain.p_runs < 1.0
        assert plain.p_both is not None
        assert 0.0 < plain.p_both < 1.0
        factor = 2.5 if pair in dearer else 1.0
        assert found.p_runs == pytest.approx(min(1.0, factor * plain.p_runs))
        assert found.p_both == pytest.approx(min(1.0, factor * plain.p_both))
    if dearer:
        assert analysis.comparisons[0].p_runs == 1.0  # no probability is above 1


def test_letters_over_seeds_and_bodies_are_told_from_those_on_these_bodies() -> None:
    # By body the first is 1 worse and 19 better: two bodies leave open what others would say.
    analysis = _analyse(
        [
            _shared(c + 0.1 * seed, d + 0.1 * seed, method=method, seed=seed)
            for method, c, d in (("one", 10.0, 30.0), ("two", 11.0, 11.0))
            for seed in range(3)
        ]
    )
    (pair,) = analysis.comparisons
    assert (pair.significant_here, pair.significant) == (True, False)
    assert [row.group_here for row in analysis.rows] == ["a", "b"]
    assert [row.group for row in analysis.rows] == ["a", "a"]
    assert caveats(analysis)[1] == (
        "Told apart: 1 of 1 pairs over other seeds on these bodies, 0 of 1 over other seeds and "
        "other bodies."
    )


def test_rows_that_differ_significantly_share_no_letter() -> None:
    analysis = _analyse(synthetic_records(8, 3, 6))
    significant = [item.significant for item in analysis.comparisons]
    assert any(significant)
    assert not all(significant)
    for item in analysis.comparisons:
        letters = [set(analysis.rows[place].group) for place in (item.first, item.second)]
        assert bool(letters[0] & letters[1]) == (not item.significant)


def test_a_body_that_is_listed_twice_counts_once() -> None:
    def twice(record: RunRecord) -> RunRecord:
        last = record.returns[-1]
        named = [i for i in record.returns if i.body == "c" and i.mode == "deterministic"]
        again = named[0].model_copy(update={"body": "z", "episodes": last.episodes})
        sets = record.morphologies.model_copy(update={"num_test": 4})
        kept = [item for item in record.returns if item.mode == "deterministic"]
        return record.model_copy(update={"returns": (*kept, again), "morphologies": sets})

    once = _shared(30.0, 40.0)
    record = twice(once)
    (row,) = _analyse([record]).rows
    scores = {item.body: item.mean_return for item in record.returns if item.split == "test"}
    both = (scores["c"] + scores["z"]) / 2.0
    assert row.bodies == ("c", "d")
    assert row.scores.tolist() == [[both, 40.0]]
    assert record.score("test", "deterministic") == (both + 40.0) / 2.0


def test_bodies_of_one_geometry_are_one_cluster_and_kinds_of_novelty_are_told() -> None:
    kin = {"a": ("1", "1"), "b": ("2", "2"), "c": ("1", "1"), "d": ("1", "3")}

    def related(record: RunRecord) -> RunRecord:
        found = [
            item.model_copy(
                update={"tree": kin[item.body][0] * 16, "geometry": kin[item.body][1] * 16}
            )
            for item in record.returns
        ]
        return record.model_copy(update={"returns": tuple(found)})

    (row,) = _analyse([related(_shared(30.0, 40.0))]).rows
    assert row.clusters.tolist() == [0, 1]
    found = break_down(row.row, "test")
    assert {name: spread.mean for name, spread in found.items()} == {
        "geometry of a train body (1)": 30.0,
        "tree of a train body (1)": 40.0,
    }


def test_evidence_counts_bodies_and_their_geometries() -> None:
    sets = make_record().morphologies.model_copy(update={"num_test": 4})
    record = _record({"a": [1.0], "b": [1.0]}, {name: [1.0] for name in "cde"}, morphologies=sets)
    kin = {"geometry": "1" * 16}
    returns = [
        item.model_copy(update=kin) if item.body in "cd" else item for item in record.returns
    ]
    told = caveats(_analyse([record.model_copy(update={"returns": tuple(returns)})]))
    assert told[0] == (
        "3 unseen test bodies count; intervals over bodies are based on 2 geometries."
    )


def test_profiles_fall_from_one_to_zero() -> None:
    analysis = _analyse(synthetic_records(3, 2, 5))
    assert (analysis.profiles[:, 0] == 1.0).all()
    assert (analysis.profiles[:, -1] == 0.0).all()
    assert (np.diff(analysis.profiles) <= 0.0).all()
    tau = analysis.profile_scores[80]
    assert analysis.profiles[1, 80] == (analysis.rows[1].scores > tau).mean()


def _with_references(*references: RunRecord) -> TableAnalysis:
    return _analyse([_shared(1.0, 2.0), *references])


def test_a_reference_is_scored_on_its_train_bodies() -> None:
    reference = _record({"a": [3.0, 5.0], "b": [2.0]}, method="mlp", metres_per_return=0.05)
    analysis = _with_references(reference)
    assert analysis.reference is not None
    assert analysis.reference.bodies == ("a", "b")
    assert analysis.reference.scores.tolist() == [[4.0, 2.0]]
    assert analysis.reference.mean == Estimate(3.0, None, None)
    assert analysis.table.references[0] is analysis.reference.row
    assert _analyse([reference]).metres_per_return == 0.05


def test_train_bodies_stand_for_no_others() -> None:
    rules = {"protocol": {"evaluation": {"splits": ["train"]}}}
    analysis = _analyse(
        [
            make_record(
                returns=make_returns("train", {"a": [level + seed], "b": [level - 2.0 * seed]})
                + make_returns("train", {"a": [seed], "b": [3.0 * seed]}, mode="stochastic"),
                method=method,
                seed=seed,
                config=rules,
            )
            for method, level in (("far", 100.0), ("near", 10.0))
            for seed in range(3)
        ]
    )
    assert analysis.table.split == "train"
    assert not analysis.bodies_are_sampled
    for row in analysis.rows:
        value = row.mean.value
        assert row.crossed.bodies == row.crossed.both == Estimate(value, None, None)
        assert row.crossed.runs.low is not None
        assert row.sampled is not None
        assert row.sampled.tolist() == [[0.0, 0.0], [1.0, 3.0], [2.0, 6.0]]
    (pair,) = analysis.comparisons
    assert (pair.contrast.bodies.low, pair.p_both) == (None, None)
    assert (pair.significant_here, pair.significant) == (True, True)


def test_choice_of_the_reference() -> None:
    train = {"a": [1.0], "b": [1.0]}
    better = {"a": [9.0], "b": [9.0]}

    def chosen(*records: RunRecord) -> tuple[str, str]:
        reference = _with_references(*records).reference
        assert reference is not None
        return reference.row.key.method, reference.row.key.preset

    others = [_record(better, method="alone"), _record(better, method="solo")]
    mlp = _record(train, method="mlp", preset="wide")
    assert chosen(*others) == ("alone", "lite")
    assert chosen(*others, mlp) == ("mlp", "wide")
    # By key, not by score.
    assert chosen(mlp, _record(better, method="mlp", preset="xl")) == ("mlp", "wide")
    # Of two versions the newer one counts, whatever the scores.
    old, new = _record(better, method="mlp"), _record(train, method="mlp", method_version=2)
    reference = _with_references(old, new).reference
    assert reference is not None
    assert reference.row.key.method_version == 2
    # An incomplete row is no reference.
    unfinished = _record(train, method="mlp", protocol_seeds=(0, 1))
    assert chosen(*others, unfinished) == ("alone", "lite")
    assert _with_references(unfinished).reference is None


def test_a_single_run_has_values_but_no_interval() -> None:
    analysis = _analyse(synthetic_records(3, 1, 5, reference=True))
    for row in analysis.rows:
        for name in ("mean", "median", "iqm", "worst_decile", "curve_area"):
            estimate = getattr(row, name)
            assert (estimate.low, estimate.high) == (None, None)
            assert np.isfinite(estimate.value)
        assert row.curve is not None
        assert row.curve.low is None
        assert row.group == "a"
    assert not any(item.significant for item in analysis.comparisons)


def test_equal_runs_give_no_nan() -> None:
    records = [_shared(5.0, 5.0, seed=s, method=m) for m in ("one", "two") for s in range(3)]
    analysis = _analyse(records)
    for row in analysis.rows:
        assert row.mean == Estimate(5.0, 5.0, 5.0)
        assert row.group == "a"
    (pair,) = analysis.comparisons
    assert pair.contrast.runs == Estimate(0.0, None, None)
    assert pair.probability_of_improvement == Estimate(0.5, None, None)
    assert np.isfinite(analysis.profiles).all()
    assert np.unique(analysis.profile_scores).size == analysis.profile_scores.size


def _plain(row: RowAnalysis | None) -> dict[str, Any]:
    assert row is not None
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    del values["row"], values["curve"]  # one holds the paths, the other is tested below
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def test_analysis_is_reproducible_and_ignores_the_order_of_records() -> None:
    records = synthetic_records(3, 3, 5, reference=True)
    first, second = _analyse(records), _analyse(records[::-1])
    for one, other in zip(
        [*first.rows, first.reference], [*second.rows, second.reference], strict=True
    ):
        assert _plain(one) == _plain(other)
    for pair, again in zip(first.comparisons, second.comparisons, strict=True):
        assert asdict(pair) == asdict(again)
    assert first.profiles.tolist() == second.profiles.tolist()


def test_runs_on_other_bodies_are_refused() -> None:
    table = _table([_shared(1.0, 2.0), _record({"a": [1.0], "b": [1.0]}, method="mlp")])
    row = table.rows[0]
    other = make_stored(
        _record({"a": [1.0], "b": [1.0]}, {"c": [1.0], "e": [1.0]}, seed=1), "other.json"
    )
    mixed = replace(table, rows=(replace(row, runs=(*row.runs, other), seeds=(0, 1)),))
    with pytest.raises(RecordError, match=r"^other.json and 0.json list different test bodies"):
        analyse(mixed)
    with pytest.raises(RecordError, match=r"list different test bodies"):
        analyse(replace(table, rows=(row, replace(row, runs=(other,)))))
    moved = make_stored(_record({"a": [1.0], "x": [1.0]}, method="mlp"), "moved.json")
    references = (replace(table.references[0], runs=(moved,)),)
    with pytest.raises(RecordError, match=r"^moved.json and 0.json list different train bodies"):
        analyse(replace(table, references=references))
    record = table.references[0].runs[0].record
    swapped = [
        item.model_copy(update={"body_digest": digest_of("another")}) if item.body == "a" else item
        for item in record.returns
    ]
    odd = make_stored(record.model_copy(update={"returns": tuple(swapped)}), "odd.json")
    for name in ("references", "untrained"):
        changed = {name: (replace(table.references[0], runs=(odd,)),)}
        with pytest.raises(RecordError, match=r"^odd.json and .* list different train bodies"):
            analyse(replace(table, **changed))


def test_the_learning_curve_is_the_mean_over_runs() -> None:
    (row,) = _analyse(synthetic_records(1, 3, 2)).rows
    assert row.curve is not None
    assert row.curve_area is not None
    curves = [
        [point.mean_return for point in run.record.learning_curve if point.mean_return is not None]
        for run in row.row.runs
    ]
    np.testing.assert_allclose(row.curve.mean, np.mean(curves, axis=0), rtol=1e-12)
    # The points are equally spaced.
    areas = np.array([(sum(c) - (c[0] + c[-1]) / 2.0) / (len(c) - 1) for c in curves])
    expected = run_interval(areas[:, None], mean)
    assert (row.curve_area.value, row.curve_area.low) == pytest.approx(
        (expected.value, expected.low), rel=1e-9
    )
