"""Launcher `slurm`: which jobs a driver knows of, with a stand-in for a cluster's submitit."""

import contextlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gmc_bench.core.errors import RunFolderError
from gmc_bench.experiments.launchers import Cell
from gmc_bench.experiments.launchers.slurm_jobs import SlurmLauncher, SlurmOptions


class Job:
    """A job that is still waiting in Slurm's queue."""

    def __init__(self, folder, job_id):
        self.job_id = job_id

    def done(self, force_check=False):
        return False

    def cancel(self):
        pass


class Executor:
    """Numbers the jobs of all arrays."""

    count = 0

    def __init__(self, folder, **options):
        pass

    def update_parameters(self, **options):
        pass

    def batch(self):
        return contextlib.nullcontext()

    def submit(self, job):
        Executor.count += 1
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
