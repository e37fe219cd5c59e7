"""Memory of runs with several processes, as the launcher `local` counts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.experiments.launchers import LAUNCHERS, Cell, local
from gmc_bench.experiments.sweep import Sweep

MIB = 2**20


def test_a_guess_counts_every_process(tmp_path, monkeypatch):
    sweep = Sweep.grid(
        methods="zero-action", suites="unimal", tasks="ft", seeds=(1, 2), protocol="smoke",
        bodies="tiny", processes=3, out=tmp_path / "s",
    )  # fmt: skip
    names = list(sweep.runs)
    launcher = LAUNCHERS.get("local").make({"jobs": 8, "spare_gib": 0})
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        launcher.open(folder.path)
    process = type("Process", (), {"pid": 0})()
    launcher._running["first"] = Cell(names[0], 3), process
    need = 2 * 3 * local.GUESSED_MEMORY  # what is to come of the first, and the second
    for free, takes in ((need, True), (need - 1, False)):
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        assert launcher.takes(Cell(names[1], 3), 0) is takes


@pytest.mark.skipif(
    not list(Path("/proc/self/task").glob("*/children")), reason="no lists of children in /proc"
)
def test_the_memory_of_a_process_includes_what_it_started():
    code = f"data = b'x' * {64 * MIB}; print('ready', flush=True); input()"
    before = local.memory_of(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        child = local.memory_of(process.pid)
        assert child > 64 * MIB
        assert local.memory_of(os.getpid()) - before > 60 * MIB
        process.stdin.write(b"\n")
