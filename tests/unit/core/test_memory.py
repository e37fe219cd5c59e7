"""Memory that is left on this machine, and what processes take of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.core import memory

MIB = 2**20


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
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    assert memory.available_memory() == available
    (tmp_path / "memory.max").write_text("99999")  # of a container that may take more than is free
    assert memory.available_memory() == 8 * 1024
    (tmp_path / "memory.max").write_text("1000")
    (tmp_path / "memory.stat").unlink()
    assert memory.available_memory() == 400
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "absent")
    assert memory.available_memory() == 400
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "memory.max").write_text("max")
    assert memory.available_memory() == 8 * 1024


@pytest.mark.skipif(
    not list(Path("/proc/self/task").glob("*/children")), reason="no lists of children in /proc"
)
def test_the_memory_of_a_process_includes_what_it_started():
    code = f"data = b'x' * {64 * MIB}; print('ready', flush=True); input()"
    before = memory.memory_of(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        child = memory.memory_of(process.pid)
        assert child > 64 * MIB
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        (resident,) = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")]
        assert abs(child - resident) < MIB
        assert memory.memory_of(os.getpid()) - before > 60 * MIB
        process.stdin.write(b"\n")
