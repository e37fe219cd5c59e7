"""Memory of runs with several processes, as the launcher `local` counts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.experiments.launchers import LAUNCHERS, Cell, local

MIB = 2**20


def test_a_run_for_which_no_process_can_be_started_ends_the_sweep_with_a_sentence(tmp_path):
    launcher = LAUNCHERS.get("local").make({})
    launcher.open(tmp_path)
    with pytest.raises(StorageError, match=r"for the run 'a/b' \(.*No such file.*resume the sweep"):
        launcher.submit([Cell("a/b", 1)])  # no folder for its log


def test_a_guess_counts_every_process(tmp_path, monkeypatch):
    launcher = LAUNCHERS.get("local").make({"jobs": 8, "spare_gib": 0})
    launcher.open(tmp_path)
    process = type("Process", (), {"pid": 0})()
    launcher._running["first"] = Cell("first", 3, processes=3), process
    need = 2 * 3 * local.GUESSED_MEMORY  # what is to come of the first, and the second
    for free, takes in ((need, True), (need - 1, False)):
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        assert launcher.takes(Cell("second", 3, processes=3), 0) is takes


@pytest.mark.parametrize(("threads", "jobs"), [(1, 8), (3, 2), (16, 1)])
def test_by_default_runs_share_the_cores(tmp_path, monkeypatch, threads, jobs):
    monkeypatch.setattr("gmc_bench.sim.batch.available_threads", lambda: 8)
    monkeypatch.setattr(local, "available_memory", lambda: None)
    launcher = LAUNCHERS.get("local").make({})
    process = type("Process", (), {"pid": 0})()
    for i in range(jobs):
        assert launcher.takes(Cell("next", threads), 0)
        launcher._running[f"r{i}"] = Cell(f"r{i}", threads), process
    assert not launcher.takes(Cell("next", threads), 0)


@pytest.mark.parametrize(
    ("stat", "available"),
    [
        ("anon 100\nfile 400\ninactive_file 300\nactive_file 100\n", 700),
        ("anon 1\n", 400),
        ("", 400),
    ],
)
def test_files_that_the_system_only_keeps_take_no_memory(tmp_path, monkeypatch, stat, available):
    for name, text in (("max", "1000"), ("current", "600"), ("stat", stat)):
        (tmp_path / f"memory.{name}").write_text(text)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 8 kB\n")
    monkeypatch.setattr(local, "_CONTAINER", tmp_path)
    monkeypatch.setattr(local, "_MEMINFO", tmp_path / "meminfo")
    assert local.available_memory() == available
    (tmp_path / "memory.stat").unlink()
    assert local.available_memory() == 400
    (tmp_path / "memory.max").write_text("max")
    assert local.available_memory() == 8 * 1024


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
