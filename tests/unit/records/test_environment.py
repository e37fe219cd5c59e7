"""Versions, machine and checkout are what they claim to be."""

import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gmc_bench
from gmc_bench.records import environment
from gmc_bench.records.environment import collect_hardware, collect_versions, git_state
from gmc_bench.records.schema import STATED_VERSIONS
from tests.support.records import make_record


def _git(folder: Path, *arguments: str) -> str:
    """Run git without the user's settings, and without those of a hook that runs the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=own)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    _git(root, "init", "--quiet")
    (root / "file.txt").write_text("one")
    (root / ".gitignore").write_text("ignored/\n")
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "--message", "first")
    return root


def test_stated_versions_are_those_that_are_installed() -> None:
    versions = collect_versions()
    assert tuple(versions) == STATED_VERSIONS
    assert versions["numpy"] == np.__version__
    assert versions["python"] == platform.python_version()
    assert versions["gmc-bench"] == gmc_bench.__version__


def test_a_package_that_is_not_installed_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "STATED_VERSIONS", ("no-such-package-here", "numpy"))
    assert collect_versions() == {
        "no-such-package-here": "not installed",
        "numpy": np.__version__,
    }


def test_hardware_fits_the_record() -> None:
    hardware = collect_hardware(threads=3, gpu="Some GPU")
    assert (hardware.threads, hardware.gpu) == (3, "Some GPU")
    if hasattr(os, "sched_getaffinity"):  # those that this process may use
        assert hardware.cores == len(os.sched_getaffinity(0))
    assert 1 <= hardware.cores <= (os.cpu_count() or 1)
    kernel = Path("/proc/meminfo")
    if kernel.exists():  # "MemTotal: 16384000 kB"
        kib = int(kernel.read_text().split()[1])
        assert hardware.memory_gib == pytest.approx(kib / 2**20, abs=0.1)
    assert hardware.processes is None
    assert collect_hardware(threads=1, processes=2).processes == 2
    assert platform.system() in hardware.platform
    assert make_record(hardware=hardware).hardware == hardware


def test_cpu_model_is_read_from_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU @ 3.0 GHz: fast\nmodel name : B\n")
    assert environment._cpu_model(path) == "Some CPU @ 3.0 GHz: fast"
    assert environment._cpu_model(tmp_path / "absent") != ""


def test_git_state_of_a_clean_and_a_changed_checkout(checkout: Path) -> None:
    commit = _git(checkout, "rev-parse", "HEAD")
    assert git_state(checkout) == (commit, False)
    (checkout / "ignored").mkdir()
    (checkout / "ignored" / "run.json").write_text("{}")
    assert git_state(checkout) == (commit, False)
    (checkout / "new.py").write_text("x = 1")
    assert git_state(checkout) == (commit, True)
    (checkout / "new.py").unlink()
    (checkout / "results").mkdir()
    (checkout / "results" / "one.json").write_text("{}")
    assert git_state(checkout) == (commit, True)
    assert git_state(checkout, ["results"]) == (commit, False)
    (checkout / "file.txt").write_text("two")
    assert git_state(checkout, ["results"]) == (commit, True)


def test_new_files_count_where_settings_hide_them(checkout: Path) -> None:
    _git(checkout, "config", "status.showUntrackedFiles", "no")
    (checkout / "new.py").write_text("x = 1")
    assert git_state(checkout).dirty is True


def test_a_folder_inside_another_checkout_claims_nothing(checkout: Path) -> None:
    inside = checkout / "ignored" / "site-packages"
    inside.mkdir(parents=True)
    assert git_state(inside) == (None, None)


def test_no_checkout_no_commit_and_no_git(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert git_state(empty) == (None, None)
    _git(empty, "init", "--quiet")
    assert git_state(empty) == (None, None)
    assert git_state(tmp_path / "absent") == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(checkout) == (None, None)


def test_variables_of_a_git_hook_do_not_mislead(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert git_state(checkout) == (commit, False)


def test_instructions_are_read_from_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16 fma\n")
    assert environment._instructions(path) == "avx2 fma avx512f avx512_bf16"
    path.write_text("Features\t: fp asimd sve\n")
    assert environment._instructions(path) == "asimd sve"
    assert environment._instructions(tmp_path / "absent") is None
