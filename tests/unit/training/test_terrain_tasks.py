"""Training on tasks whose terrain changes: height maps reach the networks, states are complete."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.methods import METHODS
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.trainer import make_trainer
from tests.support.evaluate import evaluate
from tests.support.slow import slow_but
from tests.support.small_runs import (
    TrainerInFolder,
    same_statistics,
    small_config,
    small_protocol,
    stop_at,
)

BODIES = (biped(), chain(4))
NAMES = ("unimal-incline-v1", "unimal-exploration-v1", "unimal-obstacles-v1", "unimal-vt-v1")


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Build a trainer on a task: 4 environments x 16 steps, 2 iterations."""
    folder = tmp_path_factory.mktemp("runs")

    def build(task_id, name):
        task = replace(TASKS.get(task_id), horizon=12)  # so that time limits are met
        method = METHODS.get("recmorph")
        small = {"width": 8, "hidden": 8}
        settings = method.make_config("lite", small)
        config = small_config("recmorph", settings, small_protocol(), task=task.id)
        spec = TokenSpec(6, num_heights=task.num_heights)
        trainer = make_trainer(config, method, task, BODIES, spec)
        return TrainerInFolder(trainer, config, folder / task_id / name)

    return build


@pytest.fixture(scope="module", params=slow_but(NAMES, *NAMES[2:]))
def whole(make, request):
    """A run that was not stopped."""
    trainer = make(request.param, "whole")
    trainer.train()
    return trainer


def test_a_continued_run_ends_in_the_same_bits(make, whole):
    task_id = whole.config.task

    stop_at(make(task_id, "parts"), 1)
    parts = make(task_id, "parts")
    assert parts.env_steps == 64
    parts.train()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], value), name
    assert parts.curve == whole.curve
    same_statistics(parts, whole)
    assert torch.equal(parts.buffer.height_map, whole.buffer.height_map)


@pytest.mark.parametrize("whole", NAMES[2:], indirect=True)
def test_height_maps_reach_rollout_networks_and_evaluation(make, whole):
    heights = whole.buffer.height_map
    assert heights.shape == (16, 4, 1410)
    assert heights.std(dim=-1).max() > 0.0
    encoder = whole.model.actor.decoder.height_map
    before = make(whole.config.task, "fresh").model.actor.decoder.height_map
    changed = [
        not torch.equal(new, old)
        for new, old in zip(encoder.parameters(), before.parameters(), strict=True)
    ]
    assert all(changed)

    def returns():
        found = evaluate(
            whole.policy,
            whole.env.core.task,
            BODIES,
            episodes=2,
            mode="deterministic",
            seed=3,
            num_threads=1,
        )
        return np.array([[episode.episode_return for episode in body] for body in found])

    first = returns()
    np.testing.assert_array_equal(returns(), first)
    trained = {name: value.clone() for name, value in encoder.state_dict().items()}
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    assert (returns() != first).any()
    encoder.load_state_dict(trained)
