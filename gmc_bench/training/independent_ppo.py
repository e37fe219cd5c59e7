"""PPO of many bodies side by side, each as if it were alone."""

from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import torch
from tianshou.algorithm.optim import OptimizerFactory
from torch import nn

from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.body_streams import BodyStreams
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.training.buffer import Minibatch, RolloutBuffer
from gmc_bench.training.ppo import ADVANTAGE_EPSILON, MorphologyPPO

_VALUE_STEPS = 64
"""Control steps per forward pass of the critic over a rollout."""
_NORM_EPSILON = 1e-6
"""As in `torch.nn.utils.clip_grad_norm_`."""


class BodyAdam(torch.optim.Adam):
    """Adam whose moments and step counts are each body's own.

    To torch every body's slice of a parameter is a parameter of its own; slices of bodies that are
    not `active` get no gradient, so that neither they nor their moments move.

    Args:
        params: parameters whose first dimension is over the M bodies.
        lr: learning rate.
        eps: epsilon.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, eps: float) -> None:
        self._banks = list(params)
        self.active = [True] * len(self._banks[0])
        """Which bodies take the next step."""
        # Slices share memory with the whole.
        self._slices = [[nn.Parameter(row) for row in bank.detach()] for bank in self._banks]
        super().__init__([row for rows in self._slices for row in rows], lr=lr, eps=eps, fused=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all bodies."""
        for bank in self._banks:
            bank.grad = None

    def step(self, closure: Any = None) -> Any:
        """Move the weights of the active bodies by the gradients of the whole parameters."""
        for bank, rows in zip(self._banks, self._slices, strict=True):
            gradients = [None] * len(rows) if bank.grad is None else bank.grad
            for row, gradient, active in zip(rows, gradients, self.active, strict=True):
                row.grad = gradient if active else None
        return super().step(closure)


class BodyAdamFactory(OptimizerFactory):  # type: ignore[misc]
    """Makes a `BodyAdam` of all parameters of an algorithm."""

    def __init__(self, lr: float, eps: float) -> None:
        super().__init__()
        self.lr = lr
        self.eps = eps

    def _create_optimizer_for_params(self, params: Any) -> torch.optim.Optimizer:
        return BodyAdam(params, self.lr, self.eps)


def clip_body_norms(parameters: Iterable[nn.Parameter], limit: float) -> None:
    """Scale gradients down where the norm over all slices of a body exceeds a limit.

    Args:
        parameters: with gradients (M, ...).
        limit: the largest norm of each body.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    total = torch.linalg.vector_norm(torch.stack(norms, dim=1), dim=1)  # (M,)
    factor = (limit / (total + _NORM_EPSILON)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))


def body_minibatches(
    buffer: RolloutBuffer, order: torch.Tensor, batch_size: int
) -> Iterator[Minibatch]:
    """Yield minibatches with equally many transitions of each body; incomplete ones are dropped.

    Args:
        buffer: a rollout of M * E environments, those of a body side by side.
        order: (M, T * E) int64, for every body a permutation of its transitions, which are
            counted step by step.
        batch_size: b, transitions of a body.

    Yields:
        M * b transitions, body by body.
    """
    bodies, total = order.shape
    envs = buffer.num_envs // bodies
    first = torch.arange(bodies, device=order.device).unsqueeze(1) * envs
    places = order // envs * buffer.num_envs + first + order % envs  # (M, T * E)
    for start in range(0, total - batch_size + 1, batch_size):
        yield buffer.minibatch(places[:, start : start + batch_size].flatten())


class IndependentPPO(MorphologyPPO):
    """As many PPO runs as there are bodies, with one batched product per layer for all.

    Every loss is a mean over the transitions of a body, and their sum over bodies is
    differentiated: no weight is shared, so each body's slices get the gradient of its own loss.
    Advantages are normalised, gradients clipped and updates stopped body by body. A body that the
    KL estimate has stopped rests until the next iteration while others go on.

    Args:
        model: actor and critic whose parameters have a first dimension over bodies.
        action_space: one environment's action space.
        config: settings; `batch_size` is that of one body.
        num_iterations: length of the learning-rate schedule.
        streams: source of the minibatch orders.
    """

    optimizer_factory = BodyAdamFactory
    _optimizer: BodyAdam

    def __init__(
        self,
        model: ActorCritic,
        action_space: gymnasium.Space[Any],
        config: PPOConfig,
        num_iterations: int,
        streams: BodyStreams,
    ) -> None:
        super().__init__(model, action_space, config, num_iterations, torch.Generator())
        self.streams = streams

    def _values(self, buffer: RolloutBuffer) -> torch.Tensor:
        """Return (T, N); body by body, so that every layer is one product without copies."""
        found = torch.empty_like(buffer.value)
        for start in range(0, buffer.length, _VALUE_STEPS):
            steps = slice(start, start + _VALUE_STEPS)
            index, dynamic, heights = (
                self._by_policy(part[steps]).flatten(0, 1)
                for part in (buffer.morphology_index, buffer.dynamic, buffer.height_map)
            )
            values = self.model.value(buffer.tokens(index, dynamic, heights))
            by_body = values.view(len(self.streams), -1, buffer.num_envs // len(self.streams))
            found[steps] = by_body.transpose(0, 1).flatten(1)  # (M, t, E) -> (t, M * E)
        return found

    def _by_policy(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (t, M * E, ...) as (M, t * E, ...)."""
        bodies = len(self.streams)
        envs = values.shape[1] // bodies
        split = values.view(len(values), bodies, envs, *values.shape[2:])
        return split.transpose(0, 1).flatten(1, 2)

    def _standardize(self, advantage: torch.Tensor) -> torch.Tensor:
        own = self._by_policy(advantage)  # (M, T * E)
        envs = advantage.shape[1] // len(own)
        mean, spread = own.mean(dim=1), own.std(dim=1) + ADVANTAGE_EPSILON
        return (advantage - mean.repeat_interleave(envs)) / spread.repeat_interleave(envs)

    def _mean(self, values: torch.Tensor, minibatch: Minibatch) -> torch.Tensor:
        return values.view(len(self.streams), -1).mean(dim=1)

    def _allowed(self, kl: torch.Tensor) -> torch.Tensor:
        limit = self.config.target_kl
        return torch.ones_like(self.active) if limit is None else ~(kl > limit)

    def _step(self) -> None:
        clip_body_norms(self.model.parameters(), self.config.max_grad_norm)
        self._optimizer.active = self.active.tolist()
        self._optimizer.step()

    def _epochs(
        self, buffer: RolloutBuffer, batch_size: int, repeat: int
    ) -> Iterator[Iterator[Minibatch]]:
        total = len(buffer) // len(self.streams)
        orders = torch.from_numpy(self.streams.orders(repeat, total)).to(buffer.dynamic.device)
        return (body_minibatches(buffer, order, min(batch_size, total)) for order in orders)
