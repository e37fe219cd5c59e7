"""Policies with a memory: what the rollout keeps is what training sees again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.nn import TokenBatch
from gmc_bench.training import ppo


@pytest.fixture(params=["forgetful", "short-sighted"])
def either(request, make_trainer):
    """A trainer whose method sees four steps, or one step, at a time in training."""
    trainer = make_trainer(method=request.param)
    for _ in range(2):
        trainer.collector.collect(trainer.buffer)
    return trainer


@pytest.fixture
def trainer(make_trainer):
    """A trainer of the method with a memory after two rollouts, so that episodes run on."""
    trainer = make_trainer(method="forgetful")
    for _ in range(2):
        trainer.collector.collect(trainer.buffer)
    return trainer


def done(buffer):
    return buffer.terminated | buffer.truncated


def stepped_values(trainer):
    """Run the critic step by step from the stored first state: values (T, N) and after the end."""
    model, buffer = trainer.model, trainer.buffer
    state, found, before_reset = buffer.state[0], [], []
    for t in range(buffer.length):
        tokens = TokenBatch(buffer.table, buffer.morphology_index[t], buffer.dynamic[t])
        found.append(model.value(tokens, model.one_step(state)))
        _, state = model.step(tokens, state)
        state = model.remember(state, buffer.actions[t])
        before_reset.append(state.clone())
        state = state.masked_fill(done(buffer)[t][:, None, None], 0.0)
    return torch.stack(found).detach(), before_reset, state


def test_an_episode_that_ends_is_forgotten_and_others_are_not(trainer):
    buffer = trainer.buffer
    ended = done(buffer)[-1]
    assert torch.equal(trainer.collector.bound.state.flatten(1).any(dim=1), ~ended)
    for sequence in range(1, 4):
        remembers = buffer.state[sequence].flatten(1).any(dim=1)
        assert torch.equal(remembers, ~done(buffer)[4 * sequence - 1])
    assert done(buffer).any()


def test_stored_states_are_those_of_stepping(trainer):
    _, _, last = stepped_values(trainer)
    torch.testing.assert_close(trainer.buffer.last_state, last)
    torch.testing.assert_close(trainer.buffer.last_state, trainer.collector.bound.state)


def test_values_are_those_of_stepping(either, monkeypatch):
    monkeypatch.setattr(ppo, "VALUE_CHUNK", 6)  # does not divide a rollout, nor hold whole steps
    trainer, buffer = either, either.buffer
    trainer.algorithm._preprocess_batch(buffer, buffer, None)
    values, before_reset, _ = stepped_values(trainer)
    torch.testing.assert_close(buffer.value, values)
    assert buffer.truncations
    for t, n, dynamic, _, _ in buffer.truncations:
        tokens = TokenBatch(buffer.table, buffer.morphology_index[t, [n]], dynamic[None])
        history = trainer.model.one_step(before_reset[t][[n]])
        torch.testing.assert_close(buffer.next_value[t, n], trainer.model.value(tokens, history)[0])


def test_what_follows_the_last_step_is_valued_with_what_is_remembered(either):
    trainer, buffer = either, either.buffer
    trainer.algorithm._preprocess_batch(buffer, buffer, None)
    _, _, state = stepped_values(trainer)
    tokens = TokenBatch(buffer.table, buffer.last_morphology_index, buffer.last_dynamic)
    following = trainer.model.value(tokens, trainer.model.one_step(state))
    goes_on = ~done(buffer)[-1]
    assert goes_on.any()
    torch.testing.assert_close(buffer.next_value[-1, goes_on], following[goes_on])


def test_minibatches_are_whole_sequences_that_give_the_same_log_probabilities(trainer):
    buffer = trainer.buffer
    buffer.value.copy_(torch.arange(64.0).view(16, 4))  # numbers the transitions
    seen = []
    for batch in buffer.minibatches(27, torch.Generator().manual_seed(0)):
        assert len(batch.obs) == 24  # six sequences of four steps
        numbers = batch.v_s.view(4, 6).long()
        assert torch.equal(numbers - numbers[0], 4 * torch.arange(4)[:, None].expand(4, 6))
        assert (numbers[0] // 4 % 4 == 0).all()
        seen += numbers[0].tolist()
        distribution = trainer.model.distribution(batch.obs, batch.history)
        torch.testing.assert_close(distribution.log_prob(batch.act), batch.logp_old)
    assert len(seen) == len(set(seen)) == 12
    assert not torch.equal(torch.tensor(seen), torch.tensor(seen).sort().values)


def test_a_minibatch_holds_a_whole_sequence_however_small_it_is_to_be(trainer):
    batches = list(trainer.buffer.minibatches(3, torch.Generator().manual_seed(0)))
    assert [len(batch.obs) for batch in batches] == [4] * 16


def test_memory_makes_a_difference(trainer):
    """Without the stored states, or without resets, the log-probabilities would be others."""
    batch = next(trainer.buffer.minibatches(64, torch.Generator().manual_seed(0)))
    history = batch.history
    for name in ("state", "starts"):
        other = replace(history, **{name: torch.zeros_like(getattr(history, name))})
        log_prob = trainer.model.distribution(batch.obs, other).log_prob(batch.act)
        assert (log_prob - batch.logp_old).abs().max() > 1e-3, name


@pytest.mark.slow
def test_a_resumed_run_is_the_same_to_the_bit(make_trainer):
    whole = make_trainer("whole", method="forgetful", interval=1e9)
    whole.train()
    part = make_trainer("part", method="forgetful")
    for _ in range(2):
        part.iterate()
    part.save()
    resumed = make_trainer("part", method="forgetful")
    assert resumed.iteration == 2
    assert torch.equal(resumed.collector.bound.state, part.collector.bound.state)
    assert resumed.collector.bound.state.any()
    resumed.train()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_a_rollout_must_hold_whole_sequences(make_trainer):
    with pytest.raises(ConfigError, match="multiple of the method's sequence length 4, got 10"):
        make_trainer(method="forgetful", rollout_length=10, env_steps=200)


def test_training_moves_every_weight(make_trainer):
    trainer = make_trainer(method="forgetful")
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.iterate()
    for name, value in trainer.model.named_parameters():
        assert not torch.equal(value, before[name]), name
    assert np.isfinite(trainer.buffer.advantage.numpy()).all()
