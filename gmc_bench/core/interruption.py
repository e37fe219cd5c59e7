"""Signals that end a command as Ctrl-C does, so that it says how to resume, or that are ignored."""

import signal
from types import FrameType
from typing import NoReturn


def heed_signals() -> None:
    """Let SIGTERM, and SIGHUP of a terminal that is closed, interrupt this process.

    Where SIGHUP is ignored, as under `nohup`, it stays so.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def leave_to_parent() -> None:
    """Ignore signals that reach all processes of a terminal; the parent process ends this one."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    if number == signal.SIGHUP:
        # It may come again when the shell ends; a second interruption would cut checkpoints short.
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
