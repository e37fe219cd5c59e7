from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest

from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.next_run import next_runs
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.records.seeds import absent_seeds, further_seeds
from tests.support.records import digest_of, make_record, make_returns
from tests.support.three_methods import ASKED, BODIES, FAR, NEAR, NEXT, analysis_of, run_of

METHODS = ("far", "near", "next")


def test_missing_seeds_come_first_then_methods_without_a_row() -> None:
    (found,) = next_runs([analysis_of([*FAR, NEAR[0]])], METHODS)  # no pair to be told apart
    assert (found.method, found.seed, found.why) == (
        "near",
        2,
        "incomplete: 1 of 2 seeds are there",
    )
    assert found.command.endswith("--protocol lite --morphologies demo-set-v1 --seed 2")
    (found,) = next_runs([analysis_of([*FAR, *NEAR])], METHODS)
    assert (found.method, found.seed) == ("next", 1)
    assert found.why == "no run yet, as of 1 of 3 methods"


def test_a_method_of_a_file_is_run_from_that_file() -> None:
    config = {"method": "near.py:SPEC"}
    (found,) = next_runs([analysis_of([*FAR, run_of("near", 1, 9.0, config=config)])], METHODS)
    assert (found.method, found.seed) == ("near", 2)
    assert found.command.startswith("gmc-bench run --method near.py:SPEC --suite ")


def test_the_row_that_lacks_fewest_seeds_is_completed_first() -> None:
    asked = {"protocol_seeds": (1, 2, 3)}
    seeds = {"best": (1,), "far": (1, 2, 3), "near": (1, 3), "worst": (2,)}
    records = [run_of(name, seed, 9.0, **asked) for name, each in seeds.items() for seed in each]
    (found,) = next_runs([analysis_of(records)], tuple(seeds))
    assert (found.method, found.seed) == ("near", 2)
    assert found.why == "incomplete: 2 of 3 seeds are there"
    (found,) = next_runs([analysis_of(records[:1])], ("best",))
    assert (found.seed, found.why) == (2, "incomplete: 1 of 3 seeds are there")


def test_a_table_that_lacks_methods_has_a_close_pair_too() -> None:
    lacking, closer = next_runs([analysis_of([*FAR, *NEAR, *NEXT])], (*METHODS, "other"))
    assert (lacking.method, lacking.why) == ("other", "no run yet, as of 1 of 4 methods")
    assert (closer.method, closer.seed) == ("next", 3)


def test_then_a_seed_for_the_pair_that_it_could_tell_apart() -> None:
    analysis = analysis_of([*FAR, *NEAR, *NEXT])
    assert [(c.first, c.second) for c in analysis.comparisons if not c.significant] == [(1, 2)]
    (found,) = next_runs([analysis], METHODS)
    assert (found.method, found.seed) == ("next", 3)  # its seeds differ more than those of near
    assert found.why.startswith("1 of 3 pairs are not told apart; this seed is expected to add 0.")
    assert found.why.endswith("next and near")
    assert next_runs([analysis_of([*FAR, *NEAR])], METHODS[:2]) == []  # nothing is left to decide
    (found,) = next_runs([analysis_of([*FAR, *NEAR, *NEXT, run_of("next", 3, 27.0)])], METHODS)
    assert (found.method, found.seed) == ("next", 4)  # the third is there


def test_a_reference_is_no_method_without_a_row() -> None:
    alone = {
        "controller": "single_robot",
        "returns": make_returns("train", {"a": [1.0], "b": [1.0]}),
    }
    rows = [run_of("solo", seed, 1.0, **alone) for seed in ASKED]
    assert next_runs([analysis_of([*FAR, *NEAR, *rows])], ("far", "near", "solo")) == []
    assert next_runs([analysis_of(rows)], METHODS) == []  # there is nothing to compare with


def test_seeds_that_a_protocol_leaves_open_are_not_asked_for() -> None:
    alone = [run_of("far", 7, 1.0, protocol_seeds=())]
    assert next_runs([analysis_of(alone)], METHODS) == []


def _table(*, train_only: bool = False, **methods: Sequence[float]) -> TableAnalysis:
    """Return a table of methods by the score of each seed, which is that of every body.

    But for those called `uneven`, of which half the bodies score 3 more and half 3 less. All are
    lowered by 100, so that methods are compared by their differences. With `train_only` the bodies
    are train bodies, which the protocol ranks by.
    """
    records = []
    for method, scores in methods.items():
        off = 3.0 if method.startswith("uneven") else 0.0
        for seed, score in enumerate(scores, 1):
            scores_of_bodies = {
                body: [score - 100.0 + off * (-1) ** place] for place, body in enumerate(BODIES)
            }
            if train_only:
                sets = make_record().morphologies.model_copy(update={"num_train": len(BODIES)})
                changes = {
                    "config": {"protocol": {"evaluation": {"splits": ["train"]}}},
                    "morphologies": sets,
                    "returns": make_returns("train", scores_of_bodies),
                }
            else:
                train = make_returns("train", {"a": [1.0], "b": [1.0]})
                changes = {"returns": train + make_returns("test", scores_of_bodies)}
            records.append(run_of(method, seed, 0.0, **changes))
    return analysis_of(records)


@pytest.mark.parametrize(
    ("methods", "pairs", "method", "seed", "other"),
    [
        # Two runs that differ by 2 have the variance 2, their mean 1, and of three it would be 2/3.
        # The middle one is 3 from both; of its two pairs, which are alike, the first is told.
        pytest.param(
            {"high": (19.0, 21.0), "middle": (16.0, 18.0), "low": (13.0, 15.0)},
            {
                "high": [(3.0, 2.0, 5.0 / 3.0), (6.0, 2.0, 5.0 / 3.0)],
                "middle": [(3.0, 2.0, 5.0 / 3.0), (3.0, 2.0, 5.0 / 3.0)],
                "low": [(3.0, 2.0, 5.0 / 3.0), (6.0, 2.0, 5.0 / 3.0)],
            },
            *("middle", 3, "high"),
            id="the middle one has two close pairs",
        ),
        # With four times the variance only the far pair is within reach: both ends gain alike, and
        # the first in the table is told.
        pytest.param(
            {"high": (18.0, 22.0), "middle": (15.0, 19.0), "low": (12.0, 16.0)},
            {
                "high": [(3.0, 8.0, 20.0 / 3.0), (6.0, 8.0, 20.0 / 3.0)],
                "middle": [(3.0, 8.0, 20.0 / 3.0), (3.0, 8.0, 20.0 / 3.0)],
                "low": [(3.0, 8.0, 20.0 / 3.0), (6.0, 8.0, 20.0 / 3.0)],
            },
            *("high", 3, "low"),
            id="both ends gain alike",
        ),
        # The mean of 12, 14 and 16 has the variance 4/3, of four runs it would be 1. Differences of
        # +3 and -3 on three bodies each have the variance 54/5 over bodies, their mean 9/5.
        pytest.param(
            {"high": (19.0, 21.0), "uneven": (16.0, 18.0), "low": (12.0, 14.0, 16.0)},
            {
                "high": [(3.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8), (6.0, 7.0 / 3.0, 2.0)],
                "uneven": [
                    (3.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8),
                    (3.0, 7.0 / 3.0 + 1.8, 2.0 + 1.8),
                ],
                "low": [(6.0, 7.0 / 3.0, 2.0), (3.0, 7.0 / 3.0 + 1.8, 2.0 + 1.8)],
            },
            *("high", 3, "low"),
            id="no seed makes bodies more alike",
        ),
        # Two that are uneven in the same way differ by as much on every body.
        pytest.param(
            {"high": (19.0, 21.0), "uneven": (16.0, 18.0), "uneven_too": (13.0, 15.0)},
            {
                "high": [(3.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8), (6.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8)],
                "uneven": [(3.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8), (3.0, 2.0, 5.0 / 3.0)],
                "uneven_too": [(6.0, 2.0 + 1.8, 5.0 / 3.0 + 1.8), (3.0, 2.0, 5.0 / 3.0)],
            },
            *("uneven_too", 3, "high"),
            id="bodies that differ alike do not make methods differ",
        ),
    ],
)
def test_the_seed_that_raises_the_expected_number_of_significant_pairs_most(
    methods: dict[str, Sequence[float]],
    pairs: dict[str, list[tuple[float, float, float]]],
    method: str,
    seed: int,
    other: str,
) -> None:
    """`pairs`: of each method's pairs the distance and its variance now and with another seed."""
    # Looked at repeatedly, three open pairs, two sides.
    critical = NormalDist().inv_cdf(1.0 - 0.05 / 2.5 / 3.0 / 2.0)

    def power(distance: float, variance: float) -> float:
        return NormalDist(critical).cdf(distance / variance**0.5)

    gains = {
        name: sum(power(distance, after) - power(distance, now) for distance, now, after in listed)
        for name, listed in pairs.items()
    }
    assert method == max(gains, key=gains.__getitem__)  # the first of equal ones
    (found,) = next_runs([_table(**methods)], list(methods))
    assert (found.method, found.seed) == (method, seed)
    assert found.why == (
        f"3 of 3 pairs are not told apart; this seed is expected to add {gains[method]:.2f}, "
        f"most likely {method} and {other}"
    )


def test_train_bodies_stand_for_no_others() -> None:
    """As above two means of variance 1, one of them of 2/3 with another seed, and no more."""
    critical = NormalDist().inv_cdf(1.0 - 0.05 / 2.5 / 2.0)

    def power(variance: float) -> float:
        return NormalDist(critical).cdf(3.0 / variance**0.5)

    analysis = _table(train_only=True, high=(19.0, 21.0), uneven=(16.0, 18.0))
    assert not analysis.bodies_are_sampled
    (found,) = next_runs([analysis], ["high", "uneven"])
    assert f" expected to add {power(5.0 / 3.0) - power(2.0):.2f}, most likely" in found.why


def test_pairs_told_apart_on_these_bodies_only_are_open() -> None:
    # Half the bodies rank one first and half the other: others could say either.
    records = []
    for method, low, high in (("one", 10.0, 16.0), ("two", 11.0, 11.0)):
        for seed in (1, 2, 3):
            scores = {body: [(low, high)[body in "fgh"] + 0.1 * seed] for body in BODIES}
            returns = make_returns("train", {"a": [1.0], "b": [1.0]})
            returns += make_returns("test", scores)
            records.append(run_of(method, seed, 0.0, returns=returns, protocol_seeds=(1, 2, 3)))
    analysis = analysis_of(records)
    (pair,) = analysis.comparisons
    assert (pair.significant_here, pair.significant) == (True, False)
    (found,) = next_runs([analysis], ["one", "two"])
    assert found.seed == 4
    assert found.why.startswith("1 of 1 pairs are not told apart; ")


def test_positive_scores_gain_by_their_logarithms() -> None:
    """Either run of 8 -+ 4 and of 2 -+ 0.6 is what is left of the mean without the other.

    Bodies of the first score half more or half less than its mean, of the second a fifth: over six
    bodies, the difference of 0.3 has the variance 0.3^2 / 5.
    """
    critical = NormalDist().inv_cdf(1.0 - 0.05 / 2.5 / 2.0)
    distance = np.log(4.0)
    large, small = (np.log([1.0 - off, 1.0 + off]).var() for off in (0.5, 0.3))  # of means of two

    def power(over_runs: float) -> float:
        return NormalDist(critical).cdf(distance / (over_runs + 0.018) ** 0.5)

    records = []
    for method, mean, deviation, uneven in (("high", 8.0, 4.0, 4.0), ("low", 2.0, 0.6, 0.4)):
        for seed, off in ((1, -1.0), (2, 1.0)):
            level = mean + off * deviation
            test = {body: [level + uneven * (-1) ** place] for place, body in enumerate(BODIES)}
            returns = make_returns("train", {"a": [1.0], "b": [1.0]}) + make_returns("test", test)
            records.append(run_of(method, seed, 0.0, returns=returns))
    (found,) = next_runs([analysis_of(records)], ["high", "low"])
    assert (found.method, found.seed) == ("high", 3)
    gain = power(small + large * 2.0 / 3.0) - power(small + large)
    assert f" expected to add {gain:.2f}, most likely high and low" in found.why


def test_bodies_of_one_geometry_are_as_good_as_one() -> None:
    """Differences of +3 on three bodies of one geometry, and of -3 on three of another.

    Of two geometries their mean has the variance 2 (9^2 + 9^2) / 6^2 = 9, not 9 / 5 as of six.
    """
    returns = make_returns("train", {"a": [1.0], "b": [1.0]})
    records = []
    for method, level, uneven in (("high", -17.0, 3.0), ("low", -20.0, 0.0)):
        for seed, off in ((1, -1.0), (2, 1.0)):
            signs = dict(zip(BODIES, (1.0, 1.0, 1.0, -1.0, -1.0, -1.0), strict=True))
            test = make_returns(
                "test", {body: [level + off + sign * uneven] for body, sign in signs.items()}
            )
            kin = (
                item.model_copy(update={"geometry": ("0" if signs[item.body] > 0 else "1") * 16})
                for item in test
            )
            records.append(run_of(method, seed, 0.0, returns=(*returns, *kin)))
    critical = NormalDist().inv_cdf(1.0 - 0.05 / 2.5 / 2.0)

    def power(variance: float) -> float:
        return NormalDist(critical).cdf(3.0 / variance**0.5)

    (found,) = next_runs([analysis_of(records)], ["high", "low"])
    assert f" expected to add {power(5.0 / 3.0 + 9.0) - power(2.0 + 9.0):.2f}," in found.why
    few, many = (power(5.0 / 3.0 + each) - power(2.0 + each) for each in (9.0, 1.8))
    assert f"{few:.2f}" != f"{many:.2f}"


def test_rules_of_yesterday_get_no_more_runs() -> None:
    old = analysis_of([run_of("far", 1, 1.0, protocol_digest=digest_of("old"))])
    (found,) = next_runs([old], METHODS)
    assert (found.method, found.seed) == ("far", 1)
    assert found.why == "no run yet under today's rules, only under earlier ones"
    of_yesterday = {"protocol_digest": digest_of("old")}
    several = [
        run_of(method, seed, score, **of_yesterday)
        for method, score in (("a", 1.0), ("b", 9.0))
        for seed in ASKED
    ]
    (found,) = next_runs([analysis_of(several)], METHODS)
    assert found.method == "b"  # who was best
    assert next_runs([old, analysis_of([*FAR, *NEAR])], METHODS[:2]) == []


def test_runs_that_change_the_protocol_are_of_none_of_yesterday() -> None:
    changed = {"protocol_digest": digest_of("own")}
    own = {"official": False, "unofficial_reasons": ("fewer steps",), **changed}
    earlier = [
        is_earlier(analysis_of([run_of("far", 1, 1.0, **each)]).table) for each in (changed, own)
    ]
    assert earlier == [True, False]


def test_the_first_run_of_a_suite_that_has_a_later_version_is_one_of_that_version() -> None:
    old = analysis_of([run_of("far", 1, 1.0, suite="quadruped-friction-v2")])
    (found,) = next_runs([old, old], METHODS)
    assert found.table.startswith("quadruped-friction-v3, ")
    assert " --suite quadruped-friction-v3 " in found.command


def test_rows_of_earlier_settings_get_no_more_runs() -> None:
    before = run_of("recmorph", 1, 60.0)
    rules = installed_rules(before, tuned=True)
    assert rules is not None
    (found,) = next_runs([analysis_of([before, *NEAR])], ("recmorph", "near", "far"))
    assert (found.method, found.seed) == ("recmorph", 1)
    assert found.why == "no run with today's settings yet, as of 2 of 3 methods"
    (found,) = next_runs([analysis_of([before, *NEAR])], ("far", "recmorph", "near"))
    assert (found.method, found.why) == ("far", "no run yet, as of 2 of 3 methods")
    today = {"config": dict(rules.config), "method_version": rules.method_version}
    now = [run_of("recmorph", seed, 60.0 + 4 * seed, **today) for seed in ASKED]
    assert next_runs([analysis_of([*now, before, *NEAR])], ("recmorph", "near")) == []
    # Those of earlier settings scatter most, but nobody can add their third seed any more.
    apart = [run_of("recmorph", seed, 30.0 * seed) for seed in ASKED]
    now = [run_of("recmorph", seed, 60.0 + 4.0 * seed, **today) for seed in (1, 2, 3)]
    (found,) = next_runs([analysis_of([*now, *apart, *NEAR])], ("recmorph", "near"))
    assert (found.method, found.seed) != ("recmorph", 3)


def test_further_seeds_follow_in_order_and_none_follows_a_single_one() -> None:
    assert further_seeds((1, 2, 3)) == (4, 5, 6)
    assert further_seeds((1,)) == further_seeds(()) == ()
    assert absent_seeds((1, 2), {1, 2}) == ()
    assert absent_seeds((1, 2), {1, 4}) == (2, 3)
    assert run_of("far", 4, 1.0).official
    with pytest.raises(ValueError, match="seed 5, which is not one of protocol_seeds"):
        run_of("far", 5, 1.0)
    table = analysis_of([*FAR, run_of("far", 4, 102.0)]).table
    assert table.rows[0].missing == ("no run for seed 3",)


def test_who_looks_again_needs_a_smaller_p_value() -> None:
    runs = [*NEAR, *NEXT, run_of("next", 3, 20.0)]
    (again,) = analysis_of(runs).comparisons
    open_seeds = [item.model_copy(update={"protocol_seeds": ()}) for item in runs]
    (once,) = analysis_of(open_seeds).comparisons
    assert once.p_runs is not None
    assert 0.05 / 2.5 < once.p_runs < 0.05
    assert (once.significant_here, once.significant) == (True, True)
    assert (again.significant_here, again.significant) == (False, False)
