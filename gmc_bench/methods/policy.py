"""The trainable controller: a method's network as actor, and once more as critic."""

from typing import Any

import torch
from torch import nn

from gmc_bench.errors import PluginError
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.spec import TokenSpec


class ActorCritic(nn.Module):
    """Two networks of one method: action means per limb, and values per limb.

    Args:
        method: the controller.
        config: its settings, an instance of `method.config_class()`.
        spec: layout of the tokens.
        action_std: standard deviation of every action; fixed, not trained.

    Raises:
        PluginError: the method's builder fails, or its network does not map a token batch to
            finite numbers of shape (B, L, num_outputs).

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931: separate networks, standard deviation 0.9,
        value of a body = mean of the values of its limbs.
    """

    action_std: torch.Tensor

    def __init__(
        self, method: MethodSpec, config: Any, spec: TokenSpec, action_std: float = 0.9
    ) -> None:
        super().__init__()
        self.spec = spec
        self.actor = build_network(method, config, spec, spec.actions_per_token)
        self.critic = build_network(method, config, spec, 1)
        self.register_buffer("action_std", torch.tensor(action_std))

    def distribution(self, tokens: TokenBatch) -> MaskedGaussian:
        """Return the action distribution of every body."""
        return MaskedGaussian(self.actor(tokens), self.action_std, tokens.action_padding_mask)

    def value(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B,), the mean over real limbs of the critic's output."""
        values = self.critic(tokens).squeeze(-1)
        total = values.masked_fill(tokens.limb_padding_mask, 0.0).sum(dim=1)
        mean: torch.Tensor = total / tokens.num_limbs
        return mean

    @torch.no_grad()
    def act(self, tokens: TokenBatch, generator: torch.Generator | None) -> torch.Tensor:
        """Choose actions, without gradient.

        Args:
            tokens: what B environments show.
            generator: source of randomness on the tokens' device; `None` takes the most likely
                action.

        Returns:
            (B, L, J), not limited to the actuators' range, zero where there is no actuator.
        """
        distribution = self.distribution(tokens)
        return distribution.mode if generator is None else distribution.sample(generator)

    def num_parameters(self) -> int:
        """Return the trainable parameters of actor and critic."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)


def build_network(method: MethodSpec, config: Any, spec: TokenSpec, num_outputs: int) -> nn.Module:
    """Build one network of a method and check its output on a small batch.

    Args:
        method: the controller.
        config: its settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Returns:
        The network, in training mode.

    Raises:
        PluginError: see `ActorCritic`.
    """
    tokens = _example(spec)
    try:
        network = method.build(config, spec, num_outputs)
    except Exception as error:
        raise _broken(method, f"builder failed with {type(error).__name__}: {error}") from error
    if not isinstance(network, nn.Module):
        raise _broken(method, f"builder returned a {type(network).__name__}, not a torch.nn.Module")
    network.eval()  # dropout must not draw numbers here
    try:
        with torch.no_grad():
            output = network(tokens)
    except Exception as error:
        raise _broken(method, f"network failed with {type(error).__name__}: {error}") from error
    network.train()
    expected = (len(tokens), spec.max_limbs, num_outputs)
    if not isinstance(output, torch.Tensor):
        raise _broken(method, f"network returned a {type(output).__name__}, not a tensor")
    if output.shape != expected:
        raise _broken(method, f"network returned shape {tuple(output.shape)}, expected {expected}")
    if not output[~tokens.limb_padding_mask].isfinite().all():
        raise _broken(method, "network returned numbers that are not finite")
    return network


def _broken(method: MethodSpec, reason: str) -> PluginError:
    return PluginError(
        f"the method {method.id!r} cannot be used: its {reason}; its builder must return a module "
        f"that maps a TokenBatch to (B, L, num_outputs)"
    )


def _example(spec: TokenSpec) -> TokenBatch:
    """Return two chains, the shortest and the longest body of the layout, with zero features."""
    length, width = spec.max_limbs, spec.joints_per_limb
    num_limbs = torch.tensor([min(2, length), length])
    slot = torch.arange(length)
    padding = slot >= num_limbs.unsqueeze(1)
    table = TokenTable(
        spec=spec,
        context=torch.zeros(2, length, spec.num_context),
        limb_padding_mask=padding,
        action_padding_mask=(padding | (slot == 0)).unsqueeze(-1).expand(-1, -1, width),
        parents=torch.where(padding, -2, slot - 1),
        num_limbs=num_limbs,
    )
    dynamic = torch.zeros(2, length, spec.num_dynamic)
    return TokenBatch(table, torch.arange(2), dynamic)
