import re
from dataclasses import replace
from pathlib import Path

import pytest

from gmc_bench.deployment.deploy import DeployOptions
from gmc_bench.deployment.trials import TRIALS, draw_conditions
from gmc_bench.robots.friction import FrictionPair

FLOORS = ("flat", "micro-rough")


def test_conditions_are_repeatable_and_differ():
    trial = TRIALS["forward"]
    assert draw_conditions(trial, 1, 0) == draw_conditions(trial, 1, 0)
    drawn = [draw_conditions(trial, 1, number) for number in range(40)]
    assert len({item.base_mass for item in drawn}) == 40
    assert {item.latency for item in drawn} == {0.0, 0.005, 0.01, 0.015, 0.02}
    assert [item.floor for item in drawn].count("flat") == 20
    for factors in ([item.strength for item in drawn], [item.base_mass for item in drawn]):
        assert 0.9 <= min(factors) < 0.93 < 1.07 < max(factors) <= 1.1
    assert {item.observation_noise for item in drawn} == {1.0}
    assert len({item.sensor_seed for item in drawn}) == 40
    for errors in zip(*(item.velocity_bias for item in drawn), strict=True):
        assert -0.1 <= min(errors) < -0.05 < 0.05 < max(errors) <= 0.1
    assert draw_conditions(trial, 2, 0) != drawn[0]
    assert set(drawn[0].friction) == {FrictionPair(0.8, 0.6)}
    assert (drawn[0].foot_growth, drawn[0].foot_softness) == (0.0, 1.0)
    # Each kind of trial meets something else.
    assert len({draw_conditions(kind, 1, 0).strength for kind in TRIALS.values()}) == len(TRIALS)
    assert draw_conditions(trial, 1, 1, rough=False) == replace(drawn[1], floor="flat")


def test_a_trial_meets_today_what_it_always_met():
    """Success rates of policies can be compared only where their trials were the same."""
    drawn = draw_conditions(TRIALS["forward"], 1, 3)
    assert (drawn.strength, drawn.base_mass) == pytest.approx((1.0426852383, 1.0633501685))
    assert drawn.velocity_bias == pytest.approx((0.0296205009, 0.0026746861, 0.0025845097))
    assert (drawn.latency, drawn.sensor_seed) == (0.015, 3844037327)
    assert draw_conditions(TRIALS["masked-feet"], 1, 2).friction[0].static == pytest.approx(
        0.4064793536
    )
    assert draw_conditions(TRIALS["wrapped-foot"], 1, 5).friction[2].static == pytest.approx(
        0.2391651340
    )


def test_robots_commands_and_length_are_those_of_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "deployment.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| \((.+?)\) \|", page, re.M)
    found = [(key, robot.lower(), *map(float, command.split(","))) for key, robot, command in rows]
    assert found == [(kind.id, kind.robot, *kind.command) for kind in TRIALS.values()]
    assert "ten trials of 15 s each" in page
    assert (DeployOptions().trials, DeployOptions().seconds) == (10, 15.0)


def test_feet_are_masked_or_wrapped():
    masked = draw_conditions(TRIALS["masked-feet"], 1, 0)
    assert 0.4 <= masked.friction[0].static <= 0.56
    assert masked.friction[0].dynamic == pytest.approx(masked.friction[0].static * 0.6 / 0.8)
    assert len(set(masked.friction)) == 1
    assert (masked.foot_growth, masked.foot_softness) == (0.003, 2.0)
    factors = [
        draw_conditions(TRIALS["masked-feet"], 1, number).friction[0].static / 0.8
        for number in range(40)
    ]
    assert 0.5 <= min(factors) < 0.52 < 0.68 < max(factors) <= 0.7
    slippery, coefficients = [], []
    for number in range(8):
        drawn = draw_conditions(TRIALS["wrapped-foot"], 1, number)
        bare = FrictionPair(0.8, 0.6)
        found = [foot for foot, pair in enumerate(drawn.friction) if pair != bare]
        assert len(found) == 1
        pair = drawn.friction[found[0]]
        assert pair.static == pair.dynamic
        coefficients.append(pair.static)
        slippery.append((found[0], drawn.floor))
    assert 0.2 <= min(coefficients) < 0.23 < 0.27 < max(coefficients) <= 0.3
    # Every foot once on each floor.
    assert sorted(slippery) == [(foot, floor) for foot in range(4) for floor in FLOORS]
