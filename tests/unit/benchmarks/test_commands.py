"""Commands that pages and scripts show, and the list of all scripts."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from gmc_bench.profiling.report import ROOT

MAIN = 'if __name__ == "__main__":\n'
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
LIST = ROOT / "benchmarks" / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "baselines/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    LIST,
    *SCRIPTS,
]
COMMAND = re.compile(r"(?:^|`)python -m benchmarks\.(\w(?:[^`#\n]|\n(?=[^`\n]*`))+)", re.MULTILINE)


def _commands(page: Path) -> list[str]:
    """Return what a page shows of the scripts: the name of one and its options."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return [" ".join(found.replace("...", "").split()) for found in COMMAND.findall(text)]


COMMANDS = sorted({command for page in PAGES for command in _commands(page)})


def test_commands_are_found() -> None:
    assert "process_speedup --processes 2 --seconds 16" in COMMANDS  # in running text
    assert "ant_envpool --envpool-python /tmp/envpool/bin/python" in COMMANDS  # in a block
    assert any(command.endswith("--contender new before") for command in COMMANDS)  # in two lines


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_shown_are_understood(command, monkeypatch, capsys) -> None:
    name, *words = shlex.split(command)
    assert (ROOT / "benchmarks" / f"{name}.py").is_file()
    options = [word for word in words if word.startswith("--")]
    if not options:
        return
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit):
        importlib.import_module(f"benchmarks.{name}").main()
    known = re.findall(r"--[a-z-]+", capsys.readouterr().out)
    assert [option for option in options if option not in known] == []


def test_every_script_is_listed() -> None:
    page = LIST.read_text(encoding="utf-8")
    scripts = [path.name for path in SCRIPTS if MAIN in path.read_text(encoding="utf-8")]
    assert [name for name in scripts if f"`{name}`" not in page] == []
    files = {path.name for path in SCRIPTS}
    assert [name for name in re.findall(r"`(\w+\.py)`", page) if name not in files] == []
