"""Training on quadrupeds: a continued run is the uninterrupted one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gmc_bench.methods import METHODS
from gmc_bench.robots import ROBOTS
from gmc_bench.tasks.quadruped_velocity import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.trainer import make_trainer
from tests.support.evaluate import evaluate
from tests.support.small_runs import (
    TrainerInFolder,
    same_statistics,
    small_config,
    small_protocol,
    stop_at,
)

BODIES = tuple(ROBOTS.values())
BUSY = replace(
    TASK,
    horizon=12,  # so that time limits are met
    command=replace(TASK.command, resample_s=0.1),
    events=tuple(replace(e, every=(0.05, 0.2)) if e.every else e for e in TASK.events),
)


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Build a trainer: 4 environments x 16 steps, 2 iterations."""
    folder = tmp_path_factory.mktemp("runs")

    def build(name):
        method = METHODS.get("recmorph")
        settings = method.make_config("lite", {"width": 8, "hidden": 8})
        config = small_config("recmorph", settings, small_protocol(), task=BUSY.id)
        trainer = make_trainer(config, method, BUSY, BODIES, TokenSpec(16, 1, parts="actuators"))
        return TrainerInFolder(trainer, config, folder / name)

    return build


@pytest.fixture(scope="module")
def whole(make):
    """A run that was not stopped."""
    trainer = make("whole")
    trainer.train()
    return trainer


def test_a_continued_run_ends_in_the_same_bits(make, whole):
    stop_at(make("parts"), 1)
    parts = make("parts")
    assert parts.env_steps == 64
    parts.train()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], value), name
    assert parts.curve == whole.curve
    same_statistics(parts, whole)
    ends = [trainer.env.get_state() for trainer in (parts, whole)]
    assert set(ends[0]) == set(ends[1])
    for name, value in ends[0].items():
        assert value.tobytes() == ends[1][name].tobytes(), name


def test_a_trained_policy_is_scored_on_every_robot_alike_each_time(whole):
    def returns(seed):
        found = evaluate(
            whole.policy,
            BUSY,
            BODIES,
            episodes=2,
            mode="deterministic",
            seed=seed,
            num_threads=1,
        )
        return np.array([[episode.episode_return for episode in body] for body in found])

    first = returns(3)
    assert first.shape == (4, 2)
    assert np.isfinite(first).all()
    assert len(np.unique(first)) > 4
    np.testing.assert_array_equal(returns(3), first)
    assert (returns(4) != first).any()
