"""What is promised about imports, pinned versions and files of the distribution."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_namespace_packages

import gmc_bench

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
METHOD_PACKAGES = {"recmorph", "gmc_baselines"}
GROUPS = PROJECT["dependency-groups"]


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): next(iter(pin.specifier)) for pin in found}


def requirements():
    listed = [*PROJECT["project"]["dependencies"], *GROUPS["lint"], *GROUPS["test"]]
    return [Requirement(line) for line in listed]


def imported_modules(folder):
    """Yield `(file, module)` for every import of a folder's files, also inside functions."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield path, node.module


# --- what imports what


@pytest.mark.parametrize(
    "statement",
    [
        "import gmc_bench.methods, gmc_bench.suites, gmc_bench.tasks, recmorph",
        "from gmc_bench.methods import METHODS; METHODS.get('recmorph').make_config('lite')",
        "import gmc_bench.cli.main",
        "import gmc_bench.records.store, gmc_bench.leaderboard",
        "import gmc_bench.conformance.morphologies, gmc_bench.bodies.sets",
    ],
)
def test_describing_things_does_not_load_the_heavy_packages(statement):
    heavy = "{'torch', 'tianshou', 'pandas', 'matplotlib', 'seaborn'}"
    script = f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_benchmark_imports_no_method():
    imports = list(imported_modules(ROOT / "gmc_bench"))
    assert any(module == "gmc_bench.core.errors" for _, module in imports)
    methods = [(path, name) for path, name in imports if name.split(".")[0] in METHOD_PACKAGES]
    assert methods == []


def test_methods_do_not_import_each_other():
    folders = {"recmorph": ROOT / "recmorph"}
    folders |= {f"gmc_baselines.{path.name}": path for path in (ROOT / "baselines").glob("*/")}
    for package, folder in folders.items():
        for path, name in imported_modules(folder):
            is_method = name.split(".")[0] in METHOD_PACKAGES
            assert not is_method or f"{name}.".startswith(f"{package}."), f"{path} imports {name}"


def test_the_layout_in_the_contributor_guide_is_the_enforced_one():
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = guide[guide.index("| `gmc_bench.` |") : guide.index("Further rules:")]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.strip().splitlines()[2:]]
    assert rows == [re.findall(r"gmc_bench\.(\w+)", layer) for layer in layers]


# --- versions


def test_the_package_has_one_version():
    assert gmc_bench.__version__ == PROJECT["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{gmc_bench.__version__}]" in changelog
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == gmc_bench.__version__


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_workflows_call_what_there_is(path):
    text = path.read_text(encoding="utf-8")
    assert isinstance(yaml.safe_load(text), dict)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {*re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE), ".venv/.installed-tools"}
    for words in re.findall(r"^ *(?:- run: )?make ([a-z./ -]+[a-z])\b", text, flags=re.MULTILINE):
        assert set(words.split()) <= targets, words
    for name in re.findall(r"^ +- (\w+) --\w+ \d+$", text, flags=re.MULTILINE):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name


def test_a_pull_request_checks_the_files_that_make_tables_writes():
    workflow = (ROOT / ".github" / "workflows" / "leaderboard.yml").read_text(encoding="utf-8")
    (given,) = re.findall(r"gmc-bench leaderboard check (.+)", workflow)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    (written,) = re.findall(r"gmc-bench leaderboard build (.+)", makefile)
    assert given.split() == written.split()


class PullRequest:
    """A repository whose branch `base` has a leaderboard, and the workflow for changes of it."""

    def __init__(self, folder):
        self.folder, self.board = folder, folder / "leaderboards"
        tool = folder / ".venv" / "bin" / "gmc-bench"
        tool.parent.mkdir(parents=True)
        tool.write_text('#!/bin/sh\necho "$@" >> verified\n')
        tool.chmod(0o755)
        (tool.parent / "python").symlink_to(sys.executable)
        workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "leaderboard.yml").read_text())
        steps = workflow["jobs"]["verify"]["steps"]
        self.scripts = {step.get("name"): step.get("run") for step in steps}
        (folder / ".gitignore").write_text("/*\n!/leaderboards\n!/gmc_bench\n!/docs\n")
        self.run("git", "init", "--initial-branch", "base")
        self.write("speeds/old.json", "studies/old.json", "verifications/old.json")
        self.write("evaluations/old.json")
        self.write("tables/old.md", "README.md")
        for name in ("old", "other"):
            self.write_record(name)
        self.commit()
        self.run("git", "checkout", "-b", "new")

    def run(self, *command, check=True):
        names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        environment = {**os.environ, **{f"GIT_{name}": "a" for name in names}}
        environment |= {"BASE": "base", "GITHUB_STEP_SUMMARY": "summary", "GIT_CONFIG_GLOBAL": ""}
        return subprocess.run(
            command, cwd=self.folder, env=environment, check=check, capture_output=True, text=True
        )

    def write(self, *names, text="old"):
        for name in names:
            (self.board / name).parent.mkdir(parents=True, exist_ok=True)
            (self.board / name).write_text(text)

    def list(self, *lines):
        with (self.board / "ledger.jsonl").open("a") as ledger:
            for kind, path in lines:
                ledger.write(f'{{"digest":"{path}","kind":"{kind}","number":1,"path":"{path}"}}\n')

    def write_record(self, name, path="results/suite/{}.json"):
        self.write(path.format(name), text=json.dumps({"weights_digest": f"of-{name}"}))
        self.list(("record", path.format(name)))

    def commit(self):
        self.run("git", "add", ".")
        self.run("git", "commit", "--message", "one")

    def step(self, name):
        return self.run("bash", "-e", "-c", self.scripts[name], check=False)


@pytest.fixture
def request_to_board(tmp_path):
    return PullRequest(tmp_path)


def test_a_pull_request_verifies_what_is_new_in_the_ledger(request_to_board):
    request = request_to_board
    places = {"a": "results/suite/{}.json", "b": "results/{}.json", "c": "elsewhere/{}.json"}
    for name, path in places.items():
        request.write_record(name, path)
    signature = "results/suite/a.json.minisig"
    request.write(signature, "evaluations/d.json", "studies/e.json")
    request.list(("signature", signature), ("weights", "weights/of-a.safetensors"))
    request.commit()
    assert request.step("episodes again").returncode == 0
    played = [*(path.format(name) for name, path in places.items()), "evaluations/d.json"]
    assert (request.folder / "verified").read_text().splitlines() == [
        f"leaderboard verify leaderboards/{path}" for path in played
    ]


@pytest.mark.parametrize("link", [False, True])
def test_a_pull_request_verifies_a_changed_evaluation(request_to_board, link):
    request = request_to_board
    old = request.board / "evaluations" / "old.json"
    if link:
        old.unlink()
        old.symlink_to("elsewhere.json")
    else:
        old.write_text("new")
    request.commit()
    changed = request.step("files are only added, and the ledger only grows")
    assert "::warning::changed or removed, say why: leaderboards/evaluations/old" in changed.stdout
    assert request.step("episodes again").returncode == 0
    (line,) = (request.folder / "verified").read_text().splitlines()
    assert line == "leaderboard verify leaderboards/evaluations/old.json"


@pytest.mark.parametrize("kind", ["verification", "weights"])
def test_a_pull_request_verifies_again_what_something_new_vouches_for(request_to_board, kind):
    request = request_to_board
    if kind == "verification":
        path, old = "verifications/f.json", "results/suite/old.json"
        request.write(path, text=json.dumps({"passed": True, "record_digest": old}))
    else:
        path = "weights/of-old.safetensors"
    request.list((kind, path))
    request.commit()
    assert request.step("episodes again").returncode == 0
    (line,) = (request.folder / "verified").read_text().splitlines()
    assert line == "leaderboard verify leaderboards/results/suite/old.json"


def test_a_pull_request_may_renew_what_the_ledger_does_not_list(request_to_board):
    """A method's new version has other speeds; the file of a board is one."""
    request = request_to_board
    request.write("speeds/old.json", text="new")
    (request.board / "studies" / "old.json").unlink()
    request.commit()
    done = request.step("files are only added, and the ledger only grows")
    assert done.returncode == 0
    assert "::warning::changed or removed, say why: leaderboards/speeds/old.json" in done.stdout


@pytest.mark.parametrize("change", ["write", "remove", "move", "link"])
@pytest.mark.parametrize("name", ["results/suite/old.json", "verifications/old.json"])
def test_a_pull_request_changes_nothing_that_is_there(request_to_board, name, change):
    request = request_to_board
    path = request.board / name
    if change == "write":
        path.write_text("new")
    elif change == "move":
        path.rename(path.with_name("moved.json"))
    else:
        path.unlink()
    if change == "link":
        path.symlink_to("other.json")
    request.commit()
    done = request.step("files are only added, and the ledger only grows")
    assert done.returncode == 1
    assert f"::error::changed or removed: leaderboards/{name}" in done.stdout


def test_a_pull_request_adds_files_and_renews_what_is_made_of_them(request_to_board):
    request = request_to_board
    request.write("tables/old.md", "README.md", text="new")
    request.write("results/suite/new.json", "studies/new.json")
    request.list(("record", "results/suite/new.json"))
    request.commit()
    step = "files are only added, and the ledger only grows"
    assert request.step(step).returncode == 0
    (request.board / "ledger.jsonl").write_text("")
    assert request.step(step).returncode != 0


def test_a_pull_request_that_changes_code_too_says_so(request_to_board):
    request = request_to_board
    request.write("results/suite/new.json", "../docs/findings.md")
    request.commit()
    assert request.step("what checks the records").stdout == ""
    request.write("../gmc_bench/cheat.py")
    request.commit()
    assert "::warning::" in request.step("what checks the records").stdout


def test_a_scheduled_job_runs_every_test():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    jobs = [job for job in workflow["jobs"].values() if "'schedule'" in job.get("if", "")]
    commands = [step.get("run", "") for job in jobs for step in job["steps"]]
    assert any(command.startswith("make test-all ") for command in commands)


@pytest.mark.parametrize("requirement", requirements(), ids=lambda item: item.name)
def test_every_direct_dependency_is_pinned_within_its_range(requirement):
    pin = pins()[canonicalize_name(requirement.name)]
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version)


def test_every_direct_dependency_is_listed_with_its_licence():
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \|.*\w \|$", page, flags=re.MULTILINE)
    extras = PROJECT["project"]["optional-dependencies"].values()
    direct = [*PROJECT["project"]["dependencies"], *(line for lines in extras for line in lines)]
    assert sorted(listed) == sorted(Requirement(line).name for line in direct)


def test_every_release_in_the_changelog_has_a_results_section():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    assert releases
    assert [text.splitlines()[0] for text in releases if "### Results" not in text] == []


def test_the_distribution_claims_no_name_of_another():
    include = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = find_namespace_packages(str(ROOT), include=include)
    assert {name.partition(".")[0] for name in packages} == {"gmc_bench", *METHOD_PACKAGES}
    methods = {path.name for path in (ROOT / "baselines").iterdir() if path.is_dir()}
    assert {f"gmc_baselines.{name}" for name in methods - {"__pycache__"}} <= set(packages)


def test_the_wheel_is_built_from_a_copy_of_what_setuptools_reads(tmp_path):
    source = tmp_path / "source"
    (source / ".ci").mkdir(parents=True)
    for name in (".ci/wheel", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    packages = ["gmc_bench", "recmorph", "baselines"]
    for name in (*packages, ".git", ".venv", "runs", "leaderboards", "build"):
        (source / name).mkdir()
        (source / name / "file").touch()
    (source / "gmc_baselines").symlink_to("baselines")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor last; do :; done\nls -A "$last"\nexit 3\n')
    python.chmod(0o755)
    (tmp_path / "bin").mkdir()
    realpath = tmp_path / "bin" / "realpath"  # that of macOS has no options worth using
    realpath.write_text("#!/bin/sh\nexit 64\n")
    realpath.chmod(0o755)
    done = subprocess.run(
        [source / ".ci" / "wheel", "./python"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{realpath.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    copied = {*packages, "gmc_baselines", "pyproject.toml", "README.md", "LICENSE"}
    assert set(done.stdout.split()) == copied
    # All that the project's metadata and its search for packages name is there.
    find = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    read = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], *find}
    assert {name.rstrip("*").rstrip(".") for name in read} <= copied


def test_every_registered_entry_point_exists():
    for group, points in PROJECT["project"]["entry-points"].items():
        for name, target in points.items():
            module = ROOT.joinpath(*target.partition(":")[0].split("."))
            assert module.with_suffix(".py").is_file() or (module / "__init__.py").is_file(), (
                f"{group}: {name}"
            )
