"""Preallocated storage of one rollout: T steps of N environments."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gmc_bench.nn.tokens import TokenBatch, TokenTable


@dataclass(frozen=True)
class Minibatch:
    """Some transitions of a rollout, as tianshou's algorithms name them.

    Shapes: `obs` B tokens; `act` (B, L, J); `logp_old`, `adv`, `returns`, `v_s` (B,).
    """

    obs: TokenBatch
    act: torch.Tensor
    logp_old: torch.Tensor
    adv: torch.Tensor
    returns: torch.Tensor
    v_s: torch.Tensor


class RolloutBuffer:
    """One rollout, written in place and learned from once.

    Features fixed by the bodies are not stored: a transition holds the index of its body.

    Args:
        table: the bodies' fixed part, on the training device.
        length: T, steps per environment.
        num_envs: N.
        device: where the tensors live.

    Shapes:
        `dynamic` (T, N, L, Fd), `actions` (T, N, L, J), `log_prob`, `reward`, `value`,
        `next_value`, `advantage`, `returns` (T, N) float32; `morphology_index` (T, N) int64;
        `terminated`, `truncated`, `diverged` (T, N) bool.
    """

    def __init__(
        self, table: TokenTable, length: int, num_envs: int, device: torch.device | str = "cpu"
    ) -> None:
        spec = table.spec
        self.table = table
        self.length = length
        self.num_envs = num_envs

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(length, num_envs, *shape, dtype=dtype, device=device)

        self.dynamic = zeros(spec.max_limbs, spec.num_dynamic)
        self.actions = zeros(spec.max_limbs, spec.joints_per_limb)
        self.morphology_index = zeros(dtype=torch.int64)
        self.log_prob = zeros()
        self.reward = zeros()
        self.value = zeros()
        self.next_value = zeros()
        self.advantage = zeros()
        self.returns = zeros()
        self.terminated = zeros(dtype=torch.bool)
        self.truncated = zeros(dtype=torch.bool)
        self.diverged = zeros(dtype=torch.bool)
        self.last_dynamic = torch.zeros_like(self.dynamic[0])
        """(N, L, Fd), the observation after the last step."""
        self.last_morphology_index = torch.zeros_like(self.morphology_index[0])
        self.cut_off: list[tuple[int, int, torch.Tensor]] = []
        """(t, n, (L, Fd)): the last observation of every episode that a time limit ended."""

    def __len__(self) -> int:
        return self.length * self.num_envs

    def sample(self, batch_size: int | None) -> tuple["RolloutBuffer", torch.Tensor]:
        """Return the whole rollout (tianshou asks so for on-policy updates)."""
        assert not batch_size
        return self, torch.arange(len(self))

    def tokens(self, start: int, stop: int) -> TokenBatch:
        """Return the flattened transitions `start` to `stop` (time-major) as tokens."""
        return TokenBatch(
            self.table,
            self.morphology_index.flatten()[start:stop],
            self.dynamic.flatten(0, 1)[start:stop],
        )

    def minibatches(self, batch_size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield shuffled minibatches; the last, incomplete one is dropped.

        Args:
            batch_size: transitions per minibatch; a smaller rollout is one minibatch.
            generator: source of the order.
        """
        size = min(batch_size, len(self))
        order = torch.randperm(len(self), generator=generator).to(self.dynamic.device)
        flat = {
            name: getattr(self, name).flatten(0, 1)
            for name in (
                "morphology_index", "dynamic", "actions", "log_prob", "advantage", "returns",
                "value",
            )
        }  # fmt: skip
        for start in range(0, len(self) - size + 1, size):
            chosen = order[start : start + size]
            part = {name: values[chosen] for name, values in flat.items()}
            yield Minibatch(
                obs=TokenBatch(self.table, part["morphology_index"], part["dynamic"]),
                act=part["actions"],
                logp_old=part["log_prob"],
                adv=part["advantage"],
                returns=part["returns"],
                v_s=part["value"],
            )
