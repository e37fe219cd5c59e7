"""Networks that memory cannot hold are refused before their weights are drawn."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from gmc_bench.methods.spec import MethodSpec
from gmc_bench.tokens.spec import TokenSpec

WEIGHT = 4
"""Bytes of a parameter, float32."""
TRAINED = (4 + 3) * WEIGHT
"""Bytes of a parameter in training, at least: weight, gradient and Adam's two moments, and copies
of all but the gradient in the checkpoint at the end. Activations come on top."""
_SHARE = 0.05
"""Of the memory that is free; networks that take less are built as if nobody looked."""
_GIB = 2**30


@contextmanager
def within_memory(
    count_all: Callable[[], int | None], *, bytes_each: int, free: int | None
) -> Iterator[Callable[[int], None]]:
    """Let this thread build networks, unless memory cannot hold their parameters.

    Parameters are counted as modules register them, before they are drawn. As soon as they take
    a share of the memory that no usual network takes, all are counted in advance.

    Args:
        count_all: returns how many there will be, `None` where that cannot be known; see
            `count_parameters`.
        bytes_each: of every trainable parameter, `WEIGHT` or `TRAINED`.
        free: bytes of free memory; `None` skips the check.

    Yields:
        A function that is given the number of parameters once they are there: modules that are
        copies of others have registered none.

    Raises:
        MemoryError: memory cannot hold them.
    """
    if free is None:
        yield lambda _count: None
        return
    counter = _Counter(count_all, bytes_each, free)
    handle = register_module_parameter_registration_hook(counter)
    try:
        yield counter.require
    finally:
        handle.remove()


def count_parameters(
    method: MethodSpec, config: object, spec: TokenSpec, num_bodies: int
) -> int | None:
    """Return the trainable parameters of actor and critic without drawing or allocating them.

    Args:
        method: the controller.
        config: its settings.
        spec: layout of the tokens.
        num_bodies: bodies to be trained on, for methods with separate weights per body.

    Returns:
        `None` where the builder needs numbers, since it is given torch's device `meta`, or where
        parameters get their size in the first forward pass.
    """
    networks = []  # both at a time, as in training
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        try:
            for num_outputs in (spec.actions_per_token, 1):
                networks.append(method.build(config, spec, num_outputs, num_bodies))
        except MemoryError:  # of `within_memory`
            raise
        except Exception:  # noqa: BLE001 - a plug-in may raise anything
            return None
    parameters = [item for network in networks for item in network.parameters()]
    if any(is_lazy(item) for item in parameters):
        return None
    found: int = sum(item.numel() for item in parameters if item.requires_grad)
    return found


class _Counter:
    """Hook on the registration of parameters, see `within_memory`."""

    def __init__(self, count_all: Callable[[], int | None], bytes_each: int, free: int) -> None:
        self._count_all, self._bytes_each, self._free = count_all, bytes_each, free
        self._thread = threading.get_ident()
        self._alive = WeakIdKeyDictionary()
        """Parameters; one that is shared or was replaced does not count twice."""
        self._registered = 0  # numbers, those of replaced parameters too
        self._asked = False

    def __call__(self, _module: nn.Module, _name: str, parameter: nn.Parameter) -> None:
        if threading.get_ident() != self._thread or is_lazy(parameter):
            return  # a lazy one has no size before the first forward pass
        self._alive[parameter] = None
        self._registered += parameter.numel()
        if self._registered * self._bytes_each <= _SHARE * self._free:
            return
        self.require(sum(item.numel() for item in self._alive if item.requires_grad), "at least ")
        if not self._asked:
            self._asked = True
            drawn, self._alive = self._alive, WeakIdKeyDictionary()
            self.require(self._count_all() or 0)
            self._alive = drawn

    def require(self, count: int, least: str = "") -> None:
        """Raise unless memory can hold so many parameters."""
        if (size := count * self._bytes_each) > self._free:
            more = ", gradients, Adam's moments and a checkpoint" * (self._bytes_each > WEIGHT)
            raise MemoryError(
                f"{least}{count:,} parameters{more} take {size / _GIB:.1f} GiB, and "
                f"{self._free / _GIB:.1f} GiB are free"
            )
