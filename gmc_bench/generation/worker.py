"""The processes of a search: they end with it, however it ends."""

import os
from multiprocessing import parent_process
from threading import Thread

from gmc_bench.core.interruption import leave_to_parent


def start_worker() -> None:
    """Make this process leave interruptions to the search, and end when the search is killed.

    Without a search, a process would wait for work for ever.
    """
    leave_to_parent()
    Thread(target=_end_with_search, daemon=True).start()


def _end_with_search() -> None:
    search = parent_process()
    if search is not None:
        search.join()
        os._exit(1)
