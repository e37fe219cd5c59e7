"""Rows hold what was measured, and nothing is averaged over a gap."""

from typing import Any

import pytest

from gmc_bench.leaderboard.aggregate import ComparisonTable, Row, Spread, aggregate, tuning_of
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.references import core_seconds
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord
from tests.support.records import (
    AFTER_TUNING,
    digest_of,
    make_friction,
    make_record,
    make_returns,
    make_stored,
)


def _returns(test: float, train: float = 100.0) -> tuple[BodyReturns, ...]:
    """Evaluation results with a given zero-shot score and train score."""
    return make_returns("train", {"a": [train], "b": [train]}) + make_returns(
        "test", {"b": [1e6], "c": [test - 5.0], "d": [test + 5.0]}, seen={"b"}
    )


def _store(*records: RunRecord) -> list[StoredRecord]:
    return [make_stored(record, f"{place}.json") for place, record in enumerate(records)]


def _only_table(*records: RunRecord) -> ComparisonTable:
    tables, refused = aggregate(_store(*records))
    assert refused == []
    assert len(tables) == 1
    return tables[0]


def _only_row(*records: RunRecord) -> Row:
    (row,) = _only_table(*records).rows
    return row


def test_mean_and_sample_deviation_by_hand() -> None:
    row = _only_row(
        make_record(seed=0, returns=_returns(10.0, 1.0), training_return=5.0),
        make_record(seed=1, returns=_returns(12.0, 2.0), training_return=5.0),
        make_record(seed=2, returns=_returns(17.0, 3.0), training_return=8.0),
    )
    assert row.seeds == (0, 1, 2)
    # (10 + 12 + 17) / 3 = 13; squares 9 + 1 + 16 = 26; sqrt(26 / 2).
    assert row.test_score is not None
    assert row.test_score.mean == 13.0
    assert row.test_score.sd == pytest.approx(13**0.5, rel=1e-12)
    assert row.train_score == Spread(2.0, 1.0)
    assert row.training_return is not None
    assert row.training_return.sd == pytest.approx(3**0.5, rel=1e-12)
    assert row.parameters == 1000
    assert row.env_steps_per_s == 200.0
    assert row.missing == ()


def test_one_run_beside_much_other_load_does_not_move_what_a_row_costs() -> None:
    parts = {"simulation": 1.0, "policy": 1.0, "update": 1.0, "other": 1.0}
    rows = [
        make_record(
            seed=seed,
            wall_clock_s={**parts, "total": seconds, "other": seconds - 3.0},
            env_steps_per_s=2000.0 / seconds,
        )
        for seed, seconds in enumerate((10.0, 8.0, 1000.0))
    ]
    row = _only_row(*rows)
    assert row.env_steps_per_s == 200.0
    assert core_seconds(row) == 20.0  # two threads


def test_a_single_seed_has_no_deviation() -> None:
    assert _only_row(make_record()).test_score == Spread(30.0, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"suite": "unimal-v2"},
        {"task": "unimal-vt-v1"},
        {"protocol": "paper"},
        {"protocol_digest": digest_of("other rules")},
        {
            "morphologies": {
                **make_record().morphologies.model_dump(),
                "digest": digest_of("other bodies"),
            }
        },
        {"versions": {**make_record().versions, "mujoco": "3.18.0"}},
    ],
)
def test_records_that_cannot_be_compared_never_share_a_table(changes: dict[str, Any]) -> None:
    tables, refused = aggregate(_store(make_record(), make_record(**changes)))
    assert [len(table.rows) for table in tables] == [1, 1]
    assert tables[0].key != tables[1].key
    assert refused == []


def test_torch_versions_share_a_table_and_are_listed() -> None:
    versions = make_record().versions
    table = _only_table(
        make_record(seed=0, versions={**versions, "torch": "2.9"}),
        make_record(seed=1, versions={**versions, "torch": "2.13"}),
    )
    assert table.torch_versions == ("2.13", "2.9")
    assert table.rows[0].seeds == (0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "other"},
        {"method_version": 2},
        {"preset": "paper"},
        {"config": {"training": {"gamma": 0.5}}},
    ],
)
def test_different_methods_and_settings_never_share_a_row(changes: dict[str, Any]) -> None:
    table = _only_table(make_record(seed=0), make_record(seed=1, **changes))
    assert [len(row.seeds) for row in table.rows] == [1, 1]


def test_a_missing_cell_makes_the_metric_none_and_the_row_incomplete() -> None:
    without_test = make_returns("train", {"a": [100.0], "b": [100.0]})
    row = _only_row(
        make_record(seed=0, returns=_returns(10.0)),
        make_record(seed=1, returns=without_test, training_return=None),
        make_record(seed=2, returns=without_test),
    )
    assert row.test_score is None
    assert row.training_return is None
    assert row.train_score == Spread(100.0, 0.0)
    assert row.missing == (
        "no test score for seed 1, 2",
        "no training return for seed 1",
    )


def test_a_missing_seed_makes_the_row_incomplete() -> None:
    seeds = [0, 1, 2, 3]
    row = _only_row(
        make_record(seed=1, protocol_seeds=seeds, returns=_returns(10.0)),
        make_record(seed=3, protocol_seeds=seeds, returns=_returns(20.0)),
    )
    assert (row.test_score, row.train_score, row.training_return) == (None, None, None)
    assert row.env_steps_per_s is None
    assert row.seed_scores == ((1, 10.0), (3, 20.0))
    assert row.absent_seeds == (0, 2)
    assert row.missing == ("no run for seed 0, 2",)
    assert _only_row(make_record(protocol_seeds=[0])).missing == ()


def test_seeds_with_different_networks_are_incomplete() -> None:
    row = _only_row(make_record(seed=0), make_record(seed=1, parameters=999))
    assert row.parameters is None
    assert row.missing == ("the number of parameters differs between seeds",)


def test_order_is_score_then_incomplete_then_name() -> None:
    table = _only_table(
        make_record(method="incomplete-high", returns=_returns(99.0), training_return=None),
        make_record(method="b-tied", returns=_returns(20.0)),
        make_record(method="low", returns=_returns(-3.0)),
        make_record(method="a-tied", returns=_returns(20.0)),
        make_record(method="z-nothing", returns=()),
        make_record(method="a-nothing", returns=()),
        make_record(method="high", returns=_returns(30.0)),
    )
    assert [row.key.method for row in table.rows] == [
        "high",
        "a-tied",
        "b-tied",
        "low",
        "incomplete-high",
        "a-nothing",
        "z-nothing",
    ]


def test_unofficial_records_are_listed_apart() -> None:
    table = _only_table(
        make_record(seed=0, returns=_returns(10.0)),
        make_record(
            seed=1,
            returns=_returns(99.0),
            official=False,
            unofficial_reasons=["fewer steps", "other bodies"],
        ),
    )
    assert table.rows[0].test_score == Spread(10.0, None)
    (run,) = table.unranked
    assert (run.path, run.seed, run.test_score) == ("1.json", 1, 99.0)
    assert run.reasons == ("fewer steps", "other bodies")


def test_two_different_records_of_one_run_are_both_refused() -> None:
    tables, refused = aggregate(
        _store(
            make_record(seed=0, returns=_returns(10.0)),
            make_record(seed=1, returns=_returns(20.0)),
            make_record(seed=1, returns=_returns(90.0)),
        )
    )
    assert tables[0].rows[0].seeds == (0,)
    assert tables[0].rows[0].test_score == Spread(10.0, None)
    reason = "it is one of 2 different records of demo (lite), seed 1; keep the one made first"
    assert refused == [RefusedFile("1.json", reason), RefusedFile("2.json", reason)]


def test_no_row_is_left_when_all_its_records_are_refused() -> None:
    tables, refused = aggregate(_store(make_record(), make_record(training_return=91.0)))
    assert tables[0].rows == ()
    assert len(refused) == 2


def test_a_copy_of_a_record_counts_once() -> None:
    tables, refused = aggregate(_store(make_record(), make_record()))
    assert tables[0].rows[0].seeds == (0,)
    assert refused == [
        RefusedFile("1.json", "it is a copy of 0.json; delete one of them"),
    ]


def test_a_run_that_was_repeated_to_the_same_bits_counts_once() -> None:
    times = ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z")
    same = {"weights_digest": "a" * 64, "returns": _returns(10.0)}
    tables, refused = aggregate(_store(*(make_record(created=time, **same) for time in times)))
    assert [run.path for run in tables[0].rows[0].runs] == ["1.json"]
    assert refused == [
        RefusedFile(
            "0.json", "it repeats 1.json, with the same weights and scores; delete one of them"
        )
    ]
    for name, value in (
        ("weights_digest", "b" * 64), ("training_return", 1.5), ("friction", make_friction()),
    ):  # fmt: skip
        other = make_record(created=times[0], **(same | {name: value}))
        _, refused = aggregate(_store(make_record(created=times[1], **same), other))
        assert len(refused) == 2


def test_runs_show_the_score_of_the_split_that_ranks() -> None:
    own = {"official": False, "unofficial_reasons": ["short"]}
    train_only = {"config": {"protocol": {"evaluation": {"splits": ["train"]}}}}
    alone = {
        "controller": "single_robot",
        "returns": make_returns("train", {"a": [3.0], "b": [5.0]}),
    }
    table = _only_table(
        make_record(method="a", returns=_returns(7.0), seed=1, **own),
        make_record(method="b", returns=_returns(7.0, 9.0), seed=1, **train_only, **own),
        make_record(method="c", **alone, **own),
        make_record(returns=_returns(7.0, 9.0), seed=2, **train_only),
        make_record(method="mlp", **alone),
        make_record(
            method="tree", **alone | {"returns": make_returns("train", {"a": [5.0], "b": [7.0]})}
        ),
    )
    assert [(run.split, run.test_score) for run in table.unranked] == [
        ("test", 7.0), ("train", 9.0), ("train", None),
    ]  # fmt: skip
    assert table.rows[0].seed_scores == ((2, 9.0),)
    assert [row.seed_scores for row in table.references] == [((0, 6.0),), ((0, 4.0),)]


def test_the_order_of_records_does_not_matter() -> None:
    stored = _store(
        make_record(seed=0, returns=_returns(0.1)),
        make_record(seed=1, returns=_returns(0.2)),
        make_record(seed=2, returns=_returns(0.3)),
        make_record(method="other"),
        make_record(method="other"),
        make_record(official=False, unofficial_reasons=["short"]),
    )
    assert aggregate(stored) == aggregate(stored[::-1])


def test_a_complete_tuned_row_takes_the_place_of_the_untuned_one_even_if_it_is_worse() -> None:
    seeds = {"protocol_seeds": (0, 1)}
    before = [make_record(seed=seed, returns=_returns(50.0), **seeds) for seed in (0, 1)]
    after = [
        make_record(**AFTER_TUNING, seed=seed, returns=_returns(20.0), **seeds) for seed in (0, 1)
    ]
    table = _only_table(*before, *after)
    assert [row.test_score for row in table.rows] == [Spread(20.0, 0.0)]
    assert [row.test_score for row in table.before_tuning] == [Spread(50.0, 0.0)]
    assert table.all_rows == (*table.rows, *table.before_tuning)


def test_untuned_rows_stay_while_the_tuned_row_lacks_a_seed() -> None:
    seeds = {"protocol_seeds": (0, 1)}
    before = [make_record(seed=seed, **seeds) for seed in (0, 1)]
    table = _only_table(*before, make_record(**AFTER_TUNING, seed=0, **seeds))
    assert [row.missing for row in table.rows] == [(), ("no run for seed 1",)]
    assert table.before_tuning == ()
    assert analyse(table).before_tuning is None


def test_there_is_no_ranking_before_tuning_while_no_replaced_row_is_complete() -> None:
    seeds = {"protocol_seeds": (0, 1)}
    after = [make_record(**AFTER_TUNING, seed=seed, **seeds) for seed in (0, 1)]
    other = [make_record(method="other", seed=seed, **seeds) for seed in (0, 1)]
    table = _only_table(make_record(seed=0, **seeds), *after, *other)
    assert [row.missing for row in table.before_tuning] == [("no run for seed 1",)]
    assert analyse(table).before_tuning is None


def test_with_the_protocols_values_replaced_rows_stand_beside_those_never_tuned() -> None:
    before, after = (
        make_record(returns=_returns(50.0)),
        make_record(**AFTER_TUNING, returns=_returns(20.0)),
    )
    others = [make_record(method=name, returns=_returns(30.0)) for name in ("b", "a")]
    table = _only_table(before, after, *others).with_protocol_values
    assert [row.key.method for row in table.rows] == ["demo", "a", "b"]
    assert [row.test_score.mean for row in table.rows] == [50.0, 30.0, 30.0]
    assert table.before_tuning == ()


def test_a_method_whose_first_trial_is_its_best_has_one_row_with_and_without_tuning() -> None:
    """Its runs from before and after tuning have the same settings."""
    trials = [{"settings": {"ppo.lr": rate}, "returns": {"1": 1.0}} for rate in (1e-3, 2e-3)]
    unknown = {"morphologies": None, "morphologies_digest": None, "env_steps": None}
    kept = {"settings": {"ppo.lr": 1e-3}, **unknown, "trials": trials}
    seeds = {"protocol_seeds": (0, 1)}
    for order in (0, 1), (1, 0):
        table = _only_table(
            make_record(seed=order[0], **seeds), make_record(seed=order[1], tuning=kept, **seeds)
        )
        (row,) = table.rows
        assert (row.seeds, row.missing) == ((0, 1), ())
        assert tuning_of(row) is not None
        assert table.before_tuning == ()
        assert table.with_protocol_values.rows == (row,)


@pytest.mark.parametrize(
    "other", [{"method": "another"}, {"method_version": 2}, {"preset": "paper"}]
)
def test_only_rows_of_the_same_method_version_and_preset_are_replaced(
    other: dict[str, Any],
) -> None:
    table = _only_table(make_record(), make_record(**AFTER_TUNING, **other))
    assert len(table.rows) == 2
    assert table.before_tuning == ()
