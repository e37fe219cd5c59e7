"""Every measurement runs and says what its figures mean; the figures are the machine's."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from gmc_bench.methods import METHODS
from gmc_bench.profiling import MEASURES, Setting, render
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.testing.morphologies import chain, star
from gmc_bench.tokens.spec import TokenSpec

RATIOS = {
    "sim": {"ratio_env_to_bare_mj_step", "ratio_env_to_async_vector_env"},
    "policy": {f"ratio_to_mlp_batch_{batch}" for batch in (1, 64, 1024)},
    "train": {
        f"ratio_{part}_to_total" for part in ("simulation", "policy", "update", "other")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def setting():
    """Two bodies, two environments, a fifth of a second per figure."""
    threads = torch.get_num_threads()
    protocol = SUITE.protocol("smoke")
    yield Setting(
        task=TASK,
        bodies=(chain(3), star(3)),
        bodies_id="unit",
        bodies_digest="0" * 64,
        spec=TokenSpec(max_limbs=4, joints_per_limb=2),
        method=METHODS.get("recmorph"),
        protocol=replace(
            protocol,
            num_envs=4,
            rollout_length=16,
            env_steps=64 * 200,
            ppo=replace(protocol.ppo, batch_size=64),
        ),
        num_envs=2,
        threads=1,
        seconds=0.2,
    )
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def measured(setting):
    """Return the figures of a measure, taken once."""
    return cache(lambda name: MEASURES[name](setting))


def test_there_is_a_test_for_every_measure():
    assert RATIOS.keys() == MEASURES.keys()


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_a_measure_gives_finite_ratios_and_explains_them(measured, name):
    figures = measured(name)
    found = {field for field in figures if field.startswith("ratio_")}
    assert found == RATIOS[name]
    assert all(math.isfinite(figures[field]) for field in found)
    numbers = {field for field, value in figures.items() if isinstance(value, float)}
    assert figures["explained"].keys() == numbers
    assert all(figures[field] > 0 for field in numbers - {"ratio_other_to_total"})
    assert figures["setting"]["threads"] == 1
    assert figures["setting"]["morphologies"] == {"id": "unit", "digest": "0" * 64, "bodies": 2}
    assert figures["setting"]["num_envs"] == {"sim": 2, "policy": 2, "train": 4}[name]
    text = render(figures)
    assert all(field in text for field in numbers)


def test_a_ratio_is_the_quotient_of_its_figures(measured):
    figures = measured("policy")
    for batch in (1, 64, 1024):
        quotient = figures[f"actions_per_s_batch_{batch}"] / figures[f"mlp_per_s_batch_{batch}"]
        assert figures[f"ratio_to_mlp_batch_{batch}"] == pytest.approx(quotient)


def test_shares_of_training_time_add_up_to_one(measured):
    figures = measured("train")
    assert sum(figures[field] for field in RATIOS["train"]) == pytest.approx(1.0)


def test_the_reference_network_is_as_large_as_the_method():
    from gmc_bench.profiling.policy import _per_token_mlp

    for size in (5_000, 70_000, 1_500_000):
        network = _per_token_mlp(52, 2, size)
        assert sum(p.numel() for p in network.parameters()) == pytest.approx(size, rel=0.03)
