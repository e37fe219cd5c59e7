"""Files that every player understands."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, StorageError
from gmc_bench.rendering import video
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.episode import require_video
from gmc_bench.rendering.sight import Trace
from gmc_bench.rendering.video import VideoSettings, draw_frames, film_of, frame_steps, write_video
from gmc_bench.tasks.spec import VisitGrid

SMALL = VideoSettings(width=96, height=80, fps=20)


def film(subject):
    return film_of(subject.replay(0, 0), subject.task, "title", SMALL)


def test_pictures_are_taken_at_the_speed_of_the_simulation():
    # 0.02 s a step at 25 pictures a second: every second step; 5 steps are 0.1 s.
    assert frame_steps(5, 0.02, 25)[:4].tolist() == [0, 2, 4, 5]
    assert frame_steps(6, 0.02, 25)[:5].tolist() == [0, 2, 4, 6, 6]
    assert frame_steps(3, 0.02, 100)[:8].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for length, fps in ((1000, 25), (61, 30), (7, 3)):
        steps = frame_steps(length, 0.02, fps)
        assert steps[0] == 0
        assert (np.diff(steps) >= 0).all()
        assert (steps[-fps:] == length).all()
        assert (steps[: -fps - 1] <= length).all()
        assert (steps < length).sum() == pytest.approx(length * 0.02 * fps, abs=1)


@pytest.mark.parametrize("fps", [20, 25, 30])
def test_only_an_end_is_held(subject, fps):
    whole = film_of(subject.replay(0, 0), subject.task, "title", SMALL)
    part = film_of(subject.replay(0, 0, seconds=0.2), subject.task, "title", SMALL)
    steps = part.frame_steps(fps)
    assert part.length == 10
    assert len(steps) == 0.2 * fps + 1
    assert (np.diff(steps) > 0).all()
    assert whole.frame_steps(fps)[-fps:].tolist() == [whole.length] * fps


def test_every_picture_shows_its_own_step(subject, monkeypatch):
    """With what is written over it, and the cells that were visited so far."""
    replay, drawn, written = subject.replay(0, 0, seconds=0.7), [], []
    shown = film_of(replay, subject.task, "title", SMALL)
    grid = VisitGrid(low=(-9.0, -9.0), shape=(1800, 1800), cell_size=0.01)
    shown = replace(shown, trace=Trace(grid, replay.states[:, :3], 1.0), ending="the end")

    class Writer:
        def __init__(self, *size_title_and_colors):
            pass

        def draw(self, pixels, numbers, activity, note):
            written.append((numbers, activity, note))

    def draw(data, point, distance, view, tiles):
        drawn.append((data.qpos.copy(), point, tiles))

    monkeypatch.setattr(video, "Overlay", Writer)
    canvas = SimpleNamespace(width=96, height=80, aspect=1.2, show=lambda _: None, draw=draw)
    assert len(list(draw_frames(shown, SMALL, canvas))) == len(drawn) == len(written)
    for step, (qpos, point, tiles), (numbers, activity, note) in zip(
        shown.frame_steps(SMALL.fps), drawn, written, strict=True
    ):
        np.testing.assert_array_equal(qpos, replay.states[step])
        np.testing.assert_array_equal(point, shown.points[step])
        np.testing.assert_array_equal(activity, replay.activity[max(step - 1, 0)])
        cells = {tuple(np.floor(100 * place)) for place in replay.states[: step + 1, :2]}
        assert len(tiles.centers) == len(cells)
        first = max(0, step - 25)  # half a second
        moved = replay.states[step, 0] - replay.states[first, 0]
        speed = moved / (0.02 * (step - first)) if step else 0.0
        assert float(numbers[0].removesuffix(" m/s")) == pytest.approx(speed, abs=0.0051)
        assert numbers[1:] == (
            f"return {replay.returns[step]:.2f}", f"{0.02 * step:.2f} s, step {step}"
        )  # fmt: skip
        assert note == ("the end" if step == replay.length else "")


def test_odd_sizes_are_refused():
    with pytest.raises(ConfigError, match="even width and height, got 321x240"):
        VideoSettings(width=321, height=240)


def test_a_missing_encoder_is_named(monkeypatch, subject, tmp_path):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(video, "import_module", fail)
    with pytest.raises(ConfigError, match=r"imageio-ffmpeg.*pip install 'gmc-bench\[video\]'"):
        write_video(tmp_path / "a.mp4", film(subject), SMALL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("drawing")
def test_the_body_stays_in_view_and_the_end_is_written(subject):
    replay = subject.replay(0, 0)
    settings = VideoSettings(width=160, height=120, fps=10)
    with Canvas(160, 120) as canvas:
        frames = list(
            draw_frames(film_of(replay, subject.task, "title", settings), settings, canvas)
        )
    assert len(frames) == len(frame_steps(replay.length, replay.control_dt, 10))
    free = slice(30, 96)  # between what is written above and below
    for frame in frames:
        wide = frame.astype(int)[free]
        colored = wide.max(axis=2) - wide.min(axis=2) > 90
        assert colored.sum() > 50
        assert not colored[:, :4].any()
        assert not colored[:, -4:].any()
    assert (frames[-1][28:50, 40:120] != frames[-12][28:50, 40:120]).any()
    assert (frames[-1] == frames[-2]).all()


@pytest.mark.usefixtures("drawing")
def test_the_body_stays_in_view_on_every_ground(ground_subject):
    replay = ground_subject.replay(2, 0, seconds=0.4)
    with Canvas(160, 120) as canvas:
        settings = VideoSettings(width=160, height=120, fps=4)
        shown = film_of(replay, ground_subject.task, "title", settings)
        *_, frame = draw_frames(shown, settings, canvas)
    wide = frame.astype(int)[30:96]
    colored = wide.max(axis=2) - wide.min(axis=2) > 90
    assert colored.sum() > 50
    assert not colored[:, [0, -1]].any()


@pytest.mark.usefixtures("drawing")
def test_the_file_is_h264_that_starts_at_once(subject, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra 'video' is not installed")
    path, done = tmp_path / "made" / "a.mp4", []
    shown = film(subject)
    count = write_video(path, shown, SMALL, on_frame=lambda: done.append(1))
    assert [item.name for item in path.parent.iterdir()] == ["a.mp4"]
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    frames = ffmpeg.read_frames(str(path))
    meta = next(frames)
    assert (meta["size"], meta["fps"], meta["codec"]) == ((96, 80), 20.0, "h264")
    assert meta["pix_fmt"].startswith("yuv420p")
    assert sum(1 for _ in frames) == count == len(done) == len(frame_steps(shown.length, 0.02, 20))


def test_an_encoder_that_is_not_there_is_named_before_anything_is_drawn(monkeypatch):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra 'video' is not installed")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/nowhere/ffmpeg")
    with pytest.raises(ConfigError, match="but '/nowhere/ffmpeg' is no program; set"):
        require_video()

    def fail():
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", fail)
    with pytest.raises(ConfigError, match="none was found that runs; install it"):
        require_video()


@pytest.mark.usefixtures("drawing")
def test_a_file_that_cannot_be_written_is_named(subject, tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="the extra 'video' is not installed")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*a.mp4"):
        write_video(tmp_path / "file" / "a.mp4", film(subject), SMALL)


@pytest.mark.usefixtures("drawing")
def test_an_interrupted_video_leaves_nothing(subject, tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="the extra 'video' is not installed")

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_video(tmp_path / "a.mp4", film(subject), SMALL, on_frame=stop)
    assert list(tmp_path.iterdir()) == []
