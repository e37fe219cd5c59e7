"""Bodies trained side by side learn what each would learn alone."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import CheckpointError, ConfigError, PluginError
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.learner import JointLearner, PerBodyLearner
from tests.support.evaluate import evaluate
from tests.support.slow import slow_but
from tests.support.small_runs import outcome, same_statistics, stop_at

BODIES = (chain(3), star(3), biped())
"""What `make_bank_trainer` trains by default."""


def of_body(trainer, body):
    """Weights, moments and statistics of one body."""
    tensors = {name: value[body] for name, value in trainer.policy.normalizer.get_state().items()}
    tensors |= {
        name: value.detach()[body].numpy() for name, value in trainer.model.named_parameters()
    }
    tensors["reward"] = trainer.learner.rewards.moments.variance[body]
    states = trainer.algorithm.optim.state_dict()["state"]
    bodies = len(trainer.learner.streams)
    for place in range(len(states) // bodies):
        for name, value in states[place * bodies + body].items():
            tensors[f"{name}/{place}"] = value.numpy()
    return tensors


@pytest.mark.parametrize("normalization", slow_but(["per_feature", "per_slot"], "per_slot"))
def test_a_body_trains_as_if_it_were_alone(make_bank_trainer, normalization):
    settings = {"normalization": normalization, "iterations": 3}
    together = make_bank_trainer("together", **settings)
    together.train()
    assert together.iteration == 3
    assert together.collector.episodes > 20
    stopped = together.algorithm.active.tolist()
    for body, morphology in enumerate(BODIES):
        alone = make_bank_trainer(f"alone{body}", bodies=(morphology,), **settings)
        assert alone.env_steps_planned == together.env_steps_planned // 3
        alone.train()
        assert alone.algorithm.active.tolist() == [stopped[body]]
        found, expected = of_body(together, body), of_body(alone, 0)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


def test_a_body_starts_with_the_bits_that_it_would_have_alone(make_bank_trainer):
    """Initial weights, start states and the noise on actions; learning differs by rounding."""
    together = make_bank_trainer("together")
    trainers = [make_bank_trainer(f"alone{k}", bodies=BODIES[k : k + 1]) for k in range(3)]
    for trainer in (together, *trainers):
        trainer.learner.begin(trainer.buffer)
    for body, alone in enumerate(trainers):
        for whole, own in zip(together.model.parameters(), alone.model.parameters(), strict=True):
            assert torch.equal(whole[body], own[0])
        rows = slice(8 * body, 8 * body + 8)
        np.testing.assert_array_equal(together.env.core.dynamic[rows], alone.env.core.dynamic)
        for step in range(together.buffer.length):
            assert torch.equal(together.learner.noise(step)[rows], alone.learner.noise(step))


def test_bodies_are_dealt_once_and_for_all(make_bank_trainer):
    trainer = make_bank_trainer()
    for _ in range(3):
        trainer.iterate()
        assert (trainer.buffer.morphology_index == torch.arange(3).repeat_interleave(8)).all()
    assert trainer.collector.episodes > 0


def test_every_iteration_draws_numbers_of_its_own(make_bank_trainer):
    trainer, noise, orders = make_bank_trainer(lr=1e-12), [], []
    for _ in range(2):
        trainer.iterate()
        buffer = trainer.buffer
        tokens = buffer.tokens(buffer.morphology_index[0], buffer.dynamic[0], buffer.height_map[0])
        mean = trainer.model.distribution(tokens).mean.detach()
        noise.append((buffer.actions[0] - mean)[~tokens.action_padding_mask] / 0.9)
        orders.append(trainer.learner.streams.orders(1, 9).tolist())
    assert (noise[0] - noise[1]).abs().min() > 1e-3
    assert orders[0] != orders[1]


@pytest.mark.slow
def test_a_continued_run_ends_in_the_same_bits(make_bank_trainer):
    whole = make_bank_trainer("whole", interval=0.0)
    whole.train()
    for iteration in (1, 3):
        stop_at(make_bank_trainer(f"stopped{iteration}", interval=0.0), iteration)
        rest = make_bank_trainer(f"stopped{iteration}", interval=0.0)
        assert rest.iteration == iteration
        rest.train()
        assert outcome(rest) == outcome(whole)
        assert rest.algorithm.learning_rate == whole.algorithm.learning_rate
        same_statistics(rest, whole)
        for body in range(3):
            for name, value in of_body(whole, body).items():
                np.testing.assert_array_equal(of_body(rest, body)[name], value, err_msg=name)


def test_another_seed_gives_every_body_another_run(make_bank_trainer):
    """Initial weights, start states, the noise on actions and the order of transitions."""
    trainers = first, second = make_bank_trainer("a", seed=0), make_bank_trainer("b", seed=1)
    for trainer in trainers:
        trainer.learner.begin(trainer.buffer)
    orders = [trainer.learner.streams.orders(1, 9) for trainer in trainers]
    for body in range(3):
        for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
            assert not torch.equal(one[body], other[body]) or not one[body].any()
        rows = slice(8 * body, 8 * body + 8)
        states, noise = (
            [trainer.env.core.dynamic[rows] for trainer in trainers],
            [trainer.learner.noise(0)[rows] for trainer in trainers],
        )
        assert not np.array_equal(*states)
        assert (noise[0] != noise[1]).all()
        assert orders[0][0, body].tolist() != orders[1][0, body].tolist()


@pytest.mark.slow
def test_scoring_uses_the_statistics_of_each_body(make_bank_trainer):
    """A policy file scores every body as the file of that body alone does."""
    together = make_bank_trainer("together")
    together.iterate()
    tensors = together.policy.tensors()
    loaded = make_bank_trainer("loaded", seed=7)
    loaded.policy.set_tensors(tensors, "x")
    # Where a row starts depends on its place among the rows: without noise, all start alike.
    task = replace(TASK, horizon=10, reset_noise=0.0)
    rules = {"episodes": 1, "mode": "deterministic", "seed": 3}
    found = evaluate(loaded.policy, task, BODIES, **rules)
    for body in range(3):
        own = BODIES[body : body + 1]
        alone = make_bank_trainer(f"alone{body}", bodies=own)
        alone.iterate()
        (one,), ((other,),) = found[body], evaluate(alone.policy, task, own, **rules)
        assert one.length == other.length
        assert one.episode_return == pytest.approx(other.episode_return, rel=1e-4)


def test_a_policy_with_shared_statistics_is_refused(make_bank_trainer):
    trainer = make_bank_trainer()
    tensors = trainer.policy.tensors()
    tensors["normalizer.dynamic_mean"] = tensors["normalizer.dynamic_mean"][0]
    with pytest.raises(CheckpointError, match="with the version of the method that made it"):
        trainer.policy.set_tensors(tensors, "the file")


def test_only_methods_with_weights_per_body_are_trained_apart(make_bank_trainer):
    toy = MethodSpec(id="toy", config=Settings, builder=SharedBias)
    assert type(make_bank_trainer("shared", method=toy).learner) is JointLearner
    assert type(make_bank_trainer("apart").learner) is PerBodyLearner


@dataclass(frozen=True)
class Settings:
    pass


class SharedBias(nn.Module):
    """One bias for all bodies, whatever the method claims."""

    def __init__(self, config, spec, num_outputs, num_bodies=1, size=2):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))
        self.num_outputs = num_outputs

    def forward(self, tokens):
        return self.bias[:1].expand(*tokens.features.shape[:2], self.num_outputs)


@pytest.mark.parametrize(
    ("size", "capabilities", "message"),
    [
        (2, {}, "its parameter 'actor.bias' has the shape .2,. for 3 bodies"),
        # As many numbers as bodies, and one, as a single body has.
        (3, {}, "its parameter 'actor.bias' has the shape .3,. for 3 bodies"),
        (1, {}, "its parameter 'actor.bias' has the shape .1,. for 3 bodies"),
        (2, {"temporal": True}, "claims 'temporal' and 'per_body'"),
    ],
)
def test_what_cannot_be_trained_apart_is_refused(make_bank_trainer, size, capabilities, message):
    claims = Capabilities(per_body=True, **capabilities)
    builder = partial(SharedBias, size=size)
    method = MethodSpec(id="toy", config=Settings, builder=builder, capabilities=claims)
    with pytest.raises(PluginError, match=message):
        make_bank_trainer(method=method)


def test_several_sequences_of_a_body_are_refused(make_bank_trainer):
    with pytest.raises(ConfigError, match="in one order of its limbs"):
        make_bank_trainer(order="siblings")
