import pytest

from gmc_bench.leaderboard import overview
from gmc_bench.leaderboard.aggregate import is_tuned
from gmc_bench.leaderboard.overview import make_overview
from tests.support.records import AFTER_TUNING, UNTRAINED, make_returns
from tests.support.three_methods import FAR, NEAR, NEXT, analysis_of, run_of


def test_standing_boards_come_first_and_cells_are_never_made_up() -> None:
    found = make_overview([analysis_of([*FAR, *NEAR, NEXT[0]])], ("absent", "next"))
    *standing, extra = (column.heading for column in found.columns)
    assert standing == [
        *("Flat terrain", "Incline", "Exploration", "Obstacles", "Variable terrain"),
        *("Larger bodies", "Closed loops", "Quadrupeds"),
    ]
    assert "demo-set-v1" in extra  # the one board that has records: other bodies than the suite's
    place = len(standing)
    assert found.methods == ("far", "near", "next", "absent")
    assert {found.cells[name, 0].status for name in found.methods} == {"not run"}
    far, near, late, absent = (found.cells[name, place] for name in found.methods)
    assert [cell.rank for cell in (far, near, late, absent)] == [1, 2, None, None]
    assert [cell.status for cell in (far, near, late, absent)] == [
        *("ranked", "ranked", "incomplete", "not run")
    ]
    assert far.score is not None
    assert far.score.value == pytest.approx(102.25)
    assert far.metres == pytest.approx(0.02 * 102.25)
    assert far.group != near.group
    assert (late.seeds, late.asked, late.group) == (1, 2, "")
    assert late.score is None  # nothing is averaged over missing seeds
    assert absent.score is None
    assert (found.num_complete, found.num_started) == (2, 3)
    assert (found.num_significant, found.num_pairs) == (1, 1)


def test_of_several_engines_the_table_with_most_rows_stands_for_the_board() -> None:
    small = [
        item.model_copy(update={"versions": item.versions | {"mujoco": version}})
        for version in ("0.1", "9.9")
        for item in NEAR
    ]
    tables = [analysis_of(small[:2]), analysis_of([*FAR, *NEAR]), analysis_of(small[2:])]
    assert make_overview(tables, ()).columns[-1].analysis is tables[1]


def test_the_newest_version_of_a_method_stands_for_it() -> None:
    newer = [run_of("far", seed, 50.0, method_version=2) for seed in (1, 2)]
    found = make_overview([analysis_of([*FAR, *newer])], ())
    assert found.cells["far", len(found.columns) - 1].rank == 2


@pytest.mark.parametrize(("preset", "score"), [("lite", 102.25), ("other", 50.25)])
def test_of_complete_rows_the_one_that_a_new_run_would_join_stands_for_a_method(
    monkeypatch: pytest.MonkeyPatch, preset: str, score: float
) -> None:
    monkeypatch.setattr(overview, "is_current", lambda row: row.key.preset == preset)
    other = [run_of("far", seed, 50.0, preset="other") for seed in (1, 2)]
    found = make_overview([analysis_of([*FAR, *other])], ())
    cell = found.cells["far", len(found.columns) - 1]
    assert cell.score is not None
    assert cell.score.value == pytest.approx(score)


def test_a_specialist_alone_makes_a_column_and_a_floor_alone_does_not() -> None:
    train = make_returns("train", {"a": [1.0], "b": [1.0]})
    specialist = run_of("mlp", 1, 1.0, controller="single_robot", returns=train)
    floor = run_of("zero-action", 1, 3.0, **UNTRAINED)
    for records, there in (([specialist], True), ([floor], False)):
        found = make_overview([analysis_of(records)], ())
        assert any("demo-set-v1" in column.heading for column in found.columns) == there


def test_the_floor_is_that_of_no_action() -> None:
    first = [
        run_of(method, 1, score, **UNTRAINED | {"protocol_seeds": (1,)})
        for method, score in (("aaa", 7.0), ("zero-action", 3.0))
    ]
    floors = [
        make_overview([analysis_of([*FAR, *rows])], ()).columns[-1].floor
        for rows in (first, first[:1])
    ]
    assert floors == [pytest.approx(3.25), None]


def test_the_first_tuned_seed_takes_no_place_from_a_complete_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table still ranks it; a run made now would join the tuned row."""
    monkeypatch.setattr(overview, "is_current", is_tuned)
    tuned = [run_of("far", seed, 200.0, **AFTER_TUNING) for seed in (1, 2)]
    for seeds, rank, score in ((1, 1, 102.25), (2, 1, 200.25)):
        found = make_overview([analysis_of([*FAR, *NEAR, *tuned[:seeds]])], ())
        cell = found.cells["far", len(found.columns) - 1]
        assert (cell.status, cell.rank) == ("ranked", rank)
        assert cell.score is not None
        assert cell.score.value == pytest.approx(score)
        assert found.num_complete == 2
