"""Floor and ceiling of a table, and scores between the two, by hand."""

import csv
import io
from typing import Any

import pytest

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.front import grid
from gmc_bench.leaderboard.overview import make_overview
from gmc_bench.leaderboard.site.board import board_context, labels
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.leaderboard.tables import to_csv, to_latex, to_markdown, to_readme
from gmc_bench.records.schema import RunRecord
from tests.support.records import UNTRAINED, digest_of, make_record, make_returns, make_stored

SPECIALIST = {"a": [100.0, 104.0], "b": [1000.0, 1010.0], "c": [3.0, 3.2], "d": [50.0, -50.0]}
FLOOR = {"a": [0.0, 4.0], "b": [10.0, 10.0], "c": [1.0, 1.2], "d": [0.0, 0.0]}
HALF = {"a": [52.0, 52.0], "b": [1005.0, 1005.0], "c": [900.0, 900.0], "d": [0.0, 0.0]}


def _record(train: dict[str, list[float]], method: str, **changes: Any) -> RunRecord:
    """Return a record of train bodies; of a shared policy, also of one test body."""
    bodies = {"id": "four-v1", "digest": digest_of("four"), "source": "tests", "licence": "MIT"}
    fields = {
        "method": method,
        "task": "demo-task-v1",
        "returns": make_returns("train", train)
        + make_returns("train", dict.fromkeys(train, (-1e9,)), mode="stochastic")  # do not count
        + make_returns("test", {"t": [7.0]}),
        "morphologies": {**bodies, "num_train": len(train), "num_test": 1},
        **changes,
    }
    if fields.get("controller") == "single_robot":
        fields["returns"] = fields["returns"][:-1]
    return make_record(**fields)


def _analyse(*records: RunRecord) -> TableAnalysis:
    (table,), refused = aggregate(make_stored(item, f"{n}.json") for n, item in enumerate(records))
    assert refused == []
    return analyse(table)


ALONE = {"controller": "single_robot", "env_steps": 2000, "parameters": 40}
METHOD = _record(HALF, "walker")
MLP = _record(SPECIALIST, "mlp", **ALONE)
IDLE = _record(FLOOR, "zero-action", **{**UNTRAINED, "parameters": 0})
START = _record(HALF, "walker", **UNTRAINED)


def test_shares_of_the_way_from_floor_to_specialist() -> None:
    analysis = _analyse(METHOD, MLP, IDLE)
    scale = analysis.scale
    assert scale is not None
    assert (scale.specialist.key.method, scale.floor.key.method) == ("mlp", "zero-action")
    # `c` is 2 above the floor, `a` and `b` are 100 and 995; on `d` there is nothing to gain.
    assert scale.num_bodies == 4
    assert scale.bodies == tuple(sorted(map(digest_of, "ab")))
    assert dict(zip(scale.bodies, scale.span, strict=True)) == pytest.approx(
        {digest_of("a"): 100.0, digest_of("b"): 995.0}
    )
    assert scale.estimate(analysis.rows[0].row) == Estimate(0.75, None, None)
    assert scale.estimate(scale.floor).value == 0.0
    assert scale.estimate(scale.specialist).value == 1.0


def test_one_body_with_a_great_span_leaves_none_out() -> None:
    """A tenth of the median of 1000, 10 and 8 is 1; of their mean it is 34."""
    top, low = {"a": [1000.0] * 2, "b": [10.0] * 2, "c": [8.0] * 2}, dict.fromkeys("abc", [0.0] * 2)
    mlp = _record(top, "mlp", **ALONE)
    scale = _analyse(_record(low, "walker"), mlp, _record(low, "zero-action", **UNTRAINED)).scale
    assert scale is not None
    assert dict(zip(scale.bodies, scale.span, strict=True)) == {
        digest_of(name): values[0] for name, values in top.items()
    }


def test_a_body_counts_from_a_tenth_of_the_median_span_on() -> None:
    # The median of 1000, 10 and s is 10.
    low = dict.fromkeys("abc", [0.0] * 2)
    for span, counted in ((0.99, "ab"), (1.0, "abc")):
        top = {"a": [1000.0] * 2, "b": [10.0] * 2, "c": [span] * 2}
        idle = _record(low, "zero-action", **UNTRAINED)
        scale = _analyse(_record(low, "walker"), _record(top, "mlp", **ALONE), idle).scale
        assert scale is not None
        assert scale.bodies == tuple(sorted(map(digest_of, counted)))


def test_the_floor_is_the_specialist_untrained_or_no_action() -> None:
    first = _record(FLOOR, "mlp", **{**UNTRAINED, "controller": "single_robot"})
    found = _analyse(METHOD, MLP, IDLE, first).scale
    assert found is not None
    assert (found.floor.key.method, found.floor.untrained) == ("mlp", True)
    for records, floor in (((MLP, IDLE), "no action at all"), ((MLP, IDLE, first), "no training")):
        told = " ".join(grid(make_overview([_analyse(METHOD, *records)], ())))
        assert f"train score, from {floor} (0) to a separate policy for each body (1)." in told
    assert _analyse(METHOD, MLP, START).scale is None
    for other in ({"preset": "paper"}, {"method_version": 2}):  # another network's initial weights
        unlike = _record(HALF, "mlp", **{**UNTRAINED, "controller": "single_robot", **other})
        floor = _analyse(METHOD, MLP, IDLE, unlike).scale.floor  # type: ignore[union-attr]
        assert floor.key.method == "zero-action"
    assert _analyse(METHOD, IDLE).scale is None
    unfinished = _record(FLOOR, "zero-action", **{**UNTRAINED, "protocol_seeds": (0, 1)})
    assert _analyse(METHOD, MLP, unfinished).scale is None


def test_a_body_that_is_listed_twice_has_the_episodes_of_both() -> None:
    def twice(record: RunRecord, values: list[float]) -> RunRecord:
        (again,) = make_returns("train", {"a": values})
        sets = record.morphologies.model_copy(update={"num_train": 5})
        returns = (*record.returns, again.model_copy(update={"body": "z"}))
        return record.model_copy(update={"returns": returns, "morphologies": sets})

    mlp, idle = twice(MLP, [110.0, 114.0]), twice(IDLE, [2.0, 6.0])
    scale = _analyse(twice(METHOD, [50.0, 50.0]), mlp, idle).scale
    assert scale is not None
    span = dict(zip(scale.bodies, scale.span, strict=True))[digest_of("a")]
    assert span == pytest.approx(107.0 - 3.0)
    assert scale.num_bodies == 4


def test_a_specialist_must_be_clear_of_the_floor_over_episodes_and_over_runs() -> None:
    idle = _record({"a": [0.0, 0.0]}, "zero-action", **UNTRAINED)

    def found(*runs: list[float]) -> bool:
        records = [
            _record({"a": run}, "mlp", **ALONE, seed=seed, protocol_seeds=tuple(range(len(runs))))
            for seed, run in enumerate(runs)
        ]
        return _analyse(_record({"a": [5.0, 5.0]}, "walker"), idle, *records).scale is not None

    # 10 above the floor; standard errors of 2 and 3 from episodes.
    assert found([8.0, 12.0])
    assert not found([7.0, 13.0])
    # The same from runs that agree within themselves.
    assert found([8.0, 8.0], [12.0, 12.0])
    assert not found([7.0, 7.0], [13.0, 13.0])
    # A specialist below the floor, and one of which too little is known.
    assert not found([-10.0, -10.0])
    single = [
        _record({"a": [value]}, method, **changes)
        for value, method, changes in ((10.0, "mlp", ALONE), (0.0, "zero-action", UNTRAINED))
    ]
    assert _analyse(_record({"a": [5.0]}, "walker"), *single).scale is None


def test_tables_show_the_floor_under_the_methods_and_never_rank_it() -> None:
    analysis = _analyse(METHOD, MLP, IDLE, START)
    assert [row.row.key.method for row in analysis.rows] == ["walker"]
    page = to_markdown(analysis)
    assert "floor: zero-action. 2 of 4 different train bodies count" in page
    assert "| 0.750 (—) |" in page
    floor = page.split("## Untrained")[1]
    for name in ("walker v1", "zero-action v1"):
        assert f"| {name} |" in floor
    assert "zero-action v1" not in page.split("## Untrained")[0]
    references = page.split("## Single-robot references")[1]
    assert "| Steps per body | Core seconds | Parameters |" in references
    assert "| 500 | 20 | 40 |" in references  # 2,000 steps of four bodies, 10 s on two threads
    lines = [line for line in to_readme(analysis, "x.md").splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[2] for line in lines[2:]] == ["walker", "mlp", "zero-action"]
    assert r"\bottomrule" in to_latex(analysis).split("Untrained")[1]
    rows = list(csv.DictReader(io.StringIO(to_csv(analysis))))
    assert [row["status"] for row in rows] == ["ranked", "reference", "untrained", "untrained"]
    assert (rows[0]["normalized_train"], rows[1]["steps_per_body"]) == ("0.75", "500.0")
    assert (rows[2]["rank"], rows[2]["test_score"]) == ("", "7.0")


def test_floor_and_references_without_all_seeds_have_no_empty_section() -> None:
    both = {"protocol_seeds": (0, 1)}
    floor = _record({"a": [0.0]}, "zero-action", **UNTRAINED, **both)
    page = to_markdown(_analyse(METHOD, floor, _record({"a": [1.0]}, "mlp", **ALONE, **both)))
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert not {"Untrained", "Single-robot references"} & set(headings)
    assert "untrained; no run for seed" in page.split("## Incomplete")[1]


def test_the_site_tells_untrained_rows_by_name() -> None:
    analysis = _analyse(METHOD, MLP, IDLE, START)
    named = labels(analysis.table)
    assert len(set(named.values())) == 4
    assert "walker v1, lite, untrained" in named.values()
    (row,) = board_context(analysis, "FT")["rows"]
    shares = dict(row["numbers"])
    assert shares["Normalised train score"].text == "0.75"
    assert shares["Core seconds"].text == "20"


def test_the_site_tells_rows_that_differ_in_their_settings_alone_by_a_digest() -> None:
    other = _record(HALF, "walker", config={"training": {"gamma": 0.9}})
    named = labels(_analyse(METHOD, MLP, other).table)
    assert sorted(named.values()) == [
        "mlp v1, lite",
        *sorted(f"walker v1, lite, {run.config_digest[:8]}" for run in (METHOD, other)),
    ]
