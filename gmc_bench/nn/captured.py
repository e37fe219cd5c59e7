"""Calls captured as CUDA graphs: the same operations on a GPU with one launch."""

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


@cache
def _stream(device: int) -> torch.cuda.Stream:
    """Return the stream that everything on a device is captured on; each has memory of its own."""
    found: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return found


class CapturedCall(Generic[T]):
    """A function of tensors whose operations are recorded once and replayed at every call.

    The function must neither wait for the device nor copy to it, and launch the same operations
    whatever the numbers are. It is called once before the capture, because libraries set themselves
    up when they are first called; the caller sees to it that this call caches nothing that depends
    on the inputs.

    Args:
        function: what is captured; it returns tensors.
        inputs: its arguments, of the shapes that all later ones will have, all on the GPU that it
            runs on; `None` stays `None`.

    Raises:
        RuntimeError: the function cannot be captured.
    """

    def __init__(self, function: Callable[..., T], inputs: tuple[torch.Tensor | None, ...]) -> None:
        self._inputs = tuple(None if one is None else one.clone() for one in inputs)
        # Not the process's current device, on which nothing would be captured if this is another.
        self._device = next(one.device for one in inputs if one is not None)
        with torch.cuda.device(self._device):
            self._graph = torch.cuda.CUDAGraph()
            current, stream = torch.cuda.current_stream(), _stream(self._device.index)
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                function(*self._inputs)
                # Not the context manager torch.cuda.graph: it collects garbage and empties caches.
                self._graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._outputs = function(*self._inputs)
                finally:
                    self._graph.capture_end()
            current.wait_stream(stream)

    def __call__(self, *inputs: torch.Tensor | None) -> T:
        """Return what the function returns for these inputs; the next call overwrites it."""
        with torch.cuda.device(self._device):
            for own, given in zip(self._inputs, inputs, strict=True):
                if own is not None and given is not None:
                    own.copy_(given)
            self._graph.replay()
        return self._outputs
