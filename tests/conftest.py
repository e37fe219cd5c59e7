"""Settings of the whole test run."""

import gc
import ipaddress
import os
import socket
import sys

# Before anything loads OpenMP: threads that spin while they wait for each other take the cores from
# the tests of the other process. The bits are the same.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch

# Until all tests are collected: objects that never go are searched through for garbage again and
# again, which takes a third of the time.
gc.disable()


def pytest_runtest_setup() -> None:
    """Begin every test with torch's own generator in one state and one thread, whatever ran before.

    Networks in tests are small: a second thread only waits for the first, and on a busy machine it
    waits so long that a test of one second takes minutes. Tests about threads set their own number.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collection.

    Sweeps collect garbage after every run; a million objects that never go would take longer than
    some of the runs.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def _is_here(host: object) -> bool:
    """Return whether a name or an address is this machine's."""
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    if name in ("localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))  # only own addresses can be bound
        except OSError:
            return False
    return True


def _stay_here(event: str, arguments: tuple[object, ...]) -> None:
    """Let no test reach another machine; one that tries fails with its own stack."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not _is_here(host):
        raise RuntimeError(f"tests must not use the network, but this one asks for {host!r}")


# An audit hook, not a patch: it also sees what compiled code and other threads do through Python.
sys.addaudithook(_stay_here)
