"""Launcher `slurm`: arrays of jobs on a Slurm cluster, through submitit."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.experiments.launchers.launcher import Cell, Ended, Launcher, LauncherSpec
from gmc_bench.experiments.launchers.process import ask_to_stop, end, ended_with, start_worker
from gmc_bench.records.store import write_atomic

FOLDER = ".slurm"
"""Of submitit's files and logs, in the sweep's folder."""
JOBS = "jobs.json"
_GIB = 2**30
_TAKEN = ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REQUEUED", "TIMEOUT", "CANCELLED", "INTERRUPTED")
"""States of jobs that ended through no fault of their runs."""
_REFUSALS = (
    AssertionError,
    NameError,
    OSError,
    RuntimeError,
    ValueError,
    subprocess.SubprocessError,
)
"""What submitit raises for executors and parameters that it does not know, and for what sbatch
says."""


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """Options of the launcher `slurm`.

    Raises:
        ConfigError: a number is out of range, or a further option is not `NAME=VALUE`.
    """

    partition: str | None = None
    """Where jobs go; by default where Slurm puts them."""
    account: str | None = None
    """Whom they are charged to."""
    qos: str | None = None
    """Quality of service."""
    time_h: float = 24.0
    """Hours that a job may take; a longer run goes on in further jobs."""
    memory_gib: float = 4.0
    """Memory of a job for each of its processes, until runs have been measured that need more."""
    grace_s: int = 120
    """Seconds between the signal to write a checkpoint and the end of a job's time."""
    jobs: int | None = None
    """Jobs that Slurm has at a time, running or waiting, over all arrays; by default one for every
    run, of which Slurm runs as many as it lets (with the executor `local`: one)."""
    array: int = 1000
    """Jobs of one array at most (Slurm's MaxArraySize)."""
    extra: tuple[str, ...] = ()
    """Further options of sbatch, `NAME=VALUE` each, e.g. `constraint=avx512`."""
    executor: str = "slurm"
    """submitit's executor; `local` runs jobs on this machine, to try things out."""

    def __post_init__(self) -> None:
        if self.time_h <= 0 or self.memory_gib <= 0 or self.grace_s < 1 or self.array < 1:
            raise ConfigError(
                f"'time_h', 'memory_gib', 'grace_s' and 'array' must be positive, got "
                f"{self.time_h}, {self.memory_gib}, {self.grace_s} and {self.array}"
            )
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"'jobs' must be at least 1, got {self.jobs}")
        if self.grace_s >= 3600 * self.time_h:
            raise ConfigError(
                f"'grace_s' must be less than the job's time, 'time_h' {self.time_h:g} h "
                f"({3600 * self.time_h:g} s), got {self.grace_s} s; give less, or more time"
            )
        for item in self.extra:
            if "=" not in item:
                raise ConfigError(f"'extra' must hold NAME=VALUE, got {item!r}")


class CellJob:
    """What a job runs: a worker of one cell, which writes a checkpoint when the job is to end.

    Args:
        sweep: the sweep's folder, which all nodes share.
        name: of the cell.
        threads: of the cell.
        grace_s: seconds that it has for the checkpoint.
    """

    def __init__(self, sweep: str, name: str, threads: int, grace_s: int) -> None:
        self._arguments = sweep, name, threads, grace_s
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_arguments": self._arguments, "_process": None}

    def __call__(self) -> int:
        """Run the cell; return the worker's exit code."""
        sweep, name, threads, _ = self._arguments
        process = self._process = start_worker(Path(sweep), name, threads=threads)
        signal.signal(signal.SIGTERM, self._on_end)
        try:
            while process.poll() is None:
                time.sleep(0.2)
            return process.returncode
        finally:
            end(process)

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        if self._process is not None:
            ask_to_stop(self._process)

    def checkpoint(self) -> Any:
        """Let the worker write a checkpoint; return what the requeued job runs."""
        from submitit.helpers import DelayedSubmission

        process, deadline = self._process, time.monotonic() + self._arguments[3]
        if process is not None:
            os.kill(process.pid, signal.SIGTERM)
            # The interrupted call may hold the process's own lock, so that it is not asked.
            how = os.WEXITED | os.WNOWAIT | os.WNOHANG
            while time.monotonic() < deadline and not os.waitid(os.P_PID, process.pid, how):
                time.sleep(0.1)
        return DelayedSubmission(CellJob(*self._arguments))


@dataclass
class SlurmLauncher(Launcher):
    """Submits cells as arrays of jobs, and takes jobs over that an earlier driver submitted."""

    options: SlurmOptions
    _sweep: Path = field(default_factory=Path)
    _running: dict[str, Any] = field(default_factory=dict)
    """Jobs by cell."""
    _earlier: dict[str, str] = field(default_factory=dict)
    """Ids of the jobs that an earlier driver submitted, by cell."""

    def require(self) -> None:
        """Raise where there is no Slurm.

        Raises:
            ConfigError: there is none.
        """
        if self.options.executor == "slurm" and shutil.which("sbatch") is None:
            raise ConfigError(
                "the launcher 'slurm' needs the command 'sbatch', which is not here; start the "
                "sweep on a login node of the cluster, or try it with --launch.executor local"
            )

    def open(self, sweep: Path) -> None:
        """Look for the jobs of an earlier driver.

        Raises:
            RunFolderError: the list of the jobs is damaged.
        """
        self._sweep = sweep.absolute()
        path = self._sweep / FOLDER / JOBS
        if path.is_file() and self.options.executor == "slurm":
            self._earlier = _read_ids(path)

    def takes(self, cell: Cell, waiting: int) -> bool:
        """Return whether an array has room, and the option `jobs` allows for another job."""
        jobs = self.options.jobs
        if jobs is None and self.options.executor == "local":  # which has no queue
            jobs = 1
        return waiting < self.options.array and (
            jobs is None or len(self._running) + waiting < jobs
        )

    def submit(self, cells: Sequence[Cell]) -> None:
        """Submit an array of jobs; cells whose earlier jobs are still there are left to those.

        Raises:
            ConfigError: submitit or Slurm refuses the jobs.
            StorageError: the list of the jobs cannot be written.
        """
        import submitit

        for cell in cells:
            job_id = self._earlier.pop(cell.name, None)
            if job_id is not None:
                job: Any = submitit.SlurmJob(self._sweep / FOLDER, job_id)
                if not job.done(force_check=True):
                    self._running[cell.name] = job
        new = [cell for cell in cells if cell.name not in self._running]
        if new:
            try:
                jobs = self._submit(new)
            except _REFUSALS as error:
                reason = " ".join(str(error).split())[-300:] or type(error).__name__
                raise ConfigError(
                    f"submitit's executor {self.options.executor!r} could not submit jobs "
                    f"({reason}); give --launch.executor, --launch.partition and the like what "
                    f"this cluster has, and resume the sweep"
                ) from error
            self._running |= dict(zip((cell.name for cell in new), jobs, strict=True))
        # Those of an earlier driver that were not asked about yet are still somewhere, too.
        ids = self._earlier | {name: job.job_id for name, job in self._running.items()}
        write_atomic(self._sweep / FOLDER / JOBS, json.dumps(ids).encode())

    def _submit(self, cells: Sequence[Cell]) -> list[Any]:
        executor = self._executor(cells)
        with executor.batch():
            return [executor.submit(self._job(cell)) for cell in cells]

    def _job(self, cell: Cell) -> CellJob:
        return CellJob(str(self._sweep), cell.name, cell.threads, self.options.grace_s)

    def _executor(self, cells: Sequence[Cell]) -> Any:
        import submitit

        options = self.options
        slurm = options.executor == "slurm"
        executor = submitit.AutoExecutor(
            self._sweep / FOLDER,
            cluster=options.executor,
            **{f"{options.executor}_max_num_timeout": 10_000},
        )
        measured = max(cell.memory or 0 for cell in cells) / _GIB
        processes = max(cell.processes for cell in cells)
        executor.update_parameters(
            name="gmc-bench",
            timeout_min=max(1, round(60 * options.time_h)),
            cpus_per_task=max(cell.threads for cell in cells),
            gpus_per_node=max(cell.gpus for cell in cells) or None,
            mem_gb=max(options.memory_gib * processes, 1.3 * measured),
        )
        if slurm:
            executor.update_parameters(
                slurm_partition=options.partition,
                slurm_account=options.account,
                slurm_qos=options.qos,
                slurm_array_parallelism=len(cells),  # `takes` holds back what is too much
                slurm_signal_delay_s=options.grace_s,
                slurm_additional_parameters=dict(item.split("=", 1) for item in options.extra),
            )
        return executor

    def poll(self) -> list[Ended]:
        """Return the cells whose jobs have ended."""
        found = [
            _ended(name, job)
            for name, job in self._running.items()
            if job.paths.result_pickle.exists() or job.done()
        ]
        for ended in found:  # not before all are read: what raises loses none of them
            del self._running[ended.name]
        return found

    def stop(self) -> None:
        """Cancel all jobs; Slurm tells them some time before it ends them (KillWait)."""
        for job in self._running.values():
            if self.options.executor == "local":
                job._process.send_signal(signal.SIGTERM)  # passed on; `cancel` waits one second
            else:
                job.cancel()

    def close(self) -> None:
        """Cancel what is left."""
        for job in self._running.values():
            job.cancel()
        self._running.clear()


def _read_ids(path: Path) -> dict[str, str]:
    """Return the ids of the jobs that a driver submitted, by cell.

    Raises:
        RunFolderError: the file is damaged.
    """
    try:
        ids = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        ids = None
    if not isinstance(ids, dict) or not all(isinstance(item, str) for item in ids.values()):
        raise RunFolderError(
            f"{path} does not list the jobs that were submitted; cancel those of this sweep that "
            f"are left with 'scancel --name gmc-bench', and delete the file"
        )
    return ids


def _ended(name: str, job: Any) -> Ended:
    if not job.paths.result_pickle.exists():
        state = str(job.state).split()[0]
        taken = state.startswith(_TAKEN)
        return Ended(name, f"was ended by its job's end ({state})", lost=taken)
    error = job.exception()
    if error is not None:
        return Ended(name, f"ended: {' '.join(str(error).split())[-300:]}")
    return ended_with(name, job.result())


SPEC = LauncherSpec(
    id="slurm",
    title="arrays of jobs on a Slurm cluster",
    builder="gmc_bench.experiments.launchers.slurm_jobs:SlurmLauncher",
    options=SlurmOptions(),
    module="submitit",
    extra="slurm",
    elsewhere=True,
)
