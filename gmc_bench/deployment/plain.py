"""Networks in plain operations for one body: the same numbers, without packed batches.

Training's networks have gradients written by hand and recurrences over packed batches, which
exchange formats lack. Here is their arithmetic on the limbs of a single body, row k being limb k.
"""

import copy

import torch
from torch import nn

from gmc_bench.nn.norm import NormLinear, RMSNorm
from gmc_bench.nn.packing import Packing
from gmc_bench.nn.recurrence import BidirectionalGRU, BidirectionalLSTM, BidirectionalRNN


class PlainRMSNorm(RMSNorm):
    """See `RMSNorm`."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Normalise every row."""
        return rows * _inverse_rms(rows, self.eps) * self.weight


class PlainNormLinear(NormLinear):
    """See `NormLinear`."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Normalise and map every row."""
        mapped = nn.functional.linear(rows, self.weight * self.scale)
        return mapped * _inverse_rms(rows, self.eps)


class PlainRNN(BidirectionalRNN):
    """See `BidirectionalRNN`; a loop over the limbs of one body."""

    def _recur(self, drive: torch.Tensor, packing: Packing) -> torch.Tensor:
        ahead, behind = (_rows(part) for part in drive.chunk(2, dim=1))
        up = _tanh_loop(ahead, self.weight_hh_l0)
        down = _tanh_loop(behind[::-1], self.weight_hh_l0_reverse)
        return torch.cat((torch.cat(up), torch.cat(down[::-1])), dim=1)


class PlainGRU(BidirectionalGRU):
    """See `BidirectionalGRU`; a loop over the limbs of one body."""

    def _recur(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        up = _gru_loop(self.cell, rows, "")
        down = _gru_loop(self.cell, rows, "_reverse")
        return torch.cat((torch.cat(up), torch.cat(down)), dim=1)


class PlainLSTM(BidirectionalLSTM):
    """See `BidirectionalLSTM`; a loop over the limbs of one body."""

    def _recur(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        up = _lstm_loop(self.cell, rows, "")
        down = _lstm_loop(self.cell, rows, "_reverse")
        return torch.cat((torch.cat(up), torch.cat(down)), dim=1)


_PLAIN: dict[type[nn.Module], type[nn.Module]] = {
    RMSNorm: PlainRMSNorm,
    NormLinear: PlainNormLinear,
    BidirectionalRNN: PlainRNN,
    BidirectionalGRU: PlainGRU,
    BidirectionalLSTM: PlainLSTM,
}


def plain_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network, with fixed weights of its own, for batches of one body only."""
    found = copy.deepcopy(network).eval().requires_grad_(False)
    for module in found.modules():
        kind = _PLAIN.get(type(module))
        if kind is not None:
            module.__class__ = kind
    return found


def _rows(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the rows of (P, C) as tensors (1, C)."""
    return values.unsqueeze(1).unbind()


def _inverse_rms(rows: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.rsqrt(rows.square().mean(dim=1, keepdim=True) + eps)


def _tanh_loop(drive: tuple[torch.Tensor, ...], weight: torch.Tensor) -> list[torch.Tensor]:
    """Return the states (1, H) after each row of the inputs' part of the states."""
    states: list[torch.Tensor] = []
    for row in drive:
        before = nn.functional.linear(states[-1], weight) if states else 0.0
        states.append(torch.tanh(row + before))
    return states


def _gates(
    cell: nn.Module, rows: torch.Tensor, end: str
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor]:
    """Return the inputs' part of every limb's gates, and recurrent weight and bias."""
    weight, bias = getattr(cell, f"weight_ih_l0{end}"), getattr(cell, f"bias_ih_l0{end}")
    drive = _rows(nn.functional.linear(rows, weight, bias))
    recurrent = getattr(cell, f"weight_hh_l0{end}"), getattr(cell, f"bias_hh_l0{end}")
    return (drive[::-1] if end else drive), *recurrent


def _gru_loop(cell: nn.Module, rows: torch.Tensor, end: str) -> list[torch.Tensor]:
    drive, weight, bias = _gates(cell, rows, end)
    hidden = rows.new_zeros(1, weight.shape[1])
    states = []
    for row in drive:
        reset, update, new = row.chunk(3, dim=1)
        reset_h, update_h, new_h = nn.functional.linear(hidden, weight, bias).chunk(3, dim=1)
        update = torch.sigmoid(update + update_h)
        new = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
        hidden = new + update * (hidden - new)
        states.append(hidden)
    return states[::-1] if end else states


def _lstm_loop(cell: nn.Module, rows: torch.Tensor, end: str) -> list[torch.Tensor]:
    drive, weight, bias = _gates(cell, rows, end)
    hidden = rows.new_zeros(1, weight.shape[1])
    inner = torch.zeros_like(hidden)
    states = []
    for row in drive:
        gates = row + nn.functional.linear(hidden, weight, bias)
        inlet, forget, new, outlet = gates.chunk(4, dim=1)
        inner = torch.sigmoid(forget) * inner + torch.sigmoid(inlet) * torch.tanh(new)
        hidden = torch.sigmoid(outlet) * torch.tanh(inner)
        states.append(hidden)
    return states[::-1] if end else states
