"""Random ground: what is drawn at a reset, and the MJCF elements it is drawn into.

Terrain changes between episodes without compiling a model again: the model is compiled once with
as many boxes and height fields as any draw can need, and a draw moves and resizes them. What a
draw leaves over is parked under the ground, where nothing collides with it.

Every length is a multiple of a cell of 0.1 m.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202, and Gupta et al. 2022 (MetaMorph),
    arXiv:2203.11931. Differs: geoms are moved instead of compiled anew.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gmc_bench.bodies.mjcf_writer import BOX, FLOOR, PATCH, WALL
from gmc_bench.core.arguments import require_count, require_number
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_integer
from gmc_bench.core.types import Array, DoubleArray, IntArray, Vec3

CELLS_PER_METRE = 10
SURFACE = 1.0  # m, height of flat ground
BEYOND = -10.0  # m, height of what lies beyond a field
WALL_THICKNESS = 1.0  # m
WALL_TOP = 3.0  # m
DEPTH = 0.1  # m, of a height field below z = 0
MAX_HEIGHT = 2.5  # m, of a height field; only the compiler asks
HIGHEST = 30.0  # m above flat ground; heights of cells are 16 bit, in mm


def box(name: str, center: Vec3, half_size: Vec3) -> str:
    """Return a static box, MJCF; friction and contact dimension are the model's defaults."""
    return (
        f'    <geom name="{name}" type="box" pos="{_text(center)}" size="{_text(half_size)}" '
        f'friction="0.7 0.1 0.1"/>'
    )


def walls(low: float, high: float, half_width: float) -> str:
    """Return four walls around the field [low, high] x [-half_width, half_width], MJCF.

    They stand outside the field, 1 m thick, from z = -1 m to 3 m. Those along x cover the corners.
    """
    thick = WALL_THICKNESS / 2
    middle, half_length = (low + high) / 2, (high - low) / 2
    center, half_height = (WALL_TOP - 1.0) / 2, (WALL_TOP + 1.0) / 2
    across, along = (
        (thick, half_width, half_height),
        (half_length + 2 * thick, thick, half_height),
    )
    return "\n".join(
        [
            box(f"{WALL}0", (low - thick, 0.0, center), across),
            box(f"{WALL}1", (high + thick, 0.0, center), across),
            box(f"{WALL}2", (middle, -half_width - thick, center), along),
            box(f"{WALL}3", (middle, half_width + thick, center), along),
        ]
    )


@dataclass(frozen=True, kw_only=True)
class Field:
    """A rectangle of ground around the x axis, in cells.

    Raises:
        ConfigError: a number is no whole number of cells, a length is not positive, or `walled` is
            no truth value.
    """

    start: float
    """x of its low end, m."""
    length: float
    """Along x, m."""
    half_width: float
    """Along y to either side, m."""
    walled: bool
    """Whether walls 1 m thick stand around it."""

    def __post_init__(self) -> None:
        _require_cells(self.start, "the start of a terrain")
        _require_cells(self.length, "the length of a terrain", above=0.0)
        _require_cells(self.half_width, "the half_width of a terrain", above=0.0)
        if not isinstance(self.walled, bool):
            raise ConfigError(
                f"a terrain is walled or not, True or False, got {shown(self.walled)}"
            )

    @property
    def end(self) -> float:
        """Return x of its high end, m."""
        return self.start + self.length

    @property
    def first_column(self) -> int:
        """Return the number of the first column; cell (0, 0) begins at the origin."""
        return _cells(self.start)

    @property
    def num_columns(self) -> int:
        """Return the number of cells along x."""
        return _cells(self.length)

    @property
    def num_rows(self) -> int:
        """Return the number of cells along y."""
        return 2 * _cells(self.half_width)

    @property
    def wall_cells(self) -> int:
        """Return the thickness of its walls in cells, 0 without walls."""
        return _cells(WALL_THICKNESS) if self.walled else 0

    @property
    def _walls(self) -> list[str]:
        return [walls(self.start, self.end, self.half_width)] if self.walled else []


@dataclass(frozen=True, kw_only=True)
class ObstacleField(Field):
    """Boxes at random places of a flat field.

    Each box draws its half length and its half width, then up to `num_tries` places until it does
    not overlap an earlier box; without such a place it is left out. Boxes float 0.1 m above the
    ground and are 4 m high.

    Raises:
        ConfigError: see `Field`; or another number is out of range, or a box has no room.
    """

    num_boxes: int
    half_sizes: tuple[float, ...]
    """Of a box along x and along y, m; whole multiples of a cell."""
    clearance: float
    """Free ground at both ends of the field, m."""
    flats: tuple[float, ...]
    """Half lengths of the flat pieces of the ground, m; the last one is repeated and cut."""
    num_tries: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_integer(self.num_boxes) or self.num_boxes < 0:
            raise ConfigError(
                f"the num_boxes of a terrain must be a number of boxes, at least 0, got "
                f"{shown(self.num_boxes)}"
            )
        require_count(self.num_tries, "the num_tries of a terrain", "places")
        for half in _listed(self.half_sizes, "half_sizes"):
            _require_cells(half, "each number of the half_sizes of a terrain", above=0.0)
        for half in _listed(self.flats, "flats"):
            require_number(half, "each number of the flats of a terrain", above=0.0)
        _require_cells(self.clearance, "the clearance of a terrain", low=0.0)
        largest = max(map(_cells, self.half_sizes))
        along = _cells(self.clearance) + largest
        if 2 * along > self.num_columns or 2 * largest > self.num_rows:
            raise ConfigError(
                f"a terrain of {self.length} x {2 * self.half_width} m with a clearance of "
                f"{self.clearance} m has no room for a box with half a side of "
                f"{max(self.half_sizes)} m; give it more length or width, or smaller boxes"
            )

    @property
    def floor(self) -> str:
        """Return the ground, the walls where there are any, and all boxes, MJCF."""
        lines: list[str] = []
        x, pieces = self.start, list(self.flats)
        while x < self.end:
            half = min(pieces[0], (self.end - x) / 2)
            center = (x + half, 0.0, 0.0)
            lines.append(box(f"{FLOOR}{len(lines)}", center, (half, self.half_width, SURFACE)))
            x += 2 * half
            pieces = pieces[1:] or pieces
        lines += self._walls
        # Spread along x, so that the compiler's tree of bounding boxes suits boxes sorted by x.
        step = self.length / (self.num_boxes + 1)
        for index in range(self.num_boxes):
            center = (self.start + (index + 1) * step, 0.0, BOX_CENTER)
            lines.append(box(f"{BOX}{index}", center, (0.5, 0.5, BOX_HALF_HEIGHT)))
        return "\n".join(lines)

    @property
    def assets(self) -> str:
        """Return nothing: boxes need no assets."""
        return ""

    @property
    def num_fixed(self) -> int:
        """Return the number of geoms before the first box."""
        return self.floor.count("<geom") - self.num_boxes

    @property
    def tables(self) -> tuple[int, int, int, IntArray, int]:
        """Return what the compiled loop needs: see `terrain_kernels.place_boxes`."""
        return (
            self.num_fixed,
            self.num_boxes,
            self.num_tries,
            np.array([_cells(half) for half in self.half_sizes], np.int64),
            _cells(self.clearance),
        )


BOX_CENTER = 3.1  # m, height of a box's middle
BOX_HALF_HEIGHT = 2.0  # m


@dataclass(frozen=True, kw_only=True)
class Corridor(Field):
    """Flat pieces and patches of slopes, steps and rugged ground in turn along x.

    After a first flat piece, a flat piece and a patch of a random kind follow each other; a patch
    that does not fit is left out, and the last flat piece is cut to end with the field. Every
    number is drawn uniformly from the values listed here.

    - slope: height `h sin(pi s)`, s from 0 to 1 along x;
    - steps: equal parts along x with the heights of `step_profile`;
    - rugged: strips across y of a random number of cells; in each strip a triangle wave along x
      from 0 to 2 m with f / 2 periods, clipped at a height.

    Raises:
        ConfigError: see `Field`; or a list holds a number that is out of range, steps are no equal
            parts, or no patch has room.
    """

    first_flat: float
    """Half length, m."""
    flats: tuple[float, ...]
    """Half lengths, m."""
    slopes: tuple[float, ...]
    """Half lengths, m."""
    slope_heights: tuple[float, ...]
    """m above the flat ground."""
    steps: tuple[float, ...]
    """Half lengths, m."""
    step_profile: tuple[float, ...]
    """m above the flat ground."""
    rugged: tuple[float, ...]
    """Half lengths, m."""
    strip_cells: tuple[int, int]
    """Least and greatest width of a strip, cells."""
    frequencies: tuple[int, ...]
    """f, half periods per patch."""
    clip_heights: tuple[float, ...]
    """m above the flat ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_cells(self.first_flat, "the first_flat of a terrain", above=0.0)
        for name in ("flats", "slopes", "steps", "rugged"):
            for half in _listed(getattr(self, name), name):
                _require_cells(half, f"each number of the {name} of a terrain", above=0.0)
        for name in ("slope_heights", "step_profile", "clip_heights"):
            for height in _listed(getattr(self, name), name):
                _require_height(height, f"each number of the {name} of a terrain")
        for frequency in _listed(self.frequencies, "frequencies"):
            require_count(frequency, "each of the frequencies of a terrain", "half periods")
        if len(_listed(self.strip_cells, "strip_cells")) != 2:
            raise ConfigError(
                f"the strip_cells of a terrain must be two numbers, got {shown(self.strip_cells)}"
            )
        low, high = self.strip_cells
        require_count(low, "the first of the strip_cells of a terrain", "cells")
        require_count(high, "the second of the strip_cells of a terrain", "cells")
        if low > high:
            raise ConfigError(
                f"the strip_cells of a terrain must be the least and the greatest width, got "
                f"{self.strip_cells}"
            )
        self._require_room()

    def _require_room(self) -> None:
        count = len(self.step_profile)
        for half in self.steps:
            if 2 * _cells(half) % count:
                raise ConfigError(
                    f"a terrain's steps of half length {half} m are {2 * _cells(half)} cells, "
                    f"which {count} steps of its step_profile cannot share equally; choose "
                    f"another length"
                )
        patches = (*self.slopes, *self.steps, *self.rugged)
        shortest = 2 * (self.first_flat + min(self.flats) + min(patches))
        if _cells(shortest) > self.num_columns:
            raise ConfigError(
                f"a terrain of length {self.length} m has no room for any patch: the first flat "
                f"piece, another and the shortest patch take {shortest:g} m; make it longer"
            )

    @cached_property
    def capacity(self) -> tuple[int, int, int]:
        """Most flat pieces, most patches, and most columns of patches that a draw can need."""
        flats = [2 * _cells(half) for half in self.flats]
        patches = [2 * _cells(half) for half in (*self.slopes, *self.steps, *self.rugged)]

        # Indexed by the number of cells that are left; shorter rests are found before longer ones.
        most = [(0, 0, 0)]
        for left in range(1, self.num_columns - 2 * _cells(self.first_flat) + 1):
            found = (0, 0, 0)
            for flat in flats:
                rest = left - min(flat, left)
                options = [(0, 0, rest)] if any(size > rest for size in patches) else []
                options += [(1, size, rest - size) for size in patches if size <= rest]
                for count, columns, remaining in options:
                    deeper = most[remaining]
                    found = (
                        max(found[0], 1 + deeper[0]),
                        max(found[1], count + deeper[1]),
                        max(found[2], columns + deeper[2]),
                    )
            most.append(found)

        num_flats, num_patches, columns = most[-1]
        return num_flats + 1, num_patches, columns

    @property
    def floor(self) -> str:
        """Return all flat pieces, all patches, and the walls where there are any, MJCF."""
        num_flats, num_patches, _ = self.capacity
        size = (1.0, self.half_width, SURFACE)
        places = np.linspace(self.start + 1.0, self.end - 1.0, num_flats)
        lines = [box(f"{FLOOR}{i}", (float(x), 0.0, 0.0), size) for i, x in enumerate(places)]
        places = np.linspace(self.start + 5.0, self.end - 5.0, num_patches)
        lines += [
            f'    <geom name="{PATCH}{i}" type="hfield" hfield="{PATCH}{i}" '
            f'pos="{_text((float(x), 0.0, 0.0))}" friction="0.7 0.1 0.1"/>'
            for i, x in enumerate(places)
        ]
        return "\n".join([*lines, *self._walls])

    @property
    def assets(self) -> str:
        """Return one height field per patch, MJCF; together they hold the most columns."""
        _, num_patches, columns = self.capacity
        each = math.ceil(columns / num_patches)
        size = _text((1.0, self.half_width, MAX_HEIGHT))
        return "\n".join(
            f'    <hfield name="{PATCH}{i}" nrow="{self.num_rows}" ncol="{each}" '
            f'size="{size} {DEPTH!r}"/>'
            for i in range(num_patches)
        )

    @property
    def tables(self) -> tuple[Array | int, ...]:
        """Return what the compiled loop needs: see `terrain_kernels.lay_corridor`."""
        num_flats, num_patches, _ = self.capacity

        def lengths(halves: tuple[float, ...]) -> IntArray:
            return np.array([2 * _cells(half) for half in halves], np.int64)

        def heights(values: tuple[float, ...]) -> DoubleArray:
            return np.array(values, np.float64)

        return (
            num_flats, num_patches, 2 * _cells(self.first_flat), lengths(self.flats),
            lengths(self.slopes), heights(self.slope_heights),
            lengths(self.steps), heights(self.step_profile),
            lengths(self.rugged), np.array(self.strip_cells, np.int64),
            np.array(self.frequencies, np.int64), heights(self.clip_heights),
        )  # fmt: skip


Terrain = ObstacleField | Corridor


def _cells(length: float) -> int:
    return round(length * CELLS_PER_METRE)


def _listed(given: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(given, tuple) or not given:
        raise ConfigError(
            f"the {name} of a terrain must be a tuple of at least one number, got {shown(given)}"
        )
    return given


def _require_cells(given: Any, what: str, **limits: float) -> None:
    """Check that a length is a whole multiple of a cell, within limits of `require_number`."""
    require_number(given, what, **limits)
    cells = given * CELLS_PER_METRE
    if abs(cells - round(cells)) > 1e-6:
        raise ConfigError(
            f"{what} must be a multiple of {1 / CELLS_PER_METRE} m, the side of a cell, got {given}"
        )


def _require_height(given: Any, what: str) -> None:
    require_number(given, what, low=0.0)
    if given > HIGHEST:
        raise ConfigError(f"{what} must be at most {HIGHEST:g} m, got {given}")


def _text(numbers: tuple[float, ...]) -> str:
    return " ".join(repr(float(number)) for number in numbers)
