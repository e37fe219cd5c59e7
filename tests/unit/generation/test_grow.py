import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.bodies import design
from gmc_bench.bodies.collision import Capsule
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.grow import draw_growth, grow_body
from gmc_bench.generation.grown_limbs import TORSO, Growth, Site, is_free, limb_site, place

RANGES = {tuple(math.radians(side) for side in pair) for pair in design.JOINT_RANGES}
bodies = st.builds(
    lambda seed, num_limbs: grow_body(np.random.default_rng(seed), num_limbs, "grown"),
    seed=st.integers(0, 2**32 - 1),
    num_limbs=st.integers(1, 12),
)


def _origins(body: Morphology) -> list[np.ndarray]:
    """Limb origins in the torso frame; all limb frames are parallel to it."""
    origins = [np.zeros(3)]
    for limb in body.limbs[1:]:
        origins.append(origins[limb.parent] + np.array(limb.position))
    return origins


def _shapes(body: Morphology) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (origin + np.array(limb.geom.start), origin + np.array(limb.geom.end))
        for origin, limb in zip(_origins(body), body.limbs, strict=True)
    ]


@settings(max_examples=60, deadline=None)
@given(bodies)
def test_every_body_is_its_own_mirror_image(body):
    flip = np.array([1.0, -1.0, 1.0])
    images = {index: index for index in range(body.num_limbs)}
    for first, second in body.symmetric_limbs:
        images[first], images[second] = second, first
    shapes = _shapes(body)
    for index, image in images.items():
        for end in (0, 1):
            np.testing.assert_allclose(shapes[index][end] * flip, shapes[image][end], atol=1e-9)
        joints, twins = body.limbs[index].joints, body.limbs[image].joints
        assert [(j.range, j.slot) for j in joints] == [(j.range, j.slot) for j in twins]
    gears = {actuator.joint: actuator.gear for actuator in body.actuators}
    for first, second in body.symmetric_limbs:
        assert [gears[j.name] for j in body.limbs[first].joints] == [
            gears[j.name] for j in body.limbs[second].joints
        ]


@settings(max_examples=60, deadline=None)
@given(bodies)
def test_every_limb_is_driven_within_the_design_space(body):
    driven = [actuator.joint for actuator in body.actuators]
    assert driven == [joint.name for limb in body.limbs for joint in limb.joints]
    for limb in body.limbs[1:]:
        assert len(limb.joints) in (1, 2)
        assert all(joint.range in RANGES for joint in limb.joints)
        assert limb.geom.density == body.limbs[1].geom.density
    assert {actuator.gear for actuator in body.actuators} <= set(design.GEARS)


@settings(max_examples=60, deadline=None)
@given(bodies)
def test_lowest_point_is_at_the_published_clearance(body):
    height = body.limbs[0].position[2]
    radii = [limb.geom.radius for limb in body.limbs]
    lowest = min(
        min(start[2], end[2]) - radius
        for (start, end), radius in zip(_shapes(body), radii, strict=True)
    )
    assert height + lowest == pytest.approx(0.2, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(bodies)
def test_the_engine_finds_no_self_contact_and_a_balanced_body(body):
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    origins = _origins(body)
    for contact in data.contact:
        first, second = sorted(model.geom_bodyid[[contact.geom1, contact.geom2]] - 1)
        assert (first, second) in body.symmetric_limbs
        assert body.limbs[first].parent == body.limbs[second].parent
        assert np.linalg.norm(origins[first] - origins[second]) <= 2 * design.TORSO_RADIUS + 1e-9
    assert data.subtree_com[1][1] == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(bodies)
def test_no_limb_folds_back_into_its_parent(body):
    for limb in body.limbs[1:]:
        if limb.parent > 0:
            inner, outer = np.array(body.limbs[limb.parent].geom.end), np.array(limb.geom.end)
            cosine = inner @ outer / np.linalg.norm(inner) / np.linalg.norm(outer)
            assert cosine > -0.99


@pytest.mark.parametrize(
    ("directions", "free"),
    [
        ([(0.0, 1.0, 0.0)], True),
        ([(-1.0, 0.0, 0.0)], False),  # through its parent, which may be, into the torso
        ([(0.0, 0.0, -1.0)], False),  # into the foot
        ([(0.0, 1.0, 0.0), (0.0, 1.0, 0.0)], True),  # twins at one site
    ],
)
def test_new_limbs_touch_nothing_but_their_parent_and_their_twin(directions, free):
    torso = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    leg = Growth((torso,), ((1.0, 0.0, 0.0),))
    parts = place((), leg, 0.2, ())
    foot = place((), Growth((torso,), ((0.0, 0.0, -1.0),)), 0.2, ())[0]
    low = Capsule((0.3, 0.0, -0.2), (0.4, 0.0, -0.2), 0.05)
    parts.append(replace(foot, shape=low))
    tip = limb_site(parts, 0, middle=False)
    growth = Growth((tip,) * len(directions), tuple(directions))
    assert is_free(parts, place(parts, growth, 0.4, ())) is free


@pytest.mark.parametrize("symmetric", [True, False])
def test_limbs_grow_in_all_directions_but_along_the_inside_of_their_parent(symmetric):
    forward = (1.0, 0.0, 0.0)
    torso = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    parts = place((), Growth((torso,), (forward,)), 0.2, ())
    rng, found = np.random.default_rng(0), set()
    for _ in range(3000):
        growth = draw_growth(rng, parts, symmetric=symmetric)
        for site, direction in zip(growth.sites, growth.directions, strict=True) if growth else ():
            if site.parent == 0:
                found.add((site.middle, direction))
    directions = {design.unit_direction(a, i) for a in design.AZIMUTHS for i in design.INCLINATIONS}
    inside = {(False, (-1.0, 0.0, 0.0)), (True, (-1.0, 0.0, 0.0)), (True, forward)}
    assert found == {(middle, d) for middle in (False, True) for d in directions} - inside


def test_two_new_limbs_at_different_sites_must_not_touch():
    torso = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    parts = [
        part
        for y in (0.0, 1.0)
        for part in place((), Growth((torso,), ((1.0 - y, y, 0.0),)), 0.2, ())
    ]
    tips = tuple(limb_site(parts, number, middle=False) for number in (0, 1))
    for direction, free in (((0.0, 0.0, -1.0), True), ((1.0, 0.0, 0.0), True)):
        growth = Growth(tips, (direction, direction))
        assert is_free(parts, place(parts, growth, 0.2, ())) is free
    crossing = Growth(tips, ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0)))
    assert not is_free(parts, place(parts, crossing, 0.4, ()))


def test_equal_seeds_give_equal_bodies_and_other_seeds_others():
    first, second, other = (grow_body(np.random.default_rng(seed), 8, "b") for seed in (3, 3, 4))
    assert first == second
    assert first.digest != other.digest


@pytest.mark.parametrize("num_limbs", [1, 2, 11, 29])
def test_size_is_the_requested_one(num_limbs):
    body = grow_body(np.random.default_rng(0), num_limbs, "b")
    assert body.num_limbs == num_limbs + 1
    assert body.name == "b"


def test_refuses_sizes_below_one():
    with pytest.raises(MorphologyError, match="0 limbs; ask for at least 1"):
        grow_body(np.random.default_rng(0), 0, "b")


def test_gives_up_on_sizes_that_do_not_fit(monkeypatch):
    monkeypatch.setattr("gmc_bench.generation.grow._RESTARTS", 1)
    with pytest.raises(MorphologyError, match="no body with 250 limbs in 1 tries"):
        grow_body(np.random.default_rng(0), 250, "b")
