"""The documentation says what the code does."""

import argparse
import posixpath
import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.cli import run
from gmc_bench.cli.main import make_parser
from gmc_bench.cli.parser import Parser
from gmc_bench.experiments.launchers.local import LocalOptions
from gmc_bench.experiments.launchers.ray_tasks import RayOptions
from gmc_bench.experiments.launchers.slurm_jobs import SlurmOptions
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.tokens import TokenSpec
from recmorph.config import RecMorphConfig
from tests.support.token_page import feature_table

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "leaderboards/README.md")),
    *(ROOT / f"{name}/README.md" for name in ("recmorph", "baselines", "benchmarks")),
    *sorted((ROOT / "baselines").glob("*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_token_table_is_up_to_date() -> None:
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    assert page == feature_table(TokenSpec(12))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    missing = []
    for link in links:
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if "://" in link or (target.exists() and (not heading or heading in _anchors(target))):
            continue
        missing.append(link)
    assert missing == []


def _anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings get, and those that it sets."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    named = {re.sub(r"[^a-z0-9 -]", "", item.lower()).replace(" ", "-") for item in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


def test_links_of_the_site_lead_to_its_pages() -> None:
    hooks = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py")))
    pages = hooks.outside_pages()
    places = {f"docs/{path.name}": path for path in (ROOT / "docs").glob("*.md")}
    shown = {name.removeprefix("docs/"): path for name, path in (pages | places).items()}
    files = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.*")}
    tables = (ROOT / "leaderboards" / "tables").rglob("*.svg")
    files |= {path.relative_to(ROOT / "leaderboards").as_posix() for path in tables}
    missing = []
    for place, path in shown.items():
        text = hooks.converted(path.read_text(encoding="utf-8"), path, place, pages)
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            target = link.partition("#")[0]
            there = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
            if "://" not in link and target and there not in files | set(shown):
                missing.append((place, link))
    assert missing == []
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    assert set(re.findall(r": ([\w-]+\.md)", nav)) == {
        *(name for name in shown if "/" not in name), "api.md",
    }  # fmt: skip


def test_every_baseline_is_in_the_list() -> None:
    links = re.findall(r"\]\((\w+)/README.md\)", (ROOT / "baselines/README.md").read_text("utf-8"))
    folders = [path.parent.name for path in (ROOT / "baselines").glob("*/__init__.py")]
    assert sorted(links) == sorted(folders)


def _blocks(page: Path) -> list[str]:
    return re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


SHELL = [(page, block) for page in PAGES for block in _blocks(page)]


@pytest.mark.parametrize(("page", "block"), SHELL, ids=lambda value: str(value)[-40:])
def test_shell_blocks_are_sound(page: Path, block: str) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("there is no bash here")
    found = subprocess.run([shell, "-n"], input=block, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def _commands(page: Path) -> list[str]:
    """Return what is shown in blocks, and in running text where nothing is left out.

    Without where the shell writes the output to.
    """
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:bash|text)\n(.*?)```", text, flags=re.DOTALL)
    whole = [re.sub(r"\\\n\s*", "", block) for block in blocks]
    lines = [line.split("#")[0].strip() for block in whole for line in block.splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [
        line.replace("$seed", "1").partition(" > ")[0]
        for line in lines
        if line.startswith("gmc-bench ") and "..." not in line
    ]


COMMANDS = [(page, command) for page in PAGES for command in _commands(page)]


def _examples(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the commands under the help of a parser, and of its verbs and their actions."""
    for line in (parser.epilog or "").splitlines():
        if line.startswith("  gmc-bench "):
            yield line.strip().partition(" > ")[0]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _examples(inner)


COMMANDS += [(Path("help"), command) for command in dict.fromkeys(_examples(make_parser()))]


def test_help_shows_commands_of_actions_too() -> None:
    shown = {command for page, command in COMMANDS if page.name == "help"}
    verbs = ("gmc-bench watch ", "gmc-bench leaderboard sign ", "gmc-bench morphologies evolve ")
    assert all(any(command.startswith(verb) for command in shown) for verb in verbs)


def test_the_readme_shows_commands() -> None:
    assert sum(page.name == "README.md" for page, _ in COMMANDS) >= 6


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: str(value)[-60:])
def test_commands_shown_are_understood(page: Path, command: str) -> None:
    parsed, unknown = make_parser().parse_known_args(shlex.split(command)[1:])
    assert parsed.verb
    if parsed.verb == "run":
        assert (parsed.method is None) == (parsed.suite is None)
    if parsed.verb in ("run", "sweep"):  # settings are options once methods and launcher are known
        unknown = _without_settings(unknown)
    if parsed.verb == "study":  # it passes on the options of a run and of a launcher
        options = Parser(allow_abbrev=False)
        run.add_options(options)
        unknown = _without_settings(options.parse_known_args(unknown)[1])
    assert unknown == []


def _without_settings(words: list[str]) -> list[str]:
    """Leave out settings that exist, with all that does not begin with dashes after them."""
    options = [*fields(SlurmOptions), *fields(RayOptions), *fields(LocalOptions)]
    known = {f"--launch.{field.name}" for field in options}
    known |= {f"--ppo.{field.name.replace('_', '-')}" for field in fields(PPOConfig)}
    known |= {f"--model.{field.name.replace('_', '-')}" for field in fields(RecMorphConfig)}
    left, skipping = [], False
    for word in words:
        skipping = word in known or (skipping and not word.startswith("--"))
        left += [] if skipping else [word]
    return left


def test_a_misspelt_setting_is_noticed() -> None:
    assert _without_settings(["--ppo.lr", "1e-4", "3e-4", "--model.width", "8"]) == []
    assert _without_settings(["--ppo.rate", "1e-4", "--model.width", "8"]) == ["--ppo.rate", "1e-4"]
    assert _without_settings(["--launch.time_h", "12", "--stray"]) == ["--stray"]
