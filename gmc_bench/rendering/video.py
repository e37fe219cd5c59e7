"""Draws an episode and encodes it as H.264."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError, StorageError
from gmc_bench.core.types import Array, IntArray
from gmc_bench.rendering.camera import View, fit_distance, follow, outline
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.ground import put_terrain
from gmc_bench.rendering.overlay import Overlay
from gmc_bench.rendering.replay import Replay
from gmc_bench.rendering.scene import FIELD_OF_VIEW, SQUARE, drawing_model, limb_colors
from gmc_bench.rendering.sight import Sight, Trace
from gmc_bench.tasks.spec import Task

EXTRA = "pip install 'gmc-bench[video]'"
HOLD = 1.0
"""s for which the last picture stays."""
_ENDINGS = {"time_limit": "time limit", "diverged": "simulation diverged"}


@dataclass(frozen=True, kw_only=True)
class VideoSettings:
    """How an episode is shown."""

    width: int = 320
    """Pixels, even."""
    height: int = 240
    """Pixels, even."""
    fps: int = 25
    """Pictures per second; the video runs at the speed of the simulation."""

    def __post_init__(self) -> None:
        if self.width % 2 or self.height % 2:
            raise ConfigError(
                f"a video needs an even width and height, got {self.width}x{self.height}; add or "
                f"take away one pixel"
            )


def load_encoder() -> Any:
    """Return the module that runs the encoder.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module("imageio_ffmpeg")
    except ImportError as error:
        raise ConfigError(
            f"videos need the package imageio-ffmpeg, which is not installed; run: {EXTRA}"
        ) from error


def frame_steps(length: int, control_dt: float, fps: int) -> IntArray:
    """Return the control step that each picture shows, the last step at the end.

    Args:
        length: T, control steps of the episode.
        control_dt: s.
        fps: pictures per second.

    Returns:
        (N,) int64, rising from 0 to T, then T for `HOLD` seconds.
    """
    count = int(np.floor(length * control_dt * fps + 1e-9)) + 1
    steps = np.floor(np.arange(count) / (fps * control_dt) + 1e-9).astype(np.int64)
    return np.concatenate([steps, np.full(max(1, round(HOLD * fps)), length)])


def draw_frames(
    replay: Replay, task: Task, title: str, settings: VideoSettings, canvas: Canvas
) -> Iterator[Array]:
    """Draw an episode.

    Args:
        replay: the episode.
        task: what it was about.
        title: written at the top.
        settings: size and pictures per second.
        canvas: of that size.

    Yields:
        (height, width, 3) uint8, one for each of `frame_steps`.
    """
    grid = task.grid
    square = grid.cell_size if grid else SQUARE
    model = drawing_model(replay.morphology, task.scene, square=square)
    put_terrain(model, replay.terrain)
    trace = Trace(grid, replay.states[:, :3], task.ground_height) if grid else None
    view = View()
    centers, radii = outline(model, replay.states)
    above = centers[..., 2] - replay.ground[:, None]
    low = min(float(np.quantile((above - radii).min(axis=1), 0.1)), 0.0)
    high = np.quantile((above + radii).max(axis=1), 0.9)
    points = follow(replay.states[:, :3], replay.ground + (low + high) / 2, replay.control_dt)
    distance = fit_distance(centers, radii, points, view, FIELD_OF_VIEW, canvas.aspect)
    overlay = Overlay(canvas.width, canvas.height, title, limb_colors(replay.morphology))
    data = mujoco.MjData(model)
    canvas.show(model)
    sight = Sight(model)
    for step in frame_steps(replay.length, replay.control_dt, settings.fps).tolist():
        data.qpos[:] = replay.states[step]
        sight.look(points[step], distance, view, canvas.aspect)
        tiles = trace.until(step) if trace else None
        pixels = canvas.draw(data, points[step], distance, view, tiles)
        activity = replay.activity[max(0, step - 1)]
        note = _note(replay) if step == replay.length and replay.ended else ""
        yield overlay.draw(pixels, _numbers(replay, step), activity, note)


def _numbers(replay: Replay, step: int) -> tuple[str, str, str]:
    speed = round(replay.speed(step), 2) + 0.0  # no minus before a zero
    return (
        f"{speed:+.2f} m/s",
        f"return {replay.returns[step]:.2f}",
        f"{step * replay.control_dt:.2f} s, step {step}",
    )


def _note(replay: Replay) -> str:
    ended = _ENDINGS.get(str(replay.ended), str(replay.ended))
    return f"{ended}: return {replay.episode_return:.2f}"


def write_video(
    path: Path,
    replay: Replay,
    task: Task,
    title: str,
    settings: VideoSettings,
    *,
    on_frame: Callable[[], None] | None = None,
) -> int:
    """Draw an episode and write it as MP4 (H.264, yuv420p, index in front).

    Args:
        path: the file; it is seen whole or not at all.
        replay: the episode.
        task: what it was about.
        title: written at the top.
        settings: size and pictures per second.
        on_frame: called after each picture.

    Returns:
        Number of pictures.

    Raises:
        ConfigError: the encoder is not installed, or nothing can be drawn on this machine.
        StorageError: the file cannot be written.
    """

    def draw(canvas: Canvas) -> Iterator[Array]:
        return draw_frames(replay, task, title, settings, canvas)

    return encode(path, settings, draw, on_frame=on_frame)


def encode(
    path: Path,
    settings: VideoSettings,
    draw: Callable[[Canvas], Iterator[Array]],
    *,
    on_frame: Callable[[], None] | None = None,
) -> int:
    """Write pictures as MP4 (H.264, yuv420p, index in front).

    Args:
        path: the file; it is seen whole or not at all.
        settings: size and pictures per second.
        draw: yields (height, width, 3) uint8 from a canvas of that size.
        on_frame: called after each picture.

    Returns:
        Number of pictures.

    Raises:
        ConfigError: the encoder is not installed, or nothing can be drawn on this machine.
        StorageError: the file cannot be written.
    """
    encoder = load_encoder()
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with Canvas(settings.width, settings.height) as canvas:
            sink = encoder.write_frames(
                str(temporary), (settings.width, settings.height), fps=settings.fps,
                codec="libx264", pix_fmt_out="yuv420p", macro_block_size=2, quality=None,
                output_params=["-crf", "20", "-movflags", "+faststart"], ffmpeg_log_level="error",
            )  # fmt: skip
            sink.send(None)
            try:
                for frame in draw(canvas):
                    sink.send(np.ascontiguousarray(frame))
                    count += 1
                    if on_frame:
                        on_frame()
            finally:
                sink.close()
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())[:200]  # the encoder tells all
        raise StorageError(
            f"cannot write {path}: {reason}; free some space or choose another --out"
        ) from error
    finally:
        with suppress(OSError):  # its folder may not even be one
            temporary.unlink(missing_ok=True)
    return count
