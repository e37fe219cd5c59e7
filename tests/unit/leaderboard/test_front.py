from pathlib import Path

from gmc_bench.leaderboard.front import coverage, front, grid, leader
from gmc_bench.leaderboard.overview import make_overview
from tests.support.records import AFTER_TUNING
from tests.unit.leaderboard.test_next_run import FAR, NEAR, NEXT, _analysis, _record


def test_the_front_says_how_much_there_is_who_leads_and_what_is_missing(tmp_path: Path) -> None:
    analysis = _analysis([*FAR, *NEAR, NEXT[0]])
    text = front([analysis], ("absent",), tmp_path, "docs/findings.md")
    assert text.startswith(
        "Of 36 combinations of 4 methods and 9 boards, 2 have all seeds and 1 has some."
    )
    assert "Of 1 pairs of methods on the same board, 1 differs significantly." in text
    assert "far is first of 2 with a mean return of 102 (95 % interval " in text
    assert "not run yet ([findings](docs/findings.md))." in text
    assert "Boards without runs: Flat terrain, Incline, Exploration," in text
    assert "Methods without runs: absent." in text
    assert "findings" not in front([analysis], (), tmp_path, "")


def test_cells_without_all_seeds_are_marked_and_methods_that_are_alike_are_named() -> None:
    found = make_overview([_analysis([*FAR, *NEAR, NEXT[0]])], ())
    rows = {line.split(" | ")[0]: line for line in grid(found)}
    assert rows["| far"] == "| far | 102 a |"
    assert rows["| near"] == "| near | 12 b |"
    assert rows["| next"] == "| next | *1/2* |"
    alike = make_overview([_analysis([*NEAR, *NEXT])], ())
    assert leader(alike).endswith("; its lead over near is not significant.")
    assert "Of 1 pairs of methods on the same board, 0 differ" in coverage(alike)
    begun = make_overview([_analysis([FAR[0]])], ())
    assert leader(begun) == "No board has places yet: no row has all of its seeds."


def test_what_is_scored_on_train_bodies_alone_is_said_to_be() -> None:
    unseen = leader(make_overview([_analysis(FAR)], ()))
    assert "m, on bodies it has never seen." in unseen
    rules = {"protocol": {"evaluation": {"splits": ["train"]}}}
    known = [_record("far", seed, 1.0, config=rules) for seed in (1, 2)]
    assert "on the bodies it was trained on." in leader(make_overview([_analysis(known)], ()))


def test_who_would_be_first_with_the_values_before_tuning_is_said() -> None:
    tuned = [_record("near", seed, 5.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([_analysis([*NEXT, *NEAR, *tuned])], ()))
    assert "next is first of 2 with a mean return of 20 (" in text
    assert "before tuning" not in text  # it is first either way
    before = [_record("near", seed, 50.0 + seed) for seed in (1, 2)]
    text = leader(make_overview([_analysis([*NEXT, *before, *tuned])], ()))
    assert "next is first of 2" in text
    assert text.endswith("With the values before tuning, near is first of 2 with 51.8.")
    first = [_record("near", seed, 80.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([_analysis([*NEXT, *before, *first])], ()))
    assert "near is first of 2" in text
    assert "before tuning" not in text  # with other values, it is first, too
    # A method that was run with its tuned values only was not beaten.
    best = [_record("best", seed, 60.0 + seed, **AFTER_TUNING) for seed in (1, 2)]
    text = leader(make_overview([_analysis([*NEXT, *before, *tuned, *best])], ()))
    assert text.endswith(
        "With the values before tuning, near is first of 2 with 51.8 (best has no complete row of "
        "them)."
    )
