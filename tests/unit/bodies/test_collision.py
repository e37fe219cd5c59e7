import math

import mujoco
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.bodies.collision import Capsule, gap, touches

coordinate = st.integers(-20, 20).map(lambda n: n / 20)
point = st.tuples(coordinate, coordinate, coordinate)


def _sphere(x: float, y: float, z: float, radius: float) -> Capsule:
    return Capsule((x, y, z), (x, y, z), radius)


def test_two_spheres():
    assert gap(_sphere(0, 0, 0, 0.1), _sphere(3, 4, 0, 0.2)) == pytest.approx(5 - 0.3)


def test_sphere_beside_and_beyond_a_capsule():
    capsule = Capsule((0, 0, 0), (1, 0, 0), 0.1)
    assert gap(capsule, _sphere(0.5, 0.7, 0, 0.2)) == pytest.approx(0.4)
    assert gap(_sphere(0.5, 0.7, 0, 0.2), capsule) == pytest.approx(0.4)
    assert gap(capsule, _sphere(4, 4, 0, 0.2)) == pytest.approx(5 - 0.3)


def test_crossing_parallel_and_collinear_capsules():
    capsule = Capsule((-1, 0, 0), (1, 0, 0), 0.1)
    assert gap(capsule, Capsule((0, -1, 0.5), (0, 1, 0.5), 0.1)) == pytest.approx(0.3)
    assert gap(capsule, Capsule((0, 0.5, 0), (3, 0.5, 0), 0.1)) == pytest.approx(0.3)
    assert gap(capsule, Capsule((2, 0, 0), (3, 0, 0), 0.1)) == pytest.approx(0.8)
    assert gap(capsule, capsule) == pytest.approx(-0.2)


def test_exact_contact_counts_as_touching():
    first = _sphere(0, 0, 0, 0.05)
    assert touches(first, _sphere(0.1, 0, 0, 0.05))
    assert not touches(first, _sphere(0.10001, 0, 0, 0.05))


@settings(max_examples=60, deadline=None)
@given(point, point, point, point)
def test_gap_is_symmetric_and_agrees_with_a_dense_search(a, b, c, d):
    first, second = Capsule(a, b, 0.05), Capsule(c, d, 0.1)
    found = gap(first, second)
    assert gap(second, first) == pytest.approx(found, abs=1e-9)
    steps = [index / 40 for index in range(41)]
    searched = min(math.dist(_between(a, b, s), _between(c, d, t)) for s in steps for t in steps)
    # The exact minimum is at most the searched one, by no more than half a grid step per segment.
    grid = (math.dist(a, b) + math.dist(c, d)) / 80
    assert searched - grid - 1e-9 <= found + 0.15 <= searched + 1e-9


def _between(start, end, fraction):
    return tuple(p + fraction * (q - p) for p, q in zip(start, end, strict=True))


@settings(max_examples=100, deadline=None)
@given(point, point, point, point)
def test_gap_agrees_with_the_engine(a, b, c, d):
    if math.dist(a, b) < 1e-6 or math.dist(c, d) < 1e-6:
        return
    text = "<mujoco><worldbody>"
    for start, end, radius in ((a, b, 0.05), (c, d, 0.1)):
        ends = " ".join(str(number) for number in (*start, *end))
        text += f'<body><joint/><geom type="capsule" fromto="{ends}" size="{radius}"/></body>'
    model = mujoco.MjModel.from_xml_string(text + "</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    distance = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)
    assert gap(Capsule(a, b, 0.05), Capsule(c, d, 0.1)) == pytest.approx(distance, abs=1e-6)
