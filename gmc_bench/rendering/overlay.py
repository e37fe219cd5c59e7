"""Text and bars over a picture: numbers above, one bar per limb below."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.rendering.scene import Color

BARS_LABEL = "mean |action| per limb"
_PANEL = (20, 24, 30, 150)  # red, green, blue, opacity
_INK = (255, 255, 255, 255)
_FAINT = (200, 205, 212, 255)


def name_font(name: str, size: int) -> Any:
    """Return the font in which a body's name is written; `size` is in pixels.

    Pillow's own font has the letters of ASCII; where others occur, matplotlib's takes its place.
    """
    if name.isascii():
        return ImageFont.load_default(size)
    from matplotlib import get_data_path

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)


class Overlay:
    """Writes over pictures of one size.

    Args:
        width: pixels.
        height: pixels.
        title: shown at the top of every picture, cut off where it does not fit.
        colors: of the limbs.
    """

    def __init__(self, width: int, height: int, title: str, colors: Sequence[Color]) -> None:
        self._width = width
        self._height = height
        self._colors = colors
        size = max(9, round(height * 0.052))
        self._font: Any = ImageFont.load_default(size)
        small = max(9, round(height * 0.045))
        self._small: Any = ImageFont.load_default(small)
        self._title_font: Any = name_font(title, small)
        self._line = round(size * 1.3)
        self._margin = max(4, size // 2)
        self._title = self._shortened(title)

    def draw(
        self, pixels: Array, numbers: Sequence[str], activity: DoubleArray | None, note: str = ""
    ) -> Array:
        """Write over one picture.

        Args:
            pixels: (height, width, 3) uint8.
            numbers: shown side by side below the title.
            activity: (limbs,) float64 from 0 to 1, height of the bars; NaN for a limb without,
                `None` for no bars at all.
            note: shown below the numbers; empty for nothing.

        Returns:
            (height, width, 3) uint8.
        """
        image = Image.fromarray(pixels)
        pen = ImageDraw.Draw(image, "RGBA")
        pen.rectangle((0, 0, self._width, 2 * self._line + self._margin), fill=_PANEL)
        pen.text((self._margin, self._margin // 2), self._title, font=self._title_font, fill=_FAINT)
        column = (self._width - 2 * self._margin) / len(numbers)
        for index, text in enumerate(numbers):
            place = (self._margin + round(index * column), self._margin // 2 + self._line)
            pen.text(place, text, font=self._font, fill=_INK)
        if activity is not None:
            self._bars(pen, activity)
        if note:
            self._note(pen, note)
        return np.asarray(image)

    def _bars(self, pen: Any, activity: DoubleArray) -> None:
        tall = round(self._height * 0.1)
        bottom = self._height - self._margin
        top = bottom - tall
        pen.rectangle(
            (0, top - self._line - self._margin // 2, self._width, self._height), fill=_PANEL
        )
        pen.text((self._margin, top - self._line), BARS_LABEL, font=self._small, fill=_FAINT)
        slot = min((self._width - 2 * self._margin) / len(activity), self._width / 12)
        for index, value in enumerate(activity):
            left = self._margin + round(index * slot)
            right = self._margin + round((index + 0.8) * slot)
            color = (*self._colors[index], 255)
            pen.line((left, bottom, right, bottom), fill=color, width=2)
            if np.isfinite(value):
                pen.rectangle((left, top, right, bottom), fill=(255, 255, 255, 28))
                pen.rectangle((left, bottom - round(tall * value), right, bottom), fill=color)

    def _note(self, pen: Any, text: str) -> None:
        wide = pen.textlength(text, font=self._font)
        left, top = (self._width - wide) / 2, self._height * 0.24
        pad = self._margin
        pen.rounded_rectangle(
            (left - pad, top - pad / 2, left + wide + pad, top + self._line + pad / 2),
            radius=pad,
            fill=(20, 24, 30, 215),
        )
        pen.text((left, top), text, font=self._font, fill=_INK)

    def _shortened(self, text: str) -> str:
        room = self._width - 2 * self._margin
        if self._title_font.getlength(text) <= room:
            return text
        while text and self._title_font.getlength(f"{text}...") > room:
            text = text[:-1]
        return f"{text}..."
