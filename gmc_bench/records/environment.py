"""Provenance of a run: package versions, machine and checkout."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import gmc_bench
from gmc_bench.records.schema import STATED_VERSIONS, Hardware

GIT_TIMEOUT_S = 10.0
INSTRUCTIONS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_bf16",
    "amx_bf16",
    "asimd",
    "asimdhp",
    "bf16",
    "sve",
)
"""Instruction sets by which numerical libraries choose their code, named as Linux names them."""
PROCESSOR = "processor"
"""Name of the processor among what `stated_origin` states."""
_GIB = 2**30  # bytes


class GitState(NamedTuple):
    """State of a checkout; both are `None` where there is none."""

    commit: str | None
    """Full hash of the commit checked out."""
    dirty: bool | None
    """Files differ from that commit, or are new and not ignored."""


def collect_versions() -> dict[str, str]:
    """Return the installed version of every package that records state.

    Packages are looked up, not imported, so that this costs nothing; one that is not installed
    is stated as `not installed`.
    """
    own = {"gmc-bench": gmc_bench.__version__, "python": platform.python_version()}
    return {name: own.get(name) or _installed(name) for name in STATED_VERSIONS}


def merged_versions(found: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return versions of software by name, several of one joined by a comma."""
    names = sorted({name for versions in found for name in versions})
    return {
        name: ", ".join(sorted({versions[name] for versions in found if name in versions}))
        for name in names
    }


def stated_origin() -> dict[str, str]:
    """Return what numbers depend on besides settings: versions of software, and the processor."""
    return {**collect_versions(), PROCESSOR: _cpu_model(Path("/proc/cpuinfo"))}


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def collect_hardware(threads: int, gpu: str | None = None, processes: int = 1) -> Hardware:
    """Describe this machine.

    Args:
        threads: threads that each process of the run was given.
        gpu: name of the device that runs the networks; `None` for the CPU.
        processes: number of processes that shared the run.
    """
    return Hardware(
        cpu=_cpu_model(Path("/proc/cpuinfo")),
        cores=usable_cores(),
        threads=threads,
        processes=processes if processes > 1 else None,
        memory_gib=_memory_gib(),
        gpu=gpu,
        instructions=_instructions(Path("/proc/cpuinfo")),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def git_state(root: Path, besides: Sequence[str] = ()) -> GitState:
    """Return commit and cleanliness of the checkout whose top folder is `root`.

    A checkout that merely contains `root` does not count: a package installed inside somebody
    else's repository must not claim that repository's commit.

    Args:
        root: the folder.
        besides: folders in it whose changes do not count.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != root.resolve():
        return GitState(None, None)
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    left_out = (f":(exclude){name}" for name in besides)
    # A user's settings may hide new files, which Python would import all the same.
    shown = ("--porcelain", "--untracked-files=normal")
    changes = _git(root, "status", *shown, "--", ".", *left_out)
    if commit is None or changes is None:
        return GitState(None, None)
    return GitState(commit.strip(), bool(changes.strip()))


def _git(root: Path, *arguments: str) -> str | None:
    # Inside a git hook these variables point every git call at the hook's own repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            check=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _cpu_model(cpuinfo: Path) -> str:
    named = _first_value(cpuinfo, "model name")
    return named or platform.processor() or platform.machine() or "unknown"


def _instructions(cpuinfo: Path) -> str | None:
    flags = _first_value(cpuinfo, "flags") or _first_value(cpuinfo, "Features")  # x86, ARM
    return " ".join(name for name in INSTRUCTIONS if name in flags.split()) or None


def _first_value(cpuinfo: Path, key: str) -> str:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return ""
    values = [line.partition(":")[2].strip() for line in lines if line.startswith(key)]
    return next(filter(None, values), "")


def usable_cores() -> int:
    """Return how many cores this process may use; where the system does not say, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such call on this system
        return None
    return round(total / _GIB, 1)
