"""Mamba-2 mixers over the limbs of packed bodies, by state-space duality."""

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from gmc_bench.nn.norm import NormLinear
from gmc_bench.nn.packing import CHUNK_LIMBS, Packing, uncompiled

MIN_STEP, MAX_STEP = 1e-3, 1e-1
"""Bounds of the initial step sizes."""
MAX_RATE = 16.0
"""Initial decay rates lie between 1 and this."""
NORM_EPS = 1e-5
"""Epsilon of the gated norm."""


class BidirectionalMamba2(nn.Module):
    """Two Mamba-2 mixers along each body, the second from its last limb to its first.

    Args:
        width: width of the rows and of each direction's result.
        state: see `Mamba2Mixer`, as are the others.
        expand: inner channels per channel of the rows.
        head: channels per head.
        conv: limbs the convolution sees.

    Shapes:
        rows (P, width) -> (P, 2 * width), forward before backward.

    Source:
        Dao & Gu 2024, arXiv:2405.21060, which is causal; two directions as in the recurrences.
    """

    def __init__(
        self, width: int, state: int = 128, expand: int = 2, head: int = 64, conv: int = 4
    ) -> None:
        super().__init__()
        self.ahead = Mamba2Mixer(width, state, expand, head, conv)
        self.behind = Mamba2Mixer(width, state, expand, head, conv)

    def forward(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Run both directions over every body (see `BidirectionalRNN.forward`)."""
        return uncompiled(self._mix, rows, packing)

    def _mix(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        turned = rows.index_select(0, packing.mirrored)
        behind = self.behind(turned, packing).index_select(0, packing.mirrored)
        return torch.cat((self.ahead(rows, packing), behind), dim=1)


class Mamba2Mixer(nn.Module):
    """A selective state-space model along each body, from the first limb to the last.

    [z; v; dt] = W_in u
    [x; B; C]_j = SiLU(b + sum_k w_k v_{j-k})      over the last `conv` limbs, channel by channel
    d_j = softplus(dt_j + bias),  a = -exp(log_rate)                      one number per head
    S_j = exp(d_j a) S_{j-1} + d_j B_j x_j^T,  S_{-1} = 0                 (state, head) per head
    y_j = S_j^T C_j + skip x_j
    result_j = W_out N(y_j * SiLU(z_j))                                   N a root-mean-square norm

    B and C are shared by all heads.

    Args:
        width: width of the rows.
        state: rows of a head's state.
        expand: inner channels per channel of the rows.
        head: channels per head; must divide `expand * width`.
        conv: limbs the convolution sees, the current one included.

    Shapes:
        (P, width) -> (P, width)

    Source:
        Dao & Gu 2024, arXiv:2405.21060, section 7 and figure 6; sizes and initial values as in
        state-spaces/mamba (Mamba-2): step sizes log-uniform, rates uniform, skip 1, the rest as
        torch's layers. `log_rate` is its A_log, `skip` its D.
    """

    def __init__(self, width: int, state: int, expand: int, head: int, conv: int) -> None:
        super().__init__()
        inner = expand * width
        heads, mixed = inner // head, inner + 2 * state
        self.head, self.state = head, state
        self.widths = [inner, mixed, heads]  # of z, of x with B and C, of dt
        self.input = nn.Linear(width, sum(self.widths), bias=False)
        bound = 1 / math.sqrt(conv)
        self.conv_weight = nn.Parameter(torch.empty(conv, mixed).uniform_(-bound, bound))
        self.conv_bias = nn.Parameter(torch.empty(mixed).uniform_(-bound, bound))
        step = torch.empty(heads).uniform_(math.log(MIN_STEP), math.log(MAX_STEP)).exp()
        self.step_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # inverse softplus
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1.0, MAX_RATE).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.output = NormLinear(inner, width, NORM_EPS)

    def forward(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Run along every body."""
        projected: torch.Tensor = self.input(rows)
        gate, mixed, step = torch.split(projected, self.widths, dim=1)
        mixed = nn.functional.silu(self._convolve(mixed, packing.previous)).to(mixed.dtype)
        values, write, read = torch.split(mixed, [self.widths[0], self.state, self.state], dim=1)
        values = values.reshape(-1, self.widths[2], self.head)  # (P, H * D) -> (P, H, D)
        step = nn.functional.softplus(step + self.step_bias)
        found = selective_scan(values, step, -self.log_rate.exp(), write, read, packing)
        found = (found + values * self.skip.unsqueeze(1)).flatten(1)
        result: torch.Tensor = self.output(found * nn.functional.silu(gate))
        return result

    def _convolve(self, rows: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        """Sum the last limbs' rows, weighted per channel; before the first limb there is zero."""
        padded = nn.functional.pad(rows, (0, 0, 0, 1))  # row P, where `previous` leads, is zero
        found = torch.addcmul(self.conv_bias, rows, self.conv_weight[0])
        source = previous[:-1]
        for weight in self.conv_weight[1:]:
            found = torch.addcmul(found, padded.index_select(0, source), weight)
            source = previous[source]
        return found


def selective_scan(
    values: torch.Tensor,
    step: torch.Tensor,
    rate: torch.Tensor,
    write: torch.Tensor,
    read: torch.Tensor,
    packing: Packing,
) -> torch.Tensor:
    """Run y_j = S_j^T C_j with S_j = exp(d_j a) S_{j-1} + d_j B_j x_j^T along every body.

    On a GPU with the package mamba_ssm this is its kernel, otherwise `chunked_scan`.

    Args:
        values: (P, H, D), x.
        step: (P, H), d, positive.
        rate: (H,), a, negative.
        write: (P, N), B.
        read: (P, N), C.
        packing: the layout of the rows.

    Returns:
        (P, H, D).
    """
    kernel = _kernel(values.device.type, values.dtype)
    if kernel is None:
        return chunked_scan(values, step, rate, write, read, packing)
    # (B, L, ...); a padding slot has step 0 and comes last, so it changes nothing.
    x, d, b, c = (packing.unpack(part) for part in (values, step, write, read))
    found: torch.Tensor = kernel(x, d, rate, b.unsqueeze(2), c.unsqueeze(2), CHUNK_LIMBS)
    return packing.pack(found)


def chunked_scan(
    values: torch.Tensor,
    step: torch.Tensor,
    rate: torch.Tensor,
    write: torch.Tensor,
    read: torch.Tensor,
    packing: Packing,
) -> torch.Tensor:
    """Run `selective_scan` in torch, in time linear in the number of limbs.

    Within a chunk every limb is compared with every earlier one, which is one batched product;
    from chunk to chunk each body that goes on hands over its state.
    """
    if not packing.chunks:
        return values
    found: list[torch.Tensor] = []
    state: torch.Tensor | None = None
    layouts = [chunk.layout for chunk in packing.chunks]
    ongoing = [*(layout.shape[0] for layout in layouts[1:]), 0]
    # Split, not sliced: the gradient of every slice would be as large as the whole.
    sizes = [layout.num_rows for layout in layouts]
    parts = zip(*(torch.split(part, sizes) for part in (values, step, write, read)), strict=True)
    for rows, layout, count in zip(parts, layouts, ongoing, strict=True):
        x, d, b, c = (layout.unpack(part) for part in rows)  # (n, T, ...)
        outputs, state = _scan_chunk(x, d, b, c, rate, state, count)
        found.append(layout.pack(outputs))
    return torch.cat(found)


def _scan_chunk(
    values: torch.Tensor,
    step: torch.Tensor,
    write: torch.Tensor,
    read: torch.Tensor,
    rate: torch.Tensor,
    state: torch.Tensor | None,
    ongoing: int,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Run the scan over T limbs of n bodies.

    With s_i = a (d_1 + ... + d_i) the solution is
    y_i = sum over j <= i of exp(s_i - s_j) d_j (C_i . B_j) x_j + exp(s_i) S_0^T C_i.

    Args:
        values: (n, T, H, D).
        step: (n, T, H), zero in padding, which comes last.
        write: (n, T, N).
        read: (n, T, N).
        rate: (H,).
        state: (n or more, H, N, D) of the bodies before these limbs; `None` for zero.
        ongoing: how many bodies, the first ones, have limbs after these.

    Returns:
        (n, T, H, D), and the state (ongoing, H, N, D) afterwards.
    """
    values, step = values.transpose(1, 2), step.transpose(1, 2)  # (n, H, T, D), (n, H, T)
    decay = (step * rate.unsqueeze(1)).cumsum(dim=2)
    between = decay.unsqueeze(3) - decay.unsqueeze(2)  # (n, H, T, T)
    future = torch.ones(between.shape[2:], dtype=torch.bool, device=step.device).triu(1)
    # Masked before the exponential, which overflows for limbs still to come.
    between = between.masked_fill(future, -math.inf).exp()
    match = (read @ write.transpose(1, 2)).unsqueeze(1)  # (n, 1, T, T)
    outputs = (between * step.unsqueeze(2) * match) @ values
    if state is not None:
        earlier = read.unsqueeze(1) @ state[: len(read)]
        outputs = outputs + decay.exp().unsqueeze(3) * earlier
    after = _next_state(values, step, decay, write, state, ongoing) if ongoing else None
    return outputs.transpose(1, 2), after


def _next_state(
    values: torch.Tensor,
    step: torch.Tensor,
    decay: torch.Tensor,
    write: torch.Tensor,
    state: torch.Tensor | None,
    ongoing: int,
) -> torch.Tensor:
    """Return exp(s_T) S_0 + sum over j of exp(s_T - s_j) d_j B_j x_j^T, (ongoing, H, N, D)."""
    values, step, decay = values[:ongoing], step[:ongoing], decay[:ongoing]
    last = decay[:, :, -1:]
    weights = ((last - decay).exp() * step).unsqueeze(3)  # (ongoing, H, T, 1)
    added = write[:ongoing].transpose(1, 2).unsqueeze(1) @ (weights * values)
    return added if state is None else last.exp().unsqueeze(3) * state[:ongoing] + added


@cache
def _kernel(device: str, dtype: torch.dtype) -> Callable[..., Any] | None:
    """Return the fused scan of mamba_ssm where it is installed and runs, else `None`."""
    if device != "cuda" or dtype == torch.float64:
        return None
    try:
        module = importlib.import_module("mamba_ssm.ops.triton.ssd_combined")
    except ImportError:
        return None
    kernel: Callable[..., Any] = module.mamba_chunk_scan_combined
    return kernel
