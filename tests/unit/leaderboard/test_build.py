"""Tables as files: the same bytes every time, and nothing else is touched."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.core.errors import RecordError, StorageError
from gmc_bench.leaderboard.build import (
    FRONT_BEGIN,
    FRONT_END,
    README_BEGIN,
    README_END,
    build,
    check,
    open_leaderboard,
    render,
)
from gmc_bench.leaderboard.findings.evidence import read_evidence
from gmc_bench.leaderboard.overview import make_overview
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.records.store import write_record
from tests.support.records import digest_of, make_record

pytestmark = pytest.mark.usefixtures("bare_figures")

TABLE = "unimal-v1/unimal-ft-v1/lite-demo-set-v1"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    write_record(folder / "demo" / "0.json", make_record(seed=0))
    write_record(folder / "demo" / "1.json", make_record(seed=1))
    return folder


def _contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_writes_three_formats_and_an_index(tmp_path: Path, records: Path) -> None:
    tables = tmp_path / "out" / "tables"
    written = build(records, tmp_path / "out")
    figures = ("bodies", "learning-curves", "performance-profiles", "scores")
    names = [
        *("README.md", *(f"{TABLE}-{figure}.svg" for figure in figures)),
        *(f"{TABLE}.csv", f"{TABLE}.md", f"{TABLE}.tex"),
    ]
    assert [path.relative_to(tables).as_posix() for path in written] == names
    assert sorted(_contents(tmp_path / "out")) == [f"tables/{name}" for name in names]
    index = (tables / "README.md").read_text(encoding="utf-8")
    assert f"[md]({TABLE}.md)" in index
    assert "1 ranked, 0 incomplete, 0 not ranked" in index
    assert "Refused" not in index


def test_twice_gives_the_same_bytes_wherever_the_records_lie(tmp_path: Path, records: Path) -> None:
    build(records, tmp_path / "a")
    first = _contents(tmp_path / "a")
    build(records, tmp_path / "a")
    moved = tmp_path / "elsewhere" / "results"
    moved.parent.mkdir()
    records.rename(moved)
    build(moved, tmp_path / "b")
    assert _contents(tmp_path / "a") == first
    assert _contents(tmp_path / "b") == first


@pytest.mark.parametrize("changed", [{"task_digest": digest_of("old")}, {"task_digest": None}])
def test_a_task_that_changed_under_its_id_has_another_table(
    tmp_path: Path, changed: dict[str, str | None]
) -> None:
    """The old one has more rows, but stands for no board any more."""
    write_record(tmp_path / "results" / "new.json", make_record())
    for seed in (0, 1):
        older = make_record(seed=seed, method="older", **changed)
        write_record(tmp_path / "results" / f"{seed}.json", older)
    found = open_leaderboard(tmp_path / "results")
    assert [is_earlier(item.table) for item in found.analyses].count(True) == 1
    (column,) = (c for c in make_overview(found.analyses, ()).columns if c.analysis)
    assert column.analysis is not None
    assert [row.key.method for row in column.analysis.table.rows] == ["demo"]
    assert [
        item.table.rows[0].key.method for item in read_evidence(found.analyses, tmp_path).analyses
    ] == ["demo"]
    names = {name.partition("/")[0] for name in render(found) if name.endswith(".md")}
    assert names == {"README.md", "earlier", "unimal-v1"}


def test_earlier_protocols_are_set_apart_and_leave_the_readme(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{README_BEGIN}\n{README_END}\n", encoding="utf-8")
    old = make_record(protocol_digest=digest_of("old"))
    write_record(tmp_path / "results" / "old.json", old)
    tables = tmp_path / "out" / "tables"
    build(tmp_path / "results", tmp_path / "out", readme)
    page = f"earlier/{TABLE}-{old.protocol_digest[:8]}.md"
    assert "**An earlier protocol.**" in (tables / page).read_text(encoding="utf-8")
    assert "1 more table was measured" in readme.read_text(encoding="utf-8")
    older = make_record(protocol_digest=digest_of("older"))
    write_record(tmp_path / "results" / "older.json", older)
    build(tmp_path / "results", tmp_path / "out", readme)
    assert "2 more tables were measured" in readme.read_text(encoding="utf-8")
    assert "](out/tables/README.md)" in readme.read_text(encoding="utf-8")
    (tmp_path / "results" / "older.json").unlink()
    assert f"]({page})" in (tables / "README.md").read_text(encoding="utf-8").split("## Earlier")[1]
    # With runs under today's rules, the README shows those, and of earlier ones nothing but a link.
    write_record(tmp_path / "results" / "new.json", make_record())
    build(tmp_path / "results", tmp_path / "out", readme)
    text = readme.read_text(encoding="utf-8")
    assert f"out/tables/{TABLE}.md" in text
    assert "earlier/" not in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "has no place for tables; put the lines"),
        (f"{README_END} own {README_BEGIN}", "once each, in this order; correct its marks"),
        (f"{README_BEGIN} own", "once each, in this order; correct its marks"),
        (f"{README_BEGIN}{README_END} own {README_BEGIN}{README_END}", "once each, in this order"),
        (f"{README_BEGIN}{README_END}{FRONT_END} own {FRONT_BEGIN}", "once each, in this order"),
        (f"{README_BEGIN}{FRONT_BEGIN}{FRONT_END}{README_END}", "one pair of marks inside the oth"),
        (f"{README_BEGIN}{FRONT_BEGIN}{README_END}{FRONT_END}", "one pair of marks inside the oth"),
    ],
)
def test_a_page_without_one_pair_of_marks_is_refused_and_nothing_is_written(
    tmp_path: Path, records: Path, text: str, reason: str
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=reason) as caught:
        build(records, tmp_path / "out", readme)
    assert "\n" not in str(caught.value)
    assert readme.read_text(encoding="utf-8") == text
    assert not (tmp_path / "out").exists()


def test_a_readme_in_another_encoding_is_refused(tmp_path: Path, records: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_bytes(f"caf\xe9 {README_BEGIN}{README_END}".encode("latin-1"))
    before = readme.read_bytes()
    with pytest.raises(RecordError, match=r"README\.md is not UTF-8 text .*; convert it"):
        check(records, tmp_path / "out", readme)
    assert readme.read_bytes() == before


@pytest.mark.parametrize(
    "replaced", [{"suite": "quadruped-friction-v2"}, {"task": "quadruped-velocity-v2"}]
)
def test_a_suite_or_task_that_has_a_later_version_is_an_earlier_one(
    tmp_path: Path, replaced: dict[str, str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{README_BEGIN}\n{README_END}\n", encoding="utf-8")
    write_record(tmp_path / "results" / "old.json", make_record(**replaced))
    build(tmp_path / "results", tmp_path / "out", readme)
    (page,) = (tmp_path / "out" / "tables" / "earlier").rglob("*.md")
    assert "**An earlier protocol.**" in page.read_text(encoding="utf-8")
    assert "1 more table was measured" in readme.read_text(encoding="utf-8")


def test_tables_that_would_share_a_name_are_told_apart(tmp_path: Path, records: Path) -> None:
    versions = {**make_record().versions, "mujoco": "9.9.9"}
    write_record(records / "new" / "0.json", make_record(versions=versions))
    files = render(open_leaderboard(records))
    names = [name for name in files if name.endswith(".md") and name != "README.md"]
    assert len(names) == 2
    assert all(name.startswith(f"{TABLE}-") for name in names)
    pages = [files[name] for name in names]
    assert sorted(b"MuJoCo 9.9.9" in page for page in pages) == [False, True]


def test_removes_only_generated_files_that_are_out_of_date(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "out"
    old = records / "old" / "0.json"
    write_record(old, make_record(suite="old-v1", protocol="paper"))
    build(records, out)
    stale = out / "tables" / "old-v1" / "unimal-ft-v1"
    assert {path.suffix for path in stale.iterdir()} == {".csv", ".md", ".tex", ".svg"}
    drawing = out / "tables" / "unimal-v1" / "own.svg"
    drawing.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (out / "tables" / "unimal-v1" / "notes.md").write_text("by hand")
    (out / "tables" / "unimal-v1" / "own.csv").write_text("rank\n1\n")
    outside = out / "copy.md"
    outside.write_bytes((stale / "paper-demo-set-v1.md").read_bytes())
    link = out / "tables" / "link.md"
    link.symlink_to(outside)

    old.unlink()
    build(records, out)

    assert not (out / "tables" / "old-v1").exists()
    assert (out / "tables" / "unimal-v1" / "notes.md").read_text() == "by hand"
    assert (out / "tables" / "unimal-v1" / "own.csv").exists()
    assert drawing.exists()
    assert outside.exists()
    assert link.is_symlink()
    assert (out / "tables" / f"{TABLE}.md").exists()


def test_check_names_what_build_would_change(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "out"
    table = out / "tables" / f"{TABLE}.csv"
    assert table in check(records, out)
    build(records, out)
    assert check(records, out) == []
    original = table.read_text()
    table.write_text(original.replace("demo", "dema"))
    assert check(records, out) == [table]
    build(records, out)
    stale = table.with_name("old.csv")
    stale.write_text(original)
    assert check(records, out) == [stale]
    stale.unlink()
    table.rename(tmp_path / "elsewhere.csv")
    table.symlink_to(tmp_path / "elsewhere.csv")  # whose content may change without the table
    assert check(records, out) == [table]


def test_refused_files_are_reported(
    tmp_path: Path, records: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (records / "broken_one.json").write_text("{")
    write_record(records / "copy.json", make_record(seed=0))
    with caplog.at_level(logging.WARNING):
        build(records, tmp_path / "out")
    index = (tmp_path / "out" / "tables" / "README.md").read_text(encoding="utf-8")
    assert "## Refused files\n\n- broken\\_one.json: it is not readable JSON" in index
    assert "- demo/0.json: it is a copy of copy.json; delete one of them" in index
    assert "refused the record broken_one.json: it is not readable JSON" in caplog.text


def test_no_records_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"no records in .*gmc-bench run --method"):
        build(tmp_path, tmp_path)
    with pytest.raises(RecordError, match="does not exist"):
        build(tmp_path / "absent", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_valid_record_names_the_first_and_changes_nothing(tmp_path: Path, records: Path) -> None:
    out = tmp_path / "out"
    build(records, out)
    before = _contents(out)
    for path in records.rglob("*.json"):
        path.write_text("{}")
    with pytest.raises(RecordError, match=r"none of the 2 .* the first is demo/0\.json: it has"):
        build(records, out)
    assert _contents(out) == before


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path, records: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match="cannot write"):
        build(records, tmp_path / "out")


def test_importing_the_leaderboard_loads_no_engine_and_no_networks() -> None:
    code = (
        "import sys, gmc_bench.leaderboard.build; "
        "print({'torch', 'mujoco', 'tianshou', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout.strip() == "set()"


def test_the_marked_part_of_a_page_is_written_and_checked(tmp_path: Path, records: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{README_BEGIN}\nold\n{README_END}\nafter\n")
    assert page in check(records, tmp_path, page)
    build(records, tmp_path, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{README_BEGIN}\n\n[unimal-v1, unimal-ft-v1")
    assert f"](tables/{TABLE}.md)" in text
    assert "| demo |" in text
    assert text.endswith(f"{README_END}\nafter\n")
    assert "old" not in text
    assert check(records, tmp_path, page) == []
