"""Media are found by set, digest and method, and copied under safe names."""

from pathlib import Path

import pytest

from gmc_bench.leaderboard.site.media import Media

DIGEST = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set-v1").mkdir()
    (tmp_path / "set-v1" / f"{DIGEST}.png").write_bytes(b"picture")
    videos = tmp_path / "videos" / "demo"
    videos.mkdir(parents=True)
    (videos / "walks <b>fast.mp4").write_bytes(b"video")
    (videos / "notes.txt").write_text("not a video")
    return tmp_path


def test_a_picture_is_copied(folder: Path) -> None:
    media = Media(folder)
    path = media.picture("set-v1", DIGEST)
    assert path is not None
    assert path.endswith(f"/{DIGEST}.png")
    assert media.files == {path: b"picture"}
    assert media.picture("set-v1", "cd" * 32) is None


def test_videos_have_their_file_name_as_caption(folder: Path) -> None:
    media = Media(folder)
    (video,) = media.videos("demo")
    assert video.caption == "walks <b>fast"
    assert media.files == {video.path: b"video"}
    assert not set("<> ") & set(video.path)
    assert media.videos("other") == ()


def test_without_a_folder_there_is_nothing() -> None:
    assert Media(None).picture("set-v1", DIGEST) is None
    assert Media(None).videos("demo") == ()
