"""Titles, drawings, charts and equations on pages."""

import dataclasses
import math
import re

import numpy as np
import pytest

from gmc_bench.bodies.parts import Geom
from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import PluginError
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.site.charts import Series, lines_chart
from gmc_bench.leaderboard.site.drawing import CM, FOOT, draw
from gmc_bench.leaderboard.site.overview import titles
from gmc_bench.leaderboard.site.pages import method_pages
from gmc_bench.methods import METHODS
from gmc_bench.records.store import StoredRecord, record_digest
from gmc_bench.robots import ROBOTS
from tests.support.leaderboards import synthetic_records
from tests.support.records import digest_of


def _analyses(records):
    stored = [
        StoredRecord(f"{k}.json", item, record_digest(item)) for k, item in enumerate(records)
    ]
    return [analyse(table) for table in aggregate(stored)[0]]


def test_no_two_tables_have_one_title():
    records = synthetic_records(2, 2, 6)
    changes = [
        {},
        {"protocol_digest": digest_of("other rules")},
        {"task_digest": digest_of("other task")},
        {"versions": records[0].versions | {"mujoco": "9.9"}},
        {"suite": "elsewhere-v1"},
    ]
    copies = [item.model_copy(update=change) for change in changes for item in records]
    found = titles(_analyses(copies))
    assert len(set(found.values())) == len(changes)
    ((plain,)) = titles(_analyses(records)).values()
    assert plain == f"{records[0].task} on {records[0].morphologies.id}, {records[0].protocol}"


def test_a_drawing_has_every_shape_where_it_is():
    body = biped()
    found = draw(body)
    assert len(found.strokes) == sum(len(limb.geoms) for limb in body.limbs)
    x, y, width, height = map(float, found.view_box.split())
    for stroke in found.strokes:
        for point in stroke.points.split():
            right, down = map(float, point.split(","))
            assert x < right < x + width
            assert y < down < y + height
    torso = body.limbs[0].geom
    assert any(
        stroke.width == pytest.approx(2 * CM * torso.radius, abs=0.1) for stroke in found.strokes
    )
    box = Geom(kind="box", radius=0.2, half_sizes=(0.2, 0.1, 0.1))
    limbs = (dataclasses.replace(body.limbs[0], geom=box), *body.limbs[1:])
    polygon = next(s for s in draw(dataclasses.replace(body, limbs=limbs)).strokes if not s.width)
    assert len(polygon.points.split()) == 6  # the outline of a box that shows three sides
    assert len(polygon.bright.split()) == 4


def _shadows(torso, limb):
    """Return what two limbs cast straight down, cm; the limb hangs half a metre along x."""
    first, second = chain(2).limbs
    limbs = (
        dataclasses.replace(first, position=(0.0, 0.0, 1.0), **torso),
        dataclasses.replace(second, position=(0.5, 0.0, 0.0), **limb),
    )
    found = draw(dataclasses.replace(chain(2), limbs=limbs)).shadows
    return [[tuple(map(float, p.split(","))) for p in item.points.split()] for item in found]


def test_limbs_turn_with_those_that_they_hang_on():
    """A quarter turn about z, then one about the new x: what points along y rises."""
    half = math.sqrt(0.5)
    capsule = Geom(kind="capsule", radius=0.05, start=(0.0, 0.0, 0.0), end=(0.3, 0.2, 0.0))
    torso = {"orientation": (half, 0.0, 0.0, half), "geom": capsule}
    shadows = _shadows(torso, {"orientation": (half, half, 0.0, 0.0), "geom": capsule})
    assert shadows == [[(0.0, 0.0), (-20.0, 30.0)], [(0.0, 50.0), (0.0, 80.0)]]


def test_a_box_is_turned_as_its_limb_says():
    """By 30 degrees about z: of 20 cm along x, 17.3 cm remain there and 10 are along y."""
    turn = (math.cos(math.pi / 12), 0.0, 0.0, math.sin(math.pi / 12))
    box = Geom(kind="box", radius=0.2, half_sizes=(0.2, 0.1, 0.1), orientation=turn)
    (outline, _) = _shadows({"geom": box}, {})
    assert sorted(outline) == [(-22.3, -1.3), (-12.3, -18.7), (12.3, 18.7), (22.3, 1.3)]


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_a_quadruped_stands_on_its_shadow(robot):
    found = draw(robot)
    shapes = [robot.base.shapes, *(link.shapes for link in robot.links)]
    assert len(found.strokes) == len(found.shadows) == sum(map(len, shapes)) + len(robot.feet)
    a, b, c, d = map(float, found.floor.split()[:4])
    for foot, shadow in zip(robot.feet, found.shadows[-4:], strict=True):
        x, y = map(float, shadow.points.split()[0].split(","))
        middle = np.array([a * x + c * y, b * x + d * y])  # of the shadow, in the picture
        size = 2 * CM * foot.radius
        near = [
            stroke
            for stroke in found.strokes
            if stroke.colour == FOOT and np.hypot(*(_first(stroke.points) - middle)) < size
        ]
        assert [stroke.width for stroke in near] == [pytest.approx(size, abs=0.1)]


def _first(points):
    return np.array(list(map(float, points.split()[0].split(","))))


def test_lines_leave_out_what_is_not_finite():
    x = np.arange(4.0)
    good = Series("good", x, np.array([0.0, 1.0, np.nan, 3.0]), x - 1.0, x + 1.0, 5, 2)
    chart = lines_chart([Series("empty", x, np.full(4, np.inf)), good])
    assert [line.label for line in chart.lines] == ["good"]
    assert chart.data["series"] == [
        {
            "label": "good", "colour": 5, "dashes": 2,
            "x": [0, 1, 3], "y": [0, 1, 3], "low": [-1, 0, 2], "high": [1, 2, 4],
        }
    ]  # fmt: skip
    assert lines_chart([Series("empty", x, np.full(4, np.nan))]) is None


def test_a_package_that_does_not_load_has_no_page(monkeypatch):
    listed = [("recmorph", METHODS.get("recmorph")), ("broken", PluginError("no"))]
    monkeypatch.setattr(METHODS, "items", lambda: iter(listed))
    assert list(method_pages()) == ["recmorph", "zero-action"]


def test_equations_are_those_of_the_networks_sources():
    pages = method_pages()
    text = " ".join(lines for _, lines in pages["recmorph"].equations)
    assert "y_j = [f_j ; r_j]" in text
    assert not re.search(r"Args:|Shapes:", text)
    with_equations = [name for name, page in pages.items() if page.equations]
    assert {"recmorph", "metamorph", "swat", "nervenet"} <= set(with_equations)
