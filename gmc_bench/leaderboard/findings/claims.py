"""Kinds of claims, and what decides each of them.

A claim is a hypothesis about means over training seeds. It is *seen here* if the 95 % interval of
the difference, over seeds, lies on the claim's side, *not seen here* if it lies on the other, and
cannot be decided otherwise; then a power analysis says how many seeds would show a difference of
the claimed size. Of two samples it is the wider of two intervals: with variances pooled over all
that the claim compares, and with those of the two alone. Runs that are all equal have no interval:
a few of them do not show that further ones would be equal, too. For claims of equivalence the
interval must lie within a margin.
The effect size that the paper measured decides nothing: budgets and bodies differ.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gmc_bench.leaderboard.comparison import MeanDifference, mean_differences, significant_pairs
from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.pools import PlannedRun, Pool, Sample
from gmc_bench.leaderboard.findings.power import MIN_RUNS, equivalence_power, power_text
from gmc_bench.leaderboard.statistics import Estimate, mean, run_interval

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
    """Methods whose means are told, too, though the claim is not about them."""
    also_metric: tuple[str, str] | None = None
    """Another metric whose means are told, and what it is; it decides nothing."""
    tells_floor: bool = False
    """Tell what no action at all reaches."""

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
        """Return what is told of other methods, of another metric and of no action."""
        told = [self._told(found[name]) for name in self.also if name in found]
        parts = [f"not in the paper's comparison: {', '.join(told)}"] if told else []
        if self.also_metric:
            metric, what = self.also_metric
            others = self.pool.samples(evidence, metric)
            there = [others[name] for name in self.labels() if name in others]
            there.sort(key=_mean, reverse=not self.lower_is_better)
            parts += [f"{what}: {', '.join(map(self._told, there))}"] if there else []
        floor = self.pool.floor(evidence, self.metric) if self.tells_floor else None
        parts += [f"no action at all: {self._told(floor).split(' ', 1)[1]}"] if floor else []
        return "".join(f"; {part}" for part in parts)

    def _told(self, sample: Sample) -> str:
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

    def pairwise_differences(
        self, samples: Mapping[str, Sample]
    ) -> tuple[list[str], dict[tuple[int, int], MeanDifference]]:
        """Return labels and the differences of their means; positive where the first is better.

        Tests have pooled variances, intervals over seeds are the wider ones. There is neither for
        two samples whose runs are all equal.
        """
        names = list(samples)
        sign = -1.0 if self.lower_is_better else 1.0
        columns = [sign * np.array(samples[name].values)[:, None] for name in names]
        bodies = np.zeros(1, np.int64)
        pooled = mean_differences(columns, bodies)
        own = mean_differences(columns, bodies, borrow=False)
        alike = {place for place, name in enumerate(names) if _all_equal(samples[name])}
        return names, {
            pair: _untested(item) if alike.issuperset(pair) else _wider(item, own[pair])
            for pair, item in pooled.items()
        }

    def difference(self, samples: Mapping[str, Sample], first: str, second: str) -> Estimate:
        """Return how much better the first is than the second, with the interval over seeds."""
        names, found = self.pairwise_differences(samples)
        i, j = names.index(first), names.index(second)
        item = found[min(i, j), max(i, j)].estimate.runs
        return item if i < j else _negated(item)


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
        gap, base = self.difference(samples, self.first, self.second), _mean(samples[self.second])
        means = _means_text(samples, self.first, self.second, self.unit)
        here = f"{means}: {_difference_text(gap, base, self)}"
        return _verdict_by_sign(gap, here, self._power(samples, gap, base))

    def _power(self, samples: Mapping[str, Sample], gap: Estimate, base: float) -> str:
        claimed = None if self.size is None else self.size * abs(base)
        return power_text([samples[name] for name in self.labels()], claimed, gap.value)


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
        gap, base = self.difference(usable, best, rival), _mean(usable[rival])
        means = _means_text(usable, best, rival, self.unit)
        here = f"{means}: {_difference_text(gap, base, self)}"
        left = [name for name in self.others if name not in usable]
        here += self._coverage(others)
        claimed = None if self.size is None else self.size * abs(base)
        power = power_text([usable[best], usable[rival]], claimed, gap.value)
        names, found = self.pairwise_differences(usable)
        significant = significant_pairs({pair: item.p_runs for pair, item in found.items()})
        ahead = [name for name in others if _is_ahead(best, name, names, found, significant)]
        behind = {
            own: [name for name in others if _is_ahead(name, own, names, found, significant)]
            for own in ours
        }
        if behind[best]:
            return self._judge_behind(f"{here}; behind {', '.join(behind[best])}", behind)
        if len(ahead) == len(self.others):
            return Finding("seen here", here)
        told = f"; significantly ahead of {len(ahead)} of {len(others)}"
        if len(ahead) == len(others):
            power = f"runs of {', '.join(left)}"
        return Finding("cannot be decided with these runs", here + told, power)

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
            f"{_mean(second):,.{self.digits}f} to {_mean(first):,.{self.digits}f}: {decided.here}"
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
        return _verdict_by_sign(beyond, shown, power_text([sample], claimed, beyond.value))


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
        gap = self.difference(samples, self.first, self.second)
        margin = EQUIVALENCE_MARGIN * max(abs(_mean(samples[name])) for name in self.labels())
        base = _mean(samples[self.second])
        means = _means_text(samples, self.first, self.second, self.unit)
        here = f"{means}: {_difference_text(gap, base, self)}"
        asked = "not worse: by at most" if self.one_sided else "alike: within"
        here += f" ({asked} {margin:,.1f})"
        if gap.low is None or gap.high is None:
            return Finding("cannot be decided with these runs", here)
        if -margin <= gap.low and (self.one_sided or gap.high <= margin):
            return Finding("seen here", here)
        if gap.high < -margin or gap.low > margin:
            return Finding("not seen here", here)
        inside = margin + (gap.value if self.one_sided else -abs(gap.value))
        power = equivalence_power([samples[name].values for name in self.labels()], inside)
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


def _wider(pooled: MeanDifference, own: MeanDifference) -> MeanDifference:
    """Return a difference with the wider of its intervals with pooled and with own variances.

    Two variances say little about what variances are like: where they differ much, intervals of
    their pool are too short.
    """
    found = pooled.estimate.runs, own.estimate.runs
    widest = max(found, key=lambda item: -math.inf if item.high is None else item.high)
    return replace(pooled, estimate=replace(pooled.estimate, runs=widest))


def _untested(found: MeanDifference) -> MeanDifference:
    """Return a difference without test and interval."""
    return replace(
        found,
        estimate=replace(found.estimate, runs=_point(found.estimate.runs)),
        p_runs=None,
        p_both=None,
    )


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


def _is_ahead(
    first: str,
    second: str,
    names: Sequence[str],
    found: Mapping[tuple[int, int], MeanDifference],
    significant: set[tuple[int, int]],
) -> bool:
    """Return whether one is significantly better than another, by seeds."""
    i, j = names.index(first), names.index(second)
    pair = (min(i, j), max(i, j))
    gap = found[pair].estimate.runs if i < j else _negated(found[pair].estimate.runs)
    return pair in significant and gap.low is not None and gap.low > 0.0


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


def _means_text(
    samples: Mapping[str, Sample],
    first: str,
    second: str,
    unit: str,
) -> str:
    parts = [
        f"{name} {figure(_mean(samples[name]))} ({len(samples[name].values)} seeds)"
        for name in (first, second)
    ]
    return " against ".join(parts) + (f" {unit}" if unit else "")


def _difference_text(gap: Estimate, base: float, claim: Pooled) -> str:
    """Return a difference as a share of the second mean, or as it is where that means nothing."""
    way = "lower" if claim.lower_is_better else "higher"
    after = "" if gap.low is not None else f", {_NO_INTERVAL}"
    if base <= 0.0:
        unit = "percentage points" if claim.unit == "%" else claim.unit  # no share of the second
        return f"{way} by {_estimate_text(gap, 1, unit)}{after}"
    low, high = gap.low, gap.high
    share = Estimate(
        100.0 * gap.value / base,
        None if low is None else 100.0 * low / base,
        None if high is None else 100.0 * high / base,
    )
    return f"{way} by {_estimate_text(share, 1, '%')}{after}"


def _estimate_text(found: Estimate, digits: int, unit: str) -> str:
    after = "" if not unit else unit if unit == "%" else f" {unit}"
    after = after.replace("%", " %")
    if found.low is None or found.high is None:
        return f"{found.value:+,.{digits}f}{after}"
    return (
        f"{found.value:+,.{digits}f}{after} ({found.low:+,.{digits}f} to {found.high:+,.{digits}f})"
    )


def figure(value: float) -> str:
    """Return a number with as many digits as its size asks for."""
    size = abs(value)
    return f"{value:,.{0 if size >= 1000 else 1 if size >= 10 else 3}f}"
