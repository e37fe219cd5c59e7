"""Claims about time: how it grows with limbs, and who takes least of it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gmc_bench.leaderboard.findings.claims import EQUIVALENCE_MARGIN, Claim, Finding, Verdict
from gmc_bench.leaderboard.findings.evidence import Evidence, is_installed
from gmc_bench.leaderboard.findings.pools import Sample
from gmc_bench.records.kept import KeptSpeeds

PRESET = "lite"
"""Settings of the networks whose costs count: those of the runs."""
LARGEST_SIZE = 1024
"""Tokens up to which a cost is measured that a claim is about."""


@dataclass(frozen=True, kw_only=True)
class LinearCost(Claim):
    """A cost grows at most linearly with the number of limbs: its exponent is at most 1.1."""

    method: str
    key: str
    """Kind of the measurement and name of the cost, as a study of scaling has them."""
    beside: str
    """Method whose exponent is reported, too."""
    part: str = "time"
    """Of the study that measures it."""

    def command(self) -> str:
        """Return the study's command."""
        return f"gmc-bench study scaling --method {self.method} {self.beside} --part {self.part}"

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the exponent of the installed version says: at most 1, and a tenth."""
        for path, kept in evidence.scalings.items():
            if kept.preset != PRESET:
                continue
            found = {
                item.method: item
                for item in kept.exponents
                if f"{item.kind}/{item.key}" == self.key
                and is_installed(item.method, item.method_version)
            }
            if self.method in found:
                own = found[self.method]
                sample = Sample(self.method, (1,), (own.value,), (path,))
                texts = [
                    f"{name} {item.value:.2f} ({item.low:.2f} to {item.high:.2f})"
                    for name in (self.method, self.beside)
                    if (item := found.get(name))
                ]
                here = f"exponent {', '.join(texts)}"
                verdict: Verdict = "cannot be decided with these runs"
                if own.high <= 1.0 + EQUIVALENCE_MARGIN:
                    verdict = "seen here"
                elif own.low > 1.0 + EQUIVALENCE_MARGIN:
                    verdict = "not seen here"
                return Finding(verdict, here, "", (sample,), (), (path,))
        return Finding("not run yet")


@dataclass(frozen=True, kw_only=True)
class Fastest(Claim):
    """A method chooses actions faster than all others, timed in turns on one machine.

    What counts is the median over rounds of the ratio of two times of the same round, with an
    interval from order statistics, which assumes nothing of how times are distributed.
    """

    suite: str
    task: str
    method: str
    others: tuple[str, ...]

    def command(self) -> str:
        """Return what measures it."""
        return (
            f"gmc-bench profile methods --method {self.method} {' '.join(self.others)} "
            f"--suite {self.suite} --task {self.task} --threads 1 --json"
        )

    def find(self, evidence: Evidence, others: Mapping[str, Finding]) -> Finding:
        """Return what the measured times say."""
        for path, kept in evidence.todays_speeds().items():
            place = (kept.suite, kept.task, kept.reference.method)
            if place == (self.suite, self.task, self.method):
                return self._decide(path, kept)
        return Finding("not run yet")

    def _decide(self, path: str, kept: KeptSpeeds) -> Finding:
        ratios = {
            item.method: [
                other / own
                for own, other in zip(
                    item.reference_acting_seconds, item.acting_seconds, strict=True
                )
            ]
            for item in kept.methods
            if item.method in self.others
        }
        if not ratios:
            return Finding("not run yet")
        own = [s for item in kept.methods for s in item.reference_acting_seconds]
        rate = kept.steps_per_iteration / statistics.median(own)
        next_one = min(ratios, key=lambda name: statistics.median(ratios[name]))
        low, high = median_interval(ratios[next_one], 0.95)
        here = (
            f"{self.method} {rate:,.0f} control steps/s, "
            f"{statistics.median(ratios[next_one]):.2f} times as many as {next_one} "
            f"({low:.2f} to {high:.2f}, {len(ratios[next_one])} rounds)"
        )
        if len(ratios) < len(self.others):
            here += f"; {len(ratios)} of {len(self.others)} others were timed"
        # Being faster than all requires every test to reject: no correction. That any other one is
        # faster takes a single rejection among many: Bonferroni.
        level = 1.0 - 0.05 / len(self.others)
        faster = [name for name in ratios if median_interval(ratios[name], level)[1] < 1.0]
        slower = [name for name in ratios if median_interval(ratios[name], 0.95)[0] > 1.0]
        verdict: Verdict = "cannot be decided with these runs"
        power = ""
        if faster:
            verdict, here = "not seen here", f"{here}; slower than {', '.join(faster)}"
        elif len(slower) == len(self.others):
            verdict = "seen here"
        elif len(ratios) < len(self.others):
            left = [name for name in self.others if name not in ratios]
            power = f"times of {', '.join(left)}"
        else:
            power = "more rounds"
        return Finding(verdict, here, power, (), (), (path,))


def median_interval(values: Sequence[float], level: float) -> tuple[float, float]:
    """Return an interval for the median of independent values, from their order statistics.

    Its ends are the k-th values from either end with the largest k at which a binomial variable of
    n trials with success probability 1/2 is below k with probability at most (1 - level) / 2; with
    too few values for that, both ends are infinite.
    """
    from scipy.stats import binom

    tail = (1.0 - level) / 2.0
    k = 0
    while binom.cdf(k, len(values), 0.5) <= tail:
        k += 1
    ranked = sorted(values)
    return (ranked[k - 1], ranked[-k]) if k else (-math.inf, math.inf)
