"""One picture per body of a set, and a sheet with all of them."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError

from gmc_bench.errors import StorageError
from gmc_bench.morphology.schema import Morphology
from gmc_bench.rendering.camera import View, fit_distance, outline
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.scene import FIELD_OF_VIEW, drawing_model, rest_state
from gmc_bench.results.store import write_atomic
from gmc_bench.sim.model import Scene
from gmc_bench.types import Array

SHEET = "contact_sheet.png"
STUDIO = Scene(floor='<geom name="floor/0" type="plane" size="0 0 1"/>')
"""An endless floor at z = 0."""
VIEW = View(azimuth=125.0, elevation=-18.0, share_x=0.86, share_y=0.86)

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


def write_stills(
    bodies: Sequence[Morphology],
    folder: Path,
    size: tuple[int, int],
    *,
    on_body: Callable[[], None] | None = None,
) -> StillsReport:
    """Write `<digest>.png` for every body that has none yet, and the sheet of all.

    The same bodies give the same bytes on one machine.

    Args:
        bodies: in the order of the sheet; equal bodies share a file.
        folder: made if it is missing.
        size: width and height, pixels. A file of another size is drawn again.
        on_body: called after each body.

    Raises:
        ConfigError: nothing can be drawn on this machine.
        StorageError: a file cannot be written.
    """
    drawn = 0
    with Canvas(*size) as canvas:
        for body in bodies:
            path = folder / f"{body.digest}.png"
            if _size(path) != size:
                write_atomic(path, _png(Image.fromarray(draw_still(body, canvas))))
                drawn += 1
            if on_body:
                on_body()
    sheet = folder / SHEET
    write_atomic(sheet, _png(_contact_sheet(bodies, folder, size)))
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
    bodies: Sequence[Morphology], folder: Path, size: tuple[int, int]
) -> Image.Image:
    scale = _THUMBNAIL / max(size)
    wide, tall = (max(1, round(side * scale)) for side in size)
    columns = min(len(bodies), max(1, int(np.ceil(np.sqrt(1.4 * len(bodies))))))
    rows = -(-len(bodies) // columns)
    step_x, step_y = wide + _GAP, tall + 3 * _LABEL
    sheet = Image.new("RGB", (columns * step_x + _GAP, rows * step_y + _GAP), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_LABEL)
    for index, body in enumerate(bodies):
        left = _GAP + (index % columns) * step_x
        top = _GAP + (index // columns) * step_y
        try:
            with Image.open(folder / f"{body.digest}.png") as image:
                small = image.convert("RGB").resize((wide, tall), Image.Resampling.LANCZOS)
        except OSError as error:
            raise StorageError(f"cannot read {folder}/{body.digest}.png; run again") from error
        sheet.paste(small, (left, top))
        name, line = body.name, 0
        while name and line < 2:  # names differ at their ends, so what does not fit goes below
            fits = len(name)
            while fits > 1 and font.getlength(name[:fits]) > wide:
                fits -= 1
            place = (left, top + tall + 2 + line * (_LABEL + 1))
            pen.text(place, name[:fits], font=font, fill="black")
            name, line = name[fits:], line + 1
    return sheet
