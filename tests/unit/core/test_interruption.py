"""Signals that end a command, and those that do not."""

import signal

import pytest

from gmc_bench.core.interruption import heed_signals, leave_to_parent

HEEDED = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers():
    """Begin with what the system does by itself, and leave no handler behind."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (*HEEDED, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HEEDED)
def test_what_ends_a_command_does_so_as_ctrl_c(number):
    heed_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_terminal_is_closed_once_and_a_termination_counts_after_it():
    heed_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)  # of the shell, while checkpoints are written
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_process_of_a_pool_leaves_both_to_the_one_that_started_it():
    leave_to_parent()
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGHUP)
    heed_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_closed_terminal_is_nothing_to_who_ignores_it():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    heed_signals()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
