"""Compiled forward and backward passes of attention among the limbs of a body.

Such attention has matrices of a few rows, too small for a product of matrices to be fast. Bodies of
similar length stand side by side among packed rows (see `Packing`): `LANES` of them at a time are
copied so that equal limbs and channels of all lie in a row, which the innermost loops go through.
"""

import math

import numba
import numpy as np
from numba.extending import overload

from gmc_bench.core.jit import njit

LANES = 64
"""Bodies whose attention is computed together, at most."""
NO_WEIGHT = -87.0
"""Logits so far below the largest have no weight: in single precision, exp has no digits there."""

compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


def exp(x):
    """Return e^x; only compiled code calls this."""
    raise NotImplementedError("only compiled code calls this")


@overload(exp)
def _compiled_exp(x):
    """In single precision, e^x is 2^n times a polynomial on [-1/2, 1/2].

    It has no branch and no call, so that loops over it work on whole vectors. Its relative error
    is below (1 + |x|) 2^-23, because n plus the rest is rounded to single precision. Results beyond
    2^-126 and 2^126 are these.
    """
    if x != numba.float32:
        return lambda x: math.exp(x)

    def single(x):
        power = np.float32(1.4426950408889634) * x
        power = np.float32(126.0) if power > np.float32(126.0) else power
        power = np.float32(-126.0) if power < np.float32(-126.0) else power
        whole = np.floor(power + np.float32(0.5))
        part = power - whole
        value = np.float32(1.5252734e-05)
        value = value * part + np.float32(1.5403530e-04)
        value = value * part + np.float32(1.3333558e-03)
        value = value * part + np.float32(9.6181291e-03)
        value = value * part + np.float32(5.5504109e-02)
        value = value * part + np.float32(2.4022651e-01)
        value = value * part + np.float32(6.9314718e-01)
        value = value * part + np.float32(1.0)
        exponent = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
        return value * exponent.view(np.float32)

    return single


@compiled
def _group(sizes, first):
    """Return the limbs T of the longest of some bodies, which is their first, and how many G are.

    They are `LANES`, or all that are left, from the one of rank `first` on.
    """
    steps = 0
    while steps < len(sizes) and sizes[steps] > first:
        steps += 1
    return steps, min(LANES, sizes[0] - first)


@compiled
def _gather(rows, starts, sizes, first, begin, lanes):
    """Copy channels of a group of bodies to lanes (T, D, G); zero where there is no limb.

    The bodies are those from the one of rank `first` on, the channels D those from `begin` on.
    """
    channels, bodies = lanes.shape[1], lanes.shape[2]
    for t in range(lanes.shape[0]):
        source, count = starts[t] + first, min(sizes[t] - first, bodies)
        for lane in range(count):
            row = rows[source + lane]
            for d in range(channels):
                lanes[t, d, lane] = row[begin + d]
        for d in range(channels):
            for lane in range(count, bodies):
                lanes[t, d, lane] = 0


@compiled
def _scatter(lanes, starts, sizes, first, begin, rows):
    """Copy lanes back to channels of rows, see `_gather`."""
    channels, bodies = lanes.shape[1], lanes.shape[2]
    for t in range(lanes.shape[0]):
        target, count = starts[t] + first, min(sizes[t] - first, bodies)
        for lane in range(count):
            row = rows[target + lane]
            for d in range(channels):
                row[begin + d] = lanes[t, d, lane]


@compiled
def _gather_pairs(pairs, order, first, head, lanes):
    """Copy numbers of pairs of limbs to lanes (T, T, G), of one head and a group of bodies.

    Args:
        pairs: (B or 1, H or 1, L, L), query and key.
        order: (bodies,) int64, the body in the batch of every rank.
        first: rank of the group's first body.
        head: which one.
        lanes: written.
    """
    head = head if pairs.shape[1] > 1 else 0
    for lane in range(lanes.shape[2]):
        matrix = pairs[order[first + lane] if pairs.shape[0] > 1 else 0, head]
        for i in range(lanes.shape[0]):
            for j in range(lanes.shape[1]):
                lanes[i, j, lane] = matrix[i, j]


@compiled
def _scatter_pairs(lanes, order, sizes, first, head, pairs):
    """Add lanes of pairs of limbs that exist to where `_gather_pairs` takes them from."""
    head = head if pairs.shape[1] > 1 else 0
    for lane in range(lanes.shape[2]):
        matrix = pairs[order[first + lane] if pairs.shape[0] > 1 else 0, head]
        count = 0
        while count < len(lanes) and sizes[count] > first + lane:
            count += 1
        for i in range(count):
            for j in range(count):
                matrix[i, j] += lanes[i, j, lane]


@compiled
def _softmax(query, key, sizes, first, weights):
    """Turn what is added to logits into weights; both (T, T, G), query and key."""
    steps, channels, bodies = query.shape
    zero, low = query.dtype.type(0), query.dtype.type(NO_WEIGHT)
    largest, total = np.empty(bodies, query.dtype), np.empty(bodies, query.dtype)
    for i in range(steps):
        largest[:] = -np.inf
        for j in range(steps):
            for d in range(channels):
                for lane in range(bodies):
                    weights[i, j, lane] += query[i, d, lane] * key[j, d, lane]
            for lane in range(sizes[j] - first, bodies):  # bodies without this limb
                weights[i, j, lane] = -np.inf
            for lane in range(bodies):
                value = weights[i, j, lane]
                largest[lane] = largest[lane] if value < largest[lane] else value
        total[:] = zero
        for j in range(steps):
            for lane in range(bodies):
                value = weights[i, j, lane] - largest[lane]
                value = zero if value < low else exp(value)
                weights[i, j, lane] = value
                total[lane] += value
        for j in range(steps):
            for lane in range(bodies):
                weights[i, j, lane] /= total[lane]


@compiled
def _mix(weights, value, mixed):
    """Write the sums of values (T, D, G) by weights (T, T, G), query and key, to (T, D, G)."""
    mixed[:] = 0
    for i in range(mixed.shape[0]):
        for j in range(mixed.shape[0]):
            for d in range(mixed.shape[1]):
                for lane in range(mixed.shape[2]):
                    mixed[i, d, lane] += weights[i, j, lane] * value[j, d, lane]


@compiled
def _mix_back(grad, weights, value, d_weights, d_value):
    """Write the gradients of weights and values of `_mix`."""
    d_weights[:] = 0
    d_value[:] = 0
    for i in range(grad.shape[0]):
        for j in range(grad.shape[0]):
            for d in range(grad.shape[1]):
                for lane in range(grad.shape[2]):
                    d_weights[i, j, lane] += grad[i, d, lane] * value[j, d, lane]
                for lane in range(grad.shape[2]):
                    d_value[j, d, lane] += grad[i, d, lane] * weights[i, j, lane]


@compiled
def _softmax_back(weights, query, key, delta, d_query, d_key):
    """Turn the gradient `delta` of weights into that of logits; write those of query and key."""
    along = np.empty(query.shape[2], query.dtype)
    d_query[:] = 0
    d_key[:] = 0
    for i in range(len(query)):
        along[:] = 0
        for j in range(len(query)):
            for lane in range(len(along)):
                along[lane] += weights[i, j, lane] * delta[i, j, lane]
        for j in range(len(query)):
            for lane in range(len(along)):
                delta[i, j, lane] = weights[i, j, lane] * (delta[i, j, lane] - along[lane])
            for d in range(query.shape[1]):
                for lane in range(len(along)):
                    d_query[i, d, lane] += delta[i, j, lane] * key[j, d, lane]
                for lane in range(len(along)):
                    d_key[j, d, lane] += delta[i, j, lane] * query[i, d, lane]


@compiled
def _scale(rows, channels):
    """Return what queries are multiplied by, 1 / sqrt(D), in the precision of the rows."""
    return rows.dtype.type(1 / math.sqrt(channels))


@compiled
def _gather_inputs(rows, starts, sizes, first, begin, query, key, value):
    """Copy what a head reads of rows (P, 3 W), its channels from `begin` on; see `_gather`.

    Queries are multiplied by their scale.
    """
    width = rows.shape[1] // 3
    _gather(rows, starts, sizes, first, begin, query)
    _gather(rows, starts, sizes, first, width + begin, key)
    _gather(rows, starts, sizes, first, 2 * width + begin, value)
    query *= _scale(rows, query.shape[1])


@compiled
def attend(rows, starts, sizes, order, mask, heads, kept, out):
    """Compute softmax(Q K^T / sqrt(D) + mask) V among the limbs of every body.

    Args:
        rows: (P, 3 W), queries, keys and values, laid out by a `Packing`.
        starts: (longest body,) int64, the first row of every limb.
        sizes: (longest body,) int64, rows of every limb.
        order: (bodies,) int64, the body in the batch of every rank.
        mask: (B or 1, H or 1, L, L), added to logits.
        heads: H; D = W / H.
        kept: the weights, (T, T, G) of every group and head one after the other; written, for the
            backward pass.
        out: (P, W), written.
    """
    width = out.shape[1]
    channels, at = width // heads, 0
    for first in range(0, sizes[0], LANES):
        steps, bodies = _group(sizes, first)
        query = np.empty((steps, channels, bodies), rows.dtype)
        key, value, mixed = np.empty_like(query), np.empty_like(query), np.empty_like(query)
        for head in range(heads):
            begin, size = head * channels, steps * steps * bodies
            weights = kept[at : at + size].reshape(steps, steps, bodies)
            at += size
            _gather_inputs(rows, starts, sizes, first, begin, query, key, value)
            _gather_pairs(mask, order, first, head, weights)
            _softmax(query, key, sizes, first, weights)
            _mix(weights, value, mixed)
            _scatter(mixed, starts, sizes, first, begin, out)


@compiled
def attend_back(grad, rows, starts, sizes, order, heads, kept, d_rows, d_mask):
    """Run the backward pass of `attend`.

    Args:
        grad: (P, W), gradient of the output.
        rows: see `attend`, as the next ones.
        starts: likewise.
        sizes: likewise.
        order: likewise.
        heads: likewise.
        kept: from the forward pass.
        d_rows: (P, 3 W), gradient of the rows, written.
        d_mask: gradient of the mask, added to; or empty if nobody asks for it.
    """
    width = grad.shape[1]
    channels, at = width // heads, 0
    for first in range(0, sizes[0], LANES):
        steps, bodies = _group(sizes, first)
        query = np.empty((steps, channels, bodies), rows.dtype)
        key, value, delta = np.empty_like(query), np.empty_like(query), np.empty_like(query)
        d_query, d_key, d_value = np.empty_like(key), np.empty_like(key), np.empty_like(key)
        d_weights = np.empty((steps, steps, bodies), rows.dtype)
        for head in range(heads):
            begin, size = head * channels, steps * steps * bodies
            weights = kept[at : at + size].reshape(steps, steps, bodies)
            at += size
            _gather_inputs(rows, starts, sizes, first, begin, query, key, value)
            _gather(grad, starts, sizes, first, begin, delta)
            _mix_back(delta, weights, value, d_weights, d_value)
            _softmax_back(weights, query, key, d_weights, d_query, d_key)
            d_query *= _scale(rows, channels)
            _scatter(d_query, starts, sizes, first, begin, d_rows)
            _scatter(d_key, starts, sizes, first, width + begin, d_rows)
            _scatter(d_value, starts, sizes, first, 2 * width + begin, d_rows)
            if d_mask.size:
                _scatter_pairs(d_weights, order, sizes, first, head, d_mask)
