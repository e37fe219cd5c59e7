"""Sides take turns, and what is reported of them."""

import pytest

from gmc_bench.core.table import Table
from gmc_bench.profiling.timing import repeat, take_turns


def test_sides_take_turns_and_the_median_turn_counts():
    calls, prepared = [], []

    def side(name, seconds):
        def run(number):
            calls.append((name, number))
            return seconds[number], 10

        return run

    sides = {"a": side("a", [1.0, 2.0, 5.0]), "b": side("b", [0.5, 0.5, 0.5])}
    found = take_turns(sides, seconds=4.5, prepare=prepared.append)
    assert {name: timing.rate for name, timing in found.items()} == {"a": 5.0, "b": 20.0}
    assert found["a"].median == 2.0
    warm_up, rounds = calls[:2], calls[2:]
    assert warm_up == [("a", 0), ("b", 0)]
    assert rounds == [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert prepared == [0, 0, 1, 2]


def test_counters_rise_by_what_the_rounds_that_count_added():
    counted = {"slow part": 0.0, "updates": 0.0}

    def run(number):
        counted["slow part"] += 0.5
        counted["updates"] += 3
        return 2.0, 10 + number

    turns = take_turns({"a": run}, 4.0, counters={"a": lambda: counted})["a"]
    assert turns.counted == {"slow part": 1.0, "updates": 6.0}  # not the first call
    assert turns.share("slow part") == 0.25
    assert turns.mean_rate == (10 + 11) / 4


@pytest.mark.parametrize("least", [1, 5])
def test_a_function_is_repeated_often_enough(least):
    calls = []
    found = repeat(lambda: calls.append(None), 0.0, least)
    assert len(found.seconds) == least
    assert len(calls) == least + 1  # the first does not count


def test_a_table_is_aligned_markdown():
    table = Table(("side", "rate"), [["a", "1,000"], ["long name", "7"]])
    assert table.to_text().splitlines() == [
        "| side      |  rate |",
        "| --------- | ----: |",
        "| a         | 1,000 |",
        "| long name |     7 |",
    ]
