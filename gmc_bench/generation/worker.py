"""The processes of a search: they end with it, however it ends."""

import os
import signal
from multiprocessing import parent_process
from threading import Thread


def start_worker() -> None:
    """Make this process leave interruptions to the search, and end when the search is killed.

    Without a search, a process would wait for work for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_search, daemon=True).start()


def _end_with_search() -> None:
    search = parent_process()
    if search is not None:
        search.join()
        os._exit(1)
