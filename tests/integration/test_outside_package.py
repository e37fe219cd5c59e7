"""A package outside the tree: method, task, bodies, robot and suite through the entry points."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gmc_bench.bodies.store import DATA_VARIABLE
from tests.fixtures import outside

ROOT = Path(__file__).parents[2]
RUN = ("run", "--suite", "outside", "--protocol", "smoke", "--threads", "1")


class Stranger:
    """Somebody with an environment and a folder, who knows the command line alone."""

    def __init__(self, python: Path | str, folder: Path, path: list[Path]) -> None:
        self.folder = folder
        self._python = str(python)
        self._environment = {
            **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            DATA_VARIABLE: str(folder / "data"),
            **({"PYTHONPATH": os.pathsep.join(map(str, path))} if path else {}),
        }

    def __call__(self, *argv: str) -> str:
        return self.python("-m", "gmc_bench.cli.main", *argv)

    def python(self, *argv: str) -> str:
        done = subprocess.run(
            [self._python, *argv],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *argv: str):
        return json.loads(self(*argv, "--json"))

    def each(self, *commands: tuple[str, ...]) -> list[str]:
        """Run several commands in one process, which saves imports; return what each prints."""
        code = (
            "import json, sys; from gmc_bench.cli.main import main\n"
            "for argv in json.loads(sys.argv[1]):\n"
            "    assert main(argv) == 0\n"
            "    print('end of command')"
        )
        return self.python("-c", code, json.dumps(commands)).split("end of command\n")[:-1]


LISTS = (
    ("list", "methods", "outside-mean", "--json"),
    ("list", "tasks", "outside-straight-v1", "--json"),
    ("list", "suites", "outside-v1", "--json"),
    ("list", "morphologies", "outside-worms-v1", "outside-crawler", "--json"),
)
TABLE = ("leaderboard", "build")


def check_offers(*lists: str) -> None:
    """Check that everything the package offers is a name like any other."""
    [method], [task], [suite], rows = map(json.loads, lists)
    assert method["parameters"] == {"paper": 141_363, "lite": 141_363}
    assert task["rewards"] == {"forward_velocity": 1.0, "swerving": -0.5}
    assert suite["default_morphologies"] == ["outside-worms-v1"]
    assert [row["status"] for row in rows] == ["installed", "robot"]


def run(gmc: Stranger, method: str, *argv: str):
    """Make a smoke run and return its record."""
    out = Path("runs") / "-".join([method, *argv]).replace("--", "")
    shown = gmc(*RUN, "--method", method, "--out", str(out), *argv)
    assert shown.lstrip().startswith(f"{method} on outside-straight-v1")  # nothing else speaks
    return json.loads((gmc.folder / out / "record.json").read_text(encoding="utf-8"))


def check_table(table: str, methods: list[str]) -> None:
    """Check that the runs stand on a leaderboard."""
    assert all(f"| {method} v1 | lite |" in table for method in methods), table
    assert "Incomplete" not in table


@pytest.mark.slow
def test_its_method_trains_on_its_task_and_its_bodies(tmp_path):
    outside.leave_metadata(tmp_path / "site")
    gmc = Stranger(sys.executable, tmp_path, [tmp_path / "site", outside.FOLDER, ROOT])
    record = run(gmc, "outside-mean")
    assert (record["suite"], record["task"]) == ("outside-v1", "outside-straight-v1")
    *lists, table = gmc.each(*LISTS, TABLE)
    check_offers(*lists)
    check_table(table, ["outside-mean"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_in_a_fresh_environment_of_wheels(tmp_path):
    python = fresh_environment(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    gmc = Stranger(python, home, [])
    origins = "import gmc_bench, gmc_baselines, recmorph, gmc_outside.method as m"
    places = "gmc_bench.__file__, m.__file__, *gmc_baselines.__path__"
    found = gmc.python("-c", f"{origins}; print({places}, sep='\\n')").splitlines()
    assert [Path(place).is_relative_to(tmp_path / "env") for place in found] == [True] * 3
    check_offers(*gmc.each(*LISTS))
    gmc("check-method", "outside-mean", "--preset", "lite", "--backend", "none")
    ours, theirs = run(gmc, "outside-mean"), run(gmc, "recmorph")
    check_table(gmc(*TABLE), ["outside-mean", "recmorph"])
    assert ours["morphologies"] == theirs["morphologies"]
    found = gmc.json("evaluate", "runs/outside-mean", "--morphologies", "outside-worms+damping")
    assert {item["split"] for item in found["returns"]} == {"test"}
    crawler = run(gmc, "recmorph", "--morphologies", "outside-crawler")
    assert crawler["morphologies"] != ours["morphologies"]


def fresh_environment(folder: Path) -> Path:
    """Install both packages as wheels into a new environment; return its interpreter.

    What they depend on is taken from this one, and nothing is downloaded.
    """
    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    # Building writes beside the sources, so copies are built.
    source = folder / "gmc-bench"
    source.mkdir()
    for name in ("gmc_bench", "gmc_baselines", "recmorph"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    package = shutil.copytree(outside.FOLDER, folder / "gmc-outside")
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--force-reinstall"]
    subprocess.run([*pip, "install", *options, str(source), str(package)], check=True)
    return python
