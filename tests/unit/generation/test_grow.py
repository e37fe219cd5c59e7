import math

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.bodies import design
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.grow import grow_body

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
