from dataclasses import replace

import pytest

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.breakdown import break_down, friction_spreads
from gmc_bench.leaderboard.tables import to_latex, to_markdown
from gmc_bench.records.store import StoredRecord, record_digest
from tests.support.records import make_friction, make_record, make_returns

SIZES = {"a": 6, "b": 7, "c": 9, "d": 21, "e": 23}


def _table(sizes=SIZES):
    stored = []
    for seed, bonus in ((1, 0.0), (2, 10.0)):
        train = make_returns("train", {"t": [5.0], "u": [7.0]})
        test = make_returns(
            "test", {name: [10.0 * k + bonus] for k, name in enumerate(SIZES)}, seen=["b"]
        )
        test = tuple(item.model_copy(update={"limbs": sizes[item.body]}) for item in test)
        record = make_record(
            task="demo-task-v1",
            seed=seed,
            protocol_seeds=(1, 2),
            returns=train + test,
            morphologies=make_record().morphologies.model_copy(
                update={"num_train": 2, "num_test": 5}
            ),
        )
        stored.append(StoredRecord(f"{seed}.json", record, record_digest(record)))
    (table,), _ = aggregate(stored, set())
    return table


def test_groups_are_averaged_over_bodies_then_over_seeds():
    (row,) = _table().rows
    found = break_down(row, "test")
    assert list(found) == ["5 to 9 limbs (2)", "20 to 24 limbs (2)"]
    # Bodies a (0) and c (20), as b was trained on; the second seed scores 10 more everywhere.
    assert found["5 to 9 limbs (2)"].mean == 15.0
    assert found["20 to 24 limbs (2)"].mean == 40.0
    assert found["5 to 9 limbs (2)"].sd == pytest.approx(10.0 / 2**0.5)
    assert break_down(row, "train") == {}


def test_a_body_that_is_listed_twice_counts_once_in_its_group():
    (row,) = _table().rows
    runs = []
    for run in row.runs:
        d = next(item for item in run.record.returns if item.body == "d")
        returns = [
            item.model_copy(update={"body_digest": d.body_digest}) if item.body == "e" else item
            for item in run.record.returns
        ]
        runs.append(run._replace(record=run.record.model_copy(update={"returns": tuple(returns)})))
    found = break_down(replace(row, runs=tuple(runs)), "test")
    assert {name: spread.mean for name, spread in found.items()} == {
        "5 to 9 limbs (2)": 15.0, "20 to 24 limbs (1)": 40.0
    }  # fmt: skip


def test_a_group_that_one_seed_lacks_is_left_out():
    whole = _table().rows[0]
    other = _table(dict(SIZES, d=15, e=16)).rows[0]
    row = replace(whole, runs=(whole.runs[0], other.runs[1]))
    assert list(break_down(row, "test")) == ["5 to 9 limbs (2)"]


def test_a_group_of_score_zero_counts():
    (row,) = _table().rows
    shifted = [
        item.model_copy(
            update={
                "episodes": tuple(
                    one.model_copy(update={"episode_return": one.episode_return - 10.0})
                    for one in item.episodes
                )
            }
        )
        for item in row.runs[0].record.returns
    ]
    record = row.runs[0].record.model_copy(update={"returns": tuple(shifted)})
    found = break_down(
        replace(row, runs=(row.runs[0]._replace(record=record), row.runs[1])), "test"
    )
    assert found["5 to 9 limbs (2)"].mean == 10.0  # 0 and 20


def test_tables_show_groups_where_sizes_are_known():
    analysis = analyse(_table())
    page = to_markdown(analysis)
    assert "## Score by kind of body" in page
    assert "5 to 9 limbs" in page
    assert "15.0 ± 7.1" in page
    assert "20 to 24 limbs" in to_latex(analysis)
    unknown = analyse(_table(dict.fromkeys(SIZES)))
    assert "Score by kind of body" not in to_markdown(unknown)


def test_tables_show_groups_of_the_bodies_that_rank():
    config = {"protocol": {"evaluation": {"splits": ["train"]}}}
    train = make_returns("train", {name: [10.0 * k] for k, name in enumerate(SIZES)})
    train = tuple(item.model_copy(update={"limbs": SIZES[item.body]}) for item in train)
    bodies = make_record().morphologies.model_copy(update={"num_train": 5})
    record = make_record(task="demo-task-v1", config=config, returns=train, morphologies=bodies)
    (table,), _ = aggregate([StoredRecord("a.json", record, record_digest(record))], set())
    page = to_markdown(analyse(table))
    assert "5 to 9 limbs (3)" in page.partition("## Score by kind of body")[2]


def _runs(splits, seeds=((1, 0.0), (2, 4.0)), measured=None, **changes):
    config = {"protocol": {"evaluation": {"splits": splits}}}
    stored = []
    for seed, gain in seeds:
        friction = make_friction()
        for item in friction:
            item["restarts"]["progress"] += gain
            item |= measured or {}
        fields = {"suite": "quadruped-friction-v3", "protocol": "smoke", **changes}
        record = make_record(
            task="demo-task-v1",
            seed=seed,
            protocol_seeds=(1, 2),
            config=config,
            returns=make_returns("train", {"t": [5.0], "u": [7.0]}),
            friction=friction,
            morphologies=make_record().morphologies.model_copy(
                update={"num_train": 2, "num_test": 2}
            ),
            **fields,
        )
        stored.append(StoredRecord(f"{seed}.json", record, record_digest(record)))
    return stored


def _robots(splits, seeds=((1, 0.0), (2, 4.0)), **changes):
    stored = _runs(splits, seeds, **changes)
    (table,), _ = aggregate(stored, {item.digest for item in stored})
    return table


OTHERWISE = "Left out, because it was measured by another rule, which has changed: older."


@pytest.mark.parametrize("suite", ["quadruped-friction-v3", "elsewhere-v1"])
@pytest.mark.parametrize(
    "measured", [{"seconds": 8.0}, {"num_envs": 3}, {"heading": "free"}, {"command": [1.0, 0, 0]}]
)
def test_frictions_measured_by_another_rule_share_no_table(suite, measured):
    """By another than the suite's, or than the newest run's where the suite is not here."""
    early = {"created": "2025-01-01T00:00:00Z"}
    older = _runs(["train"], method="older", suite=suite, measured=measured, **early)
    (table,), _ = aggregate([*older, *_runs(["train"], suite=suite)])
    page = to_markdown(analyse(table))
    assert page.count(f"{OTHERWISE}\n") == 1
    lines = [line for line in page.splitlines() if " | low | " in line]
    assert [line.split()[1] for line in lines] == ["demo"]
    assert OTHERWISE not in to_markdown(analyse(_robots(["train"], suite=suite)))


def test_frictions_that_nobody_measures_any_more_are_said_to_be_left_out():
    page = to_markdown(analyse(_robots(["train"], method="older", measured={"seconds": 8.0})))
    assert OTHERWISE in page
    assert " | low | " not in page


def test_frictions_of_rows_that_lack_seeds_are_not_shown():
    part = _runs(["train"], seeds=[(1, 0.0)], method="part")
    (table,), _ = aggregate([*part, *_runs(["train"])])
    lines = [line for line in to_markdown(analyse(table)).splitlines() if " | low | " in line]
    assert [line.split()[1] for line in lines] == ["demo"]


def test_a_protocol_that_scores_no_test_bodies_ranks_by_train_bodies():
    (row,) = _robots(["train"]).rows
    assert (row.split, row.missing) == ("train", ())
    assert row.test_score.mean == row.train_score.mean == 6.0
    analysis = analyse(_robots(["train"]))
    page = to_markdown(analysis)
    assert "scores only the bodies that were trained on" in page
    assert "test bodies" not in page
    headings = "| Seeds | Score | Other seeds | Verified |"
    assert headings in page  # its two bodies stand for no others
    assert analysis.rows[0].crossed.bodies.low is analysis.rows[0].crossed.both.low is None
    assert analysis.rows[0].crossed.runs.low is not None
    (row,) = _robots(["train", "test"]).rows
    assert (row.split, row.test_score) == ("test", None)
    assert row.missing == ("no test score for seed 1, 2",)


def test_what_is_not_ranked_has_the_score_that_would_rank_it():
    page = to_markdown(analyse(_robots(["train"], seeds=[(1, 0.0)])))
    assert "no run for seed 2; train score of seed 1 6.0" in page
    unofficial = {"official": False, "unofficial_reasons": ("fewer steps",)}
    page = to_markdown(analyse(_robots(["train"], seeds=[(1, 0.0)], **unofficial)))
    assert "| 1 | 6.0 | fewer steps |" in page


def test_frictions_are_averaged_over_robots_then_over_seeds():
    table = _robots(["train"])
    found = friction_spreads(table.rows[0])
    assert list(found) == ["low", "high"]
    assert found["low"]["Velocity RMSE (m/s)"].mean == 1.5
    assert found["low"]["Progress (m)"].mean == 5.0  # 3 and 7
    assert found["low"]["Progress (m)"].sd == pytest.approx(4.0 / 2**0.5)
    assert found["high"]["Progress (m)"].mean == 32.0
    assert "Fall rate (%)" not in found["low"]  # one robot has none
    page = to_markdown(analyse(table))
    assert "## Friction" in page
    assert "| low | 1.500 ± 0.000 | 5.000 ± 2.828 | 3.000 ± 0.000 | — |" in page
    assert "## Friction" not in to_markdown(analyse(_table()))


def test_a_rate_of_zero_counts_and_what_one_seed_lacks_is_left_out():
    (row,) = _robots(["train"]).rows

    def falling(run, rate, frictions=("low", "high")):
        friction = tuple(
            item.model_copy(update={"restarts": {**item.restarts, "fall_rate": rate}})
            for item in run.record.friction
            if item.friction in frictions
        )
        return run._replace(record=run.record.model_copy(update={"friction": friction}))

    def rates(first, *second):
        runs = (falling(row.runs[0], first), falling(row.runs[1], *second))
        found = friction_spreads(replace(row, runs=runs))
        return [
            metrics["Fall rate (%)"].mean if "Fall rate (%)" in metrics else None
            for metrics in found.values()
        ]

    assert rates(0.0, 50.0) == [25.0, 25.0]
    assert rates(0.0, 0.0) == [0.0, 0.0]
    assert rates(50.0, None) == [None, None]
    assert rates(50.0, 0.0, ("low",)) == [25.0, None]
