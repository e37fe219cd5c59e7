import dataclasses
import sys

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.tokens import TokenSpec

SPEC = TokenSpec(3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    gain: float = 1.0


class FirstFeature(nn.Module):
    """Every output of a limb is gain * its first time-varying feature (plus a frozen zero)."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.gain = nn.Parameter(torch.full((num_outputs,), config.gain))
        self.frozen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, tokens):
        return tokens.dynamic[..., :1] * self.gain + self.frozen


def method(builder=FirstFeature):
    return MethodSpec(id="fake", config=Config, builder=builder)


@pytest.fixture
def tokens():
    tokens = random_tokens(np.random.default_rng(0), SPEC, (3, 2), batch_size=2)
    tokens.morphology_index[:] = torch.tensor([0, 1])
    tokens.dynamic[..., 0] = torch.tensor([[1.0, 2.0, 6.0], [5.0, 3.0, 1e6]])
    return tokens


def test_value_is_the_mean_over_real_limbs(tokens):
    policy = ActorCritic(method(), Config(gain=2.0), SPEC)
    assert policy.value(tokens).tolist() == [6.0, 8.0]  # 2 * (1 + 2 + 6) / 3, 2 * (5 + 3) / 2


def test_distribution_has_the_actors_means_and_the_frozen_deviation(tokens):
    distribution = ActorCritic(method(), Config(), SPEC).distribution(tokens)
    assert float(distribution.std) == pytest.approx(0.9)
    # Slot 0 of every limb but the torso has an actuator.
    assert distribution.mean[0, :, 0].tolist() == [0.0, 2.0, 6.0]
    assert distribution.mean[1, :, 0].tolist() == [0.0, 3.0, 0.0]


def test_act_without_a_generator_takes_the_mode(tokens):
    policy = ActorCritic(method(), Config(), SPEC)
    action, _ = policy.act(tokens, policy.initial_state(len(tokens)), None)
    assert torch.equal(action, policy.distribution(tokens).mode)
    assert not action.requires_grad


def test_act_with_a_generator_samples_from_it(tokens):
    policy = ActorCritic(method(), Config(), SPEC)
    state = policy.initial_state(len(tokens))
    action, _ = policy.act(tokens, state, torch.Generator().manual_seed(7))
    expected = policy.distribution(tokens).sample(torch.Generator().manual_seed(7))
    assert torch.equal(action, expected)
    assert not torch.equal(action, policy.act(tokens, state, None)[0])


def test_action_std_is_saved_but_never_trained(tokens):
    policy = ActorCritic(method(), Config(), SPEC, action_std=0.5)
    assert float(policy.state_dict()["action_std"]) == 0.5
    assert "action_std" not in dict(policy.named_parameters())
    policy.distribution(tokens).log_prob(torch.ones(2, 3, 2)).sum().backward()
    assert policy.action_std.grad is None


def test_num_parameters_counts_trainable_ones_of_both_networks():
    assert ActorCritic(method(), Config(), SPEC).num_parameters() == 2 + 1


def test_actor_and_critic_share_nothing():
    policy = ActorCritic(method(), Config(), SPEC)
    assert not {id(p) for p in policy.actor.parameters()} & {
        id(p) for p in policy.critic.parameters()
    }


class SharesGain(FirstFeature):
    """The critic trains the actor's parameter, or memory that the actor's parameter lies in."""

    kept = None

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        kept = type(self).kept
        type(self).kept = self.gain if kept is None else None
        self.gain = self.gain if kept is None else self.second(kept)

    @staticmethod
    def second(kept):
        return kept


class SharesMemory(SharesGain):
    @staticmethod
    def second(kept):
        return nn.Parameter(kept.data[:1])


class SharesBuffer(FirstFeature):
    ones = torch.ones(3)

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.register_buffer("mask", self.ones)


@pytest.mark.parametrize(
    ("builder", "name"), [(SharesGain, "gain"), (SharesMemory, "gain"), (SharesBuffer, "mask")]
)
def test_networks_that_share_a_tensor_are_refused(builder, name):
    reason = f"^the method 'fake' cannot be used: its actor and critic share '{name}'; its builder"
    with pytest.raises(PluginError, match=reason):
        ActorCritic(method(builder), Config(), TokenSpec(3, 1))


def failing_builder(config, spec, num_outputs):
    raise ValueError("no such layer")


class Broken(FirstFeature):
    def forward(self, tokens):
        return self.broken(super().forward(tokens))


def broken(change):
    return type("Changed", (Broken,), {"broken": staticmethod(change)})


def fail(_):
    raise RuntimeError("shapes differ")


def leaving_builder(config, spec, num_outputs):
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (failing_builder, "builder failed with ValueError: no such layer"),
        (leaving_builder, "builder failed with SystemExit: 0"),
        (broken(lambda _: sys.exit()), "network failed with SystemExit"),
        (lambda *_: "network", "builder returned a str, not a torch.nn.Module"),
        (broken(fail), "network failed with RuntimeError: shapes differ"),
        (broken(lambda x: x.tolist()), "network returned a list, not a tensor"),
        (broken(lambda x: x[..., :1]), r"network returned shape \(2, 3, 1\), expected \(2, 3, 2\)"),
        (broken(lambda x: x / 0), "network returned numbers that are not finite"),
        ("no_such_module:build", "builder failed with PluginError"),
    ],
)
def test_a_method_that_breaks_its_contract_is_refused(builder, reason):
    with pytest.raises(PluginError, match=rf"^the method 'fake' cannot be used: its {reason}"):
        ActorCritic(method(builder), Config(), SPEC)


def out_of_memory(*_):
    raise MemoryError


@pytest.mark.parametrize("builder", [lambda *_: torch.empty(10**14), out_of_memory])
def test_networks_that_do_not_fit_into_memory_are_no_mistake_of_the_builder(builder):
    with pytest.raises(ConfigError, match=r"networks of 'fake' need more memory .* --model.width"):
        ActorCritic(method(builder), Config(), SPEC)


@pytest.mark.parametrize(
    ("builder", "raising"), [(failing_builder, failing_builder), (broken(fail), fail)]
)
def test_an_error_names_the_innermost_line_of_the_method(builder, raising):
    line = raising.__code__.co_firstlineno + 1
    with pytest.raises(PluginError) as error:
        ActorCritic(method(builder), Config(), SPEC)
    assert str(error.value).endswith(f"(B, L, num_outputs) [test_policy.py:{line}]")


@pytest.mark.parametrize("lacking", ["state_width", "sequence_length"])
def test_a_network_with_a_memory_must_say_how_much_and_how_long(lacking):
    class Remembers(FirstFeature):
        state_width = sequence_length = 1

        def forward(self, tokens, history):
            return super().forward(tokens), history.state

    setattr(Remembers, lacking, None)
    claims = Capabilities(temporal=True)
    temporal = dataclasses.replace(method(Remembers), capabilities=claims)
    with pytest.raises(PluginError, match=f"{lacking!r} must be an integer of at least 1"):
        ActorCritic(temporal, Config(), SPEC)


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda outputs, state: outputs, r"the pair \(outputs, state\), got Tensor"),
        (lambda outputs, state: (outputs, None), "the state must be a tensor, got NoneType"),
        (lambda outputs, state: (outputs, state[:1]), "the state has shape"),
    ],
)
def test_a_network_with_a_memory_must_return_outputs_and_state(returned, sentence):
    class Remembers(FirstFeature):
        state_width = sequence_length = 1

        def forward(self, tokens, history):
            return returned(super().forward(tokens), history.state)

    claims = Capabilities(temporal=True)
    temporal = dataclasses.replace(method(Remembers), capabilities=claims)
    with pytest.raises(PluginError, match=sentence):
        ActorCritic(temporal, Config(), SPEC)


def test_construction_leaves_dropout_on_and_draws_nothing_for_its_check():
    class Dropped(FirstFeature):
        def forward(self, tokens):
            return nn.functional.dropout(super().forward(tokens), 0.5, self.training)

    torch.manual_seed(0)
    policy = ActorCritic(method(Dropped), Config(), SPEC)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))
    assert policy.actor.training
    assert policy.draws_random_numbers
    assert not ActorCritic(method(), Config(), SPEC).draws_random_numbers


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_outputs_of_another_precision_are_refused(dtype):
    class Other(FirstFeature):
        def forward(self, tokens):
            return super().forward(tokens).to(dtype)

    with pytest.raises(PluginError, match=f"returned {dtype}, expected torch.float32"):
        ActorCritic(method(Other), Config(), SPEC)


def test_an_error_in_training_is_one_line_that_says_where(tokens):
    policy = ActorCritic(method(), Config(), SPEC)

    def fail(tokens):
        raise ValueError("\nno such limb\nframe #1: libc.so.6")

    policy.actor.forward = fail
    with pytest.raises(PluginError) as caught:
        policy.distribution(tokens)
    assert "failed with ValueError: no such limb; its" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert "[test_policy.py:" in str(caught.value)
