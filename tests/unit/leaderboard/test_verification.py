"""Recorded episodes against episodes run again: who passes, who does not, and how often."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
from scipy.special import gammaincc
from scipy.stats import norm, rankdata, t, wilcoxon

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.permutation_tests import _halves, p_value_of_outcomes, p_value_of_shift
from gmc_bench.leaderboard.verification import (
    compare,
    compare_friction,
    comparison_for,
    variance_of_mean,
)
from gmc_bench.records.parts import FrictionResult, LoopResiduals
from gmc_bench.records.schema import BodyReturns, Episode
from gmc_bench.records.verification import CONFIDENCE, Exactness
from tests.support.records import make_friction, make_record, make_returns
from tests.support.slow import slow_but

NUM_BODIES, NUM_EPISODES = 20, 4
BODIES = [f"body-{place}" for place in range(NUM_BODIES)]


def _test_split(values: DoubleArray) -> tuple[BodyReturns, ...]:
    """Return results of the test split; `values` is (bodies, episodes)."""
    return make_returns("test", dict(zip(BODIES, values.tolist(), strict=False)))


def _draw(rng: np.random.Generator, noise: float, episodes: int = NUM_EPISODES) -> DoubleArray:
    """Draw returns of 500 to 3000 with a relative noise of their own, (bodies, episodes)."""
    level = np.linspace(500.0, 3000.0, NUM_BODIES)[:, None]
    return level * (1.0 + noise * rng.standard_normal((NUM_BODIES, episodes)))


def _passes(recorded: DoubleArray, found: DoubleArray) -> bool:
    parts, _ = compare(_test_split(recorded), _test_split(found), "interval")
    return parts[0].passed


def _replace(
    items: Sequence[BodyReturns], body: str, number: int, **changes: object
) -> tuple[BodyReturns, ...]:
    result = []
    for item in items:
        episodes = list(item.episodes)
        if item.body == body:
            episodes[number] = episodes[number].model_copy(update=changes)
        result.append(item.model_copy(update={"episodes": tuple(episodes)}))
    return tuple(result)


RETURNS: Mapping[str, Sequence[float]] = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}


def test_equal_episodes_pass_exactly_in_any_order() -> None:
    recorded = make_returns("train", RETURNS) + make_returns("test", {"c": [7.0]})
    parts, first = compare(recorded, recorded[::-1], "exact")
    assert first is None
    assert [(p.split, p.episodes, p.differing, p.margin, p.passed) for p in parts] == [
        ("train", 6, 0, None, True),
        ("test", 1, 0, None, True),
    ]


@pytest.mark.parametrize(
    "change",
    [{"episode_return": math.nextafter(5.0, 6.0)}, {"length": 999}, {"ended": "fell"}],
)
def test_the_smallest_difference_fails_exactly_and_is_named(change: dict[str, object]) -> None:
    recorded = make_returns("train", RETURNS) + make_returns("test", RETURNS, seen={"a", "b"})
    found = recorded[:2] + _replace(recorded[2:], "b", 1, **change)
    parts, first = compare(recorded, found, "exact")
    assert [part.passed for part in parts] == [True, False]
    assert parts[1].differing == 1
    assert first is not None
    assert (first.split, first.mode, first.body, first.episode) == ("test", "deterministic", "b", 2)
    assert first.recorded == Episode(episode_return=5.0, length=1000, ended="time_limit")
    assert first.found == first.recorded.model_copy(update=change)


def test_a_difference_is_named_though_later_parts_are_equal() -> None:
    recorded = make_returns("train", RETURNS) + make_returns("test", RETURNS, seen={"a", "b"})
    found = _replace(recorded[:2], "a", 2, episode_return=3.5) + recorded[2:]
    parts, first = compare(recorded, found, "exact")
    assert [part.passed for part in parts] == [False, True]
    assert first is not None
    assert (first.split, first.body, first.episode) == ("train", "a", 3)


def test_a_negative_zero_is_the_zero_that_a_file_holds() -> None:
    recorded, found = make_returns("train", {"a": [0.0]}), make_returns("train", {"a": [-0.0]})
    parts, first = compare(recorded, found, "exact")
    assert parts[0].passed
    assert first is None


def test_the_interval_by_hand() -> None:
    found = np.array([[10.0, 12.0], [20.0, 26.0]])
    gaps = np.array([[3.0, 1.0], [2.0, 6.0]])
    share = (1.0 - CONFIDENCE) / 2
    parts, _ = compare(_test_split(found - gaps), _test_split(found), "interval")
    # Mean 3; squares 0 + 4 + 1 + 9 = 14; standard error sqrt(14 / 3 / 4).
    assert parts[0].mean_difference == pytest.approx(3.0)
    assert parts[0].margin == pytest.approx(t.isf(share / 2, 3) * math.sqrt(14 / 12))

    # The other way round the record is better than what was found, and the spread of the found
    # episodes counts: variances 2 and 18, so the mean has (2 * 2 + 2 * 18) / 16 = 2.5 with
    # 1 / (0.1^2 + 0.9^2) degrees of freedom. A far outlier in the record cannot widen it.
    parts, _ = compare(_test_split(found + 1e6 * gaps), _test_split(found), "interval")
    assert parts[0].mean_difference == pytest.approx(-3e6)
    assert parts[0].margin == pytest.approx(t.isf(share, 1 / 0.82) * math.sqrt(2 * 2.5))
    assert not parts[0].passed

    # With one episode per body there is the spread over bodies only: 10 and 20 have variance 50.
    one = found[:, :1]
    parts, _ = compare(_test_split(one + np.array([[1e6], [3e6]])), _test_split(one), "interval")
    assert parts[0].margin == pytest.approx(t.isf(share, 1) * math.sqrt(2 * 50 / 2))
    # So it is where a body that is listed twice has two: 1, 3 and 5 have variance 4.
    assert variance_of_mean([[1.0, 3.0], [5.0]], [0.5, 0.5]) == pytest.approx((4 / 3, 2.0))


def test_the_mean_of_all_bodies_and_that_of_the_score_share_the_false_alarms() -> None:
    """As above, with a trained-on body: two means with two limits each, so 1 / 4000 for a limit."""
    found = {"a": [10.0, 12.0], "b": [20.0, 26.0], "c": [30.0, 30.0]}
    gaps = {"a": [3.0, 1.0], "b": [2.0, 6.0], "c": [3.0, 3.0]}

    def judged(factor: float) -> tuple[float, float | None]:
        recorded = {
            body: [value - factor * gap for value, gap in zip(values, gaps[body], strict=True)]
            for body, values in found.items()
        }
        old, new = (make_returns("test", values, seen={"a"}) for values in (recorded, found))
        (part,), _ = compare(old, new, "interval")
        return part.mean_difference, part.margin

    # The mean of all is reported: 3, squares 0 + 4 + 1 + 9 = 14 of six episodes. Of the score it is
    # 3.5, from 4 of `b` and 3 of `c`, which two terms allow.
    assert judged(1.0) == pytest.approx((3.0, t.isf(1 / 8000, 5) * math.sqrt(14 / 5 / 6)))
    # The other way round: variances 2, 18 and 0 of two found episodes each, so the mean of six has
    # (2 * 2 + 2 * 18) / 36 with 1 / (0.1^2 + 0.9^2) degrees of freedom.
    spread = t.isf(1 / 4000, 1 / 0.82) * math.sqrt(2 * 40 / 36)
    assert judged(-1e6) == pytest.approx((-3e6, spread))


def test_returns_raised_beside_equal_ones_fail_however_little() -> None:
    """A record can state another processor than it was made on; its other episodes tell."""
    found = _draw(np.random.default_rng(11), 0.1)
    raised = found.copy()
    raised[::2, 1] *= 1.02
    assert not _passes(raised, found)
    # Where none is equal, as on another class of machine, so little is within chance.
    assert _passes(np.nextafter(raised, np.inf), found)
    halves = {name: [value + 0.5 for value in values] for name, values in RETURNS.items()}
    recorded, again = make_returns("train", halves), make_returns("train", halves)
    sampled = tuple(item.model_copy(update={"mode": "stochastic"}) for item in recorded)
    noisy = make_returns("train", {name: [v + 1.0 for v in vs] for name, vs in RETURNS.items()})
    parts, _ = compare(noisy + sampled, again + sampled, "interval")
    assert [(part.differing, part.passed) for part in parts] == [(6, False), (0, True)]
    # Counts, as of cells, may be equal on any machine.
    counts = make_returns("train", RETURNS)
    turned = make_returns("train", {name: values[::-1] for name, values in RETURNS.items()})
    sampled = tuple(item.model_copy(update={"mode": "stochastic"}) for item in counts)
    parts, _ = compare(turned + sampled, counts + sampled, "interval")
    assert [(part.differing > 0, part.passed) for part in parts] == [(True, True), (False, True)]


def test_where_most_are_equal_the_others_may_differ_by_rounding() -> None:
    """Sums come out in other last bits with other instruction sets, although motions are equal."""
    found = _draw(np.random.default_rng(12), 0.1)
    recorded = found.copy()
    recorded[::2, 0] = np.nextafter(found[::2, 0], np.inf)
    recorded[1, 1] *= 1.0 + 1e-10
    (part,), first = compare(_test_split(recorded), _test_split(found), "interval")
    different = np.count_nonzero(recorded != found)
    assert (part.differing, part.rounded, part.passed) == (different, different, True)
    assert first is not None
    assert first.is_rounding
    for change in (1e-8, -1e-8):
        raised = recorded.copy()
        raised[-1, -1] *= 1.0 + change
        (part,), first = compare(_test_split(raised), _test_split(found), "interval")
        assert (part.differing, part.rounded) == (different + 1, different)
        assert not part.passed
        assert first is not None
        assert first.recorded.episode_return == raised[-1, -1]
    # On the class of machine that made the record nothing differs.
    (part,), _ = compare(_test_split(recorded), _test_split(found), "exact")
    assert (part.differing, part.rounded, part.passed) == (different, None, False)


@pytest.mark.parametrize("change", [{"length": 9}, {"ended": "time"}])
def test_another_length_or_end_is_no_rounding(change: dict[str, Any]) -> None:
    found = _test_split(_draw(np.random.default_rng(12), 0.1))
    episodes = (found[0].episodes[0].model_copy(update=change), *found[0].episodes[1:])
    recorded = (found[0].model_copy(update={"episodes": episodes}), *found[1:])
    (part,), first = compare(recorded, found, "interval")
    assert (part.differing, part.rounded, part.passed) == (1, 0, False)
    assert first is not None
    assert not first.is_rounding


@pytest.mark.parametrize("episodes", slow_but([1, NUM_EPISODES], 1))
def test_an_honest_record_fails_once_in_a_thousand(episodes: int) -> None:
    rng = np.random.default_rng(7)
    failed = sum(
        not _passes(_draw(rng, 0.1, episodes), _draw(rng, 0.1, episodes)) for _ in range(1000)
    )
    # One is expected at most; 7 or more have a probability below 1e-4.
    assert failed < 7


def test_the_false_alarm_rate_over_many_uneven_records() -> None:
    # The same arithmetic as `compare`, for many records at once.
    rng = np.random.default_rng(3)
    tries = 40_000
    shape = (tries, NUM_BODIES, NUM_EPISODES)
    # Bodies differ in their noise, and a tenth of all episodes end early.
    noise = np.geomspace(20.0, 500.0, NUM_BODIES)[:, None]

    def draw() -> DoubleArray:
        values = 2000.0 + noise * rng.standard_normal(shape)
        return np.where(rng.random(shape) < 0.1, 100.0, values)

    recorded, found = draw(), draw()
    gaps = (found - recorded).reshape(tries, -1)
    mean, count = gaps.mean(1), gaps.shape[1]
    share = (1.0 - CONFIDENCE) / 2
    limit = t.isf(share / 2, count - 1) * gaps.std(1, ddof=1) / math.sqrt(count)
    shares = found.var(2, ddof=1) * NUM_EPISODES / count**2
    freedom = shares.sum(1) ** 2 / (shares**2 / (NUM_EPISODES - 1)).sum(1)
    spread = t.isf(share, freedom) * np.sqrt(2 * shares.sum(1))
    margin = np.where(mean < 0, np.minimum(limit, spread), limit)
    for place in range(0, tries, 4000):  # what is simulated is what is done
        parts, _ = compare(_test_split(recorded[place]), _test_split(found[place]), "interval")
        assert parts[0].margin == pytest.approx(margin[place])
    assert CONFIDENCE == 0.999
    # 40 are expected at most; 65 or more have a probability below 1e-4.
    assert np.count_nonzero(np.abs(mean) > margin) < 65


@pytest.mark.parametrize("episodes", [NUM_EPISODES, 16])
def test_returns_raised_by_five_percent_fail_when_episodes_are_alike(episodes: int) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        honest, found = _draw(rng, 0.02, episodes), _draw(rng, 0.02, episodes)
        assert _passes(honest, found)
        assert not _passes(1.05 * honest, found)
        assert not _passes(0.95 * honest, found)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("episodes", [1, NUM_EPISODES])
def test_a_few_absurd_episodes_do_not_hide_behind_their_own_spread(
    count: int, episodes: int
) -> None:
    rng = np.random.default_rng(11)
    found = _draw(rng, 0.05, episodes)
    recorded = _draw(rng, 0.05, episodes)
    recorded.flat[:count] += 1e6
    gaps = (found - recorded).ravel()
    assert abs(gaps.mean()) < 3.5 * gaps.std(ddof=1) / math.sqrt(gaps.size)  # a plain t test
    assert not _passes(recorded, found)


@pytest.mark.parametrize("hidden", ["seen", "repeated"])
def test_the_score_cannot_be_raised_at_the_cost_of_bodies_that_count_less(hidden: str) -> None:
    """A quarter of the bodies loses what the others gain, so that the mean of all is right."""
    rng = np.random.default_rng(13)
    losing = NUM_BODIES // 4

    def results(values: DoubleArray) -> tuple[BodyReturns, ...]:
        items = list(_test_split(values))
        for place in range(losing):
            change: dict[str, object] = {"seen_in_train": True}
            if hidden == "repeated":
                change = {"body_digest": items[0].body_digest}
            items[place] = items[place].model_copy(update=change)
        return tuple(items)

    honest, found = _draw(rng, 0.05), _draw(rng, 0.05)
    parts, _ = compare(results(honest), results(found), "interval")
    assert parts[0].passed
    forged = honest.copy()
    forged[losing:] += 1000.0
    forged[:losing] -= 1000.0 * (NUM_BODIES - losing) / losing
    assert abs(forged.mean() - honest.mean()) < 1e-6
    parts, _ = compare(_test_split(forged), _test_split(found), "interval")
    assert parts[0].is_near  # of bodies that all count alike
    parts, _ = compare(results(forged), results(found), "interval")
    assert not parts[0].passed
    assert abs(parts[0].mean_difference) > parts[0].margin


@pytest.mark.parametrize("episodes", [1, 2])
def test_a_single_body_that_counts_may_differ_by_chance(episodes: int) -> None:
    found = make_returns("test", {"a": [10.0] * episodes, "b": [20.0, 26.0][:episodes]}, seen={"a"})
    recorded = make_returns("test", {"a": [11.0] * episodes, "b": [19.0] * episodes}, seen={"a"})
    parts, _ = compare(recorded, found, "interval")
    assert parts[0].passed


def test_an_interval_without_any_difference_passes() -> None:
    recorded = make_returns("train", RETURNS)
    parts, first = compare(recorded, recorded, "interval")
    assert (parts[0].margin, parts[0].passed, first) == (0.0, True, None)


@pytest.mark.parametrize("episodes", [1, NUM_EPISODES])
def test_made_up_bodies_fail_though_their_mean_is_right(episodes: int) -> None:
    found = _draw(np.random.default_rng(5), 0.3, episodes)
    flat = np.full_like(found, found.mean())
    parts, _ = compare(_test_split(flat), _test_split(found), "interval")
    assert parts[0].is_near
    assert not parts[0].passed
    if episodes > 1:  # else nobody knows how a body's episodes scatter
        parts, _ = compare(_test_split(found[::-1]), _test_split(found), "interval")
        assert (parts[0].is_near, parts[0].is_likely) == (True, False)


@pytest.mark.parametrize("episodes", [1, NUM_EPISODES])
@pytest.mark.parametrize("changes", [{"length": 1000}, {"ended": "time_limit"}])
def test_falls_that_were_left_out_fail(episodes: int, changes: dict[str, object]) -> None:
    rng = np.random.default_rng(6)
    values = _test_split(_draw(rng, 0.3, episodes))
    found = [
        item.model_copy(
            update={
                "episodes": tuple(
                    Episode(
                        episode_return=episode.episode_return,
                        length=int(rng.integers(100, 900)),
                        ended="fell",
                    )
                    for episode in item.episodes
                )
            }
        )
        for item in values
    ]
    recorded = [
        item.model_copy(
            update={"episodes": tuple(one.model_copy(update=changes) for one in item.episodes)}
        )
        for item in found
    ]
    parts, _ = compare(recorded, found, "interval")
    assert parts[0].mean_difference == 0.0
    assert not parts[0].passed


SIX = 6
"""Probabilities of which the smallest counts: spread, returns, lengths twice and ends twice."""


def test_the_chance_of_returns_of_bodies_by_hand() -> None:
    """Rank sums of old returns under all divisions of a body's returns into old and new ones."""
    old = {
        "a": [1.0, 2.0, 3.0, 6.0],
        "b": [1.0, 2.0, 5.0],
        "c": [2.0, 3.0, 4.0, 5.0],
        "d": [7.0] * 2,
    }
    new = {
        "a": [5.0, 7.0, 8.0, 9.0],
        "b": [4.0, 6.0, 7.0],
        "c": [5.0, 7.0, 8.0, 9.0],
        "d": [7.0] * 2,
    }
    total = variance = third = 0.0
    for body in "abc":  # nothing tells the returns of the last body apart
        ranks, count = rankdata([*old[body], *new[body]]), len(old[body])
        sums = [
            sum(ranks[place] for place in half) - ranks.sum() / 2.0
            for half in combinations(range(2 * count), count)
        ]
        unit = sum(item**2 for item in sums) / len(sums)
        total += sums[0] ** 2 / unit - 1.0  # of the division that is there
        variance += sum((item**2 / unit - 1.0) ** 2 for item in sums) / len(sums)
        third += sum((item**2 / unit - 1.0) ** 3 for item in sums) / len(sums)
    # A gamma distribution with the shape k has the skewness 2 / sqrt(k).
    shape = 4.0 * variance**3 / third**2
    chance = gammaincc(shape, shape + total * math.sqrt(shape / variance))
    assert 0.0 < chance < 0.1 / SIX
    found = p_value_of_outcomes(make_returns("test", old), make_returns("test", new))
    assert found == pytest.approx(SIX * chance)


def test_where_there_are_too_many_divisions_a_thousand_halves_stand_for_all() -> None:
    assert [len(_halves(count)) for count in (1, 4, 6)] == [2, 70, 924]
    halves = _halves(7)
    assert halves.shape == (1000, 7)
    assert all(len(set(half)) == 7 for half in halves.tolist())
    drawn = np.bincount(halves.ravel(), minlength=14)
    assert np.all(np.abs(drawn - 500) < 5 * math.sqrt(250))
    assert np.array_equal(halves, _halves(7))


def test_the_chance_of_how_far_bodies_are_apart_by_hand() -> None:
    """Of sixteen ranks, those of the repeated returns are farther from the middle, 8.5."""
    old, new = [8, 6, 7, 10, 11, 5, 12, 4], [9, 1, 2, 3, 13, 14, 15, 16]
    farther = [0, 7.5 - 2.5, 6.5 - 1.5, 5.5 - 1.5, 4.5 - 2.5, 5.5 - 3.5, 6.5 - 3.5, 7.5 - 4.5]
    recorded, found = (
        make_returns("test", {f"body-{place}": [rank**2] for place, rank in enumerate(ranks)})
        for ranks in (old, new)
    )
    expected = wilcoxon(farther, zero_method="zsplit").pvalue
    assert expected < 0.5 / SIX
    for pair in ((recorded, found), (found, recorded)):
        assert p_value_of_outcomes(*pair) == pytest.approx(SIX * expected)


def test_numbers_that_stay_speak_against_a_shift() -> None:
    differences = np.arange(1.0, 9.0)
    assert p_value_of_shift(differences) == 2 / 2**8
    # 100 zeros have the ranks 1 to 100, half of which count on either side; ranks of 108 numbers
    # have the variance 108 x 109 x 217 / 24, less (100^3 - 100) / 48 as so many share theirs.
    above = sum(range(101, 109)) + 5050 / 2 - 108 * 109 / 4
    spread = np.sqrt(108 * 109 * 217 / 24 - (100**3 - 100) / 48)
    found = p_value_of_shift(np.concatenate([np.zeros(100), differences]))
    assert found == pytest.approx(2 * norm.sf(above / spread))


@pytest.mark.parametrize(
    ("bodies", "episodes", "tries"), slow_but([(30, 1, 200), (8, 4, 60), (6, 7, 200)], (30, 1, 200))
)
def test_outcomes_of_honest_records_are_unlikely_as_often_as_they_should_be(
    bodies: int, episodes: int, tries: int
) -> None:
    rng = np.random.default_rng(7)
    level = np.exp(rng.standard_normal((bodies, 1)))

    def draw() -> list[BodyReturns]:
        values = 100.0 * level * (1.0 + 0.3 * rng.standard_t(3, (bodies, episodes)))
        lengths = np.minimum(1000, 1 + np.abs(values) * 5.0).astype(int)
        names = [f"body-{place}" for place in range(bodies)]
        items = make_returns("test", dict(zip(names, values.tolist(), strict=True)))
        return [
            item.model_copy(
                update={
                    "episodes": tuple(
                        Episode(
                            episode_return=episode.episode_return,
                            length=int(length),
                            ended="time_limit" if length == 1000 else "fell",
                        )
                        for episode, length in zip(item.episodes, row, strict=True)
                    )
                }
            )
            for item, row in zip(items, lengths, strict=True)
        ]

    chances = np.array([p_value_of_outcomes(draw(), draw()) for _ in range(tries)])
    # Six probabilities of numbers that depend on each other: fewer false alarms than allowed.
    assert np.mean(chances <= 0.1) < 0.1 + 3.0 * np.sqrt(0.09 / tries)
    assert np.mean(chances <= 0.5) > 0.15


def _friction(rng: np.random.Generator, scale: float = 1.0) -> list[FrictionResult]:
    return [
        FrictionResult.model_validate(
            {
                **item,
                "restarts": {
                    name: value and scale * value * (1.0 + 0.05 * rng.standard_normal())
                    for name, value in item["restarts"].items()
                },
            }
        )
        for item in make_friction(robots=10)
    ]


def test_frictions_are_equal_or_likely() -> None:
    rng = np.random.default_rng(8)
    recorded = _friction(rng)
    same = compare_friction(recorded, recorded[::-1], "exact")
    assert (same.results, same.differing, same.chance, same.passed) == (20, 0, None, True)
    other = compare_friction(recorded, _friction(rng), "exact")
    assert (other.differing, other.passed) == (20, False)
    assert str(other.first_difference).startswith(
        "restarts.fall_rate of robot-1 on low friction, forward: recorded "
    )
    assert compare_friction(recorded, _friction(rng), "interval").passed
    better = compare_friction(_friction(rng, 0.8), _friction(rng), "interval")
    assert not better.passed
    assert better.chance is not None


def test_all_metrics_on_frictions_share_the_false_alarms() -> None:
    """One of five is larger on each of six results: by chance 2 of 64 times, any of them 10."""

    def results(**gains: float) -> list[FrictionResult]:
        return [
            FrictionResult.model_validate(
                item
                | {
                    reading: {
                        name: value and value + place * gains.get(reading, 0.0)
                        for name, value in item[reading].items()
                    }
                    | ({"progress": 7.0, "tilt_rms": 3.0} if reading == "restarts" else {})
                    for reading in ("restarts", "single_life")
                }
            )
            for place, item in enumerate(make_friction(robots=3), 1)
        ]

    found = compare_friction(results(), results(single_life=0.125), "interval")
    assert found.chance == pytest.approx(5 * 2 / 64)
    assert found.first_difference == (
        "single_life.velocity_rmse of robot-1 on low friction, forward: recorded 1.0, found 1.125"
    )
    assert (found.differing, found.passed) == (6, True)


def test_frictions_measured_in_another_way_are_refused() -> None:
    rng = np.random.default_rng(9)
    found = _friction(rng)
    for changes in (
        {"rule": "static"},
        {"num_envs": 1},
        {"friction": "dry"},
        {"restarts": {**found[0].restarts, "tilt_rms": None}},
        {"restarts": {}},
    ):
        recorded = [found[0].model_copy(update=changes), *found[1:]]
        with pytest.raises(RecordError, match="20 results on friction, which are not the 20"):
            compare_friction(recorded, found, "interval")
    with pytest.raises(RecordError, match="19 results on friction, which are not the 20"):
        compare_friction(found[1:], found, "interval")
    # In one of two measurements no episode may have ended, or a robot may hardly have moved.
    moved = found[0].model_copy(update={"restarts": {**found[0].restarts, "slip": 0.1}})
    for name in ("slip", "fall_rate"):
        still = moved.model_copy(update={"restarts": {**moved.restarts, name: None}})
        assert compare_friction([still, *found[1:]], [moved, *found[1:]], "interval").passed


def test_other_bodies_or_numbers_of_episodes_are_refused() -> None:
    recorded = make_returns("train", RETURNS)
    renamed = make_returns("train", {"a": RETURNS["a"], "x": RETURNS["b"]})
    shorter = make_returns("train", {"a": RETURNS["a"][:2], "b": RETURNS["b"]})
    for found in (recorded[:1], renamed, recorded + make_returns("test", {"c": [1.0]})):
        with pytest.raises(RecordError, match="are not about the same bodies"):
            compare(recorded, found, "exact")
    with pytest.raises(RecordError, match="has 3 episodes of train body 'a', the protocol asks fo"):
        compare(recorded, shorter, "exact")


def test_a_body_that_is_passed_off_as_trained_on_is_refused() -> None:
    found = make_returns("test", {"a": [100.0], "hard": [1.0]})
    recorded = make_returns("test", {"a": [100.0], "hard": [1.0]}, seen={"hard"})
    with pytest.raises(RecordError, match="the test body 'hard' of the record is another one, or"):
        compare(recorded, found, "exact")
    other = recorded[1].model_copy(update={"seen_in_train": False, "body_digest": "0" * 64})
    with pytest.raises(RecordError, match="the test body 'hard' of the record is another one, or"):
        compare((recorded[0], other), found, "exact")


def test_bodies_are_as_related_as_the_record_says() -> None:
    kin = {"limbs": 5, "tree": "a" * 16, "geometry": "b" * 16}
    older = make_returns("test", {"a": [100.0]})
    found = (older[0].model_copy(update=kin),)
    for recorded in (older, found):
        assert compare(recorded, found, "exact")[0][0].passed
    for name, value in (("limbs", 6), ("tree", "c" * 16), ("geometry", "c" * 16)):
        forged = (found[0].model_copy(update={name: value}),)
        with pytest.raises(RecordError, match=f"states another {name} of the test body 'a' than"):
            compare(forged, found, "exact")


def test_closed_loops_came_open_as_the_record_says() -> None:
    loops = LoopResiduals(
        largest=0.03, median=0.001, percentile_99_9=0.02, largest_angle=0.0, opened=1, samples=500
    )
    trees = make_returns("test", {"a": [100.0]})
    found = (trees[0].model_copy(update={"loops": loops}),)
    other = (found[0].model_copy(update={"loops": loops.model_copy(update={"opened": 0})}),)
    said = r"other closed loops of the test body 'a', deterministic: recorded .*, found "
    for recorded, again, refused_by in (
        (found, found, ()),
        (other, found, ("exact",)),  # elsewhere another number says nothing
        (trees, found, ("exact", "interval")),
        (found, trees, ("exact", "interval")),
    ):
        for comparison in get_args(Exactness):
            if comparison in refused_by:
                with pytest.raises(RecordError, match=said):
                    compare(recorded, again, comparison)
            else:
                assert compare(recorded, again, comparison)[0][0].passed


def test_exact_on_the_same_software_and_machine_only() -> None:
    record = make_record()
    hardware, versions = record.hardware, record.versions
    assert comparison_for(record, hardware, versions) == "exact"
    for name in ("gmc-bench", "mujoco", "torch", "numpy", "numba"):
        assert comparison_for(record, hardware, {**versions, name: "9"}) == "interval"
    assert comparison_for(record, hardware, {**versions, "python": "9"}) == "exact"
    for name, value in {"cpu": "x", "instructions": "avx2 fma", "threads": 1, "gpu": "G"}.items():
        other = hardware.model_copy(update={name: value})
        assert comparison_for(record, other, versions) == "interval"
    for name in ("memory_gib", "platform", "cores"):
        other = hardware.model_copy(update={name: hardware.memory_gib})
        assert comparison_for(record, other, versions) == "exact"
    unknown = hardware.model_copy(update={"instructions": None})
    old = record.model_copy(update={"hardware": unknown})
    assert comparison_for(old, unknown, versions) == "interval"
