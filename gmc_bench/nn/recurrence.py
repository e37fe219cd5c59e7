"""Bidirectional recurrences over the limbs of packed bodies: tanh, GRU and LSTM."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from gmc_bench.nn.packing import Packing, uncompiled
from gmc_bench.nn.row_blocks import missing


class BidirectionalRNN(nn.Module):
    """Tanh recurrence along each body in both directions, with zero boundary states.

    forward:  f_j = tanh(W_hh f_{j-1} + b_hh + W_ih u_j + b_ih)
    backward: r_j = tanh(W'_hh r_{j+1} + b'_hh + W'_ih u_j + b'_ih), from the body's last limb

    Parameters carry the names, shapes and initialisation U(+-1/sqrt(hidden)) of
    `torch.nn.RNN(inputs, hidden, bidirectional=True)`, whose state dict can be loaded.

    Args:
        inputs: width of the rows.
        hidden: width of each direction's state.

    Shapes:
        rows (P, inputs) -> (P, 2 * hidden), the forward state before the backward state.

    Source:
        Elman 1990; equations as documented for `torch.nn.RNN`.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

        self.weight_ih_l0 = uniform(hidden, inputs)
        self.weight_hh_l0 = uniform(hidden, hidden)
        self.bias_ih_l0 = uniform(hidden)
        self.bias_hh_l0 = uniform(hidden)
        self.weight_ih_l0_reverse = uniform(hidden, inputs)
        self.weight_hh_l0_reverse = uniform(hidden, hidden)
        self.bias_ih_l0_reverse = uniform(hidden)
        self.bias_hh_l0_reverse = uniform(hidden)

    def forward(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Run both directions over every body.

        Args:
            rows: (P, inputs), laid out by `packing`.
            packing: the layout.

        Returns:
            (P, 2 * hidden), forward states before backward states.
        """
        packed = rows.device.type == "cpu" and not packing.padded
        recur = self._recur if packed else self._recur_side_by_side
        return uncompiled(recur, nn.functional.linear(rows, *self.inputs()), packing)

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weight (2 * hidden, inputs) and bias (2 * hidden,) of the states' input."""
        weight = torch.cat((self.weight_ih_l0, self.weight_ih_l0_reverse))
        bias = torch.cat(
            (self.bias_ih_l0 + self.bias_hh_l0, self.bias_ih_l0_reverse + self.bias_hh_l0_reverse)
        )
        return weight, bias

    def _recur(self, drive: torch.Tensor, packing: Packing) -> torch.Tensor:
        states: torch.Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
            drive, self.weight_hh_l0, self.weight_hh_l0_reverse, packing.steps
        )
        return states

    def _recur_side_by_side(self, drive: torch.Tensor, packing: Packing) -> torch.Tensor:
        states: torch.Tensor = _SideBySide.apply(  # type: ignore[no-untyped-call]
            drive, self.weight_hh_l0, self.weight_hh_l0_reverse, *packing.side_by_side
        )
        return states


class _GatedRecurrence(nn.Module):
    """One of torch's own bidirectional cells; packed rows are its layout, so nothing is copied."""

    def __init__(self, cell: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Run both directions over every body (see `BidirectionalRNN.forward`)."""
        return uncompiled(self._recur, rows, packing)

    def _recur(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        if not packing.steps:  # torch's cells refuse an empty batch
            return rows.new_zeros(0, 2 * self.cell.hidden_size)
        states: torch.Tensor = self.cell(PackedSequence(rows, packing.batch_sizes))[0].data
        return states


class BidirectionalGRU(_GatedRecurrence):
    """Gated recurrent unit along each body in both directions, with zero boundary states.

    r = sigmoid(W_r u_j + b_r + U_r h_{j-1} + c_r)
    z = sigmoid(W_z u_j + b_z + U_z h_{j-1} + c_z)
    n = tanh(W_n u_j + b_n + r (U_n h_{j-1} + c_n))
    h_j = (1 - z) n + z h_{j-1}; the backward direction likewise from the body's last limb

    Args:
        inputs: width of the rows.
        hidden: width of each direction's state.

    Shapes:
        rows (P, inputs) -> (P, 2 * hidden), the forward state before the backward state.

    Source:
        Cho et al. 2014, arXiv:1406.1078, as in `torch.nn.GRU`, which applies the reset gate after
        the recurrent matrix.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(nn.GRU(inputs, hidden, bidirectional=True))


class BidirectionalLSTM(_GatedRecurrence):
    """Long short-term memory along each body in both directions, with zero boundary states.

    i, f, o = sigmoid(W u_j + b + U h_{j-1} + c), each with its own W, b, U, c
    g = tanh(W_g u_j + b_g + U_g h_{j-1} + c_g)
    s_j = f s_{j-1} + i g,  h_j = o tanh(s_j); the backward direction likewise from the last limb

    Args:
        inputs: width of the rows.
        hidden: width of each direction's state.

    Shapes:
        rows (P, inputs) -> (P, 2 * hidden), the forward state before the backward state.

    Source:
        Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000, as in
        `torch.nn.LSTM`.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(nn.LSTM(inputs, hidden, bidirectional=True))


class _Recurrence(torch.autograd.Function):
    """Both directions over the drive, with a hand-written gradient.

    Everything happens in slices of one tensor per pass; automatic differentiation of the same
    loop keeps and concatenates a copy of every step. States have the drive's type, which is
    narrower than the weights' under autocast; sums over steps have the weights' type.
    """

    @staticmethod
    def forward(
        ctx: Any,
        drive: torch.Tensor,
        weight: torch.Tensor,
        weight_reverse: torch.Tensor,
        steps: tuple[slice, ...],
    ) -> torch.Tensor:
        """Turn the drive (P, 2H), W_ih u + b_ih + b_hh per direction, into the states, in place."""
        ctx.mark_dirty(drive)
        links = _links(steps)
        ahead, behind = drive.chunk(2, dim=1)
        up, down = weight.to(drive.dtype).t(), weight_reverse.to(drive.dtype).t()
        _sweep_up(ahead, up, steps, links, lambda rows: _tanh_(ahead[rows]))
        _sweep_down(behind, down, steps, links, lambda rows: _tanh_(behind[rows]))
        ctx.save_for_backward(drive, weight, weight_reverse)
        ctx.steps = steps
        return drive

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the drive and of both recurrent weights.

        A gradient runs against its direction: delta_t = (grad_t + delta_{t+1} W) (1 - h_t^2) for
        the forward states. The weight's gradient is the sum of delta_{t+1}^T h_t.
        """
        states, weight, weight_reverse = ctx.saved_tensors
        steps, links = ctx.steps, _links(ctx.steps)
        delta = grad.clone(memory_format=torch.contiguous_format)
        ahead, behind = states.chunk(2, dim=1)
        d_ahead, d_behind = delta.chunk(2, dim=1)
        up, down = weight_reverse.to(states.dtype), weight.to(states.dtype)
        _sweep_down(d_ahead, down, steps, links, _through_tanh(d_ahead, ahead))
        _sweep_up(d_behind, up, steps, links, _through_tanh(d_behind, behind))
        uppers, lowers = [upper for _, upper in links], [lower for lower, _ in links]
        d_weight = _sum_of_products(weight, d_ahead, uppers, ahead, lowers)
        d_reverse = _sum_of_products(weight_reverse, d_behind, lowers, behind, uppers)
        return delta, d_weight, d_reverse, None


class _SideBySide(torch.autograd.Function):
    """Both directions at once, each from its first limb: one product per limb for the two.

    A GPU spends more time on starting a product than on the padding that this computes along.
    What follows a body's last limb is padding, so nothing of it reaches a limb.
    """

    @staticmethod
    def forward(
        ctx: Any,
        drive: torch.Tensor,
        weight: torch.Tensor,
        weight_reverse: torch.Tensor,
        places: torch.Tensor,
        shape: tuple[int, int, int],
    ) -> torch.Tensor:
        """Return the states (P, 2H) of the drive (P, 2H); see `Packing.side_by_side`."""
        states = _spread(drive, places, shape)
        across = torch.stack((weight, weight_reverse)).to(drive.dtype).transpose(1, 2)
        for limb in range(shape[1]):
            part = states[:, limb]
            if limb:
                part.baddbmm_(states[:, limb - 1], across)
            part.tanh_()
        ctx.save_for_backward(states, weight, weight_reverse, places)
        return _collected(states, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of drive and weights; see `_Recurrence.backward`."""
        states, weight, weight_reverse, places = ctx.saved_tensors
        delta = _spread(grad, places, states.shape[:3])
        back = torch.stack((weight, weight_reverse)).to(states.dtype)
        last = states.shape[1] - 1
        for limb in range(last, -1, -1):
            part = delta[:, limb]
            if limb < last:
                part.baddbmm_(delta[:, limb + 1], back)
            torch.ops.aten.tanh_backward(part, states[:, limb], grad_input=part)
        # A product each: as a batch of two they are not split over the long inner dimension.
        sums = (
            torch.mm(later[1:].flatten(0, 1).t(), earlier[:-1].flatten(0, 1)).to(weight.dtype)
            for later, earlier in zip(delta, states, strict=True)
        )
        return _collected(delta, places), *sums, None, None


def _spread(rows: torch.Tensor, places: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return (2, L, B, H) from rows (P, 2H), zero where there is no limb."""
    width = rows.shape[1] // 2
    found = rows.new_zeros(math.prod(shape), width)
    return found.index_copy_(0, places, rows.reshape(-1, width)).view(*shape, width)


def _collected(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return rows (P, 2H) from (2, L, B, H)."""
    width = values.shape[3]
    return values.view(-1, width).index_select(0, places).view(-1, 2 * width)


_Finish = Callable[[slice], object]
"""What completes the rows of one limb, in place, once the neighbour's part has been added."""


def _links(steps: tuple[slice, ...]) -> list[tuple[slice, slice]]:
    """Pair the rows of limb t that have a successor with the rows of limb t + 1, for every t."""
    return [
        (slice(low.start, low.start + high.stop - high.start), high)
        for low, high in itertools.pairwise(steps)
    ]


def _sweep_up(
    values: torch.Tensor,
    weight: torch.Tensor,
    steps: tuple[slice, ...],
    links: list[tuple[slice, slice]],
    finish: _Finish,
) -> None:
    """From the first limb to the last: add the previous limb's rows times `weight`, finish."""
    for step in steps[:1]:
        finish(step)
    for lower, upper in links:
        values[upper].addmm_(values[lower], weight)
        finish(upper)


def _sweep_down(
    values: torch.Tensor,
    weight: torch.Tensor,
    steps: tuple[slice, ...],
    links: list[tuple[slice, slice]],
    finish: _Finish,
) -> None:
    """From the last limb to the first; rows without a successor are only finished."""
    for step in steps[-1:]:
        finish(step)
    for step, (lower, upper) in zip(reversed(steps[:-1]), reversed(links), strict=True):
        values[lower].addmm_(values[upper], weight)
        finish(step)


def _sum_of_products(
    weight: torch.Tensor,
    left: torch.Tensor,
    left_rows: list[slice],
    right: torch.Tensor,
    right_rows: list[slice],
) -> torch.Tensor:
    """Return the sum over t of left[left_rows[t]]^T right[right_rows[t]], in the weight's type."""
    if not left_rows:
        return torch.zeros_like(weight)
    one, other = _joined(left, left_rows), _joined(right, right_rows)
    if one.dtype == torch.bfloat16 and one.device.type == "cpu":
        # Whole blocks of rows (see `row_blocks`); the sweeps' products need no blocks, because
        # all steps and layers share their few hundred shapes.
        empty = one.new_zeros(missing(one.shape[0]), one.shape[1])
        one, other = torch.cat((one, empty)), torch.cat((other, empty))
    return torch.mm(one.t(), other).to(weight.dtype)


def _joined(values: torch.Tensor, rows: list[slice]) -> torch.Tensor:
    """Return some rows of a tensor, without copying them where they follow each other."""
    if all(low.stop == high.start for low, high in itertools.pairwise(rows)):
        return values[rows[0].start : rows[-1].stop]
    return torch.cat([values[some] for some in rows])


def _tanh_(values: torch.Tensor) -> None:
    """Apply tanh in place.

    On a CPU torch calls a function of MKL for it that takes six times as long as this form,
    which is as exact next to 1 as float32 is, but not next to 0 in relative terms.
    """
    if values.dtype == torch.float32 and values.device.type == "cpu":
        values.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)
    else:
        values.tanh_()


def _through_tanh(delta: torch.Tensor, states: torch.Tensor) -> _Finish:
    """Multiply a gradient by tanh's derivative 1 - h^2, in place."""

    def finish(rows: slice) -> None:
        part = delta[rows]
        torch.ops.aten.tanh_backward(part, states[rows], grad_input=part)

    return finish
