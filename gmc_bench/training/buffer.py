"""Preallocated storage of one rollout: T steps of N environments."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.history import History
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.training.group import Share


@dataclass(frozen=True)
class Minibatch:
    """Some transitions of a rollout, as tianshou's algorithms name them.

    They are C consecutive steps of K environments, step by step: B = C * K. Without a memory C is
    1 and `history` `None`.

    Shapes: `obs` B tokens; `act` (B, L, J); `logp_old`, `adv`, `returns`, `v_s` (B,).
    """

    obs: TokenBatch
    history: History | None
    act: torch.Tensor
    logp_old: torch.Tensor
    adv: torch.Tensor
    returns: torch.Tensor
    v_s: torch.Tensor
    part: float = 1.0
    """Share of these transitions in the whole minibatch, of which other processes may have the
    rest: the weight of a mean over them."""


class Truncation(NamedTuple):
    """The end of an episode at the time limit, whose last observation still has a value."""

    t: int
    """Step of the rollout."""
    n: int
    """Environment."""
    dynamic: torch.Tensor
    """(L, Fd), the last observation."""
    height_map: torch.Tensor
    """(G,), its height map."""
    state: torch.Tensor
    """(L, S), the policy's recurrent state."""


class RolloutBuffer:
    """One rollout, written in place and learned from once.

    Features fixed by the bodies are not stored: a transition holds the index of its body. Of
    the policy's recurrent states, the one before every C-th step is stored, C being the number of
    consecutive steps that training unrolls: those between are computed again.

    Where several processes share a run, each has the rollout of its own environments, and of
    every minibatch the part that lies in it.

    Args:
        table: the bodies' fixed part, on the training device.
        length: T, steps per environment; a multiple of C.
        num_envs: N; or this process's share of the environments of a run, which N of them are.
        model: the policy whose rollout it is.
        device: where the tensors live.

    Shapes:
        `dynamic` (T, N, L, Fd), `height_map` (T, N, G), G being 0 where the layout has no height
        map, `actions` (T, N, L, J), `log_prob`, `reward`, `value`,
        `next_value`, `advantage`, `returns` (T, N) float32; `morphology_index` (T, N) int64;
        `terminated`, `truncated`, `diverged` (T, N) bool; `state` (T / C, N, L, S) float32.

    Raises:
        ConfigError: `length` is not a multiple of C.
    """

    def __init__(
        self,
        table: TokenTable,
        length: int,
        num_envs: int | Share,
        model: ActorCritic,
        device: torch.device | str = "cpu",
    ) -> None:
        spec = table.spec
        self.table = table
        self.length = length
        share = num_envs if isinstance(num_envs, Share) else Share(0, num_envs, num_envs)
        self.share = share
        self.num_envs = share.num_rows
        self.sequence_length = model.sequence_length
        self._history = model.history
        if length % self.sequence_length:
            raise ConfigError(
                f"'rollout_length' must be a multiple of the method's sequence length "
                f"{self.sequence_length}, got {length}"
            )

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(length, share.num_rows, *shape, dtype=dtype, device=device)

        self.dynamic = zeros(spec.max_limbs, spec.num_dynamic)
        self.height_map = zeros(spec.num_heights)
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
        sequences = length // self.sequence_length
        self.state = torch.zeros(
            sequences, share.num_rows, spec.max_limbs, model.state_width, device=device
        )
        self.last_dynamic = torch.zeros_like(self.dynamic[0])
        """(N, L, Fd), the observation after the last step."""
        self.last_height_map = torch.zeros_like(self.height_map[0])
        self.last_morphology_index = torch.zeros_like(self.morphology_index[0])
        self.last_state = torch.zeros_like(self.state[0])
        """(N, L, S), the policy's recurrent state after the last step."""
        self.truncations: list[Truncation] = []
        """Episodes that the time limit ended."""

    def __len__(self) -> int:
        return self.length * self.num_envs

    def tokens(
        self, morphology_index: torch.Tensor, dynamic: torch.Tensor, height_map: torch.Tensor
    ) -> TokenBatch:
        """Return what networks see of B observations.

        Args:
            morphology_index: (B,) int64.
            dynamic: (B, L, Fd).
            height_map: (B, G).
        """
        heights = height_map if height_map.shape[-1] else None
        return TokenBatch(self.table, morphology_index, dynamic, heights)

    def keep(self, t: int, tokens: TokenBatch) -> None:
        """Write what the N environments show before step t."""
        self.dynamic[t], self.morphology_index[t] = tokens.dynamic, tokens.morphology_index
        if tokens.height_map is not None:
            self.height_map[t] = tokens.height_map

    def keep_last(self, tokens: TokenBatch, state: torch.Tensor) -> None:
        """Write what the N environments show after the last step, and the recurrent state."""
        self.last_dynamic.copy_(tokens.dynamic)
        self.last_morphology_index.copy_(tokens.morphology_index)
        if tokens.height_map is not None:
            self.last_height_map.copy_(tokens.height_map)
        self.last_state.copy_(state)

    def sample(self, batch_size: int | None) -> tuple["RolloutBuffer", torch.Tensor]:
        """Return the whole rollout (tianshou asks so for on-policy updates)."""
        assert not batch_size
        return self, torch.arange(len(self))

    def blocks(self, at_most: int) -> Iterator[tuple[TokenBatch, History | None]]:
        """Yield the whole rollout in order, without copying it.

        Args:
            at_most: transitions per block; policies with a memory get whole sequences of all
                environments instead.

        Yields:
            The tokens of consecutive transitions (time-major), and their history; `None`
            without a memory.
        """
        if self.state.shape[-1]:
            at_most = self.sequence_length * self.num_envs
        for start in range(0, len(self), at_most):
            rows = slice(start, min(start + at_most, len(self)))
            tokens = self.tokens(
                self.morphology_index.flatten()[rows],
                self.dynamic.flatten(0, 1)[rows],
                self.height_map.flatten(0, 1)[rows],
            )
            history = None
            if self.state.shape[-1]:
                steps = slice(start // self.num_envs, rows.stop // self.num_envs)
                history = self._history(
                    self.state[steps.start // self.sequence_length],
                    self._starts[steps],
                    self.actions[steps],
                )
            yield tokens, history

    @property
    def _starts(self) -> torch.Tensor:
        """(T, N) bool, a new episode begins with this step.

        The first row says no: where an episode begins there, the stored state is zero already.
        """
        done = self.terminated | self.truncated
        return torch.cat((torch.zeros_like(done[:1]), done[:-1]))

    def minibatches(self, batch_size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield shuffled minibatches; the last, incomplete one is dropped.

        Policies with a memory get whole sequences of consecutive steps, in random order. Batches
        are drawn from the rollouts of all processes, and each process yields the part of each that
        lies in its own; where there is none, a transition with weight zero stands in.

        Args:
            batch_size: transitions per minibatch, rounded down to whole sequences; a smaller
                rollout is one minibatch.
            generator: source of the order.
        """
        steps, envs, share = self.sequence_length, self.num_envs, self.share
        total = self.length // steps * share.total
        size = min(max(batch_size // steps, 1), total)
        device = self.dynamic.device
        order = torch.randperm(total, generator=generator).to(device)
        offsets = torch.arange(steps, device=device).unsqueeze(1) * envs  # (C, 1)
        for start in range(0, total - size + 1, size):
            # Sequence k: steps from k // N * C on, environment k % N, N of all processes.
            chosen = order[start : start + size]
            block, env = chosen // share.total, chosen % share.total - share.first
            if envs < share.total:
                here = (env >= 0) & (env < envs)
                block, env = block[here], env[here]
            part = len(env) / size
            if not len(env):
                block = env = order.new_zeros(1)
            first = block * (steps * envs) + env
            found = self.minibatch((first + offsets).flatten(), block * envs + env)
            yield found if part == 1.0 else replace(found, part=part)

    def minibatch(self, rows: torch.Tensor, sequences: torch.Tensor | None = None) -> Minibatch:
        """Return some transitions.

        Args:
            rows: (B,) int64, counted step by step; whole sequences for policies with a memory.
            sequences: (K,) int64, the sequences that `rows` make up: number `b * N + n` begins at
                step b * C of environment n.
        """

        def take(values: torch.Tensor) -> torch.Tensor:
            return values.flatten(0, 1)[rows]

        actions, history = take(self.actions), None
        if self.state.shape[-1] and sequences is not None:
            shape = (self.sequence_length, len(sequences))
            history = self._history(
                self.state.flatten(0, 1)[sequences],
                take(self._starts).view(shape),
                actions.view(*shape, *actions.shape[1:]),
            )
        return Minibatch(
            obs=self.tokens(take(self.morphology_index), take(self.dynamic), take(self.height_map)),
            history=history,
            act=actions,
            logp_old=take(self.log_prob),
            adv=take(self.advantage),
            returns=take(self.returns),
            v_s=take(self.value),
        )
