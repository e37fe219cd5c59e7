"""What the page on reliability says of the long benchmarks."""

import json
from pathlib import Path

from benchmarks import reached_table

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"


def _content(cpu: str, steps: list[str], outputs: str) -> dict[str, object]:
    way = {
        "simulation": {"suite / task": steps},
        "policy": {"a-method": {"outputs": outputs, "gradients": "1"}},
    }
    return {
        "machine": {"hardware": {"cpu": cpu, "instructions": "avx2"}},
        "ways": {"1 thread": way, "another process": way},
    }


def test_the_page_says_what_the_files_hold() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert reached_table.markdown() in page
    assert reached_table.with_section(page, reached_table.markdown()) == page


def test_another_machine_is_compared_with_the_first(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reached_table, "REACHED", tmp_path)
    assert reached_table.determinism_lines() == []
    for name, content in {
        "determinism": _content("One", ["a", "b"], "1"),
        "determinism-equal": _content("Two", ["a", "b"], "1"),
        "determinism-unlike": _content("Three", ["a", "c"], "2"),
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert reached_table.determinism_lines()[-3:] == [
        "| another process | equal | equal | equal |",
        "| another machine: Two (avx2) | equal | equal | equal |",
        "| another machine: Three (avx2) | 1 of 1 tasks differ, within 200 steps | 1 of 1 methods "
        "differ | equal |",
    ]
