"""The Makefile's steps, with programs that only write down how they were called."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Writes one line per call; an empty argument is written as ''.
RECORDER = """#!/bin/sh
{real}
line="{name}"
for argument; do line="$line ${{argument:-''}}"; done
echo "$line" >> "{log}"
exit {code}
"""
PROGRAMS = ("python", "gmc-bench", "ruff", "mypy", "lint-imports", "mkdocs")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


class Project:
    """A folder with the Makefile and a virtual environment of recording programs."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        self.log = folder / "log"
        self.log.touch()
        for name in PROGRAMS:
            self.program(name)

    def program(self, name, code=0):
        """Write a program that logs its arguments; Python one-liners run for real."""
        path = self.folder / ".venv" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        real = f'[ "$1" = -c ] && exec "{sys.executable}" "$@"' if name == "python" else ""
        path.write_text(RECORDER.format(real=real, name=name, log=self.log, code=code))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def make(self, *arguments):
        # A bare environment: an outer `make test` would pass its own variables on.
        done = subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        calls = self.log.read_text().splitlines()
        self.log.write_text("")
        return done, calls


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


PIP = "python -m pip install --quiet --disable-pip-version-check -c constraints.txt"
PYTEST = "python -m pytest -n 2 --dist loadfile --no-loadscope-reorder"


def test_run_installs_the_package_once_and_runs(project):
    done, calls = project.make("run", "RUN_ARGS=--seed 2")
    assert done.returncode == 0
    command = "gmc-bench run --method recmorph --suite unimal --task ft --seed 2"
    assert calls == [f"{PIP} torch", f"{PIP} --editable .", command]
    _, calls = project.make("run", "RUN_ARGS=--seed 2")
    assert calls == [command]


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_a_changed_dependency_installs_again(project, changed):
    project.make("install")
    later = (project.folder / ".venv" / ".installed-package").stat().st_mtime + 10
    os.utime(project.folder / changed, (later, later))
    _, calls = project.make("install")
    assert calls == [f"{PIP} torch", f"{PIP} --editable ."]


def test_a_failed_installation_is_tried_again(project):
    project.program("python", code=1)
    done, _ = project.make("install")
    assert done.returncode != 0
    project.program("python")
    done, calls = project.make("install")
    assert done.returncode == 0
    assert len(calls) == 2


def test_extra_pip_options_reach_every_installation(project):
    _, calls = project.make("check", "PIP_ARGS=--no-cache-dir")
    installations = [call for call in calls if " pip install " in call]
    assert len(installations) == 3
    assert all("--no-cache-dir" in call for call in installations)


def test_tools_are_those_of_the_dependency_groups(project):
    _, calls = project.make("check")
    assert f"{PIP} --requirement .venv/.installed-tools.txt" in calls
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    listed = (project.folder / ".venv" / ".installed-tools.txt").read_text().splitlines()
    assert listed == [*groups["lint"], *groups["test"]]


def test_the_documentation_is_built_after_the_leaderboards_site(project):
    _, calls = project.make("docs")
    assert calls[-1] == "mkdocs build --strict --quiet"
    assert any(call.endswith("--site --replays") for call in calls[:-1])
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    listed = (project.folder / ".venv" / ".installed-docs.txt").read_text().splitlines()
    assert listed == groups["docs"]


def test_test_runs_every_check_and_then_pytest(project):
    done, calls = project.make("test", "PYTEST_ARGS=-k config")
    assert done.returncode == 0
    assert calls[3:] == [
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        f"{PYTEST} -k config",
    ]


@pytest.mark.parametrize("program", ["ruff", "mypy", "lint-imports"])
def test_a_failed_check_fails_the_call_but_stops_nothing(project, program):
    project.program(program, code=1)
    done, calls = project.make("test")
    assert done.returncode != 0
    assert "a check failed" in done.stdout
    assert {"ruff", "mypy", "lint-imports"} <= {call.split()[0] for call in calls}
    assert calls[-1] == PYTEST


def test_every_test_can_be_selected(project):
    _, calls = project.make("test-all")
    assert calls[-1] == f"{PYTEST} -m ''"


def test_the_number_of_test_processes_can_be_chosen(project):
    _, calls = project.make("test-all", "TEST_JOBS=5")
    assert calls[-1] == "python -m pytest -n 5 --dist loadfile --no-loadscope-reorder -m ''"


def test_tables_are_made_from_the_stored_records(project):
    _, calls = project.make("tables")
    build = "gmc-bench leaderboard build --records leaderboards --out leaderboards"
    made = f"{build} --readme README.md --findings docs/findings.md"
    assert calls[-1] == made
    _, calls = project.make("site")
    assert calls[-1] == f"{made} --site --replays"


def test_an_old_python_is_refused_by_name(project):
    shutil.rmtree(project.folder / ".venv")
    old = project.folder / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1 && exit 0\nexit 1\n')
    old.chmod(0o755)
    done, _ = project.make("run", "PYTHON=./python3.9")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer, but './python3.9' is Python 3.9.1" in done.stdout
    assert "make PYTHON=python3.12" in done.stdout


def test_a_missing_python_is_named(project):
    shutil.rmtree(project.folder / ".venv")
    done, _ = project.make("run", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "'no-such-python' was not found; install Python 3.11" in done.stdout


def test_clean_keeps_runs_records_and_the_environment(project):
    for name in ("runs/a", "leaderboards/results", "build", ".mypy_cache", "pkg/__pycache__"):
        (project.folder / name).mkdir(parents=True)
    project.make("clean")
    left = {path.name for path in project.folder.iterdir()}
    assert {"runs", "leaderboards", ".venv", "pkg"} <= left
    assert not {"build", ".mypy_cache"} & left
    assert not (project.folder / "pkg" / "__pycache__").exists()


def test_files_that_targets_write_are_ignored(tmp_path):
    # Else a run that follows would be of changed sources, which is against the rules of a record.
    made = re.findall(r"--out(?:put-file)? (\S+\.\w+)", (ROOT / "Makefile").read_text())
    assert {"benchmarks.md", "sbom.json"} <= set(made)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["git", "check-ignore", *made], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == made


def test_help_is_the_default_and_lists_every_documented_target(project):
    done, calls = project.make()
    assert calls == []
    for target in ("run", "test", "check", "test-all", "tables", "clean"):
        assert f"make {target} " in done.stdout
