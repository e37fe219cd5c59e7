import dataclasses
import sys
from types import SimpleNamespace

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


def holds(name, make, register="register_parameter"):
    """Return the builder of a network that has one more tensor."""

    def build(config, spec, num_outputs):
        network = FirstFeature(config, spec, num_outputs)
        getattr(network, register)(name, make())
        return network

    return build


ROWS = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (
            holds("w", lambda: nn.Parameter(torch.randn(2, 6).chunk(2, 1)[1])),
            "parameter 'w' is a view whose elements do not lie in order in memory; copy it",
        ),
        (holds("w", lambda: nn.Parameter(ROWS.clone().t())), "parameter 'w' is a view"),
        (holds("w", lambda: nn.Parameter(torch.ones(1).expand(3))), "parameter 'w' is a view"),
        (
            holds("w", lambda: nn.Parameter(torch.ones(3, dtype=torch.complex64))),
            "parameter 'w' is of torch.complex64, which is not trained here",
        ),
        (
            holds("b", lambda: torch.ones(3, dtype=torch.bfloat16), "register_buffer"),
            "tensor 'b' is of torch.bfloat16, which no checkpoint can hold",
        ),
    ],
)
def test_tensors_that_cannot_be_trained_or_kept_are_refused(builder, reason):
    with pytest.raises(PluginError, match=f"^the method 'fake' cannot be used: its {reason}"):
        ActorCritic(method(builder), Config(), SPEC)
    fixed = holds("w", lambda: nn.Parameter(ROWS.clone().t(), requires_grad=False))
    assert ActorCritic(method(fixed), Config(), SPEC).actor.w.shape == (3, 2)


def failing_builder(config, spec, num_outputs):
    raise ValueError("no such layer")


class Broken(FirstFeature):
    def forward(self, tokens):
        return self.broken(super().forward(tokens))


def broken(change):
    return type("Changed", (Broken,), {"broken": staticmethod(change)})


class NeedsAllLimbs(FirstFeature):
    """Divides by zero where a body has fewer limbs than there are slots."""

    def forward(self, tokens):
        fills = tokens.num_limbs == tokens.spec.max_limbs
        return super().forward(tokens) / fills.view(-1, 1, 1)


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
        (NeedsAllLimbs, "network returned numbers that are not finite"),
        ("no_such_module:build", "builder failed with PluginError"),
    ],
)
def test_a_method_that_breaks_its_contract_is_refused(builder, reason):
    with pytest.raises(PluginError, match=rf"^the method 'fake' cannot be used: its {reason}"):
        ActorCritic(method(builder), Config(), SPEC)


def test_a_network_that_leaves_later_is_refused_likewise(tokens):
    policy = ActorCritic(method(broken(lambda x: x)), Config(), SPEC)
    policy.actor.broken = lambda _: sys.exit(0)
    with pytest.raises(PluginError, match=r"its network failed with SystemExit: 0 \[test_pol"):
        policy.act(tokens, policy.initial_state(len(tokens)), None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: x[:, :2], r"returned shape \(2, 2, {}\), expected \(2, 3, {}\)"),
        (lambda x: x.sum(), r"returned shape \(\), expected \(2, 3, {}\)"),
        (lambda x: x.tolist(), "returned a list, not a tensor"),
        (lambda x: x.double(), "returned torch.float64, expected torch.float32"),
    ],
)
def test_outputs_that_depend_on_the_batch_are_refused_with_the_batch(tokens, change, reason):
    policy = ActorCritic(method(broken(lambda x: x)), Config(), SPEC)
    policy.actor.broken = policy.critic.broken = change
    calls = (policy.distribution, policy.value, lambda batch: policy.step(batch, state))
    state = policy.initial_state(len(tokens))
    for call, width in zip(calls, (2, 1, 2), strict=True):
        sentence = f"^the method 'fake' cannot be used: its network {reason.format(width, width)}"
        with pytest.raises(PluginError, match=sentence):
            call(tokens)


def out_of_memory(*_):
    raise MemoryError


def out_of_gpu_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


@pytest.mark.parametrize(
    "builder", [lambda *_: torch.empty(10**14), out_of_memory, broken(out_of_gpu_memory)]
)
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
    sentence, _, place = str(error.value).rpartition(" ")
    assert place == f"[test_policy.py:{line}]"
    assert sentence.endswith(("Error: no such layer", "Error: shapes differ"))


MODULE = "; its builder must return a module that maps a TokenBatch to (B, L, num_outputs)"


@pytest.mark.parametrize(
    ("builder", "ending"),
    [
        (lambda *_: "network", MODULE),
        (broken(lambda x: x[:, :1]), MODULE),
        (broken(lambda x: x.double()), MODULE),
        (broken(lambda x: x / 0), "finite"),
        ("no_such_module:build", "No module named 'no_such_module'"),
    ],
)
def test_the_contract_is_shown_where_types_and_shapes_are_wrong(builder, ending):
    with pytest.raises(PluginError) as error:
        ActorCritic(method(builder), Config(), SPEC)
    assert str(error.value).endswith(ending)


HINT = "; try it without --model.gain 2.0, which the preset 'lite' does not have"


@pytest.mark.parametrize("builder", [failing_builder, broken(fail), broken(lambda x: x / 0)])
@pytest.mark.parametrize(("gain", "hint"), [(1.0, ""), (3.0, ""), (2.0, HINT)])
def test_settings_that_no_preset_has_are_named_as_a_cause(builder, gain, hint):
    presets = {"odd": {"none": 1}, "lite": {}, "paper": {"gain": 3.0}}
    spec = dataclasses.replace(method(builder), presets=presets)
    with pytest.raises(PluginError) as error:
        ActorCritic(spec, Config(gain=gain), SPEC)
    sentence = str(error.value).partition(" [test_policy.py:")[0]
    assert sentence.partition("; ")[1:] == (hint[:2], hint[2:])


@pytest.mark.parametrize("found", [None, 0])
@pytest.mark.parametrize("lacking", ["state_width", "sequence_length"])
def test_a_network_with_a_memory_must_say_how_much_and_how_long(lacking, found):
    class Remembers(FirstFeature):
        state_width = sequence_length = 1

        def forward(self, tokens, history):
            return super().forward(tokens), history.state

    setattr(Remembers, lacking, found)
    claims = Capabilities(temporal=True)
    temporal = dataclasses.replace(method(Remembers), capabilities=claims)
    sentence = f"{lacking!r} must be .* at least 1, got {found}; its builder must return .* History"
    with pytest.raises(PluginError, match=sentence):
        ActorCritic(temporal, Config(), SPEC)


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda outputs, state: outputs, r"a Tensor, not the pair \(outputs, state\)"),
        (lambda outputs, state: (outputs, None), "a NoneType as its state, not a tensor"),
        (
            lambda outputs, state: (outputs, state[:1]),
            r"returned shape \(1, 3, 1\) as its state, expected \(2, 3, 1\)",
        ),
        (
            lambda outputs, state: (outputs, state.double()),
            "returned torch.float64 as its state, expected torch.float32",
        ),
    ],
)
def test_a_network_with_a_memory_must_return_outputs_and_state(returned, sentence):
    class Remembers(FirstFeature):
        state_width = sequence_length = 1

        def forward(self, tokens, history):
            return returned(super().forward(tokens), history.state)

    claims = Capabilities(temporal=True)
    temporal = dataclasses.replace(method(Remembers), capabilities=claims)
    with pytest.raises(PluginError, match=f"{sentence}; its builder must return .* and a History"):
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

    def drops_values(config, spec, num_outputs):
        return (Dropped if num_outputs == 1 else FirstFeature)(config, spec, num_outputs)

    assert ActorCritic(method(drops_values), Config(), SPEC).draws_random_numbers


def test_a_network_that_fails_in_training_mode_alone_is_refused_and_draws_nothing():
    class Fails(FirstFeature):
        def forward(self, tokens):
            if self.training:
                torch.rand(3)
                raise RuntimeError("no such layer")
            return super().forward(tokens)

    state = torch.get_rng_state()
    with pytest.raises(PluginError, match="its network in training mode failed with RuntimeError"):
        ActorCritic(method(Fails), Config(), SPEC)
    assert torch.equal(torch.get_rng_state(), state)


def test_reduced_precision_may_put_out_any_floats(tokens):
    policy = ActorCritic(method(broken(lambda x: x)), Config(), SPEC, precision="bfloat16")
    policy.actor.broken = torch.Tensor.bfloat16
    assert policy.distribution(tokens).mean.dtype == torch.float32


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
    assert "failed with ValueError: no such limb [" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert "[test_policy.py:" in str(caught.value)


class OfBody(FirstFeature):
    """A weight for each of the bodies, and a table without numbers."""

    def __init__(self, config, spec, num_outputs, num_bodies):
        super().__init__(config, spec, num_outputs)
        self.weight = nn.Parameter(torch.ones(num_bodies, 1, 1))
        self.register_buffer("none", torch.zeros(0))

    def forward(self, tokens):
        return super().forward(tokens) * self.weight[tokens.morphology_index]


@pytest.mark.parametrize("num_bodies", [1, 3])
def test_networks_of_few_bodies_are_tried_on_them_alone(num_bodies):
    claims = Capabilities(per_body=True)
    separate = dataclasses.replace(method(OfBody), capabilities=claims)
    policy = ActorCritic(separate, Config(), SPEC, num_bodies=num_bodies)
    assert len(policy.critic.weight) == num_bodies


class Padded(FirstFeature):
    """Anything may stand in padding, and the actor alone takes rows with it."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.padded_rows = num_outputs == spec.actions_per_token

    def forward(self, tokens):
        outputs = super().forward(tokens)
        return outputs.masked_fill(tokens.limb_padding_mask.unsqueeze(-1), torch.nan)


def test_what_stands_in_padding_does_not_matter(tokens):
    policy = ActorCritic(method(Padded), Config(gain=2.0), SPEC)
    assert policy.value(tokens).tolist() == [6.0, 8.0]
    assert policy.distribution(tokens).mean.isfinite().all()


def test_padded_rows_are_taken_if_actor_and_critic_take_them():
    policy = ActorCritic(method(Padded), Config(), SPEC)
    assert policy.actor.padded_rows
    assert not policy.padded_rows
    policy.critic.padded_rows = True
    assert policy.padded_rows


def test_networks_on_a_gpu_that_draw_no_random_numbers_may_be_captured():
    """With a stand-in for a tensor on a GPU."""
    policy = ActorCritic(method(), Config(), SPEC)
    assert not policy.may_be_captured
    policy._buffers["action_std"] = SimpleNamespace(is_cuda=True)
    assert policy.may_be_captured
    policy.draws_random_numbers = True
    assert not policy.may_be_captured


class Adds(nn.Module):
    """Remembers how many steps there were, in numbers whose count tells actor and critic apart."""

    sequence_length = 1

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.num_outputs, self.state_width = num_outputs, num_outputs + 1

    def forward(self, tokens, history):
        state = history.state + 1.0
        return state.sum(dim=-1, keepdim=True).expand(-1, -1, self.num_outputs), state


@pytest.fixture
def temporal():
    claims = Capabilities(temporal=True)
    return ActorCritic(dataclasses.replace(method(Adds), capabilities=claims), Config(), SPEC)


def test_actor_critic_and_the_last_action_are_remembered_side_by_side(temporal, tokens):
    assert temporal.state_width == 3 + 2 + 2
    state = torch.arange(42.0).view(2, 3, 7)
    actor, critic, action = state.split([3, 2, 2], dim=-1)
    none = torch.zeros_like(action)
    for remembered, options in ((critic + 1, {}), (critic, {"critic": False})):
        _, found = temporal.step(tokens, state, **options)
        assert torch.equal(found, torch.cat((actor + 1, remembered, none), dim=-1))
        found = temporal.remember(found, action)
        assert torch.equal(found, torch.cat((actor + 1, remembered, action), dim=-1))
    limbs = (critic + 1).sum(dim=-1)
    expected = torch.stack([limbs[0].mean(), limbs[1, :2].mean()])
    assert torch.equal(temporal.value(tokens, temporal.one_step(state)), expected)


def test_networks_see_the_action_of_the_step_before_unless_an_episode_begins(temporal):
    torch.manual_seed(0)
    state, actions = torch.randn(2, 3, 7), torch.randn(3, 2, 3, 2)
    starts = torch.tensor([[False, True], [True, False], [False, False]])
    found = temporal.history(state, starts, actions)
    assert torch.equal(found.state, state[..., :5])
    assert torch.equal(found.starts, starts)
    expected = torch.stack([state[..., 5:], actions[0], actions[1]])
    expected[0, 1] = expected[1, 0] = 0.0
    assert torch.equal(found.previous_actions, expected)
