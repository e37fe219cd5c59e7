"""The parts of PPO that are each body's own."""

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import TrainingDivergedError
from gmc_bench.training.independent_ppo import BodyAdam, body_minibatches, clip_body_norms
from gmc_bench.training.ppo import MorphologyPPO


def banks(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(3, *shape, generator=generator)) for shape in ((4, 2), (2,))]


def test_every_body_has_moments_and_step_counts_of_its_own():
    """Against torch's Adam on each body alone; body 1 rests in the second and third step.

    In the fourth one the second parameter has no gradient, so that no body moves it.
    """
    together, alone = banks(), banks()
    optimizer = BodyAdam(together, lr=0.1, eps=1e-5)
    slices = [[nn.Parameter(bank.detach()[body].clone()) for bank in alone] for body in range(3)]
    others = [torch.optim.Adam(part, lr=0.1, eps=1e-5) for part in slices]
    generator = torch.Generator().manual_seed(1)
    for step in range(5):
        optimizer.active = [True, step not in (1, 2), True]
        for place, bank in enumerate(together):
            bank.grad = torch.randn(bank.shape, generator=generator)
            if (step, place) == (3, 1):
                bank.grad = None
            for body in range(3):
                slices[body][place].grad = None if bank.grad is None else bank.grad[body].clone()
        before = [bank.detach().clone() for bank in together]
        optimizer.step()
        for body, (other, active) in enumerate(zip(others, optimizer.active, strict=True)):
            if active:
                other.step()
            for place, bank in enumerate(together):
                torch.testing.assert_close(bank[body], slices[body][place])
                moved = active and bank.grad is not None
                assert torch.equal(bank[body], before[place][body]) is not moved
    counts = [int(state["step"]) for state in optimizer.state_dict()["state"].values()]
    assert counts == [5, 3, 5, 4, 2, 4]
    optimizer.zero_grad()
    assert all(bank.grad is None for bank in together)


def test_norms_are_limited_body_by_body():
    together, alone = banks(), banks()
    for bank, part in zip(together, alone, strict=True):
        bank.grad = bank.detach() * torch.tensor([0.01, 1.0, 5.0]).view(-1, *[1] * (bank.ndim - 1))
        part.grad = bank.grad.clone()
    clip_body_norms(together, 0.5)
    for body in range(3):
        slices = [nn.Parameter(part.detach()[body].clone()) for part in alone]
        for place, own in enumerate(slices):
            own.grad = alone[place].grad[body].clone()
        nn.utils.clip_grad_norm_(slices, 0.5)
        for bank, own in zip(together, slices, strict=True):
            torch.testing.assert_close(bank.grad[body], own.grad)
    assert torch.equal(together[0].grad[0], alone[0].grad[0])  # below the limit: untouched


def rollout(make_bank_trainer, name="run", **changes):
    trainer = make_bank_trainer(name, **changes)
    trainer.collector.collect(trainer.buffer)
    trainer.algorithm._preprocess_batch(trainer.buffer, trainer.buffer, None)
    return trainer


def test_minibatches_hold_every_transition_of_every_body_once(make_bank_trainer):
    buffer = rollout(make_bank_trainer).buffer
    envs = buffer.num_envs // 3
    assert envs == 8
    buffer.reward.copy_(torch.arange(len(buffer)).view(buffer.reward.shape))
    buffer.log_prob.copy_(buffer.reward)
    total = buffer.length * envs
    order = torch.stack([torch.randperm(total) for _ in range(3)])
    found = list(body_minibatches(buffer, order, 10))
    assert len(found) == total // 10
    for minibatch in found:
        assert minibatch.obs.morphology_index.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    seen = torch.stack([minibatch.logp_old.view(3, 10) for minibatch in found]).long()
    for body in range(3):
        step, column = seen[:, body] // buffer.num_envs, seen[:, body] % buffer.num_envs
        assert (column // envs == body).all()
        counted = (step * envs + column % envs).flatten()
        assert torch.equal(counted, order[body, : counted.numel()])


def test_targets_are_standardised_body_by_body(make_bank_trainer):
    buffer = rollout(make_bank_trainer).buffer
    raw = (buffer.returns - buffer.value).view(buffer.length, 3, 8).numpy()
    expected = np.empty_like(raw)
    for body in range(3):
        own = raw[:, body]
        expected[:, body] = (own - own.mean()) / (own.std(ddof=1) + 1e-5)
    found = buffer.advantage.view(buffer.length, 3, 8).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_values_are_those_of_every_observation(make_bank_trainer):
    trainer = rollout(make_bank_trainer, envs=2)
    buffer = trainer.buffer
    assert buffer.length > 64  # more than one block
    tokens = buffer.tokens(
        buffer.morphology_index.flatten(), buffer.dynamic.flatten(0, 1), torch.zeros(len(buffer), 0)
    )
    with torch.no_grad():
        expected = trainer.model.value(tokens).view(buffer.value.shape)
    torch.testing.assert_close(buffer.value, expected)


def test_values_are_those_of_the_ground_at_their_step(make_bank_trainer):
    """The ground of a transition is its number, and the value of a body is the ground."""
    trainer = make_bank_trainer(envs=2)
    buffer = trainer.buffer
    number = torch.arange(float(len(buffer))).view(buffer.value.shape)
    buffer.height_map = number.unsqueeze(-1)
    trainer.model.value = lambda tokens: tokens.height_map[:, 0]
    assert torch.equal(trainer.algorithm._values(buffer), number)


def test_the_gradients_of_actor_and_critic_of_a_body_are_clipped_together(make_bank_trainer):
    trainer = rollout(make_bank_trainer, max_grad_norm=0.3, vf_coef=10.0)
    algorithm = trainer.algorithm
    (minibatch, *_), *_ = algorithm._epochs(trainer.buffer, trainer.protocol.ppo.batch_size, 1)
    algorithm._gradients(minibatch)
    trained = list(trainer.model.parameters())
    free = torch.cat([part.grad.flatten(1) for part in trained], dim=1)
    norm = free.norm(dim=1, keepdim=True)
    assert (norm > 0.6).all()
    algorithm._step()
    clipped = torch.cat([part.grad.flatten(1) for part in trained], dim=1)
    torch.testing.assert_close(clipped, 0.3 * free / norm)


def test_one_body_is_updated_as_one_policy_for_all_bodies_is(make_bank_trainer, monkeypatch):
    """Against `MorphologyPPO`, given the same rollout of one body and the same minibatches."""
    apart, twin = (
        rollout(make_bank_trainer, name, bodies=(chain(3),), adam_eps=1e-3) for name in ("a", "b")
    )
    ppo, buffer = twin.protocol.ppo, twin.buffer
    space = twin.env.single_action_space
    shared = MorphologyPPO(twin.model, space, ppo, twin.protocol.num_iterations, torch.Generator())
    shared._preprocess_batch(buffer, buffer, None)
    for name in ("value", "next_value", "advantage", "returns"):
        torch.testing.assert_close(getattr(apart.buffer, name), getattr(buffer, name))
    orders = iter(torch.from_numpy(twin.learner.streams.orders(ppo.repeat, len(buffer))))
    monkeypatch.setattr(
        buffer, "minibatches", lambda size, _: body_minibatches(buffer, next(orders), size)
    )
    expected = shared._update_with_batch(buffer, ppo.batch_size, ppo.repeat)
    found = update(apart)
    assert expected.gradient_steps == found.gradient_steps > 4
    for mine, theirs in zip(apart.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    for name in ("loss", "actor_loss", "vf_loss", "entropy", "approx_kl", "explained_variance"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3, abs=1e-5)


def update(trainer):
    ppo = trainer.protocol.ppo
    return trainer.algorithm._update_with_batch(trainer.buffer, ppo.batch_size, ppo.repeat)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_divergence_stops_only_its_body(make_bank_trainer, threads):
    """Body 1 looks as if its policy had moved far; the others learn as if nothing had happened."""
    still, other = (rollout(make_bank_trainer, name) for name in ("still", "other"))
    start = [parameter.detach().clone() for parameter in other.model.parameters()]
    other.buffer.log_prob[:, 8:16] += 5.0
    torch.set_num_threads(threads)
    update(still)
    stats = update(other)
    assert other.algorithm.active.tolist() == [True, False, True]
    assert stats.stopped_early == pytest.approx(1 / 3)
    # A body without a step has no losses, so the means are those of the two others.
    actuators = (~other.env.table.action_padding_mask).sum(axis=(1, 2))[[0, 2]].mean()
    assert stats.entropy == pytest.approx(actuators * (1.4189385 + np.log(0.9)), rel=1e-5)
    for first, mine, theirs in zip(
        start, other.model.parameters(), still.model.parameters(), strict=True
    ):
        assert torch.equal(mine[1], first[1])
        assert not torch.equal(theirs[1], first[1])
        for body in (0, 2):
            assert torch.equal(mine[body], theirs[body])
    states = other.algorithm.optim.state_dict()["state"]
    assert sorted(key % 3 for key in states) == sorted([0, 2] * (len(states) // 2))


def test_statistics_are_means_over_the_steps_of_each_body(make_bank_trainer):
    """Body 1 is stopped by the second of four minibatches, and would be by none after it."""
    trainer = rollout(make_bank_trainer, repeat=1, lr=1e-9)
    buffer, size = trainer.buffer, trainer.protocol.ppo.batch_size
    assert (buffer.length, size) == (32, 64)
    order = trainer.learner.streams.orders(1, 32 * 8)[0]
    late = torch.from_numpy(order[1, size : 2 * size])
    buffer.log_prob[late // 8, 8 + late % 8] += 5.0
    returns, value, advantage = (
        values.view(32, 3, 8).transpose(0, 1).flatten(1).double().numpy()
        for values in (buffer.returns, buffer.value, buffer.advantage)
    )
    stats, residual, first = update(trainer), returns - value, order[1, :size]
    assert trainer.algorithm.active.tolist() == [True, False, True]
    assert stats.gradient_steps == pytest.approx((4 + 1 + 4) / 3)
    assert stats.approx_kl == pytest.approx(5.0 / 3, abs=1e-4)
    squares = [np.square(residual[body, rows]) for body, rows in enumerate((..., first, ...))]
    expected = 0.5 * np.mean([part.mean() for part in squares])
    assert stats.vf_loss == pytest.approx(expected, rel=1e-4)
    assert stats.actor_loss == pytest.approx(-advantage[1, first].mean() / 3, abs=1e-4)
    actuators = (~trainer.env.table.action_padding_mask).sum(axis=(1, 2)).mean()
    assert stats.entropy == pytest.approx(actuators * (1.4189385 + np.log(0.9)), rel=1e-5)
    assert stats.clip_fraction == 0.0
    explained = 1.0 - residual.var(axis=1) / returns.var(axis=1)
    assert stats.explained_variance == pytest.approx(explained.mean(), abs=1e-4)


@pytest.mark.parametrize(
    ("target_kl", "steps", "stopped"),
    [(None, 8.0, 0.0), (6.0, 8.0, 0.0), (5.1, 8.0, 0.0), (4.9, 0.0, 1.0)],  # 2 epochs x 256 / 64
)
def test_no_body_stops_without_or_below_the_limit(make_bank_trainer, target_kl, steps, stopped):
    """And all stop at their first minibatch above it."""
    trainer = rollout(make_bank_trainer, target_kl=target_kl, lr=1e-9)
    trainer.buffer.log_prob += 5.0
    stats = update(trainer)
    assert (stats.gradient_steps, stats.stopped_early) == (steps, stopped)
    assert stats.approx_kl == pytest.approx(5.0, abs=1e-4)


def test_an_estimate_that_is_no_number_does_not_skip_the_step_that_shows_it(make_bank_trainer):
    trainer = rollout(make_bank_trainer)
    trainer.buffer.log_prob[:, 8:16] = np.nan  # of body 1
    with pytest.raises(TrainingDivergedError):
        update(trainer)


def test_a_rollout_smaller_than_a_minibatch_is_one(make_bank_trainer):
    trainer = rollout(make_bank_trainer, target_kl=None)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    stats = trainer.algorithm._update_with_batch(trainer.buffer, 10**6, 3)
    assert stats.gradient_steps == 3
    for parameter, first in zip(trainer.model.parameters(), before, strict=True):
        assert not torch.equal(parameter, first)


def test_a_stopped_body_goes_on_in_the_next_iteration(make_bank_trainer):
    trainer = rollout(make_bank_trainer)
    saved = trainer.buffer.log_prob.clone()
    trainer.buffer.log_prob += 5.0
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    stats = update(trainer)
    assert (stats.stopped_early, stats.gradient_steps) == (1.0, 0.0)
    for parameter, first in zip(trainer.model.parameters(), before, strict=True):
        assert torch.equal(parameter, first)
    trainer.buffer.log_prob.copy_(saved)
    stats = update(trainer)
    assert stats.gradient_steps > 0
    for parameter, first in zip(trainer.model.parameters(), before, strict=True):
        assert not torch.equal(parameter, first)
