"""Studies whose runs a launcher runs: who that is, from the command line and from the folder."""

from pathlib import Path

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments import sweep_request
from gmc_bench.experiments.driver import Driver
from gmc_bench.experiments.launchers.local import LocalLauncher
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_folder import SweepFolder
from gmc_bench.experiments.sweep_launch import read_launch
from gmc_bench.records.store import write_record
from gmc_bench.sim.batch import available_threads
from gmc_bench.studies.study_run import StudyRun
from tests.support.records import make_record

STUDY = ("study", "ordering", "--protocol", "smoke", "--morphologies", "tiny")


@pytest.fixture
def asked(monkeypatch):
    """Return what studies are asked to run, and how; they refuse it."""
    found = []

    def refuse(study, **options):
        found.append((study, options))
        raise ConfigError("nothing is run")

    monkeypatch.setattr(StudyRun, "run", refuse)
    monkeypatch.setattr(StudyRun, "resume", refuse)
    return found


@pytest.fixture
def driven(monkeypatch):
    """Return the drivers that were to run something; nothing is run."""
    found = []

    def run(driver):
        found.append(driver)
        return {}, {}

    monkeypatch.setattr(Driver, "run", run)
    monkeypatch.setattr(Sweep, "check_methods", lambda sweep, **options: None)
    monkeypatch.setattr(StudyRun, "require_measurable", lambda study: None)
    return found


@pytest.mark.parametrize(
    ("argv", "options", "threads"),
    [
        ((), {}, available_threads()),
        (("--jobs", 2), {"launcher": "local", "retries": 1, "jobs": 2}, 1),
        (("--retries", 0, "--threads", 1), {"launcher": "local", "retries": 0}, 1),
        (
            ("--launcher", "slurm", "--launch.extra", "a=1", "b=2", "--threads", 4096),
            {"launcher": "slurm", "retries": 1, "extra": ["a=1", "b=2"]},
            4096,  # of a machine that is not this one
        ),
    ],
)
def test_a_study_takes_the_options_of_a_sweeps_launch(gmc, asked, argv, options, threads):
    assert "nothing is run" in gmc(*STUDY, *argv)[2]
    ((study, found),) = asked
    assert found == options
    assert {run.threads for run in study.sweep.runs.values()} == {threads}


@pytest.mark.parametrize(("argv", "jobs"), [((), None), (("--jobs", 2), 2)])
def test_a_dry_run_counts_with_the_runs_at_a_time(gmc, driven, monkeypatch, argv, jobs):
    def plan(runs, states, measured, at_a_time):
        return f"{at_a_time} at a time"

    monkeypatch.setattr(sweep_request, "describe_plan", plan)
    code, _, err = gmc(*STUDY, *argv, "--dry-run")
    assert code == 0
    assert f"{jobs} at a time" in err


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ((*STUDY, "--launcher", "moon"), "unknown launcher 'moon'"),
        ((*STUDY, "--launch.partition", "a"), "the launcher 'local' has no option 'partition'"),
        ((*STUDY, "--jobs", 2, "--launch.jobs", 3), "--jobs and --launch.jobs are the same option"),
        ((*STUDY, "--jobs", 0), "--jobs: must be an integer of at least 1, got 0"),
        ((*STUDY, "--launch.nice"), "--launch.nice needs a value"),
        ((*STUDY, "--launch.nice", "many", "--dry-run"), "'nice' must be an integer, got 'many'"),
        (
            ("study", "scaling", "--retries", 0),
            "--retries is not for the study 'scaling', which trains nothing",
        ),
        (("study", "scaling", "--launch.nice", 0), "unknown option '--launch.nice'"),
        (("study", "--resume", "s", "--seeds", 1), "takes options of the launch only, got '--seed"),
        (("study", "ordering", "--resume", "s"), "options of the launch only, got 'ordering'"),
        (("study", "--resume", "s", "--jobs", 1, 2), "--jobs takes one value, got also '2'"),
        (("study", "--resume", "s", "--launch.nice", 0), "s is not a study folder"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused_in_one_sentence(gmc, tmp_path, argv, reason):
    code, out, err = gmc(*argv)
    assert (code, out) == (2, "")
    assert reason in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_sweep_is_no_study_and_hears_how_to_go_on(gmc):
    sweep = Sweep.grid(methods="recmorph", suites="unimal", tasks="ft", seeds=1, bodies="tiny")
    with SweepFolder(Path("a b"), create=True) as folder:
        folder.write(sweep.runs)
    code, _, err = gmc("study", "--resume", "a b")
    assert code == 2
    assert err == (
        "gmc-bench: a b is not a study folder (it has no study.yaml); give the folder that "
        "'gmc-bench study' printed, or go on with these runs by: gmc-bench sweep --resume 'a b'\n"
    )


def test_a_study_of_scaling_has_no_runs_to_launch(gmc, tmp_path):
    (tmp_path / "scaling.json").touch()
    code, _, err = gmc("study", "--resume", tmp_path, "--launcher", "local")
    assert code == 2
    assert "--launcher is not for the study 'scaling'" in err


def test_a_study_goes_on_with_the_launcher_it_had_or_another(gmc, driven, tmp_path):
    folder = tmp_path / "s"
    assert gmc(*STUDY, "--jobs", 3, "--retries", 5, "--launch.nice", 2, "--out", folder)[0] == 0
    assert gmc("study", "--resume", folder)[0] == 0
    for driver in driven:
        assert (driver.retries, driver.launcher.options.jobs) == (5, 3)
        assert driver.launcher.options.nice == 2
    assert gmc("study", "--resume", folder, "--jobs", 1, "--retries", 0)[0] == 0
    assert (driven[2].retries, driven[2].launcher.options.jobs) == (0, 1)
    assert driven[2].launcher.options.nice == 2
    assert read_launch(folder)["jobs"] == 1
    code, _, err = gmc("study", "--resume", folder, "--launcher", "slurm")
    assert code == 2
    assert "the launcher 'slurm' needs" in err
    assert len(driven) == 3


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (STUDY, "dfs_ft_seed1"),
        (("sweep", "--methods", "recmorph", "--suites", "unimal", "--tasks", "ft", "--bodies",
          "tiny", "--seeds", 1), "ft"),
    ],
)  # fmt: skip
def test_a_launch_of_which_a_run_failed_ends_with_one(gmc, driven, monkeypatch, argv, name):
    monkeypatch.setattr(Driver, "run", lambda driver: ({}, {name: "it broke"}))
    assert gmc(*argv, "--jobs", 1, "--out", "s")[0] == 1
    assert name in Sweep.open("s").runs


@pytest.mark.parametrize("works", [True, False])
def test_a_launcher_is_made_once_and_before_there_is_a_folder(gmc, driven, monkeypatch, works):
    made = []

    def require(launcher):
        made.append(launcher)
        if not works:
            raise ConfigError("there is no cluster")

    monkeypatch.setattr(LocalLauncher, "require", require)
    assert gmc(*STUDY, "--jobs", 1, "--out", "s")[0] == (0 if works else 2)
    assert Path("s").exists() == works
    assert [driver.launcher for driver in driven] == (made if works else [])
    assert len(made) == 1
    gmc("study", "--resume", "s")
    assert len(made) == 1 + works


def test_who_stops_a_launched_study_hears_how_to_go_on(gmc, driven, tmp_path, monkeypatch):
    def interrupt(driver):
        raise KeyboardInterrupt

    monkeypatch.setattr(Driver, "run", interrupt)
    code, _, err = gmc(*STUDY, "--jobs", 1, "--out", "s")
    assert code == 130
    assert "\nStopped. Continue with: gmc-bench study --resume s\n" in err


def test_no_launcher_is_needed_to_measure_what_is_finished(gmc, driven, monkeypatch):
    gmc(*STUDY, "--jobs", 1, "--out", "s")
    asked = []

    def refuse(study, **options):
        asked.append(options)
        raise ConfigError("nothing is run")

    monkeypatch.setattr(StudyRun, "resume", refuse)
    for name in Sweep.open("s").runs:
        assert gmc("study", "--resume", "s")[0] == 2
        write_record(Path("s", name, "record.json"), make_record())
    gmc("study", "--resume", "s")
    gmc("study", "--resume", "s", "--jobs", 2)
    local = {"launcher": "local", "retries": 1, "jobs": 1}
    assert asked == [local] * 3 + [{}, {**local, "jobs": 2}]
