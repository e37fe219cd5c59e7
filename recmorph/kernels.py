"""Compiled forward and backward pass of RecMorph's block, a few bodies at a time.

A minibatch's activations do not fit into a core's cache, so that pass after pass over all of its
rows waits for memory. Here everything up to the block's output is computed for `BODIES` bodies
before the next ones are looked at, element-wise steps are joined into few loops, and products have
at most `TILE` rows, for which the BLAS has kernels that need no repacking.

Rows of a group of bodies lie side by side, limb by limb, those of the longest body first, in all
arrays but the block's input and output, which are laid out by `Packing`.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numba.extending import overload

from gmc_bench.core.types import Array
from gmc_bench.nn.kernels import compiled, exp

BODIES = 64
"""Bodies of a group."""
TILE = 64
"""Rows of a product."""


class Weights(NamedTuple):
    """Weights of a block with width W and hidden width H, norms multiplied into the matrices."""

    inward: Array
    """(2H, W), of the input and, after them, of the gate."""
    drive: Array
    """(2H, H), of what the recurrence takes in: its forward direction, then its backward one."""
    bias: Array
    """(2H,), likewise."""
    ahead: Array
    """(H, H), of the forward recurrence."""
    behind: Array
    """(H, H), of the backward recurrence."""
    outward: Array
    """(W, 2H)."""
    scale: Array
    """(W,), of the output's norm."""


class Turned(NamedTuple):
    """Weights as the forward pass multiplies rows by them: transposed, and cut by direction."""

    inward: Array
    """(W, 2H)."""
    drive_ahead: Array
    """(H, H)."""
    drive_behind: Array
    """(H, H)."""
    bias: Array
    """(2H,)."""
    ahead: Array
    """(H, H)."""
    behind: Array
    """(H, H)."""
    outward: Array
    """(2H, W)."""
    scale: Array
    """(W,)."""


def turned(weights: Weights) -> Turned:
    """Return copies that lie as products read them."""
    drive_ahead, drive_behind = np.split(weights.drive, 2)
    return Turned(
        np.ascontiguousarray(weights.inward.T),
        np.ascontiguousarray(drive_ahead.T),
        np.ascontiguousarray(drive_behind.T),
        weights.bias,
        np.ascontiguousarray(weights.ahead.T),
        np.ascontiguousarray(weights.behind.T),
        np.ascontiguousarray(weights.outward.T),
        weights.scale,
    )


class Kept(NamedTuple):
    """What the backward pass needs of the forward pass, a row per limb, group by group."""

    rows: Array
    """(P, W), the block's input."""
    drive: Array
    """(P, H), the recurrence's input before its nonlinearity."""
    gate: Array
    """(P, H), the gate before its nonlinearity."""
    ahead: Array
    """(P, H), forward states."""
    behind: Array
    """(P, H), backward states."""
    mixed: Array
    """(P, W), the block's output before its norm."""
    inverse: Array
    """(P, 3), one over the root mean square of input, gated states and output."""


def _sigmoid(x):
    raise NotImplementedError("only compiled code calls this")


@overload(_sigmoid)
def _compiled_sigmoid(x):
    """Return 1 / (1 + exp(-x))."""
    if x != numba.float32:
        return lambda x: 1.0 / (1.0 + math.exp(-x))
    return lambda x: np.float32(1.0) / (np.float32(1.0) + exp(-x))


@compiled
def _silu(x):
    return x * _sigmoid(x)


@compiled
def _silu_slope(x):
    s = _sigmoid(x)
    silu = x * s
    return s + silu - silu * s


@compiled
def _gather(rows, starts, sizes, first, base, offsets, group):
    """Copy the rows of a group of bodies to `group` from `base` on, limb by limb.

    Writes where each limb's rows begin, and where the last ones end, to `offsets`.

    Returns:
        Limbs of the longest of these bodies.
    """
    steps = 0
    offsets[0] = base
    while steps < len(sizes) and sizes[steps] > first:
        count = min(sizes[steps], first + BODIES) - first
        source, here = starts[steps] + first, offsets[steps]
        for row in range(count):
            for k in range(rows.shape[1]):
                group[here + row, k] = rows[source + row, k]
        steps += 1
        offsets[steps] = here + count
    return steps


@compiled
def _enter(begin, end, kept, weights, eps):
    """Compute what the recurrence takes in, where its states will stand, and the gate."""
    rows, width = kept.rows, kept.rows.shape[1]
    hidden = kept.drive.shape[1]
    both = np.empty((TILE, 2 * hidden), rows.dtype)
    drive = np.empty((TILE, hidden), rows.dtype)
    for low in range(begin, end, TILE):
        high = min(low + TILE, end)
        np.dot(rows[low:high], weights.inward, both[: high - low])
        for row in range(low, high):
            squares = rows.dtype.type(0)
            for k in range(width):
                squares += rows[row, k] * rows[row, k]
            inverse = rows.dtype.type(1) / np.sqrt(squares / rows.dtype.type(width) + eps)
            kept.inverse[row, 0] = inverse
            for k in range(hidden):
                value = both[row - low, k] * inverse
                kept.drive[row, k] = value
                drive[row - low, k] = _silu(value)
            for k in range(hidden):
                kept.gate[row, k] = both[row - low, hidden + k]
        np.dot(drive[: high - low], weights.drive_ahead, kept.ahead[low:high])
        np.dot(drive[: high - low], weights.drive_behind, kept.behind[low:high])


@compiled
def _settle(states, added, count, bias):
    """Add the neighbours' part to the first `count` rows and the bias to all; take the tanh."""
    one = states.dtype.type(1)
    for row in range(count):
        for k in range(states.shape[1]):
            value = states[row, k] + added[row, k] + bias[k]
            s = _sigmoid(value + value)
            states[row, k] = s - one + s
    for row in range(count, len(states)):
        for k in range(states.shape[1]):
            value = states[row, k] + bias[k]
            s = _sigmoid(value + value)
            states[row, k] = s - one + s


@compiled
def _recur(offsets, steps, kept, weights):
    """Turn what the recurrence takes in into its states, in both directions."""
    ahead, behind = kept.ahead, kept.behind
    hidden = ahead.shape[1]
    added = np.empty((BODIES, hidden), ahead.dtype)
    for t in range(steps):
        low, high = offsets[t], offsets[t + 1]
        count = high - low if t else 0
        if count:
            before = offsets[t - 1]
            np.dot(ahead[before : before + count], weights.ahead, added[:count])
        _settle(ahead[low:high], added, count, weights.bias[:hidden])
    for t in range(steps - 1, -1, -1):
        low, high = offsets[t], offsets[t + 1]
        count = offsets[t + 2] - high if t < steps - 1 else 0
        if count:
            np.dot(behind[high : high + count], weights.behind, added[:count])
        _settle(behind[low:high], added, count, weights.bias[hidden:])


@compiled
def _modulate(low, high, kept, context):
    """Write the gated states of some rows, which are the first ones of `context` (TILE, 2H)."""
    hidden = kept.drive.shape[1]
    for row in range(low, high):
        for k in range(hidden):
            gate = _silu(kept.gate[row, k])
            context[row - low, k] = kept.ahead[row, k] * gate
            context[row - low, hidden + k] = kept.behind[row, k] * gate


@compiled
def _leave(begin, end, kept, weights, eps):
    """Map the gated states back and add the input."""
    rows, mixed, width = kept.rows, kept.mixed, kept.rows.shape[1]
    double = 2 * kept.drive.shape[1]
    zero, one = rows.dtype.type(0), rows.dtype.type(1)
    context = np.empty((TILE, double), rows.dtype)
    update = np.empty((TILE, width), rows.dtype)
    for low in range(begin, end, TILE):
        high = min(low + TILE, end)
        _modulate(low, high, kept, context)
        np.dot(context[: high - low], weights.outward, update[: high - low])
        for row in range(low, high):
            squares = zero
            for k in range(double):
                squares += context[row - low, k] * context[row - low, k]
            inverse = one / np.sqrt(squares / rows.dtype.type(double) + eps)
            squares = zero
            for k in range(width):
                value = rows[row, k] + update[row - low, k] * inverse
                mixed[row, k] = value
                squares += value * value
            kept.inverse[row, 1] = inverse
            kept.inverse[row, 2] = one / np.sqrt(squares / rows.dtype.type(width) + eps)


@compiled
def forward(rows, starts, sizes, weights, eps, kept, out):
    """Run the block.

    Where `kept` has fewer rows than there are, each group of bodies overwrites the one before.

    Args:
        rows: (P, W), laid out by a `Packing`.
        starts: (longest body,) int64, the first row of every limb.
        sizes: (longest body,) int64, rows of every limb.
        weights: `Turned`.
        eps: of the norms.
        kept: `Kept`, written; of P rows, or of as many as a group of bodies can have.
        out: (P, W), written; laid out as the rows.
    """
    offsets = np.empty(len(sizes) + 1, np.int64)
    keeps, base = len(kept.rows) >= len(rows), 0
    for first in range(0, sizes[0], BODIES):
        steps = _gather(rows, starts, sizes, first, base, offsets, kept.rows)
        end = offsets[steps]
        _enter(base, end, kept, weights, eps)
        _recur(offsets, steps, kept, weights)
        _leave(base, end, kept, weights, eps)
        for t in range(steps):
            target = starts[t] + first - offsets[t]
            for row in range(offsets[t], offsets[t + 1]):
                inverse = kept.inverse[row, 2]
                for k in range(out.shape[1]):
                    out[target + row, k] = kept.mixed[row, k] * inverse * weights.scale[k]
        base = end if keeps else 0


class _Deltas(NamedTuple):
    """Gradients with respect to the rows of a group of bodies, its first row being row 0."""

    mixed: Array
    """(R, W), first of the block's output, then of what goes into its norm."""
    ahead: Array
    """(R, H), of the forward states."""
    behind: Array
    """(R, H), of the backward states."""
    inward: Array
    """(R, 2H), of the products of the input with `Weights.inward`; the gate's is written first."""


@compiled
def _add_product(left, right, product, total):
    """Add left^T right to `total`; `product` is overwritten."""
    np.dot(left.T, right, product)
    for i in range(total.shape[0]):
        for k in range(total.shape[1]):
            total[i, k] += product[i, k]


@compiled
def _leave_back(begin, end, kept, weights, deltas, sums):
    """Go back from the block's output to the states and the gate."""
    width, hidden = kept.rows.shape[1], kept.drive.shape[1]
    number = kept.rows.dtype.type
    context = np.empty((TILE, 2 * hidden), kept.rows.dtype)
    d_context, scaled = np.empty_like(context), np.empty((TILE, width), kept.rows.dtype)
    product = np.empty_like(sums.outward)
    for low in range(begin, end, TILE):
        high = min(low + TILE, end)
        _modulate(low, high, kept, context)
        for row in range(low, high):
            inverse, delta, mixed = kept.inverse[row, 2], deltas.mixed[row - begin], kept.mixed[row]
            along = number(0)
            for k in range(width):
                value = delta[k] * mixed[k]
                along += value * weights.scale[k]
                sums.scale[k] += value * inverse
            along *= inverse * inverse * inverse / number(width)
            for k in range(width):
                value = delta[k] * weights.scale[k] * inverse - mixed[k] * along
                delta[k] = value
                scaled[row - low, k] = value * kept.inverse[row, 1]
        np.dot(scaled[: high - low], weights.outward, d_context[: high - low])
        _add_product(scaled[: high - low], context[: high - low], product, sums.outward)
        for row in range(low, high):
            inverse, source, delta = kept.inverse[row, 1], context[row - low], d_context[row - low]
            along = number(0)
            for k in range(2 * hidden):
                along += source[k] * delta[k]
            along *= inverse * inverse / number(2 * hidden)
            for k in range(hidden):
                gate = kept.gate[row, k]
                s = _sigmoid(gate)
                silu = gate * s
                ahead = delta[k] - source[k] * along
                behind = delta[hidden + k] - source[hidden + k] * along
                deltas.ahead[row - begin, k] = ahead * silu
                deltas.behind[row - begin, k] = behind * silu
                through = ahead * kept.ahead[row, k] + behind * kept.behind[row, k]
                deltas.inward[row - begin, hidden + k] = through * (s + silu - silu * s)


@compiled
def _unsettle(deltas, added, count, states):
    """Add the neighbours' part to the first `count` rows; go back through the tanh of all."""
    one = states.dtype.type(1)
    for row in range(count):
        for k in range(deltas.shape[1]):
            value = deltas[row, k] + added[row, k]
            deltas[row, k] = value * (one - states[row, k] * states[row, k])
    for row in range(count, len(deltas)):
        for k in range(deltas.shape[1]):
            deltas[row, k] *= one - states[row, k] * states[row, k]


@compiled
def _recur_back(offsets, steps, kept, weights, deltas, sums):
    """Go back through the recurrence, against both of its directions."""
    begin, hidden = offsets[0], kept.drive.shape[1]
    added = np.empty((BODIES, hidden), kept.rows.dtype)
    product = np.empty((hidden, hidden), kept.rows.dtype)
    for t in range(steps - 1, -1, -1):
        low, high = offsets[t], offsets[t + 1]
        count = offsets[t + 2] - high if t < steps - 1 else 0
        if count:
            following = deltas.ahead[high - begin : high - begin + count]
            np.dot(following, weights.ahead, added[:count])
            _add_product(following, kept.ahead[low : low + count], product, sums.ahead)
        _unsettle(deltas.ahead[low - begin : high - begin], added, count, kept.ahead[low:high])
    for t in range(steps):
        low, high = offsets[t], offsets[t + 1]
        count = high - low if t else 0
        if count:
            before = offsets[t - 1] - begin
            previous = deltas.behind[before : before + count]
            np.dot(previous, weights.behind, added[:count])
            _add_product(previous, kept.behind[low:high], product, sums.behind)
        _unsettle(deltas.behind[low - begin : high - begin], added, count, kept.behind[low:high])


@compiled
def _enter_back(begin, end, kept, weights, deltas, sums):
    """Go back from what the recurrence takes in to the block's input."""
    width, hidden = kept.rows.shape[1], kept.drive.shape[1]
    number = kept.rows.dtype.type
    drive = np.empty((TILE, hidden), kept.rows.dtype)
    d_drive = np.empty_like(drive)
    d_both = np.empty((TILE, 2 * hidden), kept.rows.dtype)
    d_rows = np.empty((TILE, width), kept.rows.dtype)
    product, other = np.empty_like(sums.drive), np.empty_like(sums.inward)
    for low in range(begin, end, TILE):
        high = min(low + TILE, end)
        count = high - low
        for row in range(low, high):
            for k in range(hidden):
                ahead, behind = deltas.ahead[row - begin, k], deltas.behind[row - begin, k]
                d_both[row - low, k] = ahead
                d_both[row - low, hidden + k] = behind
                sums.bias[k] += ahead
                sums.bias[hidden + k] += behind
                drive[row - low, k] = _silu(kept.drive[row, k])
        np.dot(d_both[:count], weights.drive, d_drive[:count])
        _add_product(d_both[:count], drive[:count], product, sums.drive)
        for row in range(low, high):
            inverse, along = kept.inverse[row, 0], number(0)
            for k in range(hidden):
                value = d_drive[row - low, k] * _silu_slope(kept.drive[row, k])
                along += value * kept.drive[row, k]
                deltas.inward[row - begin, k] = value * inverse
            d_drive[row - low, 0] = along * inverse * inverse / number(width)
        d_inward = deltas.inward[low - begin : high - begin]
        np.dot(d_inward, weights.inward, d_rows[:count])
        _add_product(d_inward, kept.rows[low:high], other, sums.inward)
        for row in range(low, high):
            along = d_drive[row - low, 0]
            for k in range(width):
                change = d_rows[row - low, k] - kept.rows[row, k] * along
                deltas.mixed[row - begin, k] += change


@compiled
def backward(grad, starts, sizes, weights, kept, d_rows, sums):
    """Run the backward pass of the block.

    Args:
        grad: (P, W), gradient of the output, laid out as it.
        starts: see `forward`.
        sizes: see `forward`.
        weights: `Weights`.
        kept: `Kept`, from the forward pass.
        d_rows: (P, W), gradient of the input, written.
        sums: `Weights` that hold gradients, to which those of this batch are added.
    """
    width, hidden = kept.rows.shape[1], kept.drive.shape[1]
    most = min(BODIES, sizes[0]) * len(sizes)
    deltas = _Deltas(
        np.empty((most, width), grad.dtype),
        np.empty((most, hidden), grad.dtype),
        np.empty((most, hidden), grad.dtype),
        np.empty((most, 2 * hidden), grad.dtype),
    )
    offsets = np.empty(len(sizes) + 1, np.int64)
    base = 0
    for first in range(0, sizes[0], BODIES):
        steps = _gather(grad, starts, sizes, first, 0, offsets, deltas.mixed)
        offsets += base
        end = offsets[steps]
        _leave_back(base, end, kept, weights, deltas, sums)
        _recur_back(offsets, steps, kept, weights, deltas, sums)
        _enter_back(base, end, kept, weights, deltas, sums)
        for t in range(steps):
            target, source = starts[t] + first, offsets[t] - base
            for row in range(offsets[t + 1] - offsets[t]):
                for k in range(width):
                    d_rows[target + row, k] = deltas.mixed[source + row, k]
        base = end
