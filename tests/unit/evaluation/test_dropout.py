"""Sensor dropout: what the network is shown, and what does not depend on it."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.evaluation.evaluate import Scoring


def score(trained, silent_limbs=None, *, episodes=2, mode="deterministic"):
    scoring = Scoring(
        task=trained.task,
        bodies=trained.bodies,
        episodes=episodes,
        mode=mode,
        seed=5,
        num_threads=1,
        silent_limbs=silent_limbs,
    )
    return scoring.run(trained.policy)


def watch(trained):
    """Collect what the actor is shown at every step."""
    shown = []

    def note(_, arguments):
        (tokens,) = arguments
        shown.append(
            (
                tokens.morphology_index.numpy().copy(),
                tokens.features.numpy().copy(),
                tokens.table.scaled_context[tokens.morphology_index].numpy(),
                tokens.limb_padding_mask.numpy(),
                tokens.action_padding_mask.numpy(),
                tokens.parents.numpy(),
            )
        )

    handle = trained.model.actor.register_forward_pre_hook(note)
    return shown, handle


def test_the_limb_follows_from_seed_and_content_and_is_never_the_torso():
    body = chain(6)
    drawn = [draw_silent_limbs([body], seed).item() for seed in range(60)]
    assert set(drawn) == {1, 2, 3, 4, 5}
    assert draw_silent_limbs([body], 7).item() == drawn[7]
    key = hashlib.sha256(f"sensor-dropout/7/{body.digest}".encode()).digest()
    assert drawn[7] == np.random.default_rng(int.from_bytes(key[:16])).integers(1, 6)
    twin = replace(body, name="another")
    together = draw_silent_limbs([biped(), twin, body], 7)
    assert together.dtype == np.int64
    assert together[1:].tolist() == [drawn[7]] * 2


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
def test_the_token_is_zero_in_every_step_and_masks_stay(trained, mode):
    silent = np.array([2, 4, 1])
    shown, handle = watch(trained)
    score(trained, silent, mode=mode)
    with_dropout = shown.copy()
    shown.clear()
    score(trained, mode=mode)
    handle.remove()
    assert len(with_dropout) > 5
    for index, features, scaled, *_ in with_dropout:
        rows = np.arange(len(index))
        assert not features[rows, silent[index]].any()
        assert not scaled[rows, silent[index]].any()
    # Start states are the same, so the first inputs differ in the silent token alone.
    (index, features, scaled, *masks), (_, whole, whole_scaled, *whole_masks) = (
        with_dropout[0],
        shown[0],
    )
    rows = np.arange(len(index))
    assert whole[rows, silent[index]].any(axis=1).all()
    whole[rows, silent[index]] = 0.0
    whole_scaled[rows, silent[index]] = 0.0
    np.testing.assert_array_equal(features, whole)
    np.testing.assert_array_equal(scaled, whole_scaled)
    for mask, expected in zip(masks, whole_masks, strict=True):
        np.testing.assert_array_equal(mask, expected)


class TorsoReader(nn.Module):
    """Moves every limb as the torso's features say."""

    def __init__(self, spec):
        super().__init__()
        self.layer = nn.Linear(spec.num_features, spec.max_limbs * spec.actions_per_token)
        self.shape = (spec.max_limbs, spec.actions_per_token)

    def forward(self, tokens):
        return self.layer(tokens.features[:, 0]).unflatten(1, self.shape)


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
def test_returns_change_only_for_a_method_that_looks_at_the_limb(trained, mode):
    silent = draw_silent_limbs(trained.bodies, 3)
    assert score(trained, silent, mode=mode) != score(trained, mode=mode)
    torch.manual_seed(0)
    trained.model.actor = TorsoReader(trained.model.spec)
    assert score(trained, silent, mode=mode) == score(trained, mode=mode)


def test_a_silent_limb_is_silent_for_one_evaluation_only(trained):
    core = EnvironmentCore(
        trained.task, trained.bodies, 3, token_spec=trained.model.spec, num_threads=1
    )
    context = core.table.context.copy()
    plain = trained.policy.on(core.table, 3).table
    silenced = trained.policy.on(core.table, 3, silent_limbs=np.array([1, 2, 3])).table
    assert not torch.equal(silenced.context, plain.context)
    assert not silenced.context[torch.arange(3), torch.tensor([1, 2, 3])].any()
    np.testing.assert_array_equal(core.table.context, context)
