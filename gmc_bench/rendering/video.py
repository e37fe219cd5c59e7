"""Film of a body in motion: drawn picture by picture, and encoded as H.264."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError, StorageError
from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.rendering.camera import View, fit_distance, follow, outline
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.ground import put_terrain
from gmc_bench.rendering.overlay import Overlay
from gmc_bench.rendering.replay import Replay
from gmc_bench.rendering.scene import FIELD_OF_VIEW, SQUARE, Color, drawing_model, limb_colors
from gmc_bench.rendering.sight import Sight, Trace
from gmc_bench.tasks.spec import Task

EXTRA = "pip install 'gmc-bench[video]'"
HOLD = 1.0
"""s for which the last picture stays, if it is the end."""
_ENDINGS = {"time_limit": "time limit", "diverged": "simulation diverged"}


@dataclass(frozen=True, kw_only=True)
class VideoSettings:
    """How an episode is shown.

    Raises:
        ConfigError: the width or the height is odd.
    """

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

    @property
    def aspect(self) -> float:
        """Width / height."""
        return self.width / self.height


@dataclass(frozen=True, kw_only=True, eq=False)
class Film:
    """A model in T + 1 states, from where it is seen, and what is written over it."""

    title: str
    """Written at the top."""
    model: Any
    """`mujoco.MjModel` for drawing."""
    states: DoubleArray
    """(T + 1, nq) float64, positions as the engine holds them."""
    points: DoubleArray
    """(T + 1, 3) float64, what the camera looks at, m, world."""
    distance: float
    """Of the camera from them, m."""
    control_dt: float
    """s between two states."""
    numbers: Callable[[int], Sequence[str]]
    """From a step to what is written below the title."""
    ending: str = ""
    """Written over the last pictures; empty for nothing."""
    activity: DoubleArray | None = None
    """(T, limbs) float64, see `Overlay`; `None` for no bars."""
    colors: Sequence[Color] = ()
    """Of the limbs' bars."""
    trace: Trace | None = None
    """Cells of the ground that are coloured once visited."""

    @property
    def length(self) -> int:
        """T, control steps."""
        return len(self.states) - 1

    def frame_steps(self, fps: int) -> IntArray:
        """Return the control step that each picture shows, see `frame_steps`."""
        return frame_steps(self.length, self.control_dt, fps, hold=bool(self.ending))


def load_encoder() -> Any:
    """Return the module that runs the encoder.

    Raises:
        ConfigError: it, or the encoder, is not installed.
    """
    try:
        encoder = import_module("imageio_ffmpeg")
    except ImportError as error:
        raise ConfigError(
            f"videos need the package imageio-ffmpeg, which is not installed; run: {EXTRA}"
        ) from error
    try:
        program = encoder.get_ffmpeg_exe()  # which is what IMAGEIO_FFMPEG_EXE says, unseen
    except RuntimeError as error:  # the package does not bring one for all machines
        raise ConfigError(
            "videos need the encoder ffmpeg, and none was found that runs; install it, or set "
            "IMAGEIO_FFMPEG_EXE to its path"
        ) from error
    if shutil.which(program) is None:
        raise ConfigError(
            f"videos need the encoder ffmpeg, but {program!r} is no program; set "
            f"IMAGEIO_FFMPEG_EXE to its path, or leave the variable out"
        )
    return encoder


def frame_steps(length: int, control_dt: float, fps: int, *, hold: bool = True) -> IntArray:
    """Return the control step that each picture shows.

    Args:
        length: T, control steps that are shown.
        control_dt: s.
        fps: pictures per second.
        hold: whether they end there.

    Returns:
        (N,) int64, rising from 0 to the last one that is due; with `hold`, then T for `HOLD` s.
    """
    count = int(np.floor(length * control_dt * fps + 1e-9)) + 1
    steps = np.floor(np.arange(count) / (fps * control_dt) + 1e-9).astype(np.int64)
    held = max(1, round(HOLD * fps)) if hold else 0
    return np.concatenate([steps, np.full(held, length)])


def film_of(replay: Replay, task: Task, title: str, settings: VideoSettings) -> Film:
    """Return the film of an episode.

    Args:
        replay: the episode.
        task: what it was about.
        title: written at the top.
        settings: size of the pictures: all of the body is to be seen.
    """
    grid, path = task.grid, replay.states[:, :3]
    square = grid.cell_size if grid else SQUARE
    model = drawing_model(replay.morphology, task.scene, square=square)
    put_terrain(model, replay.terrain)
    centers, radii = outline(model, replay.states)
    above = centers[..., 2] - replay.ground[:, None]
    low = min(float(np.quantile((above - radii).min(axis=1), 0.1)), 0.0)
    high = np.quantile((above + radii).max(axis=1), 0.9)
    points = follow(path, replay.ground + (low + high) / 2, replay.control_dt)
    ended = _ENDINGS.get(str(replay.ended), str(replay.ended))
    return Film(
        title=title,
        model=model,
        states=replay.states,
        points=points,
        distance=fit_distance(centers, radii, points, View(), FIELD_OF_VIEW, settings.aspect),
        control_dt=replay.control_dt,
        numbers=partial(_numbers, replay),
        ending=f"{ended}: return {replay.episode_return:.2f}" if replay.ended else "",
        activity=replay.activity,
        colors=limb_colors(replay.morphology),
        trace=Trace(grid, path, task.ground_height) if grid else None,
    )


def _numbers(replay: Replay, step: int) -> tuple[str, str, str]:
    speed = round(replay.speed(step), 2) + 0.0  # no minus before a zero
    return (
        f"{speed:+.2f} m/s",
        f"return {replay.returns[step]:.2f}",
        f"{step * replay.control_dt:.2f} s, step {step}",
    )


def draw_frames(film: Film, settings: VideoSettings, canvas: Canvas) -> Iterator[Array]:
    """Draw a film.

    Args:
        film: what is shown.
        settings: pictures per second.
        canvas: gives the size.

    Yields:
        (height, width, 3) uint8, one for each of `Film.frame_steps`.
    """
    view, data, sight = View(), mujoco.MjData(film.model), Sight(film.model)
    overlay = Overlay(canvas.width, canvas.height, film.title, film.colors)
    canvas.show(film.model)
    for step in film.frame_steps(settings.fps).tolist():
        data.qpos[:] = film.states[step]
        point = film.points[step]
        sight.look(point, film.distance, view, canvas.aspect)
        tiles = film.trace.until(step) if film.trace else None
        pixels = canvas.draw(data, point, film.distance, view, tiles)
        activity = None if film.activity is None else film.activity[max(0, step - 1)]
        ending = film.ending if step == film.length else ""
        yield overlay.draw(pixels, film.numbers(step), activity, ending)


def write_video(
    path: Path,
    film: Film,
    settings: VideoSettings,
    *,
    on_frame: Callable[[], None] | None = None,
) -> int:
    """Draw a film and write it as MP4 (H.264, yuv420p, index in front).

    Args:
        path: the file; it is seen whole or not at all.
        film: what is shown.
        settings: size and pictures per second.
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
                for frame in draw_frames(film, settings, canvas):
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
