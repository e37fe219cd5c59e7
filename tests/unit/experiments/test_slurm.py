"""Launcher `slurm`: which jobs a driver knows of, with a stand-in for a cluster's submitit."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.experiments.cell import FAILED, FINISHED, HELD, STOPPED
from gmc_bench.experiments.launchers import Cell, Ended, slurm_jobs
from gmc_bench.experiments.launchers.slurm_jobs import SlurmLauncher, SlurmOptions


class Job:
    """A job that is still waiting in Slurm's queue."""

    def __init__(self, folder, job_id):
        self.job_id = job_id
        self.paths = SimpleNamespace(result_pickle=Path("none"))

    def done(self, force_check=False):
        return False

    def cancel(self):
        self.cancelled = True


class Executor:
    """Numbers the jobs of all arrays."""

    count = 0
    asked: ClassVar[dict] = {}
    """What the last array was asked for."""
    jobs: ClassVar[list] = []
    """What the last array was to do."""

    def __init__(self, folder, **options):
        Executor.asked, Executor.jobs = options, []

    def update_parameters(self, **options):
        Executor.asked = Executor.asked | options

    def batch(self):
        return contextlib.nullcontext()

    def submit(self, job):
        Executor.count += 1
        Executor.jobs.append(job)
        return Job(None, f"new-{Executor.count}")


@pytest.fixture
def launcher(monkeypatch, tmp_path):
    submitit = ModuleType("submitit")
    submitit.SlurmJob, submitit.AutoExecutor = Job, Executor
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.touch(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent))
    (tmp_path / ".slurm").mkdir()
    return SlurmLauncher(SlurmOptions(array=2))


def listed(sweep: Path) -> dict[str, str]:
    return json.loads((sweep / ".slurm" / "jobs.json").read_bytes())


def test_jobs_of_arrays_that_were_not_asked_about_yet_are_remembered(launcher, tmp_path):
    before = {name: f"old-{name}" for name in "abcde"}
    (tmp_path / ".slurm" / "jobs.json").write_text(json.dumps(before))
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1), Cell("b", 1)])  # an array holds two; the driver may end here
    assert listed(tmp_path) == before
    launcher.submit([Cell("c", 1), Cell("f", 1)])
    found = listed(tmp_path)
    assert found.pop("f").startswith("new-")
    assert found == before


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', "[" * 100_000])
def test_a_damaged_list_of_jobs_is_refused(launcher, tmp_path, content):
    (tmp_path / ".slurm" / "jobs.json").write_text(content)
    with pytest.raises(
        RunFolderError, match=r"jobs\.json does not list the jobs .*delete the file"
    ):
        launcher.open(tmp_path)


def test_jobs_limit_what_slurm_has_over_all_arrays(launcher, tmp_path):
    cells = [Cell(name, 1) for name in "abcd"]
    assert [launcher.takes(cells[0], waiting) for waiting in (0, 1, 2)] == [True, True, False]
    launcher.open(tmp_path)
    launcher.submit(cells[:2])
    assert launcher.takes(cells[2], 1)  # by default, as many as there are
    launcher.options = SlurmOptions(array=2, jobs=3)
    assert [launcher.takes(cells[2], waiting) for waiting in (0, 1)] == [True, False]
    launcher.options = SlurmOptions(executor="local")
    assert not launcher.takes(cells[2], 0)
    for jobs in (0, -1):
        with pytest.raises(ConfigError, match=f"'jobs' must be at least 1, got {jobs}"):
            SlurmOptions(jobs=jobs)


def test_a_job_has_memory_for_all_its_processes(launcher, tmp_path):
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1), Cell("b", 6, processes=3)])
    assert (Executor.asked["cpus_per_task"], Executor.asked["mem_gb"]) == (6, 12.0)
    small = Cell("d", 1, memory=2**30)
    launcher.submit([small, Cell("c", 6, processes=3, memory=20 * 2**30)])
    assert Executor.asked["mem_gb"] == pytest.approx(26.0)


def test_a_job_is_asked_for_what_its_cell_and_the_options_need(launcher, tmp_path, monkeypatch):
    launcher.options = SlurmOptions(
        time_h=2.5, grace_s=77, partition="long", account="lab", qos="low", extra=("nice=5",)
    )
    monkeypatch.chdir(tmp_path.parent)
    launcher.open(Path(tmp_path.name))  # jobs get the full name, and may begin in any folder
    launcher.submit([Cell("a", 1), Cell("b", 2, gpus=2, processes=2)])
    wanted = {
        "timeout_min": 150, "gpus_per_node": 2, "slurm_signal_delay_s": 77,
        "slurm_partition": "long", "slurm_account": "lab", "slurm_qos": "low",
        "slurm_array_parallelism": 2, "slurm_additional_parameters": {"nice": "5"},
        "slurm_max_num_timeout": 10_000,
    }  # fmt: skip
    assert {name: Executor.asked[name] for name in wanted} == wanted
    assert [job._arguments for job in Executor.jobs] == [
        (str(tmp_path), "a", 1, 77), (str(tmp_path), "b", 2, 77),
    ]  # fmt: skip
    launcher.submit([Cell("c", 1)])
    assert Executor.asked["gpus_per_node"] is None


def test_a_job_that_has_ended_is_not_taken_over(launcher, tmp_path, monkeypatch):
    (tmp_path / ".slurm" / "jobs.json").write_text('{"a": "old-a", "b": "old-b"}')

    def done(job, force_check=False):
        return force_check and job.job_id == "old-a"  # otherwise, submitit may not ask Slurm

    monkeypatch.setattr(Job, "done", done)
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1), Cell("b", 1)])
    found = listed(tmp_path)
    assert found["a"].startswith("new-")
    assert found["b"] == "old-b"


def test_all_jobs_are_cancelled_and_waited_for_until_the_launcher_is_closed(launcher, tmp_path):
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1), Cell("b", 1)])
    jobs = list(launcher._running.values())
    launcher.stop()
    assert all(job.cancelled for job in jobs)
    assert list(launcher._running) == ["a", "b"]
    launcher.submit([Cell("c", 1)])
    last = launcher._running["c"]
    launcher.close()
    assert last.cancelled
    assert launcher._running == {}


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        ("PREEMPTED", True),
        ("TIMEOUT", True),
        ("NODE_FAIL", True),
        ("CANCELLED by 0", True),
        ("OUT_OF_MEMORY", False),
        ("FAILED", False),
    ],
)
def test_a_job_that_left_nothing_was_taken_away_or_failed(tmp_path, state, lost):
    job = SimpleNamespace(paths=SimpleNamespace(result_pickle=tmp_path / "none"), state=state)
    why = f"was ended by its job's end ({state.split()[0]})"
    assert slurm_jobs._ended("a", job) == Ended("a", why, lost=lost)


@pytest.mark.parametrize(
    ("code", "why", "lost"),
    [
        (FINISHED, "", False),
        (STOPPED, "", True),
        (HELD, "ended because another process holds the run", True),
        (FAILED, "ended with exit code 1 without a word", False),
        (-15, "was ended by signal 15 (SIGTERM)", False),
    ],
)
def test_a_job_ended_as_its_worker_did(tmp_path, code, why, lost):
    (tmp_path / "result").touch()
    paths, job = SimpleNamespace(result_pickle=tmp_path / "result"), SimpleNamespace
    ended = job(paths=paths, exception=lambda: None, result=lambda: code)
    assert slurm_jobs._ended("a", ended) == Ended("a", why, lost=lost, held=code == HELD)
    broken = job(paths=paths, exception=lambda: OSError("no \n space"))
    assert slurm_jobs._ended("a", broken) == Ended("a", "ended: no space", lost=False)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("sbatch: error:\n invalid partition"),
            r"\(sbatch: error: invalid partition\)",
        ),
        (subprocess.CalledProcessError(1, "sbatch"), "returned non-zero exit status 1"),
        (ValueError("AutoExecutor doesn't know moon"), "doesn't know moon"),
        (AssertionError(), r"\(AssertionError\)"),
    ],
)
def test_what_slurm_refuses_is_one_sentence(launcher, tmp_path, monkeypatch, error, reason):
    def refuse(executor, job):
        raise error

    monkeypatch.setattr(Executor, "submit", refuse)
    launcher.open(tmp_path)
    with pytest.raises(ConfigError, match=f"could not submit jobs .*{reason}.*; give --launch"):
        launcher.submit([Cell("a", 1)])
    assert launcher.poll() == []  # nothing is there that could end


def test_a_job_that_left_its_result_has_ended_whatever_slurm_says(launcher, tmp_path):
    """Which may know nothing of a job that has ended, or not yet."""
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1)])
    assert launcher.poll() == []
    (job,) = launcher._running.values()
    (tmp_path / "result").touch()
    job.paths = SimpleNamespace(result_pickle=tmp_path / "result")
    job.exception, job.result = (lambda: None), (lambda: FINISHED)
    assert launcher.poll() == [Ended("a")]


def test_without_slurm_nothing_is_begun(launcher, monkeypatch):
    launcher.require()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="needs the command 'sbatch', which is not here"):
        launcher.require()
    SlurmLauncher(SlurmOptions(executor="local")).require()


def test_a_job_has_more_time_than_its_last_checkpoint_needs():
    assert SlurmOptions(time_h=0.5, grace_s=1799).grace_s == 1799
    with pytest.raises(ConfigError, match=r"'time_h' 0\.5 h \(1800 s\), got 1800 s; give less"):
        SlurmOptions(time_h=0.5, grace_s=1800)


def test_a_job_whose_result_cannot_be_read_hides_no_other(launcher, tmp_path, monkeypatch):
    def unreadable(name, job):
        if name == "b":
            raise EOFError
        return Ended(name)

    monkeypatch.setattr(slurm_jobs, "_ended", unreadable)
    monkeypatch.setattr(Job, "done", lambda job: True)
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 1), Cell("b", 1)])
    with pytest.raises(EOFError):
        launcher.poll()
    del launcher._running["b"]
    assert launcher.poll() == [Ended("a")]
    assert launcher.poll() == []
