"""Rates of several sides that take turns, so that a busy moment of the machine hits all alike."""

from collections.abc import Callable, Mapping
from statistics import median

Side = Callable[[int], tuple[float, int]]
"""Takes the number of the block, runs it, and returns its seconds and its env steps."""


def take_turns(sides: Mapping[str, Side], seconds: float) -> dict[str, float]:
    """Return env steps per second of every side: those of its median block.

    Every side runs its first block twice, and the first time does not count. The order of the
    sides turns around after every round.

    Args:
        sides: name -> side.
        seconds: on average for each side.
    """
    for side in sides.values():
        side(0)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    spent, block = 0.0, 0
    while not block or spent < seconds * len(sides):
        for name in list(sides)[:: 1 if block % 2 else -1]:
            elapsed, steps = sides[name](block)
            spent += elapsed
            rates[name].append(steps / elapsed)
        block += 1
    return {name: median(values) for name, values in rates.items()}
