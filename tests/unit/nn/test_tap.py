"""Looking into a network changes nothing, and shows one row per real limb."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import Tap, TokenEmbedding, limb_rows, watch_representations
from gmc_bench.nn.tap import offers_representations
from gmc_bench.tokens import TokenSpec

SPEC = TokenSpec(6)


@pytest.fixture(name="tokens")
def _tokens():
    return random_tokens(np.random.default_rng(0), SPEC, (6, 3, 4), 5)


def read_representations(network, tokens, *history):
    with watch_representations(network) as latest:
        network(tokens, *history)
        return latest(tokens)


def policy(name):
    method = METHODS.get(name)
    torch.manual_seed(0)
    return ActorCritic(method, method.make_config("lite"), SPEC, num_bodies=3).eval()


def test_a_tap_is_no_part_of_the_weights_and_returns_its_input():
    tap, rows = Tap(), torch.randn(3, 2)
    assert tap(rows) is rows
    assert list(tap.state_dict()) == []


def test_before_is_the_embedding_and_looking_leaves_outputs_and_network_alone(tokens):
    network = policy("recmorph").actor
    expected, untouched = network(tokens), copy.deepcopy(network)
    with watch_representations(network) as latest:
        assert torch.equal(network(tokens), expected)
        seen = latest(tokens)
    embedding = network.embedding
    assert isinstance(embedding, TokenEmbedding)
    assert torch.equal(seen.before, embedding.packed(tokens))
    assert torch.equal(network.decoder(seen.after, tokens), expected)
    assert not network.before_communication._forward_hooks
    names, names_before = (
        [name for name, _ in each.named_modules()] for each in (network, untouched)
    )
    assert names == names_before


def test_a_network_with_a_memory_shows_its_limbs_too(tokens):
    model = policy("smr")
    history = model.one_step(model.initial_state(len(tokens)))
    own = dataclasses.replace(history, state=history.state[..., : model.actor.state_width])
    seen = read_representations(model.actor, tokens, own)
    assert len(seen.before) == len(seen.after) == tokens.packing.num_rows


def test_rows_of_a_padded_tap_are_those_of_the_real_limbs(tokens):
    padded = torch.randn(5, 6, 2)
    rows = limb_rows(padded, tokens)
    assert torch.equal(rows, padded[~tokens.limb_padding_mask][_batch_order(tokens)])
    assert limb_rows(rows, tokens) is rows
    with pytest.raises(PluginError, match=r"have the shape \(4, 2\), expected \("):
        limb_rows(rows[:4], tokens)
    with pytest.raises(PluginError, match=r"have the shape \(6, 5, 2\), expected \("):
        limb_rows(padded.transpose(0, 1), tokens)


def _batch_order(tokens):
    """Return where the packed rows stand among the real limbs in batch order."""
    return tokens.packing.slots.argsort().argsort()


def test_a_network_that_sees_whole_bodies_is_refused_in_one_sentence(tokens):
    with pytest.raises(ConfigError, match="the network MLPBank shows no limbs before and after"):
        read_representations(policy("mlp").actor, tokens)


def test_half_an_offer_and_a_tap_that_never_ran_are_refused(tokens):
    network = nn.Module()
    assert not offers_representations(network)
    network.before_communication = Tap()
    assert offers_representations(network)
    with (
        pytest.raises(PluginError, match="add the submodule 'after_communication'"),
        watch_representations(network),
    ):
        pass
    network.after_communication = Tap()
    with watch_representations(network) as latest, pytest.raises(PluginError, match="ran 0 times"):
        latest(tokens)


def test_representations_are_float32_whatever_the_network_computes_in(tokens):
    network = nn.Module()
    network.before_communication, network.after_communication = Tap(), Tap()
    rows = torch.ones(tokens.packing.num_rows, 2, dtype=torch.bfloat16)
    with watch_representations(network) as latest:
        network.before_communication(network.after_communication(rows))
        seen = latest(tokens)
    assert seen.before.dtype == seen.after.dtype == torch.float32
