"""The plain implementation computes what gmc-bench does: network, targets, losses, updates."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from benchmarks.plain_network import Agent, Network, total
from benchmarks.plain_training import (
    Episodes,
    PlainTraining,
    RunningMoments,
    add_targets,
    in_few_processes,
    ppo_loss,
)
from gmc_bench.conformance.morphologies import chain, star
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.rewards import RewardNormalizer
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker
from gmc_bench.training.trainer import make_trainer
from recmorph import SPEC
from recmorph.model import build
from tests.support.small_runs import small_config

BODIES = (chain(3), star(3))
LAYOUT = TokenSpec(max_limbs=4, joints_per_limb=2)
SHORT = replace(TASK, horizon=10)
PROTOCOL = replace(
    SUITE.protocol("lite"),
    num_envs=4,
    rollout_length=16,
    env_steps=64 * 5,
    sampling_warmup_iterations=1,
    ppo=replace(
        SUITE.protocol("lite").ppo,
        repeat=4,
        batch_size=24,
        lr=5e-4,
        target_kl=None,
        decay_start=0.4,
    ),
)


def plain_weights(state, prefix=""):
    """Translate the state of our network into names of the plain one."""
    names = {
        "input_projection.scale": "input_norm.weight",
        "output_projection.scale": "context_norm.weight",
        "decoder.output.": "decoder.",
    }
    found = {}
    for name, value in state.items():
        if not name.startswith(prefix):
            continue
        name = name.removeprefix(prefix)
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        side = "behind" if name.endswith("_reverse") else "ahead"
        found[name.replace("recurrence", side).removesuffix("_reverse")] = value.clone()
    return found


def copy_weights(model, agent):
    for part in ("actor", "critic"):
        weights = plain_weights(model.state_dict(), f"{part}.")
        getattr(agent, part).load_state_dict(weights)


def plain_batch(tokens):
    return {
        "tokens": tokens.features,
        "limb_padding": tokens.limb_padding_mask,
        "action_padding": tokens.action_padding_mask,
    }


@pytest.fixture(scope="module")
def plain():
    training = PlainTraining(BODIES, LAYOUT, PROTOCOL, task=SHORT, seed=1)
    yield training
    training.close()


@pytest.fixture
def trainer():
    config = small_config("recmorph", SPEC.make_config("lite"), PROTOCOL)
    return make_trainer(config, SPEC, SHORT, BODIES, LAYOUT)


def networks(num_outputs):
    torch.manual_seed(0)
    spec = TokenSpec(12, 2)
    ours = build(SPEC.make_config("lite"), spec, num_outputs)
    for parameter in ours.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    plain = Network(spec.num_features, num_outputs)
    plain.load_state_dict(plain_weights(ours.state_dict()))
    tokens = random_tokens(np.random.default_rng(0), spec, [1, 5, 11, 12, 7], 64)
    return ours, plain, tokens


@pytest.mark.parametrize("num_outputs", [1, 2])
def test_network_and_gradient_are_those_of_recmorph_lite(num_outputs):
    ours, plain, tokens = networks(num_outputs)
    expected = ours(tokens)
    padding = tokens.limb_padding_mask.unsqueeze(-1)
    found = plain(plain_batch(tokens)).masked_fill(padding, 0.0)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    expected.square().sum().backward()
    found.square().sum().backward()
    gradients = {name: value.grad for name, value in ours.named_parameters()}
    expected = plain_weights(gradients)
    for name, value in plain.named_parameters():
        torch.testing.assert_close(value.grad, expected[name], rtol=1e-4, atol=1e-3)


def test_number_of_parameters_is_the_published_one_of_the_preset():
    agent = Agent(TokenSpec(12, 2), 0.9)
    assert sum(value.numel() for value in agent.parameters()) == SPEC.parameters["lite"]


def test_new_weights_are_drawn_alike():
    torch.manual_seed(0)
    model = ActorCritic(SPEC, SPEC.make_config("lite"), LAYOUT)
    agent = Agent(LAYOUT, 0.9)
    drawn = agent.actor.state_dict()
    for name, value in plain_weights(model.state_dict(), "actor.").items():
        largest = value.abs().max()
        torch.testing.assert_close(drawn[name].abs().max(), largest, rtol=0.15, atol=0), name


@pytest.fixture
def alike(trainer, plain):
    """Return one rollout of ours with its targets, and the same for the plain implementation."""
    trainer.collector.collect(trainer.buffer)
    buffer = trainer.buffer
    buffer.truncated[3, 1] = buffer.diverged[3, 1] = True
    trainer.algorithm._preprocess_batch(buffer, buffer, None)
    index, dynamic = buffer.morphology_index.flatten(), buffer.dynamic.flatten(0, 1)
    seen = plain_batch(TokenBatch(buffer.table, index, dynamic))
    shape = (buffer.length, buffer.num_envs)
    done = buffer.terminated | buffer.truncated
    rollout = {name: value.unflatten(0, shape) for name, value in seen.items()} | {
        "action": buffer.actions,
        "log_prob": buffer.log_prob,
        "reward": buffer.reward,
        "done": done,
        "diverged": buffer.diverged,
        "end_value": buffer.next_value.masked_fill(~done, 0.0),
        "value": buffer.value,
    }
    add_targets(rollout, buffer.next_value[-1], PROTOCOL.ppo)
    copy_weights(trainer.model, plain.agent)
    return trainer, rollout


def test_targets_are_ours(alike):
    trainer, rollout = alike
    assert rollout["done"].any()
    assert rollout["end_value"].any()
    torch.testing.assert_close(rollout["returns"], trainer.buffer.returns)
    torch.testing.assert_close(rollout["advantage"], trainer.buffer.advantage)


def test_values_and_log_probabilities_are_ours(alike, plain):
    _, rollout = alike
    flat = {name: value.flatten(0, 1) for name, value in rollout.items()}
    log_prob = total(plain.agent.distribution(flat).log_prob(flat["action"]), flat)
    torch.testing.assert_close(log_prob, flat["log_prob"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plain.agent.value(flat), flat["value"], rtol=1e-5, atol=1e-5)


def test_loss_on_the_same_minibatch_is_ours(alike, plain):
    trainer, rollout = alike
    for parameter in trainer.model.parameters():  # so that ratios and values leave the clip range
        parameter.data += 0.1 * torch.randn_like(parameter)
    copy_weights(trainer.model, plain.agent)
    minibatch = next(trainer.buffer.minibatches(24, torch.Generator().manual_seed(4)))
    rows = torch.randperm(64, generator=torch.Generator().manual_seed(4))[:24]
    batch = {name: value.flatten(0, 1)[rows] for name, value in rollout.items()}
    parts, _ = trainer.algorithm._gradients(minibatch)
    assert float(parts[4]) > 0.1  # share of clipped ratios
    normal = plain.agent.distribution(batch)
    log_ratio = total(normal.log_prob(batch["action"]), batch) - batch["log_prob"]
    entropy = total(normal.entropy(), batch)
    loss = ppo_loss(log_ratio, entropy, plain.agent.value(batch), batch, PROTOCOL.ppo)
    torch.testing.assert_close(loss, parts[0], rtol=1e-5, atol=1e-5)
    plain.optimizer.zero_grad()
    loss.backward()
    gradients = {name: value.grad for name, value in trainer.model.named_parameters()}
    for part in ("actor", "critic"):
        expected = plain_weights(gradients, f"{part}.")
        for name, value in getattr(plain.agent, part).named_parameters():
            torch.testing.assert_close(value.grad, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target_kl", [None, 0.002])
def test_an_iterations_updates_end_at_the_same_weights(alike, plain, monkeypatch, target_kl):
    trainer, rollout = alike
    ppo = replace(PROTOCOL.ppo, target_kl=target_kl)
    monkeypatch.setattr(trainer.algorithm, "config", ppo)
    monkeypatch.setattr(plain, "protocol", replace(PROTOCOL, ppo=ppo))
    optimizer = torch.optim.Adam(
        plain.agent.parameters(), lr=trainer.algorithm.learning_rate, eps=ppo.adam_eps
    )
    monkeypatch.setattr(plain, "optimizer", optimizer)
    start = {name: value.clone() for name, value in plain.agent.named_parameters()}
    trainer.learner.shuffling.manual_seed(5)
    torch.manual_seed(5)
    with policy_within_training_step(trainer.algorithm.policy):
        stats = trainer.algorithm._update_with_batch(trainer.buffer, ppo.batch_size, ppo.repeat)
    steps = plain.learn(rollout)
    assert steps == stats.gradient_steps
    assert (0 < steps < 8) if target_kl else (steps == 8)
    for part in ("actor", "critic"):
        expected = plain_weights(trainer.model.state_dict(), f"{part}.")
        for name, value in getattr(plain.agent, part).named_parameters():
            moved = (value - start[f"{part}.{name}"]).abs().max()
            assert moved > 1e-5, name
            torch.testing.assert_close(value.data, expected[name], rtol=0, atol=2e-5)


def test_rollouts_of_few_processes_are_as_large():
    lite = SUITE.protocol("lite")
    few = in_few_processes(lite)
    assert few.num_envs == 64
    assert few.steps_per_iteration == lite.steps_per_iteration
    assert replace(few, num_envs=lite.num_envs, rollout_length=lite.rollout_length) == lite
    assert in_few_processes(PROTOCOL) == PROTOCOL


def test_learning_rate_is_ours(trainer, plain):
    scheduler = trainer.algorithm.lr_schedulers[0]
    factor = scheduler.lr_lambdas[0]
    for iteration in range(PROTOCOL.num_iterations):
        assert plain._rate(iteration) == pytest.approx(factor(iteration))


def test_observations_are_normalised_as_ours(trainer, plain, monkeypatch):
    table, random = trainer.env.table, np.random.default_rng(0)
    ours, moments = TokenNormalizer(table), RunningMoments(LAYOUT.num_features)
    monkeypatch.setattr(plain, "features", moments)
    places = LAYOUT.dynamic_indices
    for size in (4, 7):
        index = random.integers(0, 2, size)
        padding = table.limb_padding_mask[index]
        tokens = random.normal(1.0, 30.0, (size, 4, LAYOUT.num_features)).astype(np.float32)
        moments.update(tokens[~padding].astype(np.float64))
        ours.update(tokens[..., places], padding)
        raw = {"tokens": tokens, "limb_padding_mask": padding.astype(np.int8)}
        raw["action_padding_mask"] = table.action_padding_mask[index].astype(np.int8)
        found = plain.normalize(raw)
        expected = ours.normalize(tokens[..., places], padding)
        np.testing.assert_allclose(found["tokens"][..., places], expected, atol=1e-6)
        assert (found["limb_padding"].numpy() == padding).all()


def test_rewards_are_scaled_as_ours(plain, monkeypatch):
    ours, random = RewardNormalizer(4, PROTOCOL.ppo.gamma), np.random.default_rng(0)
    monkeypatch.setattr(plain, "scores", RunningMoments())
    monkeypatch.setattr(plain, "discounted", np.zeros(4))
    for _ in range(20):
        reward, done = random.normal(1.0, 3.0, 4), random.random(4) < 0.3
        np.testing.assert_allclose(plain._scaled(reward, done), ours(reward, done))


def test_bodies_are_drawn_and_returns_averaged_as_ours():
    episodes = Episodes(3, 1000, window=4)
    sampler, tracker = BalancedSampler(3, 1000, 1.0, 0), ReturnTracker(3, 4)
    random = np.random.default_rng(0)
    for step in range(60):
        body, value, length = int(random.integers(2)), random.normal(), int(random.integers(1, 999))
        episodes.add(body, value, length)
        sampler.record([body], [length])
        tracker.record([body], [value], [length])
        np.testing.assert_allclose(episodes.probabilities(1.0), sampler.probabilities(0))
        assert episodes.mean_return() == pytest.approx(tracker.mean_return(complete=False))
        if step % 2:
            episodes.recent.append([])
            tracker.begin_iteration()


def test_it_trains(plain):
    before = torch.cat([p.detach().flatten().clone() for p in plain.agent.parameters()])
    start = plain.env_steps
    for _ in range(2):
        plain.iterate()
    assert plain.env_steps == start + 128
    after = torch.cat([p.detach().flatten() for p in plain.agent.parameters()])
    assert after.isfinite().all()
    assert not torch.equal(before, after)
    assert (plain.episodes.counts > 0).all()
    assert np.isfinite(plain.episodes.mean_return())
    assert all(spent > 0 for spent in plain.seconds.values())


def test_what_follows_an_episode_is_known(plain):
    rollout = plain.collect()
    assert rollout["tokens"].shape == (16, 4, 4, 52)
    done, follows = rollout["done"], rollout["end_value"]
    assert done.any()
    assert not follows[~done].any()
    assert follows[done].any()
    assert not rollout["diverged"].any()
    assert (plain.episodes.lengths[plain.episodes.counts > 0] <= SHORT.horizon).all()
