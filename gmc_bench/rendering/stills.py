"""One picture per body of a set, and a sheet with all of them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
from PIL import Image, ImageDraw, UnidentifiedImageError

from gmc_bench.bodies.schema import Morphology
from gmc_bench.bodies.sets import load_limb_bodies
from gmc_bench.core.errors import StorageError
from gmc_bench.core.types import Array
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.experiments.events import Listener, counter
from gmc_bench.records.store import write_atomic
from gmc_bench.rendering.camera import View, fit_distance, outline
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.episode import no_such_body
from gmc_bench.rendering.ground import copy_terrain, ground_height, put_terrain
from gmc_bench.rendering.overlay import name_font
from gmc_bench.rendering.scene import FIELD_OF_VIEW, SQUARE, drawing_model, lower, rest_state
from gmc_bench.rendering.sight import Trace
from gmc_bench.sim.model import Scene
from gmc_bench.tasks.spec import Task

SHEET = "contact_sheet.png"
STUDIO = Scene(floor='<geom name="floor/0" type="plane" size="0 0 1"/>')
"""An endless floor at z = 0."""
VIEW = View(azimuth=125.0, elevation=-18.0, share_x=0.86, share_y=0.86)
TASK_VIEW = View(azimuth=56.0, elevation=-15.0)
SIDE_VIEW = View(azimuth=80.0, elevation=-15.0)
"""From the side, from which slopes can be told."""
TASK_DISTANCE = 9.5  # m
TASK_AHEAD = 2.6  # m before the body, what the camera looks at

_THUMBNAIL = 128  # pixels, longer side on the sheet
_LABEL = 11  # pixels, text on the sheet
_GAP = 6  # pixels


@dataclass(frozen=True, slots=True)
class StillsReport:
    """What was done."""

    folder: Path
    drawn: int
    kept: int
    """Pictures that were there already, and names that share the picture of another body."""
    sheet: Path


def draw_still(morphology: Morphology, canvas: Canvas) -> Array:
    """Draw a body in its rest pose on the floor.

    Args:
        morphology: the body.
        canvas: gives the size.

    Returns:
        (height, width, 3) uint8.
    """
    model = drawing_model(morphology, STUDIO)
    data = rest_state(model)
    centers, radii = outline(model, data.qpos[None])
    point = (centers[0].min(axis=0) + centers[0].max(axis=0)) / 2
    distance = fit_distance(centers, radii, point[None], VIEW, FIELD_OF_VIEW, canvas.aspect)
    canvas.show(model)
    return canvas.draw(data, point, distance, VIEW)


def draw_start(morphology: Morphology, task: Task, seed: int, canvas: Canvas) -> Array:
    """Draw a body where an episode of a task begins, and the ground before it.

    Args:
        morphology: the body, in its rest pose and without the noise of a start state.
        task: whose ground it stands on.
        seed: of random terrain.
        canvas: gives the size.

    Returns:
        (height, width, 3) uint8.
    """
    core = EnvironmentCore(replace(task, reset_noise=0.0), [morphology], 1, num_threads=1)
    core.simulator.seed(seed)
    core.reset(np.array([0]), np.array([0]))
    grid, slope = task.grid, task.slope
    model = drawing_model(morphology, task.scene, square=grid.cell_size if grid else SQUARE)
    put_terrain(model, copy_terrain(core, 0))
    # A wide picture has more ground in it than a video.
    model.vis.quality.shadowsize, model.vis.map.shadowscale = 4096, 0.4
    data = mujoco.MjData(model)
    data.qpos[:] = core.simulator.data(0).qpos
    ahead = np.array([1.0, 0.0, slope.rise if slope else 0.0])
    ahead /= np.linalg.norm(ahead)
    ground = np.array([data.qpos[0], data.qpos[1], ground_height(core, 0)])
    lower(model, data, ground, np.array([-ahead[2], 0.0, ahead[0]]))
    tiles = Trace(grid, data.qpos[None, :3], task.ground_height).until(0) if grid else None
    canvas.show(model)
    view = SIDE_VIEW if slope else TASK_VIEW
    return canvas.draw(data, ground + TASK_AHEAD * ahead, TASK_DISTANCE, view, tiles)


def bodies_to_draw(
    set_id: str, split: str | None = None, name: str | None = None
) -> tuple[str, list[Morphology]]:
    """Return the full id of a set of limbs, and the bodies of it that are to be drawn.

    Args:
        set_id: the set.
        split: only this; by default both.
        name: only this body.

    Raises:
        UnknownNameError: there is no such set or body.
        MorphologySetError: the set cannot be had here, or holds quadrupeds.
    """
    bodies = load_limb_bodies(set_id)
    splits = (split,) if split else ("train", "test")
    chosen = [body for part in splits for body in bodies.split(part)]
    found = [body for body in chosen if name in (None, body.name)]
    if not found and name is not None:
        raise no_such_body(name, splits, bodies.id, [body.name for body in chosen])
    return bodies.id, found


def write_stills(
    bodies: Sequence[Morphology],
    folder: Path,
    size: tuple[int, int],
    *,
    task: Task | None = None,
    seed: int = 1,
    listener: Listener = lambda _: None,
) -> StillsReport:
    """Write a picture of every body that has none yet, and the sheet of all.

    They are named `<digest>.png`, or `<digest>_<task>_<seed>.png`. The same bodies give the same
    bytes on one machine.

    Args:
        bodies: in the order of the sheet; equal bodies share a file.
        folder: made if it is missing.
        size: width and height, pixels. A file of another size is drawn again.
        task: draw the bodies where its episodes begin; by default on a bare floor.
        seed: of the task's random terrain.
        listener: told of every body.

    Raises:
        ConfigError: nothing can be drawn on this machine.
        MorphologyError: a body cannot be simulated.
        StorageError: a file cannot be written.
    """
    drawn, advance = 0, counter(listener, "stills", "body", len(bodies))
    suffix = f"_{task.id}_{seed}" if task else ""
    paths = [folder / f"{body.digest}{suffix}.png" for body in bodies]
    with Canvas(*size) as canvas:
        for body, path in zip(bodies, paths, strict=True):
            if _size(path) != size:
                found = draw_start(body, task, seed, canvas) if task else draw_still(body, canvas)
                write_atomic(path, _png(Image.fromarray(found)))
                drawn += 1
            advance()
    sheet = folder / SHEET
    write_atomic(sheet, _png(_contact_sheet(bodies, paths, size)))
    return StillsReport(folder, drawn, len(bodies) - drawn, sheet)


def _size(path: Path) -> tuple[int, int] | None:
    """Return the size of a picture, `None` if there is none that can be read."""
    try:
        with Image.open(path) as image:
            image.load()
            return image.size
    except FileNotFoundError:
        return None
    except (UnidentifiedImageError, OSError, SyntaxError):  # cut short, or not a picture
        return None


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=False)
    return buffer.getvalue()


def _contact_sheet(
    bodies: Sequence[Morphology], paths: Sequence[Path], size: tuple[int, int]
) -> Image.Image:
    scale = _THUMBNAIL / max(size)
    wide, tall = (max(1, round(side * scale)) for side in size)
    columns = min(len(bodies), max(1, int(np.ceil(np.sqrt(1.4 * len(bodies))))))
    rows = -(-len(bodies) // columns)
    step_x, step_y = wide + _GAP, tall + 3 * _LABEL
    sheet = Image.new("RGB", (columns * step_x + _GAP, rows * step_y + _GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for index, (body, path) in enumerate(zip(bodies, paths, strict=True)):
        left = _GAP + (index % columns) * step_x
        top = _GAP + (index // columns) * step_y
        try:
            with Image.open(path) as image:
                small = image.convert("RGB").resize((wide, tall), Image.Resampling.LANCZOS)
        except OSError as error:
            raise StorageError(f"cannot read {path}; run again") from error
        sheet.paste(small, (left, top))
        name, line = body.name, 0
        font = name_font(name, _LABEL)
        while name and line < 2:  # names differ at their ends, so what does not fit goes below
            fits = len(name)
            while fits > 1 and font.getlength(name[:fits]) > wide:
                fits -= 1
            place = (left, top + tall + 2 + line * (_LABEL + 1))
            pen.text(place, name[:fits], font=font, fill="black")
            name, line = name[fits:], line + 1
    return sheet
