from collections.abc import Sequence

import pytest

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.next_run import next_runs
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.seeds import absent_seeds, further_seeds
from tests.support.records import digest_of, make_record, make_returns, make_stored

BODIES = "cdefgh"
ASKED = (1, 2)


def _analysis(records: Sequence[RunRecord]) -> TableAnalysis:
    (table,), _ = aggregate(make_stored(item, f"{n}.json") for n, item in enumerate(records))
    return analyse(table)


def _record(method: str, seed: int, score: float, **changes: object) -> RunRecord:
    """Return a run whose bodies score alike but for a little."""
    test = {body: [score + 0.1 * place] for place, body in enumerate(BODIES)}
    sets = make_record().morphologies.model_copy(update={"num_test": len(BODIES)})
    returns = make_returns("train", {"a": [1.0], "b": [1.0]}) + make_returns("test", test)
    fields = {"protocol_seeds": ASKED, "returns": returns, "morphologies": sets, **changes}
    return make_record(method=method, seed=seed, **fields)


FAR = [_record("far", 1, 100.0), _record("far", 2, 104.0)]
NEAR = [_record("near", 1, 10.0), _record("near", 2, 14.0)]
NEXT = [_record("next", 1, 17.0), _record("next", 2, 21.0)]
METHODS = ("far", "near", "next")


def test_missing_seeds_come_first_then_methods_without_a_row() -> None:
    (found,) = next_runs([_analysis([*FAR, NEAR[0]])], METHODS)  # no pair to be told apart
    assert (found.method, found.seed, found.why) == (
        "near",
        2,
        "incomplete: 1 of 2 seeds are there",
    )
    assert found.command.endswith("--protocol lite --morphologies demo-set-v1 --seed 2")
    (found,) = next_runs([_analysis([*FAR, *NEAR])], METHODS)
    assert (found.method, found.seed) == ("next", 1)
    assert found.why == "no run yet, as of 1 of 3 methods"


def test_a_table_that_lacks_methods_has_a_close_pair_too() -> None:
    lacking, closer = next_runs([_analysis([*FAR, *NEAR, *NEXT])], (*METHODS, "other"))
    assert (lacking.method, lacking.why) == ("other", "no run yet, as of 1 of 4 methods")
    assert (closer.method in ("near", "next"), closer.seed) == (True, 3)


def test_then_a_seed_for_the_pair_that_it_could_tell_apart() -> None:
    analysis = _analysis([*FAR, *NEAR, *NEXT])
    assert [(c.first, c.second) for c in analysis.comparisons if not c.significant] == [(1, 2)]
    (found,) = next_runs([analysis], METHODS)
    assert found.method in ("near", "next")
    assert found.seed == 3
    assert found.why.startswith("1 of 3 pairs are not told apart; this seed lets expect 0.")
    assert found.why.endswith(("near and next", "next and near"))
    assert next_runs([_analysis([*FAR, *NEAR])], METHODS[:2]) == []  # nothing is left to decide


def test_rules_of_yesterday_get_no_more_runs() -> None:
    old = _analysis([_record("far", 1, 1.0, protocol_digest=digest_of("old"))])
    (found,) = next_runs([old], METHODS)
    assert (found.method, found.seed) == ("far", 1)
    assert found.why == "no run yet under today's rules, only under earlier ones"
    assert next_runs([old, _analysis([*FAR, *NEAR])], METHODS[:2]) == []


def test_the_first_run_of_a_suite_that_has_a_later_version_is_one_of_that_version() -> None:
    old = _analysis([_record("far", 1, 1.0, suite="quadruped-friction-v2")])
    (found,) = next_runs([old, old], METHODS)
    assert found.table.startswith("quadruped-friction-v3, ")
    assert " --suite quadruped-friction-v3 " in found.command


def test_rows_of_earlier_settings_get_no_more_runs() -> None:
    before = _record("recmorph", 1, 60.0)
    rules = installed_rules(before, tuned=True)
    assert rules is not None
    (found,) = next_runs([_analysis([before, *NEAR])], ("recmorph", "near"))
    assert (found.method, found.seed) == ("recmorph", 1)
    today = {"config": dict(rules.config), "method_version": rules.method_version}
    now = [_record("recmorph", seed, 60.0 + 4 * seed, **today) for seed in ASKED]
    assert next_runs([_analysis([*now, before, *NEAR])], ("recmorph", "near")) == []


def test_further_seeds_follow_in_order_and_none_follows_a_single_one() -> None:
    assert further_seeds((1, 2, 3)) == (4, 5, 6)
    assert further_seeds((1,)) == further_seeds(()) == ()
    assert absent_seeds((1, 2), {1, 2}) == ()
    assert absent_seeds((1, 2), {1, 4}) == (2, 3)
    assert _record("far", 4, 1.0).official
    with pytest.raises(ValueError, match="seed 5, which is not one of protocol_seeds"):
        _record("far", 5, 1.0)
    table = _analysis([*FAR, _record("far", 4, 102.0)]).table
    assert table.rows[0].missing == ("no run for seed 3",)


def test_who_looks_again_needs_a_smaller_p_value() -> None:
    before = _analysis([*NEAR, *NEXT]).comparisons[0]
    after = _analysis([*NEAR, *NEXT, _record("next", 3, 19.0)]).comparisons[0]
    assert before.p_runs is not None
    assert after.p_runs is not None
    plain = _analysis(
        [
            item.model_copy(update={"protocol_seeds": ()})
            for item in (*NEAR, *NEXT, _record("next", 3, 19.0))
        ]
    ).comparisons[0]
    assert after.p_runs == pytest.approx(2.5 * (plain.p_runs or 0.0))
