"""Choosing actions for training; on a GPU from a captured CUDA graph."""

import logging
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import torch

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.types import IntArray
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.captured import CapturedCall
from gmc_bench.nn.per_body import PerBody
from gmc_bench.nn.tokens import TokenBatch

_LOG = logging.getLogger(__name__)
_KEPT = 64
"""Captures after which the memory of replaced graphs goes back to the device."""


class Explored(NamedTuple):
    """What was chosen for B rows."""

    actions: torch.Tensor
    """(B, L, J), zero where there is no actuator."""
    log_prob: torch.Tensor
    """(B,), log-density of the actions."""
    state: torch.Tensor
    """(B, L, S), the policy's recurrent state after them."""


def explore(
    model: ActorCritic, tokens: TokenBatch, noise: torch.Tensor, state: torch.Tensor
) -> Explored:
    """Draw actions, and let actor and critic remember the step.

    Args:
        model: the policy.
        tokens: what B rows show.
        noise: (B, L, J) standard normal numbers.
        state: (B, L, S), what the policy remembers.
    """
    distribution, state = model.step(tokens, state, critic=True)
    actions = distribution.perturbed(noise)
    return Explored(actions, distribution.log_prob(actions), model.remember(state, actions))


class Explorer:
    """`explore` for the steps of rollouts; on a GPU from captured graphs.

    On a few rows a GPU is done with a network's operations sooner than a process can launch them
    one by one. Networks that support padded rows (`padded_rows`) are captured once: nothing that
    they launch depends on the bodies. For others the lengths of bodies decide the shapes, so the
    second step in a row that shows the same bodies is captured, and the following ones replay it.

    A network that waits for the device, or copies to it, cannot be captured (what depends on the
    bodies alone may do both: see `TokenBatch.once` and `PerBody`). It runs as usual, like one that
    draws random numbers.

    Args:
        model: the policy; its weights must not change between `forget` and the last step.
    """

    def __init__(self, model: ActorCritic) -> None:
        self._model = model
        self._possible = model.may_be_captured
        self._padded = model.padded_rows
        self._keeps_results = any(isinstance(part, PerBody) for part in model.modules())
        self._bodies: bytes | None = None
        self._tokens: TokenBatch | None = None
        self._call: CapturedCall[Explored] | None = None
        self.captures = 0
        """Graphs captured so far."""
        self.replays = 0
        """Steps that one of them has chosen."""

    def forget(self) -> None:
        """Drop the graphs and results of earlier weights."""
        if self._keeps_results or not self._padded:
            self._bodies, self._tokens, self._call = None, None, None

    def __call__(
        self, tokens: TokenBatch, noise: torch.Tensor, state: torch.Tensor, bodies: IntArray
    ) -> Explored:
        """Return what `explore` returns; the next call may overwrite it.

        Args:
            tokens: what B rows show.
            noise: (B, L, J) standard normal numbers.
            state: (B, L, S), what the policy remembers.
            bodies: (B,) int64, `tokens.morphology_index` where the process can see it.
        """
        if not self._ready(tokens, noise, state, bodies):
            return explore(self._model, tokens, noise, state)
        assert self._call is not None
        self.replays += 1
        return self._call(*_inputs(tokens, noise, state))

    def _ready(
        self, tokens: TokenBatch, noise: torch.Tensor, state: torch.Tensor, bodies: IntArray
    ) -> bool:
        """See to it that there is a graph for these bodies; say whether there is one."""
        if not self._possible:
            return False
        inputs = _inputs(tokens, noise, state)
        if self._padded:
            if self._call is None:
                self._call = self._capture(replace(tokens, padded=True), inputs)
            if self._call is not None:
                return True
            self._padded = False
        if bodies.tobytes() != self._bodies:
            self._bodies, self._tokens, self._call = bodies.tobytes(), tokens, None
            return False
        if self._call is None:
            assert self._tokens is not None
            self._call = self._capture(self._tokens, inputs)
            self._possible = self._call is not None
        return self._call is not None

    def _capture(
        self, tokens: TokenBatch, inputs: tuple[torch.Tensor | None, ...]
    ) -> CapturedCall[Explored] | None:
        def call(
            index: torch.Tensor,
            dynamic: torch.Tensor,
            heights: torch.Tensor | None,
            noise: torch.Tensor,
            state: torch.Tensor,
        ) -> Explored:
            seen = tokens.showing(dynamic, heights)
            if tokens.padded:
                seen = TokenBatch(tokens.table, index, dynamic, heights, padded=True)
            return explore(self._model, seen, noise, state)

        try:
            found = CapturedCall(call, inputs)
        except (RuntimeError, GmcBenchError) as error:  # too little memory, for one
            _LOG.debug("%s cannot be captured: %s", self._model.method.id, error)
            return None
        self.captures += 1
        if self.captures % _KEPT == 0:
            with suppress(RuntimeError):  # torch before 2.13, after a capture that failed
                torch.cuda.empty_cache()
        return found


def _inputs(
    tokens: TokenBatch, noise: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    return tokens.morphology_index, tokens.dynamic, tokens.height_map, noise, state
