"""Inputs of a controller with a memory, beside the tokens."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class History:
    """The past of N environments, and where episodes start among T consecutive steps of them.

    The tokens of these steps are one batch of B = T * N, step by step. A network with a memory is
    called as `outputs, state = network(tokens, history)` with `outputs` (B, L, num_outputs) and
    `state` (N, L, state_width) after the last step; it has the attributes `state_width` and
    `sequence_length`, the number of consecutive steps its training unrolls. State and previous
    action are zero at the start of an episode.

    Args:
        state: (N, L, S) float32, before the first step; anything in padding.
        previous_actions: (T, N, L, J) float32, what was done before each step; zero where there
            is no actuator.
        starts: (T, N) bool, a new episode begins with this step: what was remembered until then
            counts as zero.
    """

    state: torch.Tensor
    previous_actions: torch.Tensor
    starts: torch.Tensor
