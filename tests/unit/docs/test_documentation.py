"""The documentation says what the code does."""

import re
import shlex
from pathlib import Path

import pytest

from gmc_bench.cli.main import make_parser
from gmc_bench.tokens import TokenSpec
from gmc_bench.tokens.documentation import feature_table

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_token_table_is_up_to_date() -> None:
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    assert page == feature_table(TokenSpec(12))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def _commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:bash|text)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("gmc-bench ")]


COMMANDS = [(page, command) for page in PAGES for command in _commands(page)]


def test_the_readme_shows_commands() -> None:
    assert sum(page.name == "README.md" for page, _ in COMMANDS) >= 6


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: str(value)[-60:])
def test_commands_shown_are_understood(page: Path, command: str) -> None:
    parsed, unknown = make_parser().parse_known_args(shlex.split(command)[1:])
    assert parsed.verb
    assert unknown == []
