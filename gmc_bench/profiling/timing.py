"""Timing of several sides in turns, so that a busy moment of the machine hits all alike."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

T = TypeVar("T")

Side = Callable[[int], tuple[float, float]]
"""Takes the number of the round, does its part of it, and returns seconds and what was done."""

Counters = Callable[[], Mapping[str, float]]
"""Returns what a side has counted so far, by name: seconds of a part of its work, updates, ..."""


@dataclass(frozen=True, slots=True)
class Timing:
    """All turns of one side."""

    seconds: list[float] = field(default_factory=list)
    """Of every turn."""
    done: list[float] = field(default_factory=list)
    """What was done in it: calls, env steps, ..."""
    counted: dict[str, float] = field(default_factory=dict)
    """By how much the side's counters rose over all turns, by name."""

    @property
    def median(self) -> float:
        """Seconds of the median turn."""
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """What the median turn did per second: stalls of a shared machine do not count."""
        return median(n / seconds for n, seconds in zip(self.done, self.seconds, strict=True))

    @property
    def mean_rate(self) -> float:
        """What was done per second of all turns."""
        return sum(self.done) / sum(self.seconds)

    def share(self, name: str) -> float:
        """Return the rise of a counter of seconds as a share of the seconds of all turns."""
        return self.counted[name] / sum(self.seconds)


def take_turns(
    sides: Mapping[str, Side],
    seconds: float,
    *,
    min_rounds: int = 1,
    prepare: Callable[[int], object] = lambda _: None,
    counters: Mapping[str, Counters] | None = None,
) -> dict[str, Timing]:
    """Time sides, one turn each per round; the order is reversed after every round.

    Every side runs its part of the first round twice, and the first time does not count.

    Args:
        sides: name -> side.
        seconds: on average for each side.
        min_rounds: at least so many.
        prepare: called with the number of each round before it, untimed.
        counters: name of a side -> what it counts.
    """
    prepare(0)
    for side in sides.values():
        side(0)
    found = {name: Timing() for name in sides}
    before = {name: dict(read()) for name, read in (counters or {}).items()}
    number, total = 0, 0.0
    while number < min_rounds or total < seconds * len(sides):
        prepare(number)
        for name in list(sides)[:: 1 if number % 2 else -1]:
            spent, done = sides[name](number)
            total += spent
            found[name].seconds.append(spent)
            found[name].done.append(done)
        number += 1
    for name, read in (counters or {}).items():
        rises = {what: value - before[name][what] for what, value in read().items()}
        found[name].counted.update(rises)
    return found


def timed(run: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """Return what a function returns, and the seconds that it took."""
    started = time.perf_counter()
    found = run(*arguments)
    return found, time.perf_counter() - started


def side(run: Callable[..., object], done: float = 1.0) -> Side:
    """Return a side that calls `run` once per round.

    Args:
        run: takes nothing.
        done: what a call does.
    """
    return lambda _: (timed(run)[1], done)


def repeat(run: Callable[[], object], seconds: float, min_repeats: int = 1) -> Timing:
    """Time one function again and again, after a call that does not count."""
    return take_turns({"": side(run)}, seconds, min_rounds=min_repeats)[""]
