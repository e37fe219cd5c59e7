"""What pages show of the scores of three methods on three bodies, by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gmc_bench.conformance.morphologies import star
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.figures import row_styles
from gmc_bench.leaderboard.site.board import board_context, challenge, compare_context
from gmc_bench.leaderboard.site.bodies import bodies_context, listed_bodies
from gmc_bench.leaderboard.site.body import TableColumn, body_context, by_body, columns_of
from gmc_bench.leaderboard.site.drawing import DrawnSet
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.site.method import method_context
from gmc_bench.leaderboard.site.numbers import MISSING
from gmc_bench.leaderboard.site.overview import matrix
from gmc_bench.leaderboard.site.replays import Gallery
from gmc_bench.records.drawing import COLOURS
from gmc_bench.records.schema import BodyReturns, RunRecord
from tests.support.records import AFTER_TUNING, digest_of, make_record, make_returns, make_stored

MEANS = {"best": (12.0, 22.0, 62.0), "mid": (31.0, 11.0, 41.0), "low": (2.0, 24.0, 6.0)}
"""On the bodies `c`, `d` and `e`, of which the last is the easiest."""
OFF = (0.3, -0.3, 0.1, -0.1)
"""By how much the runs are off, on every body: seeds tell the methods apart, bodies do not."""


def _record(method: str, seed: int) -> RunRecord:
    test = {body: [mean + OFF[seed]] for body, mean in zip("cde", MEANS[method], strict=True)}
    return make_record(
        method=method,
        seed=seed,
        returns=make_returns("train", {"a": [1.0], "b": [1.0]})
        + make_returns("test", test)
        + make_returns("test", {"c": [1e6]}, mode="stochastic"),  # decides nothing
        training_return=90.0 + OFF[seed],
        weights_digest=digest_of(f"{method} {seed}"),
    )


def _analyse() -> TableAnalysis:
    records = [_record(method, seed) for method in MEANS for seed in range(len(OFF))]
    (table,), _ = aggregate(
        make_stored(item, f"{item.method}-{item.seed}.json") for item in records
    )
    return analyse(table)


@pytest.fixture(scope="module")
def analysis() -> TableAnalysis:
    return _analyse()


@pytest.fixture(scope="module")
def column(analysis: TableAnalysis) -> TableColumn:
    (found,) = columns_of([analysis], {analysis.table.key: "T"})
    return found


def _body(analysis: TableAnalysis, name: str) -> BodyReturns:
    returns = analysis.table.rows[0].runs[0].record.returns
    return next(item for item in returns if item.body == name)


def test_the_page_of_a_table_has_every_interval_in_its_place(analysis: TableAnalysis) -> None:
    context = board_context(analysis, "T")
    row, crossed = dict(context["rows"][0]["numbers"]), analysis.rows[0].crossed
    both, runs, bodies = (
        f"{part.low:,.1f} to {part.high:,.1f}"
        for part in (crossed.both, crossed.runs, crossed.bodies)
    )
    assert len({both, runs, bodies}) > 1
    assert runs not in (both, bodies)
    assert (row["Mean"].text, row["Mean"].detail) == ("32.0", both)
    assert (row["Other seeds"].text, row["Other bodies"].text) == (runs, bodies)
    assert row["Metres"].text == "0.64"
    assert (row["Median"].text, row["Worst tenth"].text) == ("22.0", "12.0")
    # The middle half of twelve: one about 12, four about 22, one about 62.
    assert (row["IQM"].text, row["Train score"].text) == ("27.0", "1.0")
    assert row["Return during training"] == MISSING  # one point of a curve has no area
    assert (row["Parameters"].text, row["Env steps/s"].text) == ("1,000", "200")
    assert context["ties"] == 2  # of three pairs, those with the first


def test_a_learning_curve_lies_within_its_interval(analysis: TableAnalysis) -> None:
    curves, _ = board_context(analysis, "T")["charts"]
    assert curves["id"] == "curves"
    shown = curves["chart"].data["series"][0]
    # The four runs vary by 0.2 / 3 about 90: 90 -+ 3.182 * sqrt(0.2 / 3 / 4).
    half = 3.1824463053 * (0.2 / 3.0 / 4.0) ** 0.5
    assert (shown["x"], shown["y"]) == ([2000.0], [90.0])
    assert (*shown["low"], *shown["high"]) == pytest.approx((90.0 - half, 90.0 + half), rel=1e-4)


def test_a_method_looks_in_charts_as_in_the_figures(analysis: TableAnalysis) -> None:
    expected = [
        (list(COLOURS).index(colour), dashes) for colour, dashes in row_styles(analysis.rows)
    ]
    assert len(set(expected)) == len(analysis.rows) == 3
    for chart in board_context(analysis, "T")["charts"]:
        assert [(line.colour, line.dashes) for line in chart["chart"].lines] == expected


def test_bodies_of_a_table_are_shown_as_shares_of_the_best_easiest_first(
    analysis: TableAnalysis,
) -> None:
    best, _, low = (strip["cells"] for strip in board_context(analysis, "T")["strips"])
    assert [(cell.body, cell.level, cell.text) for cell in best] == [
        ("e", 8, "62, 100 % of best"),
        ("d", 8, "22, 92 % of best"),
        ("c", 3, "12, 39 % of best"),
    ]
    assert [cell.text for cell in low] == [
        *("6, 10 % of best", "24, 100 % of best", "2, 6 % of best"),
    ]


def test_the_first_lags_most_where_another_is_most_ahead(analysis: TableAnalysis) -> None:
    # Means of 12, 22 and 62 have the variance 700, their mean 700 / 3: 32 + 4.303 * 15.28 = 97.7.
    assert challenge(analysis, 1) == [
        "The mean to beat is 32.0.",
        "One above 97.7 would be beyond its 95 % interval over other seeds and other bodies.",
        "Another method scores higher than the first one on 2 of 3 bodies; the best method of each "
        "body together would reach 39.0.",
        "It lags most on c (19.0), d (2.0).",
    ]


def test_as_high_as_the_first_is_not_higher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEANS, "low", (2.0, 24.0, MEANS["best"][2]))
    assert challenge(_analyse(), 1)[2].startswith(
        "Another method scores higher than the first one on 2 of 3 bodies; "
    )


def test_methods_are_compared_over_seeds_and_bodies(analysis: TableAnalysis) -> None:
    data = compare_context(analysis, "T")["data"]
    assert [row["bodies"] for row in data["rows"]] == [["c", "d", "e"]] * 3
    for row, means in zip(data["rows"], MEANS.values(), strict=True):
        assert row["scores"] == pytest.approx(means)
    assert all(pair.significant_here for pair in analysis.comparisons)  # over seeds
    found = [(pair["first"], pair["second"], pair["distinguishable"]) for pair in data["pairs"]]
    assert found == [(0, 1, False), (0, 2, False), (1, 2, False)]
    both = analysis.comparisons[0].contrast.both
    shown = data["pairs"][0]
    assert not shown["isRatio"]  # three bodies leave the mean near zero
    assert shown["difference"] == pytest.approx(13.0 / 3.0)
    assert shown["estimate"] == [both.value, both.low, both.high]
    # Every run of the first wins on two of three bodies.
    assert shown["probability"] == [pytest.approx(2.0 / 3.0), None, None]


@pytest.mark.parametrize("shift", [-100.0, 100.0])
def test_pairs_are_shown_by_their_ratio_or_by_their_difference(
    monkeypatch: pytest.MonkeyPatch, shift: float
) -> None:
    for name, means in dict(MEANS).items():
        monkeypatch.setitem(MEANS, name, tuple(mean + shift for mean in means))
    context = compare_context(_analyse(), "T")
    (pair, cells), shown = context["pairs"][0], context["data"]["pairs"][0]
    assert shown["isRatio"] == (shift > 0.0) == (cells["Ratio"] != "—")
    both = pair.ratio.both if shift > 0.0 else pair.contrast.both
    assert shown["estimate"] == [both.value, both.low, both.high]
    assert shown["difference"] == pytest.approx(13.0 / 3.0)


def test_the_page_of_a_method_shows_its_scores_against_the_best(analysis: TableAnalysis) -> None:
    (section,) = method_context("low", None, [analysis], {analysis.table.key: "T"})["sections"]
    (row,) = section["rows"]
    assert [(cell.body, cell.level) for cell in row["strip"]] == [("c", 0), ("d", 8), ("e", 0)]
    body, scores = row["scores"][0]
    assert body == "c"
    assert scores == pytest.approx([2.0, *(2.0 + off for off in OFF)])


def test_rows_are_shown_against_the_best_of_their_own_ranking() -> None:
    """A method that was never tuned is in both rankings, and counts in the first."""

    def record(method: str, score: float, **changes: Any) -> RunRecord:
        returns = make_returns("train", {"a": [1.0], "b": [1.0]})
        returns += make_returns("test", {body: [score] for body in "cde"})
        return make_record(method=method, returns=returns, **changes)

    records = [record("tuned", 20.0), record("tuned", 5.0, **AFTER_TUNING), record("other", 10.0)]
    (table,), _ = aggregate(make_stored(item, f"{k}.json") for k, item in enumerate(records))
    found = [
        (method, row["before_tuning"], row["strip"][0].text)
        for method in ("other", "tuned")
        for section in method_context(method, None, [analyse(table)], {table.key: "T"})["sections"]
        for row in section["rows"]
    ]
    assert found == [
        ("other", False, "10, 100 % of best"),
        ("tuned", False, "5, 50 % of best"),
        ("tuned", True, "20, 100 % of best"),
    ]


def test_a_body_has_a_score_where_every_run_has_one(analysis: TableAnalysis) -> None:
    row = analysis.table.rows[0]
    first, second, *_ = row.runs
    part = tuple(item for item in second.record.returns if item.body != "d")
    lacking = make_stored(second.record.model_copy(update={"returns": part}))
    for runs in ((first, lacking), (lacking, first)):
        found = by_body(replace(row, runs=runs))
        train, test = ([("train", body) for body in "ab"], [("test", body) for body in "ce"])
        assert found.keys() == {(split, digest_of(body)) for split, body in (*train, *test)}
        assert found["test", digest_of("e")] == pytest.approx(62.0)


def test_the_page_of_a_body_lists_methods_best_first(
    analysis: TableAnalysis, column: TableColumn
) -> None:
    body = _body(analysis, "c")
    set_id, names = ("demo-set-v1", digest_of("set")), {("test", body.body_digest): ["c"]}
    context = body_context(body, set_id, [column], DrawnSet({}, missing="x"), Media(None), names)
    rows = context["sections"][0]["rows"]
    found = [(row["label"].split()[0], row["metres"], row["level"]) for row in rows]
    assert found == [("mid", "0.62", 8), ("best", "0.24", 3), ("low", "0.04", 0)]
    assert [row["score"] for row in rows] == pytest.approx([31.0, 12.0, 2.0])
    assert (context["limbs"], context["motors"]) == (body.limbs, None)
    drawn = DrawnSet({body.body_digest: star(3)})  # a torso and three limbs of two joints
    context = body_context(body, set_id, [column], drawn, Media(None), names)
    assert (context["limbs"], context["motors"]) == (4, 6)


def test_the_gallery_of_bodies_has_a_column_for_each_method(
    analysis: TableAnalysis, column: TableColumn
) -> None:
    bodies = [_body(analysis, "c"), _body(analysis, "d")]
    (table,) = bodies_context(bodies, [column], DrawnSet({}), Media(None))["tables"]
    assert [label.split()[0] for label, _ in table["columns"]] == ["best", "mid", "low"]
    for (_, _, cells), scores, levels in zip(
        table["rows"], ((12.0, 31.0, 2.0), (22.0, 11.0, 24.0)), ((3, 8, 0), (8, 4, 8)), strict=True
    ):
        assert [score for score, _ in cells] == pytest.approx(scores)
        assert tuple(level for _, level in cells) == levels


def test_bodies_are_listed_as_official_records_describe_them() -> None:
    official = _record("best", 0)
    described = [item.model_copy(update={"limbs": 7}) for item in official.returns]
    stored = [
        make_stored(official.model_copy(update={"official": False}), "a.json"),
        make_stored(official.model_copy(update={"returns": tuple(described)}), "b.json"),
    ]
    found = listed_bodies(stored)
    assert [(item.split, item.body) for item in found] == [
        *(("train", "a"), ("train", "b"), ("test", "c"), ("test", "d"), ("test", "e")),
    ]
    assert {item.limbs for item in found} == {7}


def test_only_the_first_of_a_board_is_marked(analysis: TableAnalysis) -> None:
    found = matrix([analysis], {analysis.table.key: "T"}, ())
    (place,) = (n for n, column in enumerate(found["columns"]) if column["key"] is not None)
    cells = {method: row[place] for method, row in found["rows"]}
    assert {method: cell["first"] for method, cell in cells.items()} == {
        "best": True, "mid": False, "low": False,
    }  # fmt: skip
    both = analysis.rows[0].crossed.both
    assert cells["best"]["score"].detail == f"{both.low:,.1f} to {both.high:,.1f}"


@pytest.mark.parametrize(("kept", "shown"), [((0, 1, 2, 3), 3), ((0, 2), 2), ((), 3)])
def test_the_run_in_the_middle_of_those_with_weights_is_played(
    analysis: TableAnalysis, kept: tuple[int, ...], shown: int
) -> None:
    """By score, seeds are 1, 3, 2, 0."""
    nothing: Any = SimpleNamespace(files={})
    gallery = Gallery(nothing, {digest_of(f"mid {seed}") for seed in kept}, {})
    gallery.enter(analysis)
    found = gallery.of_row(analysis.table.rows[1])
    assert found is not None
    assert found.seed == shown
