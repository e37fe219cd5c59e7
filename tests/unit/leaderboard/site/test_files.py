"""The site's folder: its own files are replaced and removed, those of others never."""

import json
from pathlib import Path

import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.leaderboard.site.files import MANIFEST, write_site


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_stale_files_go_and_others_stay(tmp_path: Path) -> None:
    write_site(tmp_path, {"a.html": b"a", "old/b.html": b"b"})
    (tmp_path / "mine.txt").write_text("mine")
    write_site(tmp_path, {"a.html": b"new"})
    assert _names(tmp_path) == {"a.html", "mine.txt", MANIFEST}
    assert (tmp_path / "a.html").read_bytes() == b"new"
    assert not (tmp_path / "old").exists()


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my home page")
    with pytest.raises(StorageError, match="in the way"):
        write_site(tmp_path, {"index.html": b"ours"})
    assert _names(tmp_path) == {"index.html"}
    assert (tmp_path / "index.html").read_text() == "my home page"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("keep")
    out = tmp_path / "out"
    out.mkdir()
    (out / "index.html").symlink_to(target)
    with pytest.raises(StorageError, match="in the way"):
        write_site(out, {"index.html": b"ours"})
    assert target.read_text() == "keep"


def test_a_build_that_stopped_half_way_is_finished(tmp_path: Path) -> None:
    write_site(tmp_path, {"a.html": b"a", "b.html": b"b"})
    (tmp_path / "b.html").unlink()
    write_site(tmp_path, {"b.html": b"b"})
    assert _names(tmp_path) == {"b.html", MANIFEST}


def test_unchanged_files_are_not_written_again(tmp_path: Path) -> None:
    write_site(tmp_path, {"a.html": b"a"})
    before = (tmp_path / "a.html").stat().st_ino
    write_site(tmp_path, {"a.html": b"a"})
    assert (tmp_path / "a.html").stat().st_ino == before


@pytest.mark.parametrize("name", ["../victim", "/etc/victim", "a/../../victim", "a\\..\\b", "", 3])
def test_a_manifest_that_points_elsewhere_is_refused(tmp_path: Path, name: object) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    out = tmp_path / "out"
    out.mkdir()
    (out / MANIFEST).write_text(json.dumps({"files": [name]}))
    with pytest.raises(StorageError, match="does not list the files of a site"):
        write_site(out, {"index.html": b"ours"})
    assert victim.read_text() == "keep"


def test_nothing_is_removed_through_a_linked_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.html").write_text("keep")
    out = tmp_path / "out"
    write_site(out, {"a.html": b"a", "old/b.html": b"b"})
    (out / "old" / "b.html").unlink()
    (out / "old").rmdir()
    (out / "old").symlink_to(elsewhere)
    write_site(out, {"a.html": b"a"})
    assert (elsewhere / "b.html").read_text() == "keep"
