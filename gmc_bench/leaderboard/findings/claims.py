"""Kinds of claims, and what decides each of them.

A claim is a hypothesis about means over training seeds. It is *seen here* if the 95 % interval of
the difference, over seeds, lies on the claim's side, *not seen here* if it lies on the other, and
cannot be decided otherwise; then a power analysis says how many seeds would show a difference of
the claimed size. Two positive samples are compared by the logarithms of their means, as on the
boards. Of two samples it is the wider of two intervals: with variances pooled over all that the
claim compares, and with those of the two alone. Runs that are all equal have no interval: a few of
them do not show that further ones would be equal, too. For claims of equivalence the interval must
lie within a margin.
The effect size that the paper measured decides nothing: budgets and bodies differ.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.comparison import (
    MeanComparison,
    compare_means,
    run_values,
    significant_pairs,
)
from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.pools import PlannedRun, Pool, Sample
from gmc_bench.leaderboard.findings.power import MIN_RUNS, equivalence_power, power_text
from gmc_bench.leaderboard.statistics import Estimate, exp_or_infinity, mean, run_interval

Verdict = Literal["seen here", "not seen here", "cannot be decided with these runs", "not run yet"]
VERDICTS: tuple[Verdict, ...] = (
    *("seen here", "not seen here"),
    *("cannot be decided with these runs", "not run yet"),
)
EQUIVALENCE_MARGIN = 0.1
"""Share of the larger mean by which equivalent means may differ, and what a linear cost's exponent
may exceed 1 by."""
_NO_INTERVAL = "without an interval, because no run differs from the others of its side"


@dataclass(frozen=True)
class Finding:
    """What the runs say about a claim."""

    verdict: Verdict
    here: str = ""
    """Our numbers, in a sentence or two."""
    power: str = ""
    """What would decide it, such as a number of seeds; empty where it is decided."""
    samples: tuple[Sample, ...] = ()
    """All numbers that `here` is computed from."""
    missing: tuple[PlannedRun, ...] = ()
    """Runs that the claim lacks."""
    links: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    """Methods among `samples` that score no more than no action at all."""


@dataclass(frozen=True)
class Gap:
    """How much better one sample is than another."""

    better: Estimate
    """Difference of the means, or of their logarithms, with its interval over seeds; positive if
    the first is better."""
    of_logarithms: bool
    """Whether it is that of the logarithms."""
    significant: bool
    """The means differ significantly, corrected for all pairs of samples that were compared."""

    @property
    def is_ahead(self) -> bool:
        """Whether the first is significantly better, by the test and by the interval."""
        return self.significant and self.better.low is not None and self.better.low > 0.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of a paper. Subclasses say what decides it."""

    id: str
    """Short, lower-case."""
    says: str
    """What the paper claims."""
    printed: str
    """Its own numbers, as printed; empty where it has a figure only."""
    source: str
    """Where in the paper it stands, such as `Table I`."""
    remark: str = ""
    """What a reader of our number must know."""

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the runs say; `others` has the claims before this one."""
        raise NotImplementedError

    def command(self) -> str:
        """Return what makes the runs; empty where nothing can."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Pooled(Claim):
    """A claim about one metric of the runs of one pool."""

    pool: Pool
    metric: str
    """Name of the number of each run, see `Pool.samples`."""
    unit: str = ""
    lower_is_better: bool = False
    needs: str = ""
    """What it would take for our number to be evidence, where it is none whatever comes out."""
    also: tuple[str, ...] = ()
    """Methods whose means are reported, too, though the claim is not about them."""
    also_metric: tuple[str, str] | None = None
    """Another metric whose means are reported, and what it is; it decides nothing."""
    shows_floor: bool = False
    """Whether to report the score of no action at all."""

    def labels(self) -> tuple[str, ...]:
        """Return the methods or variants that the claim is about."""
        raise NotImplementedError

    def command(self) -> str:
        """Return what makes the runs."""
        return self.pool.command(self.labels())

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the runs say."""
        found = self.pool.samples(evidence, self.metric)
        samples = {name: found[name] for name in self.labels() if name in found}
        without = self._without(evidence)
        made = self.pool.made(evidence)
        wanted = self.pool.runs(self.labels())
        missing = [run for place, run in wanted.items() if place not in made]
        decided = self.withhold_verdict(self.decide(samples))
        if samples and decided.here and (idle := sorted(self.pool.idle(evidence) & samples.keys())):
            verb = "does" if len(idle) == 1 else "do"
            names = f"{', '.join(idle)} {verb} no better than no action at all"
            here = f"{decided.here}; by mean return, {names}"
            decided = replace(decided, here=here, idle=tuple(idle))
        if decided.here and decided.verdict != "not run yet":
            decided = replace(decided, here=decided.here + self._beside(evidence, found))
        if decided.verdict == "not run yet" and without:
            texts = [f"{name}: seed {', '.join(map(str, each))}" for name, each in without.items()]
            here = f"the runs are there, but some have no such number ({'; '.join(texts)})"
            decided = Finding("cannot be decided with these runs", here)
        return replace(
            decided,
            samples=tuple(samples.values()),
            missing=tuple(missing),
            links=tuple(self.pool.links(evidence)) if samples or without else (),
        )

    def metrics(self) -> tuple[str, ...]:
        """Return the numbers of each run that the claim takes."""
        return (self.metric,)

    def _without(self, evidence: Evidence) -> dict[str, tuple[int, ...]]:
        """Return by label the seeds of runs that are there, but lack a number."""
        found: dict[str, set[int]] = {}
        for metric in self.metrics():
            for name, seeds in self.pool.seeds_without(evidence, metric).items():
                found.setdefault(name, set()).update(seeds)
        return {name: tuple(sorted(found[name])) for name in self.labels() if name in found}

    def _beside(self, evidence: Evidence, found: Mapping[str, Sample]) -> str:
        """Return what is reported of other methods, of another metric and of no action."""
        also = [self._described(found[name]) for name in self.also if name in found]
        parts = [f"not in the paper's comparison: {', '.join(also)}"] if also else []
        if self.also_metric:
            metric, what = self.also_metric
            others = self.pool.samples(evidence, metric)
            there = [others[name] for name in self.labels() if name in others]
            there.sort(key=_mean, reverse=not self.lower_is_better)
            parts += [f"{what}: {', '.join(map(self._described, there))}"] if there else []
        floor = self.pool.floor(evidence, self.metric) if self.shows_floor else None
        parts += [f"no action at all: {self._described(floor).split(' ', 1)[1]}"] if floor else []
        return "".join(f"; {part}" for part in parts)

    def _described(self, sample: Sample) -> str:
        mean = f"{sample.label} {figure(_mean(sample))}"
        return f"{mean} {self.unit}" if self.unit else mean

    def decide(self, samples: Mapping[str, Sample]) -> Finding:
        """Return verdict, numbers and power."""
        raise NotImplementedError

    def withhold_verdict(self, found: Finding) -> Finding:
        """Return a finding, left undecided where `needs` says that the number is no evidence."""
        if not self.needs or found.verdict == "not run yet":
            return found
        return replace(found, verdict="cannot be decided with these runs", power=self.needs)

    def gaps(self, samples: Mapping[str, Sample]) -> dict[tuple[str, str], Gap]:
        """Return how much better each of some samples is than each other.

        Tests have pooled variances, intervals over seeds are the wider ones. There is neither for
        two samples whose runs are all equal.
        """
        names = list(samples)
        columns = [np.array(samples[name].values)[:, None] for name in names]
        bodies = np.zeros(1, np.int64)
        pooled = compare_means(columns, bodies)
        own = compare_means(columns, bodies, borrow=False)
        alike = {place for place, name in enumerate(names) if _all_equal(samples[name])}
        tests = {pair: item.p_runs for pair, item in pooled.items() if not alike.issuperset(pair)}
        significant = significant_pairs(tests)
        found = {}
        for (i, j), item in pooled.items():
            more = _wider(item, own[i, j])
            if alike.issuperset((i, j)):
                more = _point(more)
            better = _negated(more) if self.lower_is_better else more
            apart = (i, j) in significant
            found[names[i], names[j]] = Gap(better, item.of_logarithms, apart)
            found[names[j], names[i]] = Gap(_negated(better), item.of_logarithms, apart)
        return found


@dataclass(frozen=True, kw_only=True)
class Superiority(Pooled):
    """The mean of the first is better than that of the second."""

    first: str
    second: str
    size: float | None = None
    """Share of the second's mean by which the paper's first is better."""

    def labels(self) -> tuple[str, ...]:
        """Return the methods or variants that the claim is about."""
        return self.first, self.second

    def decide(self, samples: Mapping[str, Sample]) -> Finding:
        """Return verdict, numbers and power."""
        if _too_few_runs(samples, self.labels()):
            return Finding("not run yet")
        pair = samples[self.first], samples[self.second]
        gap = self.gaps(samples)[self.first, self.second]
        here = f"{_means_text(pair, self.unit)}: {_gap_text(gap, self)}"
        return _verdict_by_sign(gap.better, here, _gap_power(gap, pair, self.size, self))


@dataclass(frozen=True, kw_only=True)
class Lead(Pooled):
    """The best of some is better than all others."""

    ours: tuple[str, ...]
    others: tuple[str, ...]
    size: float | None = None
    """Share of the best other's mean by which the paper's best is better."""

    def labels(self) -> tuple[str, ...]:
        """Return the methods or variants that the claim is about."""
        return *self.ours, *self.others

    def decide(self, samples: Mapping[str, Sample]) -> Finding:
        """Return verdict, numbers and power."""
        usable = {name: item for name, item in samples.items() if len(item.values) >= MIN_RUNS}
        ours = [name for name in self.ours if name in usable]
        others = [name for name in self.others if name in usable]
        if not ours or not others:
            return Finding("not run yet")
        sign = -1.0 if self.lower_is_better else 1.0
        best = max(ours, key=lambda name: sign * _mean(usable[name]))
        rival = max(others, key=lambda name: sign * _mean(usable[name]))
        pair, gaps = (usable[best], usable[rival]), self.gaps(usable)
        here = f"{_means_text(pair, self.unit)}: {_gap_text(gaps[best, rival], self)}"
        left = [name for name in self.others if name not in usable]
        here += self._coverage(others)
        power = _gap_power(gaps[best, rival], pair, self.size, self)
        power = power and f"against {rival} alone, {power}"
        ahead = [name for name in others if gaps[best, name].is_ahead]
        behind = {own: [name for name in others if gaps[name, own].is_ahead] for own in ours}
        if behind[best]:
            return self._judge_behind(f"{here}; behind {', '.join(behind[best])}", behind)
        if len(ahead) == len(self.others):
            return Finding("seen here", here)
        count = f"; significantly ahead of {len(ahead)} of {len(others)}"
        if len(ahead) == len(others):
            power = f"runs of {', '.join(left)}"
        return Finding("cannot be decided with these runs", here + count, power)

    def _judge_behind(self, here: str, behind: Mapping[str, Sequence[str]]) -> Finding:
        """Return what is found where the best of ours is significantly behind another.

        Args:
            here: the numbers.
            behind: those of the others that are ahead of each of ours that has runs.
        """
        untried = [name for name in self.ours if name not in behind]
        open_ones = [own for own in behind if not behind[own]]
        needed = []
        if untried:
            needed.append(f"runs of {', '.join(untried)}")
        if open_ones:
            needed.append(f"more runs of {', '.join(open_ones)}")
        if not needed:
            return Finding("not seen here", here)
        return Finding("cannot be decided with these runs", here, "; ".join(needed))

    def _coverage(self, others: Sequence[str]) -> str:
        if len(others) == len(self.others):
            return ""
        return f"; {len(others)} of {len(self.others)} others have runs"


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(Pooled):
    """The mean of a metric of one variant, less another metric if given, is above a threshold."""

    label: str
    minus: str = ""
    """Another metric of the same runs."""
    size: float | None = None
    """What the paper measured, in the same unit."""
    threshold: float = 0.0
    digits: int = 1

    def labels(self) -> tuple[str, ...]:
        """Return the methods or variants that the claim is about."""
        return (self.label,)

    def metrics(self) -> tuple[str, ...]:
        """Return the numbers of each run that the claim takes."""
        return (self.metric, self.minus) if self.minus else (self.metric,)

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the runs say."""
        found = super().find(evidence, others)
        if not self.minus or not found.samples:
            return found
        both = self.pool.samples(evidence, self.metric), self.pool.samples(evidence, self.minus)
        first, second = (side.get(self.label) for side in both)
        if first is None or second is None:
            here = "the runs are there, but some lack a number"
            return Finding("cannot be decided with these runs", here, missing=found.missing)
        values = tuple(a - b for a, b in zip(first.values, second.values, strict=True))
        change = Sample(self.label, first.seeds, values, first.sources)
        decided = self.withhold_verdict(self.decide({self.label: change}))
        here = (
            f"{_mean(second):z,.{self.digits}f} to {_mean(first):z,.{self.digits}f}: {decided.here}"
        )
        return Finding(
            *(decided.verdict, here, decided.power),
            *((first, second, change), found.missing, found.links),
        )

    def decide(self, samples: Mapping[str, Sample]) -> Finding:
        """Return verdict, numbers and power."""
        if _too_few_runs(samples, self.labels()):
            return Finding("not run yet")
        sample = samples[self.label]
        found = run_interval(np.array(sample.values)[:, None], mean)
        if _all_equal(sample):
            found = _point(found)
        shown = f"{_estimate_text(found, self.digits, self.unit)}, {len(sample.values)} runs"
        shown += "" if found.low is not None else f", {_NO_INTERVAL}"
        claimed = None if self.size is None else abs(self.size)
        signed = _negated(found) if self.lower_is_better else found
        beyond = _minus(signed, self.threshold)
        claimed = None if claimed is None else claimed - self.threshold
        return _verdict_by_sign(beyond, shown, power_text([sample.values], claimed, beyond.value))


@dataclass(frozen=True, kw_only=True)
class Equivalence(Pooled):
    """Two means are equivalent: they differ by no more than a tenth of the larger."""

    first: str
    second: str
    one_sided: bool = False
    """Non-inferiority: the claim is only that the first is not worse by more."""

    def labels(self) -> tuple[str, ...]:
        """Return the methods or variants that the claim is about."""
        return self.first, self.second

    def decide(self, samples: Mapping[str, Sample]) -> Finding:
        """Return verdict, numbers and power."""
        if _too_few_runs(samples, self.labels()):
            return Finding("not run yet")
        pair = samples[self.first], samples[self.second]
        gap = self.gaps(samples)[self.first, self.second]
        here = f"{_means_text(pair, self.unit)}: {_gap_text(gap, self)}"
        asked = "not worse: by at most" if self.one_sided else "alike: within"
        margin = EQUIVALENCE_MARGIN * max(abs(_mean(sample)) for sample in pair)
        here += f" ({asked} {margin:,.1f}, a tenth of the larger)"
        if gap.of_logarithms:
            margin = -math.log(1.0 - EQUIVALENCE_MARGIN)
        better = gap.better
        if better.low is None or better.high is None:
            return Finding("cannot be decided with these runs", here)
        if -margin <= better.low and (self.one_sided or better.high <= margin):
            return Finding("seen here", here)
        if better.high < -margin or better.low > margin:
            return Finding("not seen here", here)
        inside = margin + (better.value if self.one_sided else -abs(better.value))
        power = equivalence_power(_on_scale_of(gap, pair), inside)
        return Finding("cannot be decided with these runs", here, power)


@dataclass(frozen=True, kw_only=True)
class Conjunction(Claim):
    """A claim that holds if several others do."""

    parts: tuple[str, ...] = field(default=())
    """Ids of the others, which come before it."""

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the runs say."""
        found = [others[name] for name in self.parts]
        counts = {verdict: sum(item.verdict == verdict for item in found) for verdict in VERDICTS}
        here = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        samples = tuple(sample for item in found for sample in item.samples)
        links = tuple(dict.fromkeys(link for item in found for link in item.links))
        if counts["not seen here"]:
            verdict: Verdict = "not seen here"
        elif counts["seen here"] == len(found):
            verdict = "seen here"
        elif counts["not run yet"] == len(found):
            return Finding("not run yet")
        else:
            verdict = "cannot be decided with these runs"
        return Finding(verdict, f"of {len(found)} parts {here}", "", samples, (), links)


@dataclass(frozen=True, kw_only=True)
class Undecidable(Claim):
    """A claim that no run of this benchmark can decide."""

    why: str

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the runs say."""
        return Finding("cannot be decided with these runs", self.why)


def _wider(pooled: MeanComparison, own: MeanComparison) -> Estimate:
    """Return a difference with the wider of its intervals with pooled and with own variances.

    Two sample variances hardly determine a prior: where the true ones differ much, intervals with
    pooled variances are too short.
    """
    found = pooled.contrast.runs, own.contrast.runs
    return max(found, key=lambda item: -math.inf if item.high is None else item.high)


def _point(found: Estimate) -> Estimate:
    return Estimate(found.value, None, None)


def _all_equal(sample: Sample) -> bool:
    return len(set(sample.values)) == 1


def _verdict_by_sign(gap: Estimate, here: str, power: str) -> Finding:
    if gap.low is not None and gap.low > 0.0:
        return Finding("seen here", here)
    if gap.high is not None and gap.high < 0.0:
        return Finding("not seen here", here)
    return Finding("cannot be decided with these runs", here, power)


def _too_few_runs(samples: Mapping[str, Sample], labels: Sequence[str]) -> bool:
    return any(len(samples[n].values) < MIN_RUNS if n in samples else True for n in labels)


def _mean(sample: Sample) -> float:
    return math.fsum(sample.values) / len(sample.values)


def _negated(found: Estimate) -> Estimate:
    low, high = found.low, found.high
    return Estimate(-found.value, None if high is None else -high, None if low is None else -low)


def _minus(found: Estimate, amount: float) -> Estimate:
    low, high = found.low, found.high
    return Estimate(
        found.value - amount,
        None if low is None else low - amount,
        None if high is None else high - amount,
    )


def _means_text(pair: tuple[Sample, Sample], unit: str) -> str:
    parts = [
        f"{sample.label} {figure(_mean(sample))} ({len(sample.values)} seeds)" for sample in pair
    ]
    return " against ".join(parts) + (f" {unit}" if unit else "")


def _gap_text(gap: Gap, claim: Pooled) -> str:
    """Return a gap of logarithms as a share of the second mean, one of means as it is."""
    way = "lower" if claim.lower_is_better else "higher"
    better = gap.better
    after = "" if better.low is not None else f", {_NO_INTERVAL}"
    if not gap.of_logarithms:
        unit = "percentage points" if claim.unit == "%" else claim.unit
        ends = (better.value, better.low or 0.0, better.high or 0.0)
        largest = max(abs(end) for end in ends)
        return f"{way} by {_estimate_text(better, 3 if 0.0 < largest < 1.0 else 1, unit)}{after}"
    if claim.lower_is_better:
        share = better.transformed(lambda x: 100.0 * (1.0 - exp_or_infinity(-x)))
    else:
        share = better.transformed(lambda x: 100.0 * (exp_or_infinity(x) - 1.0))
    return f"{way} by {_estimate_text(share, 1, '%')}{after}"


def _gap_power(gap: Gap, pair: tuple[Sample, Sample], size: float | None, claim: Pooled) -> str:
    """Return how many seeds would show a gap.

    Args:
        gap: what was measured.
        pair: the runs.
        size: share of the second mean by which the paper's first is better, if it says so.
        claim: whose gap it is.
    """
    if size is None or _mean(pair[1]) <= 0.0:  # a share of what is not positive says nothing
        claimed = None
    elif gap.of_logarithms:
        claimed = -math.log1p(-size) if claim.lower_is_better else math.log1p(size)
    else:
        claimed = size * _mean(pair[1])
    return power_text(_on_scale_of(gap, pair), claimed, gap.better.value)


def _on_scale_of(gap: Gap, pair: tuple[Sample, Sample]) -> list[DoubleArray]:
    """Return runs that vary as what is compared does."""
    return [
        run_values(np.array(sample.values)[:, None], of_logarithms=gap.of_logarithms)
        for sample in pair
    ]


def _estimate_text(found: Estimate, digits: int, unit: str) -> str:
    after = "" if not unit else unit if unit == "%" else f" {unit}"
    after = after.replace("%", " %")
    style = f"+z,.{digits}f"
    if found.low is None or found.high is None:
        return f"{found.value:{style}}{after}"
    return f"{found.value:{style}}{after} ({found.low:{style}} to {found.high:{style}})"


def figure(value: float) -> str:
    """Return a number with as many digits as its size asks for."""
    size = abs(value)
    return f"{value:z,.{0 if size >= 1000 else 1 if size >= 10 else 3}f}"
