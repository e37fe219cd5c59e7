"""Comparison of a record's episodes with the same episodes run again."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import Mode, Split
from gmc_bench.evaluation.friction_metrics import READINGS
from gmc_bench.leaderboard.permutation_tests import p_value_of_outcomes, p_value_of_shift
from gmc_bench.records.kept import KeptEvaluation
from gmc_bench.records.kinship import contents
from gmc_bench.records.parts import BodyReturns, FrictionResult, Hardware
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.verification import (
    CONFIDENCE,
    DifferingEpisode,
    Exactness,
    VerifiedFriction,
    VerifiedPart,
    computes_alike,
)

MOVING_VERSIONS = ("gmc-bench", "mujoco", "torch", "numpy", "numba")
"""Software that decides the last bits of an episode."""


def comparison_for(
    made: RunRecord | KeptEvaluation, hardware: Hardware, versions: dict[str, str]
) -> Exactness:
    """Say how equal episodes must be.

    Args:
        made: what is verified.
        hardware: this machine, with the threads that the episodes are run with.
        versions: what is installed here.

    Returns:
        `exact` on the same versions of everything in `MOVING_VERSIONS` and the same processor,
        instruction sets, threads and device, because then nothing may differ; else `interval`.
    """

    def machine(item: Hardware) -> tuple[object, ...]:
        return item.cpu, item.instructions, item.threads, item.gpu

    same = all(made.versions.get(name) == versions[name] for name in MOVING_VERSIONS)
    there = made.hardware
    if there is None or there.instructions is None or machine(there) != machine(hardware):
        return "interval"
    return "exact" if same else "interval"


def compare(
    recorded: Sequence[BodyReturns], found: Sequence[BodyReturns], comparison: Exactness
) -> tuple[tuple[VerifiedPart, ...], DifferingEpisode | None]:
    """Compare episodes one by one, and their means.

    On another engine or hardware class, chaos makes two runs of one episode drift apart: they are
    two draws from the same distribution. Their differences d_i then have mean zero, and the mean
    must lie within t s / sqrt(n), with the standard deviation s of the d_i and Student's t.

    The record contributes to s: one outlier among its episodes raises the mean and s alike, so this
    limit alone would let any score pass. A record that is better than what was found must therefore
    also keep to t sqrt(2 V), with the variance V of the found mean, estimated within bodies,
    or over all episodes where bodies have one each. The mean that is the score leaves out test
    bodies that were trained on and counts repeated ones once; it must keep to the same limits. All
    limits share the false-alarm rate. Returns with a heavy upper tail exceed the second limit more
    often; such a record can be verified on the class of machine that made it. Means say nothing
    about single bodies, lengths and ends; of these see `p_value_of_outcomes`. All this is about
    episodes that drift apart: where most are equal to the last bit, all must be, but for rounding,
    see `computes_alike`.

    Args:
        recorded: what the record says, of the splits and modes that were run again.
        found: what came out, in any order.
        comparison: how equal they must be.

    Returns:
        One entry per split and mode, and the first episode that differs, if possible by more than
        rounding.

    Raises:
        RecordError: they are not about the same bodies, loops and numbers of episodes.
    """
    again = {(item.split, item.mode, item.body): item for item in found}
    if len(again) != len(recorded) or any(_place(item) not in again for item in recorded):
        raise RecordError("the record and the episodes run again are not about the same bodies")
    for item in recorded:
        other = again[_place(item)]
        if (item.body_digest, item.seen_in_train) != (other.body_digest, other.seen_in_train):
            raise RecordError(
                f"the {item.split} body {item.body!r} of the record is another one, or differs in "
                f"whether it was trained on"
            )
        for name in ("limbs", "tree", "geometry"):  # older records do not state them
            if getattr(item, name) not in (None, getattr(other, name)):
                raise RecordError(
                    f"the record states another {name} of the {item.split} body {item.body!r} than "
                    f"it has"
                )
        _require_loops(item, other, comparison)
    parts: list[VerifiedPart] = []
    differences: list[DifferingEpisode] = []
    for split, mode in dict.fromkeys((item.split, item.mode) for item in recorded):
        items = [item for item in recorded if (item.split, item.mode) == (split, mode)]
        pairs = [pair for item in items for pair in _pairs(item, again[_place(item)])]
        different = [difference for difference in pairs if difference.recorded != difference.found]
        differences += different
        mean, margin = _judged(items, again)
        judged: dict[str, Any] = {"margin": None, "passed": not different}
        if comparison == "interval":
            chance = p_value_of_outcomes(items, [again[_place(item)] for item in items])
            likely = abs(mean) <= margin and chance >= 1.0 - CONFIDENCE
            counted = all(pair.recorded.episode_return.is_integer() for pair in pairs) or None
            rounded = sum(difference.is_rounding for difference in different)
            judged = {"margin": margin, "chance": chance, "counted": counted, "passed": likely}
            judged["rounded"] = rounded
        parts.append(
            VerifiedPart(
                split=split,
                mode=mode,
                episodes=len(pairs),
                differing=len(different),
                mean_difference=mean,
                **judged,
            )
        )
    if computes_alike(parts):
        parts = [part.model_copy(update={"passed": part.is_equal}) for part in parts]
    gross = (item for item in differences if not item.is_rounding)
    return tuple(parts), next(gross, next(iter(differences), None))


def _require_loops(recorded: BodyReturns, found: BodyReturns, comparison: Exactness) -> None:
    """Raise unless a body's closed loops came open as recorded.

    On another engine or hardware class, how far says little: only whether it has loops counts.
    """
    old, new = recorded.loops, found.loops
    if old != new if comparison == "exact" else (old is None) != (new is None):
        raise RecordError(
            f"the record states other closed loops of the {recorded.split} body {recorded.body!r}, "
            f"{recorded.mode}: recorded {old or 'none'}, found {new or 'none'}"
        )


def compare_friction(
    recorded: Sequence[FrictionResult], found: Sequence[FrictionResult], comparison: Exactness
) -> VerifiedFriction:
    """Compare what was measured on frictions.

    On another engine or hardware class, a metric may be larger here and smaller there, but not
    larger on almost all robots, frictions and directions: the differences of each metric are judged
    by `p_value_of_shift`, and all metrics share the false-alarm rate. A single number may be off by
    any amount there.

    Args:
        recorded: what the record says.
        found: what came out, in any order.
        comparison: how equal they must be.

    Raises:
        RecordError: they were not measured in the same way, or not on the same robots, frictions
            and directions.
    """
    again = {_condition(item): item for item in found}
    if len(again) != len(recorded) or any(_condition(item) not in again for item in recorded):
        raise RecordError(
            f"the record has {len(recorded)} results on friction, which are not the {len(found)} "
            f"that its suite measures, or were measured in another way"
        )
    pairs = [(item, again[_condition(item)]) for item in recorded]
    gaps: dict[str, list[float]] = {}
    different: dict[tuple[str, ...], str] = {}
    for old, new in pairs:
        for reading in READINGS:
            values, expected = getattr(old, reading), getattr(new, reading)
            for name in sorted({*values, *expected}):
                was, now = values.get(name), expected.get(name)
                place = (old.robot, old.friction, old.went)
                if was != now:
                    text = f"{reading}.{name} of {' on '.join(place[:2])} friction, {old.went}"
                    different.setdefault(place, f"{text}: recorded {was!r}, found {now!r}")
                gap = 0.0 if was is None or now is None else now - was
                gaps.setdefault(f"{reading}.{name}", []).append(gap)
    by_chance = comparison == "interval"
    chance = min(1.0, len(gaps) * min(p_value_of_shift(np.array(item)) for item in gaps.values()))
    likely = chance >= 1.0 - CONFIDENCE
    return VerifiedFriction(
        results=len(pairs),
        differing=len(different),
        chance=chance if by_chance else None,
        first_difference=next(iter(different.values()), None),
        passed=likely if by_chance else not different,
    )


def _condition(item: FrictionResult) -> tuple[object, ...]:
    """Return everything about a result but its numbers: how it was measured, and which there are.

    There is no slip where robots hardly move, and no rate of falls where no episode ends.
    """
    metrics = tuple(
        (reading, name, value is None and name not in ("slip", "fall_rate"))
        for reading in READINGS
        for name, value in sorted(getattr(item, reading).items())
    )
    return *item.model_dump(exclude=set(READINGS)).values(), metrics


def _place(item: BodyReturns) -> tuple[Split, Mode, str]:
    return item.split, item.mode, item.body


def _pairs(recorded: BodyReturns, found: BodyReturns) -> Iterator[DifferingEpisode]:
    if len(recorded.episodes) != len(found.episodes):
        raise RecordError(
            f"the record has {len(recorded.episodes)} episodes of {recorded.split} body "
            f"{recorded.body!r}, the protocol asks for {len(found.episodes)}"
        )
    for number, (old, new) in enumerate(zip(recorded.episodes, found.episodes, strict=True), 1):
        yield DifferingEpisode(
            split=recorded.split,
            mode=recorded.mode,
            body=recorded.body,
            episode=number,
            recorded=old,
            found=new,
        )


class _Terms(NamedTuple):
    """A mean difference as the mean of independent terms."""

    gaps: list[float]
    """Found - recorded return of each term."""
    found: list[list[float]]
    """Returns that were found, by body."""
    weights: list[float]
    """Share of each of these bodies in the mean."""


def _judged(
    items: Sequence[BodyReturns], again: Mapping[tuple[Split, Mode, str], BodyReturns]
) -> tuple[float, float]:
    """Return a mean difference and its margin: those of all episodes or of the score.

    The first that is beyond its margin counts, or else that of all episodes.
    """
    means = list(_means(items, again))
    false_alarms = (1.0 - CONFIDENCE) / 2 / len(means)  # two limits each
    judged = [
        (math.fsum(terms.gaps) / len(terms.gaps), _margin(terms, false_alarms)) for terms in means
    ]
    return next((pair for pair in judged if abs(pair[0]) > pair[1]), judged[0])


def _means(
    items: Sequence[BodyReturns], again: Mapping[tuple[Split, Mode, str], BodyReturns]
) -> Iterator[_Terms]:
    """Yield the mean over all episodes and, if it is another one, that of the score.

    The score leaves out test bodies that were trained on and counts a repeated body once. Without
    a limit of its own it could be raised at the cost of those that do not count.
    """
    gaps = {item.body: _gaps(item, again[_place(item)]) for item in items}
    found = {item.body: _returns(again[_place(item)]) for item in items}
    episodes = [gap for group in gaps.values() for gap in group]
    sizes = [len(group) for group in found.values()]
    yield _Terms(episodes, list(found.values()), [size / len(episodes) for size in sizes])
    counted = contents(item for item in items if item.split == "train" or not item.seen_in_train)
    if not counted or len(counted) == len(items):
        return
    merged = [[gap for item in same for gap in gaps[item.body]] for same in counted]
    terms = [math.fsum(group) / len(group) for group in merged] if len(merged) > 1 else merged[0]
    if len(terms) > 1:  # a single number has no spread to be judged by
        values = [[value for item in same for value in found[item.body]] for same in counted]
        yield _Terms(terms, values, [1.0 / len(counted)] * len(counted))


def _gaps(recorded: BodyReturns, found: BodyReturns) -> list[float]:
    pairs = zip(_returns(found), _returns(recorded), strict=True)
    return [new - old for new, old in pairs]


def _returns(item: BodyReturns) -> list[float]:
    return [episode.episode_return for episode in item.episodes]


def _margin(terms: _Terms, false_alarms: float) -> float:
    """Return how far from zero the mean may lie by chance.

    Args:
        terms: the mean.
        false_alarms: probability with which chance exceeds each of the two limits.
    """
    gaps = terms.gaps
    if len(gaps) < 2:
        return 0.0
    mean = math.fsum(gaps) / len(gaps)
    variance = math.fsum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1) / len(gaps)
    limit = quantile(false_alarms / 2, len(gaps) - 1) * math.sqrt(variance)
    if mean >= 0.0:
        return limit
    variance, freedom = variance_of_mean(terms.found, terms.weights)
    return min(limit, quantile(false_alarms, freedom) * math.sqrt(2.0 * variance))


def variance_of_mean(
    groups: Sequence[Sequence[float]], weights: Sequence[float]
) -> tuple[float, float]:
    """Return the variance of a weighted mean of group means, and its degrees of freedom.

    Where a group has a single value, all are taken for one group.

    Source:
        Welch 1947, Biometrika 34, 28-35, for groups of unequal variance.
    """
    if min(map(len, groups)) < 2:
        groups, weights = [[value for group in groups for value in group]], [1.0]
    count = sum(map(len, groups))
    shares = []
    for group, weight in zip(groups, weights, strict=True):
        mean = math.fsum(group) / len(group)
        squares = math.fsum((value - mean) ** 2 for value in group)
        shares.append(weight**2 * squares / (len(group) - 1) / len(group))
    total = math.fsum(shares)
    if total == 0.0:
        return 0.0, float(count - len(groups))
    # Relative to the total, because squares of variances leave the range of floats early.
    relative = [share / total for share in shares]
    pairs = zip(relative, groups, strict=True)
    return total, 1.0 / math.fsum(share**2 / (len(group) - 1) for share, group in pairs)


def quantile(tail: float, freedom: float) -> float:
    """Return what Student's t, of `freedom` degrees of freedom, exceeds with probability `tail`."""
    from scipy.stats import t

    return float(t.isf(tail, freedom))
