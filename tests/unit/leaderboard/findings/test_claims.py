"""Verdicts of claims on made-up samples."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.leaderboard.findings.claims import (
    AboveThreshold,
    Conjunction,
    Equivalence,
    Finding,
    Lead,
    Superiority,
    figure,
)
from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.pools import Sample, StudyPool
from gmc_bench.leaderboard.findings.power import power_text, seeds_needed
from tests.support.findings import FULL, TEXTS, make_study


def _samples(**values: tuple[float, ...]) -> dict[str, Sample]:
    return {
        name: Sample(name, tuple(range(1, len(each) + 1)), each, ("file",) * len(each))
        for name, each in values.items()
    }


def _logarithms(values: Sequence[float]) -> list[float]:
    """Return pseudo-values of the logarithm of a mean: what each run adds to it."""
    count, whole = len(values), np.log(np.mean(values))
    return [
        count * whole - (count - 1) * np.log((sum(values) - value) / (count - 1))
        for value in values
    ]


@pytest.mark.parametrize(
    ("a", "verdict"),
    [
        ((20.0, 21.0, 22.0), "seen here"),
        ((1.0, 2.0, 3.0), "not seen here"),
        ((9.0, 12.0, 15.0), "cannot be decided with these runs"),
        ((20.0,), "not run yet"),
    ],
)
def test_the_interval_of_a_gap_decides(a: tuple[float, ...], verdict: str) -> None:
    claim = Superiority(**TEXTS, first="a", second="b", size=0.1)
    found = claim.decide(_samples(a=a, b=(10.0, 11.0, 12.0)))
    assert found.verdict == verdict
    assert bool(found.power) == verdict.startswith("cannot")
    turned = Superiority(**TEXTS, first="a", second="b", lower_is_better=True)
    opposite = {"seen here": "not seen here", "not seen here": "seen here"}
    assert turned.decide(_samples(a=a, b=(10.0, 11.0, 12.0))).verdict == opposite.get(
        verdict, verdict
    )


def test_a_gap_must_show_without_pooled_variances_too() -> None:
    """Pooled, the interval of the gap is 3.9 to 88.6 %; by Welch's test, -6.8 to 110.4 %."""
    values = _samples(a=(11.5, 14.0, 16.5), b=(9.5, 10.0, 10.5))
    found = Superiority(**TEXTS, first="a", second="b").decide(values)
    assert found.verdict == "cannot be decided with these runs"
    assert found.here.endswith("higher by +40.0 % (-6.8 to +110.4)")
    lead = Lead(**TEXTS, ours=("a",), others=("b",)).decide(values)
    assert lead.verdict == "cannot be decided with these runs"
    assert "significantly ahead of 0 of 1" in lead.here


def test_a_gap_says_what_it_compares() -> None:
    claim = Superiority(**TEXTS, first="a", second="b")
    here = claim.decide(_samples(a=(20.0, 22.0), b=(10.0, 10.5))).here
    assert here.startswith("a 21.0 (2 seeds) against b 10.2 (2 seeds): higher by +104.9 %")
    # A share of a negative mean would have the wrong sign.
    here = claim.decide(_samples(a=(-9.5, -10.5), b=(-29.0, -31.0))).here
    assert here.startswith("a -10.0 (2 seeds) against b -30.0 (2 seeds): higher by +20.0 (")


@pytest.mark.parametrize(("lower_is_better", "ratio"), [(False, 1.5), (True, 0.5)])
def test_positive_numbers_are_compared_by_the_logarithms_of_their_means(
    lower_is_better: bool, ratio: float
) -> None:
    """Of a mean of 20 half more, or half less, would be the paper's; here it is a quarter."""
    first = (15.0, 25.0, 35.0) if not lower_is_better else (5.0, 15.0, 25.0)
    values = _samples(a=first, b=(10.0, 20.0, 30.0))
    relative = [_logarithms(item.values) for item in values.values()]
    texts = {**TEXTS, "lower_is_better": lower_is_better, "size": 0.5}
    for claim in (
        Superiority(**texts, first="a", second="b"),
        Lead(**texts, ours=("a",), others=("b",)),
    ):
        found = claim.decide(values)
        needed = seeds_needed(relative, abs(np.log(ratio)))
        alone = "against b alone, " if isinstance(claim, Lead) else ""  # of all others, one
        expected = f"{alone}about {needed} seeds per side would show "
        assert found.power.startswith(f"{expected}an effect as large as the claim's")
        way = "lower" if lower_is_better else "higher"
        assert f": {way} by +25.0 % (" in found.here
        measured = replace(claim, size=None).decide(values).power
        needed = seeds_needed(relative, abs(np.log(first[1] / 20.0)))
        expected = f"{alone}about {needed} seeds per side would show "
        assert measured.startswith(f"{expected}the difference measured here")


def test_the_size_of_a_claim_is_a_share_of_what_is_compared_with() -> None:
    """Half of a mean of 30; of one that is not positive, half would say nothing."""
    values = _samples(a=(-20.0, 40.0, 100.0), b=(-30.0, 30.0, 90.0))
    needed = seeds_needed([item.values for item in values.values()], 15.0)
    expected = f"about {needed} seeds per side would show an effect as large as the claim's"
    negative = _samples(a=(-40.0, -20.0, 0.0), b=(-50.0, -30.0, -10.0))
    for claim in (
        Superiority(**TEXTS, first="a", second="b", size=0.5),
        Lead(**TEXTS, ours=("a",), others=("b",), size=0.5),
    ):
        found = claim.decide(values)
        assert found.power.removeprefix("against b alone, ").startswith(expected)
        assert "higher by +10.0 (" in found.here  # not a share of a mean that is uncertain itself
        assert "the difference measured here" in claim.decide(negative).power


def test_a_lead_needs_all_others() -> None:
    claim = Lead(**TEXTS, ours=("a", "b"), others=("c", "d"), size=0.5)
    ahead = _samples(a=(1.0, 2.0, 3.0), b=(90.0, 91.0, 92.0), c=(10.0, 11.0, 12.0))
    found = claim.decide(ahead)
    assert (found.verdict, found.power) == ("cannot be decided with these runs", "runs of d")
    assert "1 of 2 others have runs" in found.here
    assert claim.decide({**ahead, **_samples(d=(9.0,))}) == found  # one run has no interval
    assert claim.decide({**ahead, **_samples(d=(9.0, 10.0, 11.0))}).verdict == "seen here"
    beaten = claim.decide({**ahead, **_samples(d=(190.0, 191.0, 192.0))})
    assert beaten.verdict == "not seen here"
    only_a = {name: item for name, item in ahead.items() if name != "b"}
    untried = claim.decide(only_a | _samples(c=(190.0, 191.0, 192.0)))
    assert untried.verdict == "cannot be decided with these runs"
    assert (untried.power, untried.here.partition("; ")[2]) == (
        "runs of b", "1 of 2 others have runs; behind c",
    )  # fmt: skip
    close = claim.decide({**ahead, **_samples(d=(88.0, 92.0, 93.0))})
    assert close.verdict == "cannot be decided with these runs"
    assert "significantly ahead of 1 of 2" in close.here
    # Each alone would show, by 2.4 +- 2.776 * sqrt(2 / 3); of three pairs, none does.
    same = (10.0, 11.0, 12.0)
    barely = replace(claim, ours=("a",)).decide(_samples(a=(12.4, 13.4, 14.4), c=same, d=same))
    assert "significantly ahead of 0 of 2" in barely.here


def test_a_family_is_behind_only_if_each_of_it_is() -> None:
    claim = Lead(**TEXTS, ours=("bigru", "bilstm"), others=("rival",))
    sure = _samples(bigru=(99.0, 100.0, 101.0), rival=(109.0, 110.0, 111.0))
    open_one = claim.decide(sure | _samples(bilstm=(59.0, 99.0, 139.0)))
    assert open_one.verdict == "cannot be decided with these runs"
    assert open_one.here.endswith("; behind rival")
    assert open_one.power == "more runs of bilstm"
    both = claim.decide(sure | _samples(bilstm=(98.0, 99.0, 100.0)))
    assert (both.verdict, both.power) == ("not seen here", "")
    three = replace(claim, ours=(*claim.ours, "bimamba"))
    found = three.decide(sure | _samples(bilstm=(59.0, 99.0, 139.0)))
    assert found.power == "runs of bimamba; more runs of bilstm"


def test_the_best_error_is_the_lowest_of_ours_and_of_the_others() -> None:
    claim = Lead(**TEXTS, ours=("a", "b"), others=("c", "d"), lower_is_better=True, size=0.5)
    errors = _samples(
        a=(90.0, 91.0, 92.0), b=(1.0, 2.0, 3.0), c=(10.0, 11.0, 12.0), d=(50.0, 51.0, 52.0)
    )
    found = claim.decide(errors)
    assert found.verdict == "seen here"
    assert found.here.startswith("b 2.000 (3 seeds) against c 11.0 (3 seeds): lower by +81.8 %")
    beaten = claim.decide({**errors, **_samples(d=(-90.0, -91.0, -92.0))})
    assert beaten.verdict == "not seen here"
    assert beaten.here.endswith("; behind d")


def test_a_number_that_is_no_evidence_decides_nothing() -> None:
    pool = StudyPool("ordering", {"dfs": "recmorph"})
    evidence = Evidence((), {"a": make_study()}, {})
    plain = AboveThreshold(**{**TEXTS, "pool": pool, "metric": "training_return"}, label="dfs")
    assert plain.find(evidence, {}).verdict == "seen here"
    for minus in ("", "core_seconds"):
        found = replace(plain, needs="another decoder", minus=minus).find(evidence, {})
        assert (found.verdict, found.power) == (
            "cannot be decided with these runs", "another decoder",
        )  # fmt: skip
    nothing = replace(plain, needs="another decoder").find(Evidence((), {}, {}), {})
    assert nothing.verdict == "not run yet"


def test_runs_that_lack_a_number_are_no_runs_that_are_missing() -> None:
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))
    claim = Superiority(**{**TEXTS, "pool": pool, "metric": "stride"}, first="dfs", second="random")
    study = make_study(seeds=(1, 2, 3))
    runs = [
        run.model_copy(update={"numbers": {**run.numbers, "stride": 1.0 if run.seed < 3 else None}})
        for run in study.runs
    ]
    found = claim.find(Evidence((), {"a": study.model_copy(update={"runs": runs})}, {}), {})
    assert found.verdict == "cannot be decided with these runs"
    assert found.here.endswith("no such number (dfs: seed 3; random: seed 3)")
    assert (found.missing, found.links) == ((), ("a",))
    # Of a family, those that have the number decide.
    whole = [
        run.model_copy(
            update={"arm": run.arm[:2], "numbers": {"env_steps": FULL, "stride": 1.0 * run.seed}}
        )
        for run in study.runs
    ]
    both = study.model_copy(update={"runs": [*runs, *whole]})
    three = replace(pool, arms=dict.fromkeys(("df", "ra", "random"), "recmorph"))
    texts = {**TEXTS, "pool": three, "metric": "stride"}
    lead = Lead(**texts, ours=("df",), others=("ra", "random")).find(
        Evidence((), {"a": both}, {}), {}
    )
    assert lead.here.startswith("df 2.000 (3 seeds) against ra 2.000 (3 seeds)")


def test_alike_means_within_a_tenth() -> None:
    claim = Equivalence(**TEXTS, first="a", second="b")
    near, far = (100.0, 100.5, 101.0), (150.0, 150.5, 151.0)
    assert claim.decide(_samples(a=near, b=near)).verdict == "seen here"
    assert claim.decide(_samples(a=near, b=far)).verdict == "not seen here"
    assert claim.decide(_samples(a=far, b=near)).verdict == "not seen here"
    wild = claim.decide(_samples(a=(60.0, 100.0, 140.0), b=near))
    assert wild.verdict == "cannot be decided with these runs"
    # The interval of the gap is 10 +- 2.776 * 0.2 * sqrt(2 / 3) = 9.5 to 10.5: within a tenth of
    # the larger mean, not of the smaller one.
    tenth = _samples(a=(99.8, 100.0, 100.2), b=(109.8, 110.0, 110.2))
    for first, second in (("a", "b"), ("b", "a")):
        found = Equivalence(**TEXTS, first=first, second=second).decide(tenth)
        assert found.verdict == "seen here"
        assert found.here.endswith("(alike: within 11.0, a tenth of the larger)")
    # 10 +- 3.4, all above 0 and on both sides of 11: neither alike nor shown to be unlike.
    astride = _samples(a=(98.5, 100.0, 101.5), b=(108.5, 110.0, 111.5))
    for first, second in (("a", "b"), ("b", "a")):
        found = Equivalence(**TEXTS, first=first, second=second).decide(astride)
        assert found.verdict == "cannot be decided with these runs"


def test_means_below_zero_are_alike_by_their_difference() -> None:
    # 5 +- 2.776 * 0.2 * sqrt(2 / 3) = 4.5 to 5.5, within a tenth of 105.
    below = _samples(a=(-100.2, -100.0, -99.8), b=(-105.2, -105.0, -104.8))
    for first, second in (("a", "b"), ("b", "a")):
        found = Equivalence(**TEXTS, first=first, second=second).decide(below)
        assert found.verdict == "seen here"
        assert found.here.endswith("(alike: within 10.5, a tenth of the larger)")


def test_what_would_show_equivalence_follows_from_the_measured_difference() -> None:
    """Means of 100 and 94, alike if one is at least 0.9 of the other; a seed's deviation is 7."""
    spread = np.array([-9.0, -3.0, 0.0, 0.0, 3.0, 9.0]) * 7.0 / np.std([-9, -3, 0, 0, 3, 9], ddof=1)
    values = _samples(a=tuple(100.0 + spread), b=tuple(94.0 + spread))
    found = Equivalence(**TEXTS, first="a", second="b").decide(values)
    relative = [_logarithms(item.values) for item in values.values()]
    needed = seeds_needed(relative, np.log(0.94 / 0.9))
    assert needed is not None
    assert needed > 20
    assert found.power == (
        f"about {needed} seeds per side would show that they are in 80 % of cases, if the "
        f"difference is the one measured"
    )
    turned = Equivalence(**TEXTS, first="b", second="a").decide(values)
    assert turned.power == found.power
    far = _samples(a=tuple(100.0 + spread), b=tuple(88.0 + spread))
    claim = Equivalence(**TEXTS, first="a", second="b")
    assert "would show that they are not in" in claim.decide(far).power
    # The second is worse, and by less than the margin.
    one_sided = Equivalence(**TEXTS, first="b", second="a", one_sided=True)
    assert one_sided.decide(values).power == found.power
    # The first is better, which counts as well; with twice the deviation.
    wild = _samples(a=tuple(100.0 + 2.0 * spread), b=tuple(94.0 + 2.0 * spread))
    better = Equivalence(**TEXTS, first="a", second="b", one_sided=True).decide(wild)
    runs = [_logarithms(item.values) for item in wild.values()]
    needed = seeds_needed(runs, -np.log(0.9 * 0.94))
    assert better.power.startswith(f"about {needed} seeds per side would show that they are in")


def test_not_worse_by_more_than_a_tenth() -> None:
    claim = Equivalence(**TEXTS, first="a", second="b", one_sided=True)
    near, far = (100.0, 100.5, 101.0), (150.0, 150.5, 151.0)
    assert claim.decide(_samples(a=near, b=near)).verdict == "seen here"
    assert claim.decide(_samples(a=near, b=far)).verdict == "not seen here"
    better = claim.decide(_samples(a=far, b=near))
    assert better.verdict == "seen here"
    assert better.here.endswith("(not worse: by at most 15.1, a tenth of the larger)")
    astride = _samples(a=(98.5, 100.0, 101.5), b=(108.5, 110.0, 111.5))
    assert claim.decide(astride).verdict == "cannot be decided with these runs"
    wild = claim.decide(_samples(a=(60.0, 100.0, 140.0), b=near))
    assert wild.verdict == "cannot be decided with these runs"


def test_a_value_is_compared_with_zero() -> None:
    claim = AboveThreshold(**TEXTS, label="a", unit="%", size=62.0)
    assert claim.decide(_samples(a=(60.0, 62.0, 64.0))).verdict == "seen here"
    assert claim.decide(_samples(a=(-60.0, 62.0, 64.0))).power.startswith("about ")
    errors = _samples(a=(60.0, -62.0, -64.0))
    turned = replace(claim, size=-62.0, lower_is_better=True)
    assert turned.decide(errors).power == claim.decide(_samples(a=(-60.0, 62.0, 64.0))).power
    # Of what is above a threshold, only the rest must be shown: 2 with a deviation of 2.
    near = replace(claim, threshold=60.0).decide(_samples(a=(59.0, 61.0, 63.0)))
    needed = seeds_needed([(59.0, 61.0, 63.0)], 2.0)
    assert near.power.startswith(f"about {needed} seeds would show an effect as large as the claim")


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_a_value_is_compared_with_a_threshold(lower_is_better: bool) -> None:
    """Its interval is 62 +- 5."""
    sign = -1.0 if lower_is_better else 1.0
    sample = _samples(a=tuple(sign * value for value in (60.0, 62.0, 64.0)))
    claim = AboveThreshold(**TEXTS, label="a", lower_is_better=lower_is_better)
    for threshold, verdict in (
        (56.0, "seen here"), (61.0, "cannot be decided with these runs"), (68.0, "not seen here"),
    ):  # fmt: skip
        assert replace(claim, threshold=threshold).decide(sample).verdict == verdict


def test_a_change_is_what_comes_after_less_what_was_before() -> None:
    pool = StudyPool("ordering", {"dfs": "recmorph"})
    texts = {**TEXTS, "pool": pool, "metric": "training_return", "minus": "core_seconds"}
    found = AboveThreshold(**texts, label="dfs").find(Evidence((), {"a": make_study()}, {}), {})
    assert [sample.values for sample in found.samples] == [
        (101.0, 102.0), (1000.0, 1000.0), (-899.0, -898.0),
    ]  # fmt: skip
    assert found.verdict == "not seen here"
    assert found.here.startswith("1,000.0 to 101.5: -898.5 (")


def test_an_effect_would_have_shown_with_the_runs_of_both_sides() -> None:
    many = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]) * 2.0 / np.sqrt(28.0 / 6.0)
    few = _samples(a=(8.0, 10.0, 12.0), b=tuple(many))  # both deviate by 2; see `seeds_needed`
    assert power_text([item.values for item in few.values()], 4.0, 0.0) == (
        "about 6 seeds per side would show an effect as large as the claim's in 80 % of cases"
    )
    enough = _samples(a=tuple(many[:6]), b=tuple(many))
    values = [item.values for item in enough.values()]
    needed = seeds_needed(values, 4.0)
    assert needed is not None
    assert needed <= 6
    assert power_text(values, 4.0, 0.0) == (
        "an effect as large as the claim's would have shown in 80 % of cases"
    )


def test_as_many_runs_as_an_effect_needs_are_enough() -> None:
    three = [(8.0, 10.0, 12.0)]
    assert seeds_needed(three, 100.0) == 3
    assert power_text(three, 100.0, 0.0).startswith("an effect as large as the claim's would hav")


def test_how_many_seeds_are_told_up_to_a_thousand() -> None:
    runs = [(8.0, 10.0, 12.0)]
    for size, needed, told in (
        (0.17738, 1000, "about 1,000 seeds would"), (0.17, 1001, "more than 1,000 seeds would")
    ):  # fmt: skip
        assert seeds_needed(runs, size) == needed
        assert power_text(runs, None, size).startswith(told)


def test_figures_have_as_many_digits_as_their_size_asks_for() -> None:
    assert [figure(x) for x in (-1000.0, 999.5, -10.0, 9.5, -0.0004)] == [
        "-1,000",
        "999.5",
        "-10.0",
        "9.500",
        "0.000",
    ]


def test_equal_runs_show_nothing() -> None:
    same = _samples(a=(1.0, 1.0, 1.0), b=(1.0, 1.0, 1.0))
    found = Superiority(**TEXTS, first="a", second="b").decide(same)
    assert found.verdict == "cannot be decided with these runs"


@pytest.mark.parametrize("high", [0.0, 30.0])
def test_runs_without_any_spread_decide_nothing(high: float) -> None:
    """Three equal runs do not show that a fourth would be equal, whatever others vary by."""
    open_ = "cannot be decided with these runs"
    still = _samples(a=(high,) * 3, b=(0.0,) * 3, c=(1.0, 2.0, 3.0), d=(1.0, 2.0, 4.0))
    why = ", without an interval, because no run differs from the others of its side"
    texts = {**TEXTS, "unit": "%"}
    gap = Superiority(**texts, first="a", second="b", size=0.5).decide(still)
    assert (gap.verdict, gap.power) == (open_, "")
    assert gap.here.endswith(f"higher by +{high:.1f} percentage points{why}")
    lead = Lead(**texts, ours=("a",), others=("b",), size=0.5).decide(still)
    assert (lead.verdict, lead.power) == (open_, "")
    assert lead.here.endswith(f"{why}; significantly ahead of 0 of 1")
    alike = Equivalence(**texts, first="a", second="b").decide(still)
    assert (alike.verdict, alike.power) == (open_, "")
    value = AboveThreshold(**texts, label="a", size=50.0, threshold=-1.0).decide(still)
    assert (value.verdict, value.power) == (open_, "")
    assert value.here == f"+{high:.1f} %, 3 runs{why}"
    # One side that varies is enough.
    varied = Superiority(**texts, first="c", second="b").decide(still)
    assert "percentage points (" in varied.here
    assert varied.power


def test_several_claims_at_once() -> None:
    both = Conjunction(id="x", says="x", printed="", source="x", parts=("a", "b"))
    seen, no, open_ = (
        Finding(v) for v in ("seen here", "not seen here", "cannot be decided with these runs")
    )
    nothing = Evidence((), {}, {})
    assert both.find(nothing, {"a": seen, "b": seen}).verdict == "seen here"
    assert both.find(nothing, {"a": no, "b": open_}).verdict == "not seen here"
    linked = {name: replace(seen, links=("page", name)) for name in "ab"}
    assert both.find(nothing, linked).links == ("page", "a", "b")
    assert both.find(nothing, {"a": seen, "b": open_}).verdict == open_.verdict
    assert both.find(nothing, dict.fromkeys("ab", Finding("not run yet"))).verdict == "not run yet"


def test_seeds_needed_follow_from_the_spread() -> None:
    # An effect of two standard deviations; R's power.t.test says 5.1 and, of one sample, 4.2.
    assert seeds_needed([(8.0, 10.0, 12.0), (0.0, 2.0, 4.0)], 4.0) == 6
    assert seeds_needed([(8.0, 10.0, 12.0)], 4.0) == 5
    assert seeds_needed([(8.0, 10.0, 12.0)], 100.0) == 3
    assert seeds_needed([(8.0, 10.0, 12.0)], 0.01) == 1001
    assert seeds_needed([(8.0,), (0.0, 2.0)], 4.0) is None
    assert seeds_needed([(8.0, 10.0)], 0.0) is None
    assert seeds_needed([(8.0, 8.0), (1.0, 1.0)], 1.0) == 3  # nothing varies
