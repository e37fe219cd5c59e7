"""The height of the lowest point at the start, against the engine and by hand."""

from dataclasses import replace

import mujoco
import pytest

from gmc_bench.bodies.clearance import check_clearance, start_clearance
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Geom
from gmc_bench.conformance.morphologies import biped, chain, linkage, lowest_point, star
from gmc_bench.core.errors import MorphologyError

TILTED, ROLLED = (0.8, 0.36, -0.48, 0.0), (0.8, 0.6, 0.0, 0.0)
SHAPES = {
    "sphere": Geom(kind="sphere", radius=0.3),
    "capsule": Geom(kind="capsule", radius=0.1, end=(0.4, 0.2, -0.3)),
    "cylinder": Geom(kind="cylinder", radius=0.2, start=(0.1, 0.0, 0.1), end=(0.4, 0.2, -0.3)),
    "box": Geom(
        kind="box", radius=0.4, half_sizes=(0.4, 0.2, 0.1), orientation=(0.8, 0.0, 0.6, 0.0)
    ),
    "ellipsoid": Geom(
        kind="ellipsoid", radius=0.4, half_sizes=(0.4, 0.2, 0.1), orientation=(0.8, 0.0, 0.6, 0.0)
    ),
}


def changed(index, **changes):
    body = biped()
    limbs = list(body.limbs)
    limbs[index] = replace(limbs[index], **changes)
    return replace(body, limbs=tuple(limbs))


@pytest.mark.parametrize("body", [biped(), chain(7), star(5), linkage(3)], ids=lambda b: b.name)
def test_bodies_for_tests_start_where_they_should(body):
    assert start_clearance(body) == pytest.approx(lowest_point(body), abs=1e-12)
    check_clearance(body)


@pytest.mark.slow
def test_published_bodies_start_where_they_should(published):
    found = [start_clearance(body) for split in published.splits.values() for body in split]
    assert min(found) == pytest.approx(0.15)
    assert max(found) == pytest.approx(0.25)


@pytest.mark.parametrize("kind", SHAPES)
def test_turned_limbs_with_several_shapes_reach_as_low_as_the_engine_says(kind):
    body = changed(2, more_geoms=(SHAPES[kind],), orientation=TILTED)
    # What touches nothing does not count, so it is this shape's lowest point.
    torso, *others = (
        replace(limb, geom=replace(limb.geom, contype=0, conaffinity=0)) for limb in body.limbs
    )
    torso = replace(torso, orientation=ROLLED, position=(0.0, 0.0, 3.0))
    body = replace(body, limbs=(torso, *others))
    floor = '<geom name="floor/0" type="plane" size="9 9 1"/>'
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body, floor=floor))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    (solid,) = (geom for geom in range(1, model.ngeom) if model.geom_contype[geom])
    gap = mujoco.mj_geomDistance(model, data, 0, solid, 9.0, None)
    assert start_clearance(body) == pytest.approx(gap, abs=1e-4)


def test_a_body_that_touches_nothing_is_refused():
    body = biped()
    ghosts = tuple(
        replace(limb, geom=replace(limb.geom, contype=0, conaffinity=0)) for limb in body.limbs
    )
    with pytest.raises(MorphologyError, match="'biped' has no shape that could touch the ground"):
        check_clearance(replace(body, limbs=ghosts))


@pytest.mark.parametrize("shift", [-0.11, 0.11])
def test_a_body_that_starts_too_high_or_too_low_is_told_where_its_torso_belongs(shift):
    body = biped()  # its lowest point is as high as it should be
    x, y, z = body.limbs[0].position
    limbs = (replace(body.limbs[0], position=(x, y, z + shift)), *body.limbs[1:])
    with pytest.raises(MorphologyError, match=f"start its torso at z = {z:.4g} instead of "):
        check_clearance(replace(body, limbs=limbs))
