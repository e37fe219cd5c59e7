"""Torch's generators, threads and gradients, global to a process, lent to one piece of work."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch

from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.core.precision import Precision
from gmc_bench.methods.policy import ActorCritic

P = ParamSpec("P")
T = TypeVar("T")
_IN_USE = threading.RLock()
"""Held by the thread whose work draws from torch's generators."""


class TorchState:
    """States of torch's own generators and a number of threads that belong to one piece of work.

    Networks with dropout draw from torch's own generators, of which all of a process share one per
    device, and the last bits of a product depend on the number of threads. `in_use` puts the
    work's states and threads in their place, and the process's back at its end; so nothing that
    draws meanwhile changes the work, nor the work anything else. Gradients are switched on for the
    work, also where the caller has switched them off.

    Args:
        num_threads: of the networks.
        device: where they are.
        precision: of their products; on a GPU, float32 means float32, whatever the process allows.
        seed: that the generators start from.
        takes_turns: whether other threads of the process wait while it is in use; not where the
            work itself waits for other threads.
    """

    def __init__(
        self,
        num_threads: int,
        device: torch.device | str,
        seed: int,
        *,
        precision: Precision = "float32",
        takes_turns: bool = True,
    ) -> None:
        self._num_threads = num_threads
        self._rounding = ("high", True) if precision == "tf32" else ("highest", False)
        self._device = torch.device(device)
        self._takes_turns = takes_turns
        self._gradients = True
        self._cpu, self._gpu = torch.Tensor(), torch.Tensor()
        self.seed(seed)

    @property
    def cpu(self) -> torch.Tensor:
        """State of the CPU's generator, when it is not in use."""
        return self._cpu

    @cpu.setter
    def cpu(self, state: torch.Tensor) -> None:
        # Cloned, because torch misreads a state that is a part of a larger tensor.
        self._cpu = state.clone()

    @property
    def gpu(self) -> torch.Tensor | None:
        """State of the GPU's generator, when it is not in use; none of networks on a CPU."""
        return self._gpu if self._has_gpu else None

    @gpu.setter
    def gpu(self, state: torch.Tensor) -> None:
        self._gpu = state.clone()

    @property
    def _has_gpu(self) -> bool:
        return self._device.type == "cuda"

    def seed(self, seed: int) -> None:
        """Let all generators start from a seed."""
        self._cpu = torch.Generator().manual_seed(seed).get_state()
        if self._has_gpu:
            self._gpu = torch.Generator(self._device).manual_seed(seed).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let torch draw from these states, with these threads, as long as the context lasts."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def aside(self, call: Callable[P, T]) -> Callable[P, T]:
        """Return a function that runs with the process's own states, even while this is in use."""

        def outside(*args: P.args, **options: P.kwargs) -> T:
            self._end()
            try:
                return call(*args, **options)
            finally:
                self._begin()

        return outside

    def _begin(self) -> None:
        if self._takes_turns:
            _IN_USE.acquire()
        self._exchange()

    def _end(self) -> None:
        self._exchange()
        if self._takes_turns:
            _IN_USE.release()

    def _exchange(self) -> None:
        """Put these in the place of torch's, and torch's in the place of these."""
        cpu, threads = torch.get_rng_state(), torch.get_num_threads()
        torch.set_rng_state(self._cpu)
        torch.set_num_threads(self._num_threads)
        self._cpu, self._num_threads = cpu, threads
        gradients = torch.is_grad_enabled()
        torch.set_grad_enabled(self._gradients)
        self._gradients = gradients
        if self._has_gpu:
            gpu = torch.cuda.get_rng_state(self._device)
            torch.cuda.set_rng_state(self._gpu, self._device)
            self._gpu = gpu
            self._rounding = exchange_rounding(self._rounding)


def require_gradients(model: ActorCritic) -> None:
    """Raise where tensors are made without what gradients need, or nothing would get one.

    Args:
        model: the networks to be trained.

    Raises:
        ConfigError: torch's inference mode is on, or was when the networks were made.
        PluginError: the networks have no trainable parameter.
    """
    on = torch.is_inference_mode_enabled()
    if on or any(parameter.is_inference() for parameter in model.parameters()):
        when = "is on" if on else "was on when the policy was made"
        raise ConfigError(
            f"training needs gradients, but torch.inference_mode() {when}; make and train policies "
            f"outside of it"
        )
    if not model.num_parameters():
        raise PluginError(
            f"the method {model.method.id!r} cannot be trained, because its networks have no "
            f"trainable parameter; give them some, or set 'trainable=False' and do not train it"
        )


def exchange_rounding(rounding: tuple[str, bool]) -> tuple[str, bool]:
    """Set how products round on a GPU, and whether cuDNN may round to TF32.

    Args:
        rounding: torch's `float32_matmul_precision`, and `torch.backends.cudnn.allow_tf32`.

    Returns:
        What held before.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    products, recurrences = rounding
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = recurrences
    return before


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads as long as the context lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def forked_rng(seed: int | None = None) -> Iterator[None]:
    """Leave torch's generator as it is, whatever draws from it as long as the context lasts.

    Args:
        seed: that it starts from meanwhile.
    """
    with _IN_USE, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.default_generator.manual_seed(seed)  # not those of GPUs, which are not put back
        yield
