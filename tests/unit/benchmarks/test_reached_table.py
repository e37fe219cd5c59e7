"""What the page on reliability says of the long benchmarks."""

import json
from pathlib import Path

from benchmarks import reached_table
from benchmarks.fuzz import found_name
from gmc_bench.core.errors import ConfigError

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


def test_findings_are_fixed_if_what_is_kept_breaks_nothing_now(monkeypatch) -> None:
    good, bad = b"refused", b"breaks"

    def target(data: bytes) -> None:
        if data == bad:
            raise RecursionError
        raise ConfigError("a sentence")

    monkeypatch.setattr(reached_table, "seeds", lambda name: [good, bad])
    monkeypatch.setattr(reached_table, "make_target", lambda name: target)
    read = reached_table.read
    found = {found_name(data): "words" for data in (good, bad, b"no longer kept")}
    targets = {"settings": {"executions": 1, "findings": found}}
    monkeypatch.setattr(
        reached_table, "read", lambda name: {"targets": targets} if name == "fuzz" else read(name)
    )
    assert "| 1 | 3 findings, 1 fixed; slowest" in reached_table.markdown()
    for data in (bad, b"no longer kept"):
        del found[found_name(data)]
    assert "| 1 | 1 finding, all fixed; slowest" in reached_table.markdown()
    found.clear()
    assert "| 1 | 0 findings; slowest" in reached_table.markdown()
