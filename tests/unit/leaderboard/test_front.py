import re
from dataclasses import replace
from pathlib import Path

from gmc_bench.leaderboard.caveats import first_before_tuning
from gmc_bench.leaderboard.front import coverage, front, grid, leader
from gmc_bench.leaderboard.overview import Column, Overview, OverviewCell, make_overview
from gmc_bench.leaderboard.statistics import Estimate
from tests.support.records import AFTER_TUNING
from tests.support.three_methods import FAR, NEAR, NEXT, analysis_of, run_of


def test_the_front_says_how_much_there_is_who_leads_and_what_is_missing(tmp_path: Path) -> None:
    analysis = analysis_of([*FAR, *NEAR, NEXT[0]])
    text = front([analysis], ("absent",), tmp_path, "docs/findings.md")
    assert text.startswith(
        "Of 36 combinations of 4 methods and 9 boards, 2 have all seeds and 1 has some."
    )
    assert "Of 1 pairs of methods on the same board, 1 differs significantly (" in text
    assert "far is first of 2 with a mean return of 102 (95 % interval " in text
    said = re.search(r"Verdicts on (\d+) claims of the RecMorph paper: (.*) \(\[findings\]", text)
    assert said is not None
    counts = [int(part.split()[0]) for part in said[2].split(", ")]
    assert int(said[1]) == sum(counts) > len(counts)
    assert 0 not in counts  # no verdict is told that no claim has
    assert "not run yet ([findings](docs/findings.md))." in text
    assert "Boards without runs: Flat terrain, Incline, Exploration," in text
    assert "Methods without runs: absent." in text
    assert "findings" not in front([analysis], (), tmp_path, "")


def test_cells_without_all_seeds_are_marked_and_methods_that_are_alike_are_named() -> None:
    found = make_overview([analysis_of([*FAR, *NEAR, NEXT[0]])], ())
    rows = {line.split(" | ")[0]: line for line in grid(found)}
    assert rows["| far"] == "| far | 102 a |"
    assert rows["| near"] == "| near | 14 b |"
    assert rows["| next"] == "| next | *1/2* |"
    alike = make_overview([analysis_of([*NEAR, *NEXT])], ())
    assert leader(alike).endswith("; its lead over near is not significant.")
    assert "Of 1 pairs of methods on the same board, 0 differ" in coverage(alike)
    begun = make_overview([analysis_of([FAR[0]])], ())
    assert leader(begun) == "No board has places yet: no row has all of its seeds."


def test_a_matrix_of_several_boards_is_shown_cell_by_cell() -> None:
    places = (("Flat", -3.0), ("Up", -0.3), ("Down", None), ("Nowhere", None))
    columns = tuple(
        Column("unimal-v1", f"t{place}", "lite", "bodies", heading, None, floor)
        for place, (heading, floor) in enumerate(places)
    )
    wide = Estimate(1234.4, 1200.2, 1290.7)
    none, half = OverviewCell("not run", 0, 0), Estimate(0.5, None, None)
    rows = {
        "second": [
            OverviewCell("ranked", 5, 5, Estimate(999.0, None, None), rank=2, group="ab"),
            OverviewCell("incomplete", 3, 5),
        ],
        "first": [
            OverviewCell("ranked", 5, 5, wide, metres=24.66, rank=1, group="b"),
            OverviewCell("ranked", 5, 5, Estimate(7.0, None, None), share=half, rank=1, group="a"),
        ],
        "third": [
            OverviewCell("ranked", 5, 5, Estimate(9.0, None, None), rank=3, group="c"),
            OverviewCell(
                "ranked", 5, 5, Estimate(-0.3, None, None), share=Estimate(-0.001, None, None)
            ),
            OverviewCell("incomplete", 1, 5),
        ],
        "absent": [],
    }
    cells = {
        (method, place): cell
        for method, found in rows.items()
        for place, cell in enumerate([*found, *[none] * (4 - len(found))])
    }
    found = Overview(columns, tuple(rows), cells)
    *lines, _, told, _ = grid(found)
    assert lines == [
        "| Method | Flat | Up | Down |",
        "| --- | ---: | ---: | ---: |",
        "| second | 999 ab | *3/5* | — |",
        "| first | 1,234 b | 7 a (0.50) | — |",
        "| third | 9 c | 0  (0.00) | *1/5* |",
        "| *no action* | -3 | 0 | — |",
    ]
    assert "In brackets: normalised train score" in told
    assert told.endswith("Boards without runs: Nowhere. Methods without runs: absent.")
    assert leader(found) == (
        "On the board 'Flat', first is first of 3 with a mean return of 1,234 (95 % interval 1,200 "
        "to 1,291), or 24.7 m, on bodies it has never seen; its lead over second is not "
        "significant."
    )
    beyond = {("first", 0): "xb2", ("second", 0): "b", ("third", 0): "b2"}  # of more than 52 groups
    other = cells | {place: replace(cells[place], group=text) for place, text in beyond.items()}
    text = leader(Overview(columns, tuple(rows), other))
    assert text.endswith("; its lead over third is not significant.")
    zero = replace(cells["first", 0], score=Estimate(-0.1, -0.4, 0.4), metres=-0.04)
    text = leader(Overview(columns, tuple(rows), cells | {("first", 0): zero}))
    assert "with a mean return of 0 (95 % interval 0 to 0), or 0.0 m, on" in text
    assert coverage(found) == (
        "Of 16 combinations of 4 methods and 4 boards, 5 have all seeds and 2 have some."
    )
    begun = {
        place: OverviewCell("incomplete", 1, 5) if cell != none else none
        for place, cell in cells.items()
    }
    text = coverage(Overview(columns, tuple(rows), begun))
    assert text.endswith(" boards, 0 have all seeds and 7 have some.")


def test_what_is_scored_on_train_bodies_alone_is_said_to_be() -> None:
    unseen = leader(make_overview([analysis_of(FAR)], ()))
    assert "m, on bodies it has never seen." in unseen
    rules = {"protocol": {"evaluation": {"splits": ["train"]}}}
    known = [run_of("far", seed, 1.0, config=rules) for seed in (1, 2)]
    assert "on the bodies it was trained on." in leader(make_overview([analysis_of(known)], ()))


def test_who_would_be_first_with_the_values_before_tuning_is_said() -> None:
    tuned = [run_of("near", seed, 5.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([analysis_of([*NEXT, *NEAR, *tuned])], ()))
    assert "next is first of 2 with a mean return of 20 (" in text
    assert "before tuning" not in text  # it is first either way
    before = [run_of("near", seed, 50.0 + seed) for seed in (1, 2)]
    text = leader(make_overview([analysis_of([*NEXT, *before, *tuned])], ()))
    assert "next is first of 2" in text
    assert text.endswith("With the values before tuning, near is first of 2 with 51.8.")
    analysis = analysis_of([*NEXT, *before, *tuned])
    assert analysis.before_tuning is not None
    pairs = zip(analysis.before_tuning.rows, ("xb2", "b"), strict=True)  # of more than 52 groups
    rows = tuple(replace(row, group=group) for row, group in pairs)
    several = replace(analysis, before_tuning=replace(analysis.before_tuning, rows=rows))
    assert first_before_tuning(several) == first_before_tuning(analysis)
    first = [run_of("near", seed, 80.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([analysis_of([*NEXT, *before, *first])], ()))
    assert "near is first of 2" in text
    assert "before tuning" not in text  # with other values, it is first, too
    # A method that was run with its tuned values only was not beaten.
    best = [run_of("best", seed, 60.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([analysis_of([*NEXT, *before, *tuned, *best])], ()))
    assert text.endswith(
        "With the values before tuning, near is first of 2 with 51.8 (best has no complete row of "
        "them)."
    )
