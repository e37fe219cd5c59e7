"""Networks in training mode without dropout, to be compared with those in evaluation mode."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_DROPOUT = frozenset({
    functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d,
    functional.alpha_dropout, functional.feature_alpha_dropout,
    torch.dropout, torch.dropout_, torch.feature_dropout, torch.feature_dropout_,
    torch.alpha_dropout, torch.alpha_dropout_,
})  # fmt: skip
"""Functions that drop numbers of their first argument; modules call them, too."""


class _WithoutDropout(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func in _DROPOUT:
            return args[0] if args else given["input"]
        if func is functional.scaled_dot_product_attention:
            given.pop("dropout_p", None)
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
        if func is functional.multi_head_attention_forward:  # function modes are off inside it
            if len(args) > 10:
                args = (*args[:10], 0.0, *args[11:])
            else:
                given["dropout_p"] = 0.0
        return func(*args, **given)


@contextmanager
def without_dropout(network: nn.Module) -> Iterator[None]:
    """Let dropout be the identity, also in training mode: as module, function or part of torch's.

    What a network draws in another way goes on.
    """
    cells = [item for item in network.modules() if isinstance(item, nn.RNNBase)]
    rates = [cell.dropout for cell in cells]  # dropped in compiled code, where no mode looks
    for cell in cells:
        cell.dropout = 0.0
    try:
        with _WithoutDropout():
            yield
    finally:
        for cell, rate in zip(cells, rates, strict=True):
            cell.dropout = rate
