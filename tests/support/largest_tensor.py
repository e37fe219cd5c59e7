"""Measures the largest tensor that a piece of code makes, on any device."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Record the size of the largest result of any torch operation, backward passes included.

    Views count with the numbers they show, so an expanded tensor counts as if it were copied.

        with LargestTensor() as largest:
            network(tokens).sum().backward()
        assert largest.numel < limit
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and look at its results."""
        found = func(*args, **(kwargs or {}))
        for value in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(value, torch.Tensor):
                self.numel = max(self.numel, value.numel())
        return found
