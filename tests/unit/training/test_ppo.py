"""The update: targets and losses against hand-worked and numpy values, and when it stops."""

import math

import numpy as np
import pytest
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from gmc_bench.core.errors import PluginError, TrainingDivergedError
from gmc_bench.tasks.unimal_vt import TASK as RUGGED
from gmc_bench.training import ppo
from gmc_bench.training.buffer import Truncation
from gmc_bench.training.ppo import WarmupCosine


@pytest.fixture
def rollout(make_trainer):
    """Return a trainer with one collected rollout, its targets worked out."""

    def make(name="run", **ppo):
        trainer = make_trainer(name, **ppo)
        trainer.collector.collect(trainer.buffer)
        trainer.algorithm._preprocess_batch(trainer.buffer, trainer.buffer, None)
        return trainer

    return make


def first_minibatch(trainer, size=24):
    return next(trainer.buffer.minibatches(size, torch.Generator().manual_seed(0)))


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def update(trainer):
    ppo = trainer.protocol.ppo
    with policy_within_training_step(trainer.algorithm.policy):
        return trainer.algorithm.update(
            trainer.buffer, batch_size=ppo.batch_size, repeat=ppo.repeat
        )


# --- targets ------------------------------------------------------------------------------------


def hand_made_targets(make_trainer, time_limit):
    """Fill a rollout of three steps whose values are written in its observations.

    V = 1, 2, 3 at the three steps and 4 after them; rewards 1, 3, 3. The second step ends the
    episode of columns 1 (failure), 2 (time limit, V = 8 at the cut) and 3 (diverged).
    """
    trainer = make_trainer(gamma=0.5, gae_lambda=0.5, time_limit=time_limit)
    buffer = trainer.buffer
    for name in ("dynamic", "morphology_index", "reward", "value", "next_value", "advantage",
                 "returns", "terminated", "truncated", "diverged"):  # fmt: skip
        setattr(buffer, name, getattr(buffer, name)[:3].clone().zero_())
    buffer.length = 3
    buffer.dynamic[:] = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1, 1)
    buffer.last_dynamic[:] = 4.0
    buffer.reward[:] = torch.tensor([[1.0], [3.0], [3.0]])
    buffer.terminated[1, 1] = True
    buffer.truncated[1, 2:] = True
    buffer.diverged[1, 3] = True
    last = torch.full_like(buffer.dynamic[0, 0], 8.0)
    buffer.truncations.append(Truncation(1, 2, last, buffer.height_map[0, 2], buffer.state[0, 2]))
    trainer.model.value = lambda tokens, history: tokens.dynamic[:, 0, 0]
    trainer.algorithm._preprocess_batch(buffer, buffer, None)
    return buffer


# delta = r + V'/2 - V; A is the sum of the deltas with factor 1/4, up to the episode's end.
GOES_ON = [1.75, 3.0, 2.0]  # deltas 1, 2.5, 2
FAILURE = [1.25, 1.0, 2.0]  # deltas 1, 1, 2: nothing follows the second step
TIME_LIMIT = [2.25, 5.0, 2.0]  # deltas 1, 5, 2: 8 follows the second step
NO_ERROR = [1.0, 0.0, 2.0]  # deltas 1, 0 by decree, 2


@pytest.mark.parametrize(
    ("time_limit", "columns"),
    [
        ("bootstrap", (GOES_ON, FAILURE, TIME_LIMIT, NO_ERROR)),
        ("zero_error", (GOES_ON, FAILURE, NO_ERROR, NO_ERROR)),
    ],
)
def test_targets_of_every_kind_of_end(make_trainer, time_limit, columns):
    buffer = hand_made_targets(make_trainer, time_limit)
    expected = torch.tensor(columns).T
    assert torch.equal(buffer.returns - buffer.value, expected)
    assert buffer.value.tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]


def test_the_second_step_of_a_failure_is_not_bootstrapped(make_trainer):
    buffer = hand_made_targets(make_trainer, "bootstrap")
    assert buffer.next_value[1].tolist() == [3.0, 0.0, 8.0, 0.0]
    assert buffer.next_value[2].tolist() == [4.0] * 4


def test_values_are_those_of_the_ground_at_their_step(make_trainer, monkeypatch):
    """A value is a height: 0 to 15 before the steps, 40 after them, and 80 at a time limit."""
    monkeypatch.setattr(ppo, "VALUE_CHUNK", 6)
    trainer = make_trainer(task=RUGGED)
    buffer, count = trainer.buffer, torch.arange(16.0)
    buffer.height_map[:] = count.view(16, 1, 1)
    buffer.last_height_map[:] = 40.0
    buffer.truncated[5, 2] = True
    ground = torch.full_like(buffer.last_height_map[2], 80.0)
    buffer.truncations.append(Truncation(5, 2, buffer.dynamic[5, 2], ground, buffer.state[0, 2]))
    trainer.model.value = lambda tokens, history: tokens.height_map[:, 0]
    trainer.algorithm._preprocess_batch(buffer, buffer, None)
    following = torch.cat((count[1:], torch.tensor([40.0])))
    assert torch.equal(buffer.value, count[:, None].expand(16, 4))
    assert buffer.next_value[5, 2] == 80.0
    buffer.next_value[5, 2] = 6.0
    assert torch.equal(buffer.next_value, following[:, None].expand(16, 4))
    batch = first_minibatch(trainer)
    assert torch.equal(batch.obs.height_map[:, 0], batch.v_s)


def test_advantages_are_normalised_once_over_the_rollout(make_trainer):
    buffer = hand_made_targets(make_trainer, "bootstrap")
    raw = np.array([GOES_ON, FAILURE, TIME_LIMIT, NO_ERROR]).T
    expected = (raw - raw.mean()) / (raw.std(ddof=1) + 1e-5)
    np.testing.assert_allclose(buffer.advantage.numpy(), expected, rtol=1e-6)


# --- loss ---------------------------------------------------------------------------------------


def numpy_network(network, features):
    weights = [p.detach().double().numpy() for p in network.parameters()]
    hidden = np.tanh(features @ weights[0].T + weights[1])
    return hidden @ weights[2].T + weights[3]


def numpy_loss(trainer, batch):
    """Work the losses of a minibatch out of the network's weights, in float64."""
    ppo, tokens = trainer.protocol.ppo, batch.obs
    features = tokens.features.double().numpy()
    real_action = ~tokens.action_padding_mask.numpy()
    real_limb = ~tokens.limb_padding_mask.numpy()
    mean, std = numpy_network(trainer.model.actor, features), 0.9
    error = (batch.act.double().numpy() - mean) / std
    density = -0.5 * error**2 - math.log(std * math.sqrt(2 * math.pi))
    log_prob = (density * real_action).sum(axis=(1, 2))
    ratio = np.exp(log_prob - batch.logp_old.double().numpy())
    advantage = batch.adv.double().numpy()
    clipped = np.clip(ratio, 1 - ppo.eps_clip, 1 + ppo.eps_clip)
    actor = -np.minimum(ratio * advantage, clipped * advantage).mean()
    value = (numpy_network(trainer.model.critic, features)[..., 0] * real_limb).sum(1)
    value = value / real_limb.sum(1)
    old, target = batch.v_s.double().numpy(), batch.returns.double().numpy()
    squares = (value - target) ** 2
    if ppo.value_clip:
        near = old + np.clip(value - old, -ppo.eps_clip, ppo.eps_clip)
        squares = np.maximum(squares, (near - target) ** 2)
    critic = 0.5 * squares.mean()
    entropy = (0.5 * math.log(2 * math.pi * math.e * std**2) * real_action.sum(axis=(1, 2))).mean()
    outside = (np.abs(ratio - 1) > ppo.eps_clip).mean()
    total = actor + ppo.vf_coef * critic - ppo.ent_coef * entropy
    return [total, actor, critic, entropy, outside]


@pytest.mark.parametrize("value_clip", [True, False])
def test_the_loss_is_that_of_an_independent_computation(rollout, value_clip):
    trainer = rollout(value_clip=value_clip, ent_coef=0.01, eps_clip=0.1, target_kl=None)
    with torch.no_grad():  # far enough from the policy that acted for both clips to matter
        for parameter in trainer.model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    batch = first_minibatch(trainer)
    parts, _ = trainer.algorithm._gradients(batch)
    expected = numpy_loss(trainer, batch)
    assert 0.2 < expected[4] < 1.0
    np.testing.assert_allclose(parts.numpy(), expected, rtol=2e-5)


def test_the_ratio_is_one_before_the_first_step(rollout):
    trainer = rollout()
    for batch in trainer.buffer.minibatches(24, torch.Generator().manual_seed(0)):
        log_prob = trainer.model.distribution(batch.obs).log_prob(batch.act)
        assert (log_prob - batch.logp_old).abs().max() < 1e-5


# --- stopping -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_a_minibatch_beyond_the_limit_is_not_learned_from(make_trainer):
    trainer = make_trainer(target_kl=0.05)
    trainer.collector.collect(trainer.buffer)
    trainer.buffer.log_prob += 0.06
    before = parameters(trainer)
    stats = update(trainer)
    assert (stats.gradient_steps, stats.stopped_early) == (0, True)
    assert (stats.loss, stats.entropy) == (0.0, 0.0)  # a mean of nothing
    assert stats.approx_kl == pytest.approx(0.06, abs=1e-5)
    assert torch.equal(parameters(trainer), before)


def test_the_stop_ends_all_epochs_and_keeps_the_steps_before_it(make_trainer):
    twins = [make_trainer(name, target_kl=0.05, repeat=3, lr=1e-5) for name in ("a", "b")]
    for trainer in twins:
        trainer.collector.collect(trainer.buffer)
    stopped, stepped = twins
    order = torch.randperm(64, generator=stopped.learner.shuffling.clone_state())
    stopped.buffer.log_prob.view(-1)[order[24:48]] += 1.0  # the second minibatch
    stats = update(stopped)
    assert (stats.gradient_steps, stats.stopped_early) == (1, True)
    assert stats.approx_kl == pytest.approx(1.0, abs=0.01)

    algorithm = stepped.algorithm
    algorithm._preprocess_batch(stepped.buffer, stepped.buffer, None)
    batch = next(stepped.buffer.minibatches(24, stepped.learner.shuffling))
    algorithm._gradients(batch)
    algorithm._step()
    assert torch.equal(parameters(stopped), parameters(stepped))
    states = [trainer.learner.shuffling.get_state() for trainer in twins]
    assert torch.equal(*states)  # no order was drawn for the epochs that were left out


@pytest.mark.parametrize(("target_kl", "shift"), [(None, 5.0), (0.05, 0.04), (0.05, -5.0)])
def test_no_stop_without_or_below_the_limit(make_trainer, target_kl, shift):
    trainer = make_trainer(target_kl=target_kl, lr=1e-6)
    trainer.collector.collect(trainer.buffer)
    trainer.buffer.log_prob += shift
    stats = update(trainer)
    assert (stats.gradient_steps, stats.stopped_early) == (4, False)  # 2 epochs x 64 // 24


def test_the_gradients_of_actor_and_critic_are_clipped_together(rollout):
    trainer = rollout(max_grad_norm=0.3, vf_coef=10.0)
    algorithm, batch = trainer.algorithm, first_minibatch(trainer)
    algorithm._gradients(batch)
    trained = list(trainer.model.parameters())
    free = torch.cat([p.grad.flatten() for p in trained])
    assert free.norm() > 1.0
    algorithm._step()
    clipped = torch.cat([p.grad.flatten() for p in trained])
    torch.testing.assert_close(clipped, 0.3 * free / free.norm())


def test_the_standard_deviation_is_not_trained(rollout):
    trainer = rollout()
    update(trainer)
    assert float(trainer.model.action_std) == pytest.approx(0.9)
    assert "action_std" not in dict(trainer.model.named_parameters())


@pytest.mark.parametrize("part", ["actor", "critic"])
def test_weights_that_are_not_finite_end_the_run(make_trainer, part):
    trainer = make_trainer(lr=0.02)
    trainer.collector.collect(trainer.buffer)
    with torch.no_grad():
        getattr(trainer.model, part).outer.bias[0] = math.inf
    with pytest.raises(TrainingDivergedError, match=r"lower --ppo\.lr than 0\.02"):
        update(trainer)


def test_an_estimate_that_is_no_number_does_not_skip_the_step_that_shows_it(make_trainer):
    trainer = make_trainer(target_kl=0.05)
    trainer.collector.collect(trainer.buffer)
    trainer.buffer.log_prob.fill_(math.nan)
    with pytest.raises(TrainingDivergedError):
        update(trainer)


# --- schedule -----------------------------------------------------------------------------------


def test_the_schedule_is_its_formula():
    factor = WarmupCosine(num_iterations=8, warmup_iterations=4, warmup_start=0.1).factor
    assert factor(0) == pytest.approx(0.1)
    # cosine half (1 + cos 45 deg) / 2, warm-up 0.1 / 2 + 1 / 2
    assert factor(2) == pytest.approx((1 + math.sqrt(0.5)) / 2 * 0.55)
    assert factor(4) == pytest.approx(0.5)
    assert factor(6) == pytest.approx((1 - math.sqrt(0.5)) / 2)
    assert factor(8) == pytest.approx(0.0)


def test_a_late_cosine_leaves_the_rate_constant_before():
    factor = WarmupCosine(8, warmup_iterations=0, warmup_start=0.1, decay_start=0.5).factor
    assert [factor(k) for k in (0, 3, 4)] == [1.0, 1.0, 1.0]
    assert factor(6) == pytest.approx(0.5)
    assert factor(8) == pytest.approx(0.0)
    assert WarmupCosine(8, 0, 0.1, decay_start=1.0).factor(8) == 1.0


def test_the_learning_rate_is_constant_until_its_late_cosine(make_trainer):
    trainer = make_trainer(lr=0.01, warmup_iterations=2, warmup_start=0.5, decay_start=0.4)
    used = []
    for _ in range(5):
        used.append(trainer.algorithm.learning_rate)
        trainer.iterate()
    # the warm-up 1/2, 3/4; then (1 + cos(60 deg k)) / 2 for k = 0, 1, 2
    assert used == pytest.approx([0.005, 0.0075, 0.01, 0.0075, 0.0025])


def test_a_state_that_begins_its_schedule_anew_has_the_first_rate(make_trainer):
    last, first = (make_trainer(name, lr=0.01, warmup_iterations=0) for name in ("a", "b"))
    last.train()
    state = last.algorithm.get_state()
    assert state["groups"][0]["lr"] == pytest.approx(0.0)
    first.algorithm.set_state({**state, "last_epoch": 0})
    assert first.algorithm.get_state()["groups"][0]["lr"] == 0.01
    assert first.algorithm.learning_rate == 0.01


def test_without_warm_up_the_schedule_starts_at_its_peak():
    factor = WarmupCosine(num_iterations=8, warmup_iterations=0, warmup_start=0.1).factor
    assert factor(0) == pytest.approx(1.0)


def test_statistics_are_means_over_the_gradient_steps(make_trainer):
    trainer = make_trainer(lr=1e-9, repeat=1, batch_size=64, target_kl=None, ent_coef=0.01)
    trainer.collector.collect(trainer.buffer)
    stats = update(trainer)
    buffer = trainer.buffer
    residual = (buffer.returns - buffer.value).numpy()
    assert stats.gradient_steps == 1
    assert stats.actor_loss == pytest.approx(-float(buffer.advantage.mean()), abs=1e-5)
    assert stats.vf_loss == pytest.approx(0.5 * float((residual**2).mean()), rel=1e-4)
    actuators = (~trainer.env.table.action_padding_mask).sum(axis=(1, 2))
    share = actuators[buffer.morphology_index.numpy()].mean()
    entropy = share * 0.5 * math.log(2 * math.pi * math.e * 0.9**2)
    assert stats.entropy == pytest.approx(entropy, rel=1e-5)
    total = stats.actor_loss + 0.2 * stats.vf_loss - 0.01 * entropy
    assert stats.loss == pytest.approx(total, rel=1e-5)
    expected = 1 - residual.var() / buffer.returns.numpy().var()
    assert stats.explained_variance == pytest.approx(expected, abs=1e-3)
    assert stats.clip_fraction == 0.0


def test_values_explain_returns_that_are_all_alike(make_trainer):
    trainer = make_trainer()
    trainer.collector.collect(trainer.buffer)
    trainer.algorithm._preprocess_batch = lambda batch, buffer, indices: batch
    trainer.buffer.returns.fill_(2.0)
    trainer.buffer.value.fill_(1.5)
    assert update(trainer).explained_variance == 1.0


# --- threads ------------------------------------------------------------------------------------


def whole_loss(model, batch):
    """Work the loss out in one graph, with the default settings and an entropy bonus of 0.01."""
    distribution = model.distribution(batch.obs)
    ratio = (distribution.log_prob(batch.act) - batch.logp_old).exp()
    surrogate = torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv).mean()
    value = model.value(batch.obs)
    near = batch.v_s + (value - batch.v_s).clamp(-0.2, 0.2)
    error = torch.max((value - batch.returns).square(), (near - batch.returns).square())
    return -surrogate + 0.2 * 0.5 * error.mean() - 0.01 * distribution.entropy().mean()


def test_updates_are_those_of_a_plain_loop(rollout):
    settings = {"ent_coef": 0.01, "adam_eps": 1e-3, "target_kl": None, "warmup_iterations": 0}
    trainer, twin = (rollout(name, **settings) for name in ("a", "b"))
    before, model = parameters(twin), twin.model
    stats = update(trainer)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
    for _ in range(2):
        for batch in twin.buffer.minibatches(24, twin.learner.shuffling):
            optimizer.zero_grad()
            whole_loss(model, batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    assert stats.gradient_steps == 4
    torch.testing.assert_close(parameters(trainer) - before, parameters(twin) - before)


def test_the_gradient_is_that_of_the_whole_loss(rollout):
    """The parts that actor and critic work out apart are the gradient of their sum."""
    trainer = rollout(ent_coef=0.01)
    algorithm, batch, model = trainer.algorithm, first_minibatch(trainer), trainer.model
    algorithm._gradients(batch)
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    whole_loss(model, batch).backward()
    for parameter, grad in zip(model.parameters(), found, strict=True):
        torch.testing.assert_close(grad, parameter.grad)


def calls_beside_the_actor(trainer, monkeypatch):
    """Return a list to which every call is added that runs in the critic's thread."""
    calls, submit = [], trainer.algorithm._thread.submit

    def counted(*call):
        calls.append(call)
        return submit(*call)

    monkeypatch.setattr(trainer.algorithm._thread, "submit", counted)
    return calls


@pytest.mark.parametrize("method", ["toy", "forgetful"])
def test_two_threads_give_the_bits_of_one(make_trainer, monkeypatch, method):
    def trained(threads):
        trainer = make_trainer(f"run{threads}", method=method)
        apart = calls_beside_the_actor(trainer, monkeypatch)
        for _ in range(3):
            trainer.collector.collect(trainer.buffer)
            torch.set_num_threads(threads)
            update(trainer)
            assert torch.get_num_threads() == threads
        assert bool(apart) is (threads > 1)
        return trainer

    assert torch.equal(parameters(trained(1)), parameters(trained(2)))


def test_actor_and_critic_have_half_of_the_threads_each(make_trainer):
    """A thread that nobody told would keep the number that it began with."""
    trainer = make_trainer(repeat=1, batch_size=64)
    seen = {"actor": set(), "critic": set()}
    trainer.collector.collect(trainer.buffer)

    def counting(forward, counts):
        return lambda tokens: (counts.add(torch.get_num_threads()), forward(tokens))[1]

    for name, counts in seen.items():
        network = getattr(trainer.model, name)
        network.forward = counting(network.forward, counts)
    for total in (4, 2):
        torch.set_num_threads(total)
        update(trainer)
        assert seen == {"actor": {total // 2}, "critic": {total // 2}}
        assert torch.get_num_threads() == total
        for counts in seen.values():
            counts.clear()


def test_networks_that_draw_random_numbers_do_so_in_a_fixed_order(make_trainer, monkeypatch):
    torch.set_num_threads(2)
    runs = []
    for name in ("a", "b"):
        trainer = make_trainer(name, dropout=0.5, target_kl=None)
        apart = calls_beside_the_actor(trainer, monkeypatch)
        with trainer.torch_state.in_use():
            trainer.collector.collect(trainer.buffer)
            torch.set_num_threads(2)
            update(trainer)
        assert trainer.model.draws_random_numbers
        assert not apart
        runs.append(parameters(trainer))
    assert torch.equal(*runs)


def test_an_error_in_the_critic_is_not_lost(make_trainer, monkeypatch):
    trainer = make_trainer()
    apart = calls_beside_the_actor(trainer, monkeypatch)
    trainer.collector.collect(trainer.buffer)
    torch.set_num_threads(2)
    update(trainer)
    trainer.model.critic.forward = lambda tokens: 1 / 0
    trainer.algorithm._preprocess_batch = lambda batch, buffer, indices: batch
    apart.clear()
    with pytest.raises(PluginError, match="network failed with ZeroDivisionError"):
        update(trainer)
    assert len(apart) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda tokens, outputs: outputs.detach(), "does not require grad"),
        (lambda tokens, outputs: (e := outputs.exp(), e * e, e.zero_())[1], "inplace operation"),
    ],
)
def test_a_network_without_a_gradient_is_told_in_a_sentence(make_trainer, change, why):
    trainer = make_trainer()
    trainer.collector.collect(trainer.buffer)
    forward = trainer.model.critic.forward
    trainer.model.critic.forward = lambda tokens: change(tokens, forward(tokens))
    with pytest.raises(PluginError, match=f"gradient failed with RuntimeError: .*{why}"):
        update(trainer)
