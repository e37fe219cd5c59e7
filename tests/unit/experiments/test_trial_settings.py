"""What the trials of a tuning try."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.experiments.trial_settings import SPREAD, draw, spread, suggest
from gmc_bench.experiments.trials import TuningTrial
from gmc_bench.methods.tuning import PPO_RANGES, Range


@pytest.mark.parametrize(
    ("number", "shares"),
    [(1, (1 / 2, 1 / 3, 1 / 5)), (3, (3 / 4, 1 / 9, 3 / 5)), (4, (1 / 8, 4 / 9, 4 / 5))],
)
def test_spread_values_are_those_of_a_shifted_halton_sequence(number, shares):
    """Digits of the number behind the point, in the bases 2, 3 and 5."""
    ranges = {
        "a": Range(low=1e-4, high=1e-1, log=True),
        "b": Range(low=2.0, high=6.0),
        "c": Range(low=0.0, high=1.0),
    }
    shifts = [np.random.default_rng((9, place)).random() for place in range(3)]
    first, second, third = ((a + b) % 1.0 for a, b in zip(shares, shifts, strict=True))
    expected = {"a": 10 ** (-4 + 3 * first), "b": 2.0 + 4.0 * second, "c": third}
    assert spread(ranges, number, 9) == pytest.approx(expected)
    fewer = {name: ranges[name] for name in ("a", "b")}
    assert spread(fewer, number, 9) == pytest.approx({name: expected[name] for name in fewer})


def test_what_is_tried_next_lies_where_returns_were_high():
    ranges = {"a": Range(low=0.0, high=1.0)}
    tried = [TuningTrial(k, {"a": k / 7}, {1: float(k)}, 0.0) for k in range(8)]
    worse = [replace(trial, returns={1: -float(trial.number)}) for trial in tried]
    means = [
        np.mean([suggest(ranges, trials, seed)["a"] for seed in range(10)])
        for trials in (tried, worse)
    ]
    assert means[0] > 0.7
    assert means[1] < 0.3


@pytest.mark.parametrize("returns", [{1: None, 2: None}, {1: 9e9, 2: None}])
def test_a_trial_without_a_return_tells_nothing_of_where_to_go_on(returns):
    """Its training diverged, or that of one of its seeds."""
    ranges = {"a": Range(low=0.0, high=1.0)}
    tried = [TuningTrial(k, {"a": k / 7}, {1: float(k), 2: 1.0}, 0.0) for k in range(8)]
    lost = [*tried[:3], replace(tried[7], returns=returns), *tried[3:7]]
    with_it, without, after_it = (
        [suggest(ranges, trials, seed) for seed in range(3)] for trials in (tried, tried[:7], lost)
    )
    assert after_it == without != with_it


def test_rates_are_tried_next_on_the_scale_of_their_range():
    ranges = {"a": Range(low=1e-6, high=1.0, log=True)}
    tried = [TuningTrial(0, {"a": 1e-3}, {1: 1.0}, 0.0)]
    found = [suggest(ranges, tried, seed)["a"] for seed in range(10)]
    assert len(set(found)) == 10
    assert 2 <= sum(value < 1e-3 for value in found) <= 8


def test_every_trial_after_the_spread_ones_is_drawn_with_a_seed_of_its_own():
    ranges = {"a": Range(low=0.0, high=1.0)}
    tried = [TuningTrial(0, {"a": 0.5}, {1: 1.0}, 0.0)]
    for number in (SPREAD + 1, SPREAD + 2):
        expected = suggest(ranges, tried, 20 + number)["a"]
        assert draw(ranges, number, tried, 20)["a"] == float(f"{expected:.3g}")
    assert draw(ranges, SPREAD + 1, tried, 20) != draw(ranges, SPREAD + 2, tried, 20)
    assert draw(ranges, SPREAD, tried, 20)["a"] == float(f"{spread(ranges, SPREAD, 20)['a']:.3g}")


def test_a_protocol_without_a_kl_stop_can_be_tuned():
    ranges = dict(PPO_RANGES)
    tried = [TuningTrial(0, {"ppo.lr": 1e-3}, {1: 9.0}, 0.0)]
    found = suggest(ranges, tried, seed=1)
    assert all(found[name] in item for name, item in ranges.items())
