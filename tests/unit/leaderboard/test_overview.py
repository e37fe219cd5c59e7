import pytest

from gmc_bench.leaderboard.overview import make_overview
from tests.unit.leaderboard.test_next_run import FAR, NEAR, NEXT, _analysis


def test_standing_boards_come_first_and_cells_are_never_made_up() -> None:
    found = make_overview([_analysis([*FAR, *NEAR, NEXT[0]])], ("absent", "next"))
    standing = [column.heading for column in found.columns if column.is_standing]
    assert standing == [
        *("FT", "Incline", "Exploration", "Obstacles", "VT"),
        *("Larger bodies", "Closed loops", "Quadrupeds"),
    ]
    place = len(standing)  # of the one board that has records: other bodies than the suite's
    (extra,) = found.columns[place:]
    assert "demo-set-v1" in extra.heading
    assert found.methods == ("far", "near", "next", "absent")
    assert {found.cells[name, 0].status for name in found.methods} == {"not run"}
    far, near, late, absent = (found.cells[name, place] for name in found.methods)
    assert [cell.place for cell in (far, near, late, absent)] == [1, 2, None, None]
    assert [cell.status for cell in (far, near, late, absent)] == [
        *("ranked", "ranked", "incomplete", "not run")
    ]
    assert far.score is not None
    assert far.score.value == pytest.approx(102.25)
    assert far.group != near.group
    assert (late.seeds, late.asked, late.group) == (1, 2, "")
    assert absent.score is None
    assert (found.filled, found.begun, found.told_apart, found.pairs) == (2, 3, 1, 1)


def test_the_score_of_missing_seeds_needs_the_first_ones() -> None:
    first, second = (make_overview([_analysis([*FAR, run])], ()) for run in NEAR)
    cells = [found.cells["near", len(found.columns) - 1] for found in (first, second)]
    assert cells[0].score is not None
    assert cells[0].score.value == pytest.approx(10.25)
    assert cells[1].score is None  # somebody could have left out the first seed
