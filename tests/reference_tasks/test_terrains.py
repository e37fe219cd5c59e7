"""Random terrains against the description of their generators, measured with rays."""

import math
from dataclasses import dataclass
from itertools import pairwise

import mujoco
import numpy as np
import pytest

from tests.reference_tasks.plain_task import Ground

NUM_TERRAINS = 30
SIZES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # m, half lengths and half widths of boxes
CLIPS = (0.2, 0.3)  # m
FREQUENCIES = (10, 15)
THINNING = 7
"""Periods of rugged pieces are 10 2/3, 16, 21 1/3 or 32 cells, so that no phase is left out."""
SCALE = 2e-4  # m; fields are stretched by up to 4e-5, because their greatest height is rounded


def grounds(name, bodies, make_core):
    core = make_core(name, [bodies[-1]] * NUM_TERRAINS)
    return [Ground(core.simulator.model(row)) for row in range(NUM_TERRAINS)]


def edge(ground, inside, direction, farthest):
    """Return the distance from a place to where the geom under it ends, by bisection."""
    geom = ground.geom_below(*inside)
    near, far = 0.0, farthest
    while far - near > 1e-7:
        middle = (near + far) / 2
        place = (inside[0] + middle * direction[0], inside[1] + middle * direction[1])
        if ground.geom_below(*place) == geom:
            near = middle
        else:
            far = middle
    return near


@dataclass(frozen=True)
class Box:
    """One obstacle: the sides of its rectangle, m."""

    west: float
    east: float
    south: float
    north: float
    top: float
    gap: float
    """Between its underside and the ground, m."""

    @property
    def half_length(self):
        return (self.east - self.west) / 2

    @property
    def half_width(self):
        return (self.north - self.south) / 2

    @property
    def center(self):
        return (self.east + self.west) / 2, (self.north + self.south) / 2


def find_boxes(ground):
    # Every box is at least 1 m long and wide, so a ray in every 0.45 m meets it.
    found = {}
    for x in np.arange(-2.8, 97.0, 0.45):
        for y in np.arange(-19.9, 20.0, 0.45):
            if ground.height(x, y) > 1.5:
                found.setdefault(ground.geom_below(x, y), (x, y))
    return [measure_box(ground, place) for place in found.values()]


def measure_box(ground, place):
    x, y = place
    return Box(
        west=x - edge(ground, place, (-1, 0), 2.5),
        east=x + edge(ground, place, (1, 0), 2.5),
        south=y - edge(ground, place, (0, -1), 2.5),
        north=y + edge(ground, place, (0, 1), 2.5),
        top=ground.height(x, y),
        gap=ground.hit((x, y, 1.001), (0.0, 0.0, 1.0))[0] + 0.001,
    )


@pytest.fixture(scope="module")
def fields(bodies, make_core):
    """The boxes of every terrain."""
    return [find_boxes(each) for each in grounds("unimal-obstacles-v1", bodies, make_core)]


def on_a_grid(value, tolerance=1e-4):
    """Return whether a length is a multiple of 0.1 m, to `tolerance` times as much."""
    return abs(10.0 * value - round(10.0 * value)) < tolerance


def test_50_boxes_a_terrain(fields):
    counts = [len(boxes) for boxes in fields]
    assert max(counts) <= 50
    # A box is left out only after ten misses, each with a chance of at most about one in seven.
    assert np.mean(counts) > 49.9


def test_sizes_of_boxes(fields):
    boxes = [box for field in fields for box in field]
    for sizes in ([box.half_length for box in boxes], [box.half_width for box in boxes]):
        shares = [np.mean(np.isclose(sizes, size, atol=1e-5)) for size in SIZES]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) > 0.12
        assert max(shares) < 0.22
    lengths, widths = zip(*((box.half_length, box.half_width) for box in boxes), strict=True)
    assert abs(np.corrcoef(lengths, widths)[0, 1]) < 0.1


def test_boxes_float_and_are_four_metres_high(fields):
    for box in (box for field in fields for box in field):
        assert box.top == pytest.approx(5.1, abs=1e-6)
        assert box.gap == pytest.approx(0.1, abs=1e-6)


def test_places_of_boxes(fields):
    boxes = [box for field in fields for box in field]
    for box in boxes:
        x, y = box.center
        assert on_a_grid(x)
        assert on_a_grid(y)
        assert 3.0 + box.half_length - 1e-5 <= x <= 91.0 - box.half_length + 1e-5
        assert abs(y) <= 20.0 - box.half_width + 1e-5
    along, across = np.array([box.center for box in boxes]).T
    # Uniform: means and spreads of the uniform distribution, to a few standard errors.
    assert np.mean(along) == pytest.approx(47.0, abs=2.5)
    assert np.std(along) == pytest.approx(86.5 / math.sqrt(12), abs=1.5)
    assert np.mean(across) == pytest.approx(0.0, abs=1.2)
    assert np.std(across) == pytest.approx(38.5 / math.sqrt(12), abs=0.7)


def test_boxes_never_overlap(fields):
    for field in fields:
        for index, one in enumerate(field):
            for other in field[:index]:
                apart_in_x = min(one.east, other.east) - max(one.west, other.west) < 1e-4
                apart_in_y = min(one.north, other.north) - max(one.south, other.south) < 1e-4
                assert apart_in_x or apart_in_y


def test_every_field_is_another(fields):
    assert len({tuple(sorted(box.center for box in field)) for field in fields}) == NUM_TERRAINS


@dataclass(frozen=True)
class Segment:
    """One piece of a corridor."""

    west: float
    east: float
    is_field: bool
    heights: np.ndarray
    """Above 1 m, at vertices; (0, 0) for flat pieces.

    (5, 20 x half length) float64 where all rows are alike, and where they are not all 400 rows, but
    only every `THINNING`-th column.
    """

    @property
    def half_length(self):
        return round((self.east - self.west) / 2, 4)

    @property
    def kind(self):
        if not self.is_field:
            return "flat"
        if np.ptp(self.heights, axis=0).max() > 1e-5:
            return "rugged"
        return "steps" if self.half_length > 8 else "slope"


def find_segments(ground):
    segments = []
    west = -3.0
    while west < 107.0 - 1e-4:
        place = (west + 1e-3, 0.05)
        geom = ground.geom_below(*place)
        assert geom >= 0, f"nothing under x = {place[0]}"
        east = place[0] + edge(ground, place, (1, 0), 40.0)
        is_field = ground.model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD
        heights = profile(ground, west, east) if is_field else np.zeros((0, 0))
        if not is_field:
            middle = (west + east) / 2
            assert ground.height(middle, -19.9) == pytest.approx(1.0, abs=1e-6)
            assert ground.height(middle, 19.9) == pytest.approx(1.0, abs=1e-6)
        segments.append(Segment(west, east, bool(is_field), heights))
        west = east
    return segments


def profile(ground, west, east):
    """Measure a field at its vertices, see `Segment.heights`."""
    columns = round(10 * (east - west))
    xs = np.linspace(west + 1e-6, east - 1e-6, columns)
    ys = np.linspace(-20.0 + 1e-6, 20.0 - 1e-6, 400)
    # Strips are at least 10 cells wide and at the latest peak after 1.6 m.
    few = np.array([[ground.height(x, y) for x in xs[5:16]] for y in ys[::5]])
    if np.ptp(few, axis=0).max() > 1e-5:
        xs = xs[::THINNING]
    else:
        ys = ys[[0, 100, 200, 300, 399]]
    return np.array([[ground.height(x, y) for x in xs] for y in ys]) - 1.0


@pytest.fixture(scope="module")
def corridors(bodies, make_core):
    """The segments of every terrain, from west to east."""
    return [find_segments(each) for each in grounds("unimal-vt-v1", bodies, make_core)]


def every(corridors, kind):
    return [segment for corridor in corridors for segment in corridor if segment.kind == kind]


def test_corridors_run_from_3_m_behind_to_107_m(corridors):
    for corridor in corridors:
        assert corridor[0].kind == "flat"
        assert corridor[0].half_length == pytest.approx(3.0, abs=1e-4)
        assert corridor[-1].east == pytest.approx(107.0, abs=1e-4)


def test_numbers_of_segments(corridors):
    counts = [len(corridor) for corridor in corridors]
    assert min(counts) >= 7
    assert max(counts) <= 23
    assert 12 <= np.mean(counts) <= 16


def test_a_flat_piece_comes_before_every_obstacle(corridors):
    for corridor in corridors:
        assert corridor[1].kind == "flat"
        for before, after in pairwise(corridor):
            assert "flat" in (before.kind, after.kind)
        for one, two, three in zip(corridor[1:], corridor[2:], corridor[3:], strict=False):
            if one.kind == two.kind == "flat":
                # The obstacle between them did not fit: the longest is 32 m.
                assert one.east > 107.0 - 32.0
                assert three.kind != "flat" or two.east > 107.0 - 32.0


def test_lengths(corridors):
    choices = {"flat": (1, 2, 3), "slope": (4, 8), "steps": (12, 16), "rugged": (4, 8)}
    for kind, allowed in choices.items():
        found = [
            segment.half_length
            for corridor in corridors
            for segment in corridor[1:]
            if segment.kind == kind and segment is not corridor[-1]
        ]
        assert {round(length) for length in found} == set(allowed)
        assert np.allclose(found, np.round(found), atol=1e-4)
        shares = [np.mean(np.isclose(found, length, atol=1e-3)) for length in allowed]
        # Long ones fit less often.
        assert min(shares) > 0.5 / len(allowed)
    for corridor in corridors:
        assert corridor[-1].kind != "flat" or corridor[-1].half_length <= 3.0 + 1e-4


def test_obstacles_are_drawn_alike(corridors):
    counts = {kind: len(every(corridors, kind)) for kind in ("slope", "steps", "rugged")}
    # Only the first obstacle always fits, so only its kind is uniform; few late ones are steps.
    first = [next(s.kind for s in corridor if s.kind != "flat") for corridor in corridors]
    assert min(first.count(kind) for kind in counts) >= 4
    shares = np.array(list(counts.values())) / sum(counts.values())
    assert shares.min() > 0.2
    assert shares.max() < 0.45


def test_slopes(corridors):
    peaks = []
    for slope in every(corridors, "slope"):
        steps = slope.heights.shape[1] - 1
        wave = np.sin(np.pi * np.arange(steps + 1) / steps)
        # No vertex stands at the very top: the peak follows from one beside it.
        peak = slope.heights[0, steps // 2] / wave[steps // 2]
        np.testing.assert_allclose(slope.heights, [peak * wave] * 5, atol=SCALE)
        assert on_a_grid(peak, tolerance=1e-2)
        peaks.append(peak)
    assert {round(peak, 1) for peak in peaks} == {0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2}


def test_steps(corridors):
    for steps in every(corridors, "steps"):
        part = steps.heights.shape[1] // 8
        assert part in (30, 40)
        expected = np.repeat([0.0, 0.2, 0.4, 0.6, 0.6, 0.4, 0.2, 0.0], part)
        np.testing.assert_allclose(steps.heights, [expected] * 5, atol=1e-4)


def test_rugged_pieces(corridors):
    pieces = every(corridors, "rugged")
    assert len(pieces) > 20
    strips, widths, narrow = [], [], []
    for piece in pieces:
        columns = round(20 * piece.half_length)
        waves = {
            (f, c): np.minimum(triangle(f, columns), c)[::THINNING]
            for f in FREQUENCIES
            for c in CLIPS
        }
        kinds = []
        for row in piece.heights:
            (kind,) = (key for key, wave in waves.items() if np.abs(row - wave).max() < 1e-4)
            kinds.append(kind)
        runs = lengths_of_runs(kinds)
        assert len(kinds) == 400
        strips += [kind for kind, _ in runs]
        # The strip at one end, always the same one, is cut off by the end of the piece.
        widths += [width for _, width in runs[1:-1]]
        narrow.append([runs[0][1] < 10, runs[-1][1] < 10])
    assert min(np.array(narrow).sum(axis=0)) == 0
    assert min(widths) == 10
    assert set(range(10, 20)) <= set(widths)
    assert widths.count(20) < 0.3 * widths.count(19)  # only two of 10 that look alike
    # Mean width 14.5, and a quarter of the neighbours look alike and count as one.
    assert np.mean(widths) == pytest.approx(14.5 / 0.75, rel=0.06)
    for kind in waves:
        assert strips.count(kind) / len(strips) == pytest.approx(0.25, abs=0.05)


def triangle(frequency, columns):
    """Return `frequency` / 2 periods between 0 and 2 that begin at 0, (columns,) float64."""
    phase = frequency / 2 * np.arange(columns) / (columns - 1)
    return 2.0 - 2.0 * np.abs(2.0 * (phase % 1.0) - 1.0)


def lengths_of_runs(values):
    runs = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return [(value, length) for value, length in runs]


def test_every_corridor_is_another(corridors):
    found = {tuple((s.kind, round(s.east, 3)) for s in corridor) for corridor in corridors}
    assert len(found) == NUM_TERRAINS


def test_segments_start_and_end_on_the_ground(corridors):
    for kind in ("slope", "steps"):
        for segment in every(corridors, kind):
            assert np.abs(segment.heights[:, [0, -1]]).max() < SCALE
    for segment in every(corridors, "rugged"):
        assert np.abs(segment.heights[:, 0]).max() < 1e-4
