import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from gmc_bench.methods import METHODS
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.profiling.workload import acting, full_bodies, gradient_step, make_networks


def test_results_that_live_at_the_same_time_add_up():
    start = torch.zeros(1000)
    with PeakMemory() as peak:
        first = start + 1  # 4,000 bytes
        second = first + 1  # 8,000
        del first  # 4,000
        third = second + 1  # 8,000
        del second
        fourth = torch.cat((third, third))  # 4,000 + 8,000
    assert peak.nbytes == 12_000
    assert fourth.shape == (2000,)


def test_views_inputs_and_results_in_place_are_free():
    start = torch.zeros(10, 100)
    with PeakMemory() as peak:
        start.t().add_(1.0)
        view = start.view(-1)[:5].unsqueeze(0).expand(7, 5)
    assert view.shape == (7, 5)
    assert peak.nbytes == 0


def test_gradients_are_counted():
    weight = torch.zeros(100, 100, requires_grad=True)
    with PeakMemory() as peak:
        weight.square().sum().backward()
    assert peak.nbytes >= 2 * 40_000


def _inside(values):
    if isinstance(values, dict):
        values = tuple(values.values())
    if isinstance(values, (tuple, list)):
        return [tensor for value in values for tensor in _inside(value)]
    return [values] if isinstance(values, torch.Tensor) else []


class PlainPeakMemory(TorchDispatchMode):
    """The same count, which looks at all living tensors after every operation."""

    def __init__(self):
        super().__init__()
        self.nbytes = 0
        self.alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = {value.untyped_storage()._cdata for value in _inside((args, kwargs))}
        found = func(*args, **(kwargs or {}))
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        for value in _inside(found):
            storage = value.untyped_storage()
            if storage._cdata not in before:
                self.alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.nbytes = max(self.nbytes, sum(size for _, size in self.alive.values()))
        return found


@pytest.mark.parametrize("method", ["recmorph", "bot", "smr"])
def test_networks_take_what_the_plain_count_says(method):
    model = make_networks(METHODS.get(method), "lite", 5, 8)
    tokens = full_bodies(model.spec, 8, 16 * model.sequence_length)
    act, step = acting(model, tokens), gradient_step(model, tokens)
    for run in (act, step):
        run()  # tables of the bodies are kept from here on
    for run in (act, step):
        found = []
        for count in (PlainPeakMemory, PeakMemory):
            with count() as peak:
                run()
            found.append(peak.nbytes)
        assert found[0] == found[1] > 0
