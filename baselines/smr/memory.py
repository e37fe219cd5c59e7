"""A recurrent unit over time for every limb, with one set of weights."""

from typing import Literal

import torch
from torch import nn

from gmc_bench.nn import History, TokenBatch


class LimbMemory(nn.Module):
    """GRU or LSTM that runs over the control steps of each limb, and starts anew with episodes.

    Parameters carry the names, shapes and initialisation of `torch.nn.GRUCell` or `LSTMCell`; the
    input is a limb's representation with its previous actions appended.

    GRU:  r = sigmoid(W_r x + U_r h),  z = sigmoid(W_z x + U_z h)
          n = tanh(W_n x + r * U_n h),  h' = (1 - z) * n + z * h
    LSTM: i, f, o = sigmoid(W x + U h), each with matrices of its own,  g = tanh(W_g x + U_g h)
          c' = f * c + i * g,  h' = o * tanh(c')

    with a bias in every product, as in torch.

    Args:
        inputs: channels of a limb's representation.
        actions: J, previous actions per limb.
        hidden: channels of the memory.
        cell: which unit.

    Shapes:
        rows (P, inputs) of T steps of N environments -> (P, hidden), and the state
        (N, L, state_width) after the last step, zero in slots that were padding at every step.

    Source:
        Cho et al. 2014, arXiv:1406.1078; Hochreiter and Schmidhuber 1997; equations as documented
        for `torch.nn.GRUCell` and `torch.nn.LSTMCell`.
    """

    def __init__(
        self, inputs: int, actions: int, hidden: int, cell: Literal["gru", "lstm"]
    ) -> None:
        super().__init__()
        kind = nn.GRUCell if cell == "gru" else nn.LSTMCell
        self.cell: nn.GRUCell | nn.LSTMCell = kind(inputs + actions, hidden)
        self.state_width = hidden if cell == "gru" else 2 * hidden

    def forward(
        self, rows: torch.Tensor, tokens: TokenBatch, history: History
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run over T steps.

        Args:
            rows: (P, inputs), laid out by `tokens.packing`.
            tokens: those of T * N observations, step by step.
            history: what is remembered before the first step, previous actions and starts.

        Returns:
            The hidden states (P, hidden), and the state (N, L, state_width) after the last step.
        """
        packing = tokens.packing
        steps, envs = history.starts.shape
        slots = tokens.spec.max_limbs
        actions = packing.pack(history.previous_actions.flatten(0, 1))  # (P, J)
        # All steps' input products at once; only the recurrent ones must wait for each other.
        drive = nn.functional.linear(
            torch.cat((rows, actions.to(rows.dtype)), dim=1),
            self.cell.weight_ih,
            self.cell.bias_ih,
        )
        drive = packing.unpack(drive).view(steps, envs * slots, -1).to(history.state.dtype)
        # K of the N * L slots are ever a limb; the others are left out of the recurrence.
        used = tokens.once(_used_slots, steps)  # (K,)
        drive = drive[:, used]  # (T, K, gates * hidden)
        starts = history.starts[:, used // slots].unsqueeze(-1)  # (T, K, 1)
        state = history.state.flatten(0, 1)[used]  # (K, state_width)
        seen = []
        for step in range(steps):
            state = self._advance(drive[step], state.masked_fill(starts[step], 0.0))
            seen.append(state)
        width = self.cell.hidden_size
        hidden = torch.stack(seen)[..., :width]  # (T, K, hidden)
        padded = hidden.new_zeros(steps, envs * slots, width).index_copy(1, used, hidden)
        after = state.new_zeros(envs * slots, self.state_width).index_copy(0, used, state)
        return (
            packing.pack(padded.view(steps * envs, slots, width)),
            after.view(envs, slots, self.state_width),
        )

    def _advance(self, drive: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the state after one step, in the precision of the state before.

        Args:
            drive: (K, 3 or 4 * hidden), the input's part of the gates, in torch's order.
            state: (K, state_width), h, and after it c of an LSTM.
        """
        width = self.cell.hidden_size
        hidden = state[:, :width]
        recurrent = nn.functional.linear(hidden, self.cell.weight_hh, self.cell.bias_hh)
        recurrent = recurrent.to(state.dtype)
        if isinstance(self.cell, nn.GRUCell):
            reset, update = (drive + recurrent)[:, : 2 * width].sigmoid().chunk(2, dim=1)
            new = (drive[:, 2 * width :] + reset * recurrent[:, 2 * width :]).tanh()
            return new + update * (hidden - new)
        gates = drive + recurrent
        inlet, forget, new, outlet = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * state[:, width:] + inlet.sigmoid() * new.tanh()
        return torch.cat((outlet.sigmoid() * cell.tanh(), cell), dim=1)


def _used_slots(tokens: TokenBatch, steps: int) -> torch.Tensor:
    """Return which of the N * L slots of N environments are a limb at any of T steps, (K,) int64.

    An environment may change its body among these steps.
    """
    real = ~tokens.limb_padding_mask.view(steps, -1)  # (T, N * L)
    return real.any(dim=0).nonzero().squeeze(1)
