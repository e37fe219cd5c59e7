"""Measurements in a process of their own, and what ends them."""

import multiprocessing
import os
import sys

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.profiling.memory import peak_resident_bytes, resident_bytes, start_peak
from gmc_bench.profiling.process import (
    Limits,
    NotMeasured,
    _receive,
    _work,
    measure_in_process,
)
from gmc_bench.profiling.scaling import Item, measure

PLENTY = Limits(2**50, 1e9)


@pytest.fixture
def pipe():
    """Both ends, the receiving one first."""
    ends = multiprocessing.get_context("spawn").Pipe(duplex=False)
    yield ends
    for end in ends:
        end.close()


@pytest.mark.slow
def test_items_are_measured_in_order_until_one_fails():
    items = [
        Item(kind=kind, method="no-such-method", preset="lite", size=bodies)
        for kind, bodies in (("table", 1), ("table", 3), ("policy", 1), ("table", 5))
    ]
    first, second, *rest = measure_in_process(measure, items, PLENTY)
    assert 0 < first["table_mib"] * 3 == pytest.approx(second["table_mib"])
    (failed,) = rest  # the fourth is not tried
    assert isinstance(failed, NotMeasured)
    assert failed.reason.startswith("unknown method 'no-such-method'")


class Unloadable:
    """Ends the process that loads it."""

    def __reduce__(self):
        return sys.exit, (3,)


@pytest.mark.slow
def test_a_process_that_ends_while_it_loads_measures_nothing():
    found = list(measure_in_process(Unloadable(), [], PLENTY))
    assert found == [NotMeasured("the process did not start", lasting=False)]


def test_too_much_memory_ends_a_measurement(pipe):
    found = _receive(pipe[0], os.getpid(), Limits(2**20, 1e9))
    assert found == NotMeasured("more than 0.000976562 GiB of process memory")


def test_too_much_time_ends_a_measurement(pipe):
    assert _receive(pipe[0], os.getpid(), Limits(2**50, 0.05)) == NotMeasured("more than 0.05 s")


def test_a_process_that_is_gone_has_no_number(pipe):
    pipe[1].close()
    found = _receive(pipe[0], os.getpid(), PLENTY)
    assert found == NotMeasured("the process was ended from outside", lasting=False)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "more than 4 GiB of process memory"),
        (RuntimeError("[x] can't allocate memory: y"), "more than 4 GiB of process memory"),
        (ValueError("two\nlines"), "failed with ValueError: two lines"),
        (ConfigError("a layout needs a token"), "a layout needs a token"),
    ],
)
def test_every_failure_becomes_a_reason(pipe, error, reason, monkeypatch):
    def measure(item):
        if item:
            raise error
        return {"x": 1.0}

    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process keeps its own
    _work(pipe[1], measure, [0, 1, 0])
    assert pipe[0].recv() == {}  # ready
    limits = Limits(4 * 2**30, 10.0)
    assert _receive(pipe[0], os.getpid(), limits) == {"x": 1.0}
    assert _receive(pipe[0], os.getpid(), limits) == NotMeasured(reason)
    assert not pipe[0].poll()


@pytest.mark.skipif(resident_bytes() is None, reason="there is no /proc")
def test_the_peak_starts_anew():
    block = bytearray(b"x" * 2**26)
    before = peak_resident_bytes()
    del block
    start_peak()
    assert peak_resident_bytes() < before
    started = resident_bytes()
    block = bytearray(b"x" * 2**26)
    del block
    assert peak_resident_bytes() - started >= 2**26
