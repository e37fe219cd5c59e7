"""Captured calls: on the device of their inputs, whichever is the process's current one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from gmc_bench.nn import captured


class OnDevice:
    """Stands in for a tensor on a GPU that this machine does not have."""

    def __init__(self, number):
        self.device = torch.device("cuda", number)

    def clone(self):
        return OnDevice(self.device.index)

    def copy_(self, other):
        assert other.device == self.device
        self.copied = other


@pytest.fixture
def cuda(monkeypatch):
    """Stand in for `torch.cuda` of a process whose current device is the first."""
    state = SimpleNamespace(current=0, streams=[], captured=[], replayed=[])

    class Stream:
        def __init__(self, device):
            self.device = device
            state.streams.append(device)

        def wait_stream(self, other):
            assert other.device == self.device

    class Graph:
        def capture_begin(self, capture_error_mode):
            state.captured.append(state.current)

        def capture_end(self):
            pass

        def replay(self):
            state.replayed.append(state.current)

    @contextmanager
    def device(chosen):
        before, state.current = state.current, chosen.index
        yield
        state.current = before

    @contextmanager
    def stream(chosen):
        with device(torch.device("cuda", chosen.device)):
            yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(
        torch.cuda,
        "current_stream",
        lambda: SimpleNamespace(device=state.current, wait_stream=lambda other: None),
    )
    monkeypatch.setattr(torch.cuda, "current_device", lambda: state.current)
    captured._stream.cache_clear()
    yield state
    captured._stream.cache_clear()


def test_a_call_is_captured_and_replayed_on_the_device_of_its_inputs(cuda):
    call = captured.CapturedCall(lambda *inputs: "found", (None, OnDevice(1), OnDevice(1)))
    assert call(None, OnDevice(1), OnDevice(1)) == "found"
    assert (cuda.streams, cuda.captured, cuda.replayed) == ([1], [1], [1])
    assert cuda.current == 0


def test_every_call_fills_the_inputs_that_were_captured(cuda):
    seen = []
    call = captured.CapturedCall(lambda *inputs: seen.append(inputs), (OnDevice(0), None))
    (own, nothing), again = seen  # called once before it is captured
    assert again == (own, nothing)
    assert nothing is None
    for given in (OnDevice(0), OnDevice(0)):
        call(given, None)
        assert own.copied is given
    assert len(seen) == 2


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_graph_on_another_device_than_the_current_one_follows_its_inputs():
    assert torch.cuda.current_device() == 0
    call = captured.CapturedCall(torch.square, (torch.ones(3, device="cuda:1"),))
    found = call(torch.full((3,), 2.0, device="cuda:1"))
    assert found.device == torch.device("cuda:1")
    assert found.tolist() == [4.0, 4.0, 4.0]
