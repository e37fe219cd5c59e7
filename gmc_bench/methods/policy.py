"""The trainable controller: a method's network as actor, and once more as critic."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from gmc_bench.core.config import leaves, shown
from gmc_bench.core.errors import ConfigError, GmcBenchError, PluginError
from gmc_bench.core.precision import Precision
from gmc_bench.core.registry import raised_at
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.history import History
from gmc_bench.nn.row_blocks import use_row_blocks
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.spec import TokenSpec

_LONGEST = 300
"""Characters of a foreign message that are shown."""
_RIGHT_MODULE = "its builder must return a module that maps a TokenBatch to (B, L, num_outputs)"
_RIGHT_MEMORY = (
    "its builder must return a module with the integers 'state_width' and 'sequence_length' that "
    "maps a TokenBatch and a History to the pair of outputs (B, L, num_outputs) and state "
    "(N, L, state_width)"
)
_KEPT_TYPES = frozenset(
    (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.float32, torch.float64,
    )
)  # fmt: skip
"""Of tensors that NumPy has, too, and so files of checkpoints and weights."""
_OWN_TENSORS = "its builder must make all modules anew, because both are trained at the same time"


class ActorCritic(nn.Module):
    """Two networks of one method: action means per limb, and values per limb.

    Between two control steps a policy carries a state (N, L, `state_width`): what actor and critic
    remember, and the previous action. It is zero at the start of an episode; a policy without a
    memory has a state of width zero, so that whoever runs a policy treats all alike:

        state = policy.initial_state(num_envs)
        distribution, state = policy.step(tokens, state)
        actions = distribution.sample(generator)
        state = policy.remember(state, actions)
        state[ended] = 0.0

    Args:
        method: the controller.
        config: its settings, an instance of `method.config_class()`.
        spec: layout of the tokens.
        action_std: standard deviation of every action; fixed, not trained.
        num_bodies: bodies to be trained on, for methods with separate weights per body.
        precision: `bfloat16` runs the networks under torch's autocast; weights, outputs and states
            stay float32. `tf32` must be allowed by whoever runs them (see `TorchState`).

    Raises:
        ConfigError: torch's default type is another than float32, or its default device another
            than the CPU.
        PluginError: the method's builder fails, its two networks share a parameter or buffer, or
            a network does not map a token batch to finite numbers of shape (B, L, num_outputs).

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931: separate networks, standard deviation 0.9,
        value of a body = mean of the values of its limbs.
    """

    action_std: torch.Tensor

    def __init__(
        self,
        method: MethodSpec,
        config: Any,
        spec: TokenSpec,
        action_std: float = 0.9,
        num_bodies: int = 1,
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        if (dtype := torch.get_default_dtype()) != torch.float32:
            raise ConfigError(
                f"torch makes tensors of {dtype} by default here, but networks are float32; call "
                f"torch.set_default_dtype(torch.float32) before"
            )
        if (device := torch.get_default_device()).type != "cpu":
            raise ConfigError(
                f"torch makes tensors on the device {device} by default here, but networks are "
                f"made on the CPU and then moved; call torch.set_default_device('cpu') before, and "
                f"give the device as 'device'"
            )
        if method.capabilities.temporal and method.capabilities.per_body:
            raise PluginError(
                f"the method {method.id!r} claims 'temporal' and 'per_body', but separate bodies "
                f"are trained on single steps only; drop one of the claims"
            )
        self.method = method
        self.config = config
        self.spec = spec
        self.num_bodies = num_bodies
        self.precision = precision
        self.temporal = method.capabilities.temporal
        self.per_body = method.capabilities.per_body
        self.actor = build_network(method, config, spec, spec.actions_per_token, num_bodies)
        self.critic = build_network(method, config, spec, 1, num_bodies)
        if names := shared_tensors(self.actor, self.critic):
            raise _broken(method, f"actor and critic share {names[0]!r}", _OWN_TENSORS)
        if precision == "bfloat16":
            use_row_blocks(self)
        example = _example_for(method, spec, num_bodies)
        self.draws_random_numbers = any(
            _draws_random_numbers(method, config, part, example, width)
            for part, width in ((self.actor, spec.actions_per_token), (self.critic, 1))
        )
        """Whether a forward pass in training mode draws from torch's generator (dropout)."""
        self._widths = (0, 0, 0)
        if self.temporal:
            actor, critic = (
                _number(method, part, "state_width") for part in (self.actor, self.critic)
            )
            self._widths = (actor, critic, spec.actions_per_token)
        self.register_buffer("action_std", torch.tensor(action_std))

    @property
    def state_width(self) -> int:
        """S, numbers per token that a policy carries from one control step to the next."""
        return sum(self._widths)

    @property
    def padded_rows(self) -> bool:
        """Whether both networks support rows that include padding, see `TokenBatch.padded`."""
        return all(getattr(part, "padded_rows", False) for part in (self.actor, self.critic))

    @property
    def may_be_captured(self) -> bool:
        """Whether calls of the networks may become CUDA graphs, which draw no random numbers."""
        return self.action_std.is_cuda and not self.draws_random_numbers

    @property
    def sequence_length(self) -> int:
        """Consecutive control steps that training must keep together; 1 without a memory."""
        return _number(self.method, self.actor, "sequence_length") if self.temporal else 1

    def initial_state(self, num_envs: int) -> torch.Tensor:
        """Return the state at the start of an episode, (N, L, S) zeros."""
        return self.action_std.new_zeros(num_envs, self.spec.max_limbs, self.state_width)

    def history(
        self, state: torch.Tensor, starts: torch.Tensor, actions: torch.Tensor
    ) -> History | None:
        """Return what the networks remember over T steps of N environments.

        Args:
            state: (N, L, S), of the policy before the first step.
            starts: (T, N) bool, a new episode begins with this step.
            actions: (T, N, L, J), what was done at each step; the last one is not used.

        Returns:
            The past of both networks, their states joined; `None` without a memory.
        """
        if not self.temporal:
            return None
        widths = [sum(self._widths[:2]), self._widths[2]]
        remembered, previous = torch.split(state, widths, dim=-1)
        previous_actions = torch.cat((previous.unsqueeze(0), actions[:-1]))
        previous_actions = previous_actions.masked_fill(starts[..., None, None], 0.0)
        return History(remembered, previous_actions, starts)

    def distribution(self, tokens: TokenBatch, history: History | None = None) -> MaskedGaussian:
        """Return the action distributions (B, L, J); with a history, B = T * N steps."""
        return self._distribution(tokens, self._run(self.actor, 0, tokens, history)[0])

    def value(self, tokens: TokenBatch, history: History | None = None) -> torch.Tensor:
        """Return the value estimates (B,): the mean over real limbs of the critic's output."""
        values = self._run(self.critic, 1, tokens, history)[0].squeeze(-1)
        total = values.masked_fill(tokens.limb_padding_mask, 0.0).sum(dim=1)
        mean: torch.Tensor = total / tokens.num_limbs
        return mean

    def step(
        self, tokens: TokenBatch, state: torch.Tensor, *, critic: bool = True
    ) -> tuple[MaskedGaussian, torch.Tensor]:
        """Run the networks on one control step of N environments.

        Args:
            tokens: what they show.
            state: (N, L, S), from `initial_state` or the step before.
            critic: also let the critic remember this step; not needed where no values are asked
                for, and only a policy with a memory does any work for it.

        Returns:
            The action distributions, and the state after this step; `remember` adds the action.
        """
        history = self.one_step(state)
        outputs, *actor = self._run(self.actor, 0, tokens, history)
        if history is None:
            return self._distribution(tokens, outputs), state
        unchanged = history.state[..., self._widths[0] :]
        behind = self._run(self.critic, 1, tokens, history)[1] if critic else unchanged
        previous = torch.zeros_like(history.previous_actions[0])
        state = torch.cat((*actor, behind, previous), dim=-1)
        return self._distribution(tokens, outputs), state

    def one_step(self, state: torch.Tensor) -> History | None:
        """Return the history of a single step of N environments in `state` (N, L, S)."""
        starts = torch.zeros(1, state.shape[0], dtype=torch.bool, device=state.device)
        return self.history(state, starts, state[None, ..., -self._widths[2] :])

    def remember(self, state: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the state (N, L, S) that holds the actions (N, L, J) just chosen."""
        if not self.temporal:
            return state
        return torch.cat((state[..., : -self._widths[2]], actions), dim=-1)

    @torch.no_grad()
    def act(
        self, tokens: TokenBatch, state: torch.Tensor, generator: torch.Generator | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose actions, without gradient.

        Args:
            tokens: what N environments show.
            state: (N, L, S), from `initial_state` or the step before.
            generator: source of randomness on the tokens' device; `None` takes the most likely
                action.

        Returns:
            Actions (N, L, J), not limited to the actuators' range, zero where there is no
            actuator; and the state for the next step.
        """
        distribution, state = self.step(tokens, state, critic=False)
        actions = distribution.mode if generator is None else distribution.sample(generator)
        return actions, self.remember(state, actions)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a loss, (), to those of the parameters.

        Raises:
            PluginError: the networks' outputs do not depend on parameters, or a network has changed
                in place what its gradient needs.
        """
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise _failed(self.method, self.config, "network's gradient", error) from error

    def num_parameters(self) -> int:
        """Return the trainable parameters of actor and critic."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def _distribution(self, tokens: TokenBatch, mean: torch.Tensor) -> MaskedGaussian:
        return MaskedGaussian(mean, self.action_std, tokens.action_padding_mask)

    def _run(
        self, network: nn.Module, part: int, tokens: TokenBatch, history: History | None
    ) -> tuple[torch.Tensor, ...]:
        """Return a network's outputs (B, L, O), and its new state if it has a memory."""
        arguments: tuple[TokenBatch] | tuple[TokenBatch, History] = (tokens,)
        if history is not None:
            own = torch.split(history.state, list(self._widths[:2]), dim=-1)[part]
            arguments = (tokens, replace(history, state=own))
        mixed, kind = self.precision == "bfloat16", tokens.dynamic.device.type
        try:
            with _autocast(kind, enabled=mixed):
                found = network(*arguments)
        except (Exception, SystemExit) as error:
            raise _failed(self.method, self.config, "network", error) from error
        # With every call: what was put out for the example says nothing about other batches.
        num_outputs = 1 if part else self.spec.actions_per_token
        outputs = _checked(self.method, found, num_outputs, *arguments)
        if mixed:
            return tuple(value.float() for value in outputs)
        _require_dtype(self.method, outputs, tokens)
        return outputs


def _autocast(kind: str, *, enabled: bool) -> AbstractContextManager[Any]:
    """Return the context in which networks on a kind of device run, whatever the caller's is."""
    # Without it where it changes nothing, because it takes ten times as long as the question.
    if enabled or (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return torch.autocast(kind, torch.bfloat16, enabled=enabled)
    return nullcontext()


def build_network(
    method: MethodSpec, config: Any, spec: TokenSpec, num_outputs: int, num_bodies: int = 1
) -> nn.Module:
    """Build one network of a method and check its output on a small batch.

    Args:
        method: the controller.
        config: its settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.
        num_bodies: bodies to be trained on, for methods with separate weights per body.

    Returns:
        The network, in training mode.

    Raises:
        PluginError: see `ActorCritic`.
    """
    tokens = _example_for(method, spec, num_bodies)
    try:
        network = method.build(config, spec, num_outputs, num_bodies)
    except (Exception, SystemExit) as error:  # foreign code must not decide how a command ends
        raise _failed(method, config, "builder", error) from error
    if not isinstance(network, nn.Module):
        what = type(network).__name__
        raise _misfit(method, f"builder returned a {what}, not a torch.nn.Module")
    network.eval()  # dropout must not draw numbers here
    output = _call(method, config, network, tokens, num_outputs)
    network.train()
    _require_tensors(method, network)
    if not output[~tokens.limb_padding_mask].isfinite().all():
        reason = "network returned numbers that are not finite"
        raise _broken(method, reason, _unlike_presets(method, config))
    return network


def shared_tensors(first: nn.Module, second: nn.Module) -> list[str]:
    """Return the names in `second` of parameters and buffers whose memory `first` has, too."""
    taken = {_memory(value) for _, value in _tensors(first)}
    return [name for name, value in _tensors(second) if value.numel() and _memory(value) in taken]


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


@torch.no_grad()
def _call(
    method: MethodSpec,
    config: Any,
    network: nn.Module,
    tokens: TokenBatch,
    num_outputs: int,
    part: str = "network",
) -> torch.Tensor:
    """Return a network's outputs (B, L, num_outputs) at the start of an episode."""
    arguments: tuple[TokenBatch] | tuple[TokenBatch, History] = (tokens,)
    if method.capabilities.temporal:
        arguments = (tokens, _beginning(method, network, tokens))
    try:
        with _autocast(tokens.dynamic.device.type, enabled=False):
            found = network(*arguments)
    except (Exception, SystemExit) as error:
        raise _failed(method, config, part, error) from error
    outputs = _checked(method, found, num_outputs, *arguments)
    _require_dtype(method, outputs, tokens)
    return outputs[0]


def _beginning(method: MethodSpec, network: nn.Module, tokens: TokenBatch) -> History:
    count, spec = len(tokens), tokens.spec
    _number(method, network, "sequence_length")  # which training will ask for
    return History(
        torch.zeros(count, spec.max_limbs, _number(method, network, "state_width")),
        torch.zeros(1, count, spec.max_limbs, spec.actions_per_token),
        torch.zeros(1, count, dtype=torch.bool),
    )


def _checked(
    method: MethodSpec,
    found: Any,
    num_outputs: int,
    tokens: TokenBatch,
    history: History | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return outputs (B, L, num_outputs), and the new state (N, L, S) if there is a history.

    Raises:
        PluginError: what a network returned is something else.
    """
    expected = [(*tokens.dynamic.shape[:2], num_outputs)]
    if history is not None:
        # A lone tensor could be unpacked, too: into the outputs of two environments.
        if not (isinstance(found, (tuple, list)) and len(found) == 2):
            what = type(found).__name__
            raise _misfit(method, f"network returned a {what}, not the pair (outputs, state)")
        expected.append(tuple(history.state.shape))
    values: tuple[Any, ...] = (found,) if history is None else tuple(found)
    for value, shape, what in zip(values, expected, ("", " as its state"), strict=False):
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise _misfit(method, f"network returned a {kind}{what}, not a tensor")
        if value.shape != shape:
            given = tuple(value.shape)
            raise _misfit(method, f"network returned shape {given}{what}, expected {shape}")
    return values


def _require_dtype(method: MethodSpec, outputs: Sequence[torch.Tensor], tokens: TokenBatch) -> None:
    for value, what in zip(outputs, ("", " as its state"), strict=False):
        if value.dtype != tokens.dynamic.dtype:
            expected = tokens.dynamic.dtype
            raise _misfit(method, f"network returned {value.dtype}{what}, expected {expected}")


def _require_tensors(method: MethodSpec, network: nn.Module) -> None:
    """Raise unless all parameters can be trained and all tensors be kept in a file.

    Raises:
        PluginError: a parameter is no real number, or its elements do not lie in order in memory,
            where the fused optimiser and the states of it in checkpoints pair them with others; or
            what `state_dict` returns is no tensor, or of a type that files of arrays do not have.
    """
    trained = {
        name: value
        for name, value in network.named_parameters()
        if value.requires_grad and not is_lazy(value)
    }
    for name, value in trained.items():
        if not value.is_floating_point():
            reason = f"parameter {name!r} is of {value.dtype}, which is not trained here"
            raise _broken(method, reason, "make it of torch.float32")
        if not value.is_contiguous():
            reason = f"parameter {name!r} is a view whose elements do not lie in order in memory"
            raise _broken(method, reason, "copy it with .contiguous() before it is a parameter")
    for name, value in network.state_dict().items():
        if getattr(value, "dtype", None) not in _KEPT_TYPES:
            found = getattr(value, "dtype", type(value).__name__)
            reason = f"tensor {name!r} is of {found}, which no checkpoint can hold"
            raise _broken(method, reason, "make it of torch.float32, or do not register it")


def _number(method: MethodSpec, network: nn.Module, name: str) -> int:
    """Return an attribute that the network of a temporal method must have."""
    value: Any = getattr(network, name, None)
    if not isinstance(value, int) or value < 1:
        reason = f"network's {name!r} must be an integer of at least 1, got {value!r}"
        raise _misfit(method, reason)
    return value


def _failed(method: MethodSpec, config: Any, part: str, error: BaseException) -> GmcBenchError:
    # One line: torch appends the frames of its own stack.
    lines = [line for line in str(error).splitlines() if line.strip()]
    why = ": ".join([type(error).__name__, *(line[:_LONGEST] for line in lines[:1])])
    memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    if memory or "DefaultCPUAllocator" in why:
        return too_large(method, why)
    reason, place = f"{part} failed with {why}", raised_at(error)
    return _broken(method, reason, _unlike_presets(method, config), place)


def too_large(method: MethodSpec, why: str) -> ConfigError:
    """Return the error that says that memory cannot hold a method's networks."""
    return ConfigError(
        f"the networks of {method.id!r} need more memory than this machine gives ({why}); "
        f"choose smaller settings of the method, such as --model.width"
    )


def _draws_random_numbers(
    method: MethodSpec, config: Any, network: nn.Module, tokens: TokenBatch, num_outputs: int
) -> bool:
    """Return whether a network draws from torch's generator, which is left as it was."""
    state = torch.get_rng_state()
    try:
        _call(method, config, network, tokens, num_outputs, "network in training mode")
        return not torch.equal(state, torch.get_rng_state())
    finally:
        torch.set_rng_state(state)


def _misfit(method: MethodSpec, reason: str) -> PluginError:
    """Return the error about what is of another type or shape than a method's contract says."""
    return _broken(method, reason, _RIGHT_MEMORY if method.capabilities.temporal else _RIGHT_MODULE)


def _broken(method: MethodSpec, reason: str, hint: str = "", place: str = "") -> PluginError:
    sentence = f"the method {method.id!r} cannot be used: its {reason}"
    return PluginError("; ".join(filter(None, (sentence, hint))) + place)


def _unlike_presets(method: MethodSpec, config: Any) -> str:
    """Return how settings differ from those of the most similar preset; empty if they do not."""
    own = {name: value for name, value, _ in leaves(config)}
    others: dict[str, list[str]] = {}
    for preset in method.presets:
        with suppress(ConfigError):  # another preset, which nobody has asked for, cannot be made
            there = {name: value for name, value, _ in leaves(method.make_config(preset))}
            others[preset] = [name for name in own if own[name] != there.get(name)]
    if not others or not all(others.values()):
        return ""
    preset = min(others, key=lambda name: len(others[name]))
    options = " ".join(
        f"--model.{name.replace('_', '-')} {shown(own[name])}" for name in others[preset]
    )
    return f"try it without {options}, which the preset {preset!r} does not have"


def _example_for(method: MethodSpec, spec: TokenSpec, num_bodies: int) -> TokenBatch:
    return _example(spec, min(num_bodies, 2) if method.capabilities.per_body else 2)


def _example(spec: TokenSpec, count: int) -> TokenBatch:
    """Return up to two chains, the longest and a short body of the layout, with zero features."""
    length, width = spec.max_limbs, spec.joints_per_limb
    num_limbs = torch.tensor([length, min(2, length)][:count])
    slot = torch.arange(length)
    padding = slot >= num_limbs.unsqueeze(1)
    context = torch.zeros(count, length, spec.num_context)
    table = TokenTable(
        spec=spec,
        context=context,
        scaled_context=context,
        limb_padding_mask=padding,
        action_padding_mask=(padding | (slot == 0)).unsqueeze(-1).expand(-1, -1, width),
        parents=torch.where(padding, -2, slot - 1),
        num_limbs=num_limbs,
    )
    dynamic = torch.zeros(count, length, spec.num_dynamic)
    heights = torch.zeros(count, spec.num_heights) if spec.num_heights else None
    return TokenBatch(table, torch.arange(count), dynamic, heights)
