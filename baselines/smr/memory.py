"""A recurrent unit over time for every limb, with one set of weights."""

from typing import Literal

import torch
from torch import nn

from gmc_bench.nn import History, TokenBatch


class LimbMemory(nn.Module):
    """GRU or LSTM that runs over the control steps of each limb, and starts anew with episodes.

    Parameters carry the names, shapes and initialisation of `torch.nn.GRUCell` or `LSTMCell`; the
    input is a limb's representation with its previous actions appended.

    GRU:  r, z = sigmoid(W_r x + U_r h), sigmoid(W_z x + U_z h);
          n = tanh(W_n x + r * U_n h);  h' = (1 - z) n + z h
    LSTM: i, f, o = sigmoid(...), g = tanh(...);  c' = f c + i g;  h' = o tanh(c')

    with two biases in every product, as torch has them.

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
        """Run over T steps."""
        packing = tokens.packing
        steps, envs = history.starts.shape
        slots = tokens.spec.max_limbs
        actions = packing.pack(history.previous_actions.flatten(0, 1))
        # All steps' input products at once; only the recurrent ones must wait for each other.
        drive = nn.functional.linear(
            torch.cat((rows, actions.to(rows.dtype)), dim=1),
            self.cell.weight_ih,
            self.cell.bias_ih,
        )
        drive = packing.unpack(drive).view(steps, envs * slots, -1).to(history.state.dtype)
        used = tokens.once(_used_slots, steps)
        drive = drive[:, used]
        starts = history.starts[:, used // slots].unsqueeze(-1)
        state = history.state.flatten(0, 1)[used]
        seen = []
        for step in range(steps):
            state = self._advance(drive[step], state.masked_fill(starts[step], 0.0))
            seen.append(state)
        width = self.cell.hidden_size
        # Where each (step, environment, slot) stands among the slots used.
        hidden = torch.stack(seen)[..., :width]
        padded = hidden.new_zeros(steps, envs * slots, width).index_copy(1, used, hidden)
        after = state.new_zeros(envs * slots, self.state_width).index_copy(0, used, state)
        return (
            packing.pack(padded.view(steps * envs, slots, width)),
            after.view(envs, slots, self.state_width),
        )

    def _advance(self, drive: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the state after one step, in the precision of the state before."""
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
    """Return which of the N * L slots of N environments are a limb at any of some steps.

    An environment may change its body among these steps.
    """
    real = ~tokens.limb_padding_mask.view(steps, -1)
    return real.any(dim=0).nonzero().squeeze(1)
