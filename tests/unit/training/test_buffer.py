"""Storage of a rollout."""

import numpy as np
import pytest
import torch

from gmc_bench.conformance.tokens import random_table
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.bound import token_table
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tokens import TokenSpec
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.group import Share


@pytest.fixture
def buffer(make_trainer):
    """A rollout buffer (16, 4) whose log-probabilities number the transitions."""
    buffer = make_trainer().buffer
    buffer.log_prob.copy_(torch.arange(64.0).view(16, 4))
    buffer.morphology_index[:, 1] = 1
    buffer.dynamic[:] = torch.arange(64.0).view(16, 4, 1, 1)
    return buffer


def numbers(buffer, size, seed=0):
    batches = buffer.minibatches(size, torch.Generator().manual_seed(seed))
    return [batch.logp_old.int().tolist() for batch in batches]


def test_the_last_incomplete_minibatch_is_dropped(buffer):
    found = numbers(buffer, 24)
    assert [len(batch) for batch in found] == [24, 24]
    assert len({*found[0], *found[1]}) == 48


def test_a_rollout_that_divides_is_used_up(buffer):
    assert sorted(number for batch in numbers(buffer, 16) for number in batch) == list(range(64))


def test_a_small_rollout_is_one_minibatch(buffer):
    found = numbers(buffer, 5120)
    assert len(found) == 1
    assert sorted(found[0]) == list(range(64))


def test_the_order_is_shuffled_and_belongs_to_the_generator(buffer):
    assert numbers(buffer, 16, seed=1) == numbers(buffer, 16, seed=1)
    assert numbers(buffer, 16, seed=1) != numbers(buffer, 16, seed=2)
    assert numbers(buffer, 64)[0] != list(range(64))


@pytest.mark.parametrize(("method", "steps"), [("toy", 1), ("forgetful", 4)])
def test_processes_have_the_parts_of_a_minibatch_that_lie_with_them(make_trainer, method, steps):
    """One has a row of four environments, so that it has nothing of some minibatches."""
    trainer = make_trainer(method=method)
    whole, number = trainer.buffer, torch.arange(64.0).view(16, 4)
    whole.log_prob.copy_(number)
    shares, parts = (Share(0, 1, 4), Share(1, 3, 4)), []
    for share in shares:
        own = RolloutBuffer(whole.table, 16, share, trainer.model)
        own.log_prob.copy_(number[:, share.rows])
        parts.append(own.minibatches(2 * steps, torch.Generator().manual_seed(0)))
    without = 0
    for batch, *of_shares in zip(
        whole.minibatches(2 * steps, torch.Generator().manual_seed(0)), *parts, strict=True
    ):
        found = []
        for share, part in zip(shares, of_shares, strict=True):
            lies_here = (batch.logp_old % 4 >= share.first) & (
                batch.logp_old % 4 < share.first + share.num_rows
            )
            assert part.part == lies_here.float().mean()
            if part.part:
                assert torch.equal(part.logp_old, batch.logp_old[lies_here])
                found += part.logp_old.tolist()
            else:
                assert len(part.logp_old) == steps  # stands in
                without += 1
        assert sorted(found) == sorted(batch.logp_old.tolist())
    assert without > 0


def test_the_parts_of_a_transition_stay_together(buffer):
    for name in ("advantage", "returns", "value"):
        getattr(buffer, name).copy_(buffer.log_prob)
    buffer.actions[:] = buffer.dynamic[..., :1]
    batch = next(buffer.minibatches(24, torch.Generator().manual_seed(0)))
    number = batch.logp_old
    for part in (batch.adv, batch.returns, batch.v_s, batch.act[:, 0, 0]):
        assert torch.equal(part, number)
    assert torch.equal(batch.obs.dynamic[:, 0, 0], number)
    assert torch.equal(batch.obs.morphology_index, (number % 4 == 1).long())


def test_blocks_are_time_major_and_cover_the_rollout(buffer):
    blocks = [tokens for tokens, history in buffer.blocks(24) if history is None]
    assert [len(tokens) for tokens in blocks] == [24, 24, 16]
    assert blocks[0].dynamic[3:6, 0, 0].tolist() == [3.0, 4.0, 5.0]
    assert blocks[0].morphology_index[3:6].tolist() == [0, 0, 1]
    assert blocks[2].dynamic[-1, 0, 0] == 63.0
    assert len(buffer) == 64


def test_the_table_is_the_bodies_table(make_trainer):
    trainer = make_trainer()
    expected = token_table(trainer.env.table, trainer.policy.normalizer)
    assert torch.equal(trainer.buffer.table.context, expected.context)
    assert trainer.buffer.table.num_limbs.tolist() == [3, 4]


def test_a_paper_rollout_takes_little_more_than_its_numbers():
    """Time-varying features, actions and scalars; what the bodies fix is stored once per body."""
    protocol, spec = SUITE.protocol("paper"), TokenSpec(12)
    method = METHODS.get("recmorph")
    model = ActorCritic(method, method.make_config("lite"), spec)
    table = random_table(np.random.default_rng(0), spec, [9] * 100)
    length, envs = protocol.rollout_length, protocol.num_envs
    with PeakMemory() as peak:
        buffer = RolloutBuffer(table, length, envs, model)
        for batch in buffer.minibatches(protocol.ppo.batch_size, torch.Generator()):
            assert len(batch.obs) == 5120
    scalars = 4 * 6 + 8 + 3  # log-probability, reward, values, targets; body; three kinds of end
    needed = length * envs * (4 * 12 * 17 + 4 * 12 * 2 + scalars)
    assert peak.nbytes / needed < 1.5
