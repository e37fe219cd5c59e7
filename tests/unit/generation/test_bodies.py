import math

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies import design
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation import bodies as bodies_module
from gmc_bench.generation.bodies import Form, grow_clear_body, grow_draft
from gmc_bench.generation.grown_limbs import TORSO, Growth, Site, place


def _grow(seed, num_limbs, **options):
    return grow_clear_body(np.random.default_rng(seed), num_limbs, "b", **options)


def _sites(body):
    """Return where each limb grows: its parent and the place on it."""
    places = [(-1, None)]
    for limb in body.limbs[1:]:
        length = math.hypot(*limb.geom.end)
        reach = 0.0 if limb.parent == 0 else body.limbs[limb.parent].geom.radius / length
        spot = [p - reach * e for p, e in zip(limb.position, limb.geom.end, strict=True)]
        places.append((limb.parent, tuple(round(s, 1) for s in spot) if limb.parent else ()))
    return places


def _contacts(body, model, data):
    """Return the pairs of limbs that touch, without those that may."""
    mujoco.mj_forward(model, data)
    places = _sites(body)
    pairs = {
        tuple(sorted((model.geom_bodyid[c.geom1] - 1, model.geom_bodyid[c.geom2] - 1)))
        for c in data.contact
        if c.dist < -1e-6
    }
    return {
        (a, b)
        for a, b in pairs
        if not (places[a] == places[b] and (a, b) in body.symmetric_limbs)
        and not (places[a] == places[b] and places[a][0] > 0)
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", [Form(), Form(symmetric=False, size=(0.8, 1.2))])
def test_the_engine_finds_no_self_contact_while_one_joint_moves(seed, form):
    body = _grow(seed, 4 + seed, form=form)
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    assert _contacts(body, model, data) == set()
    for joint in (joint for limb in body.limbs for joint in limb.joints):
        for angle in np.linspace(*joint.range, 7):
            data.qpos[:] = model.qpos0
            data.joint(joint.name).qpos = angle
            # Poses between those that growth looks at may graze.
            for first, second in _contacts(body, model, data):
                depth = min(
                    c.dist
                    for c in data.contact
                    if {model.geom_bodyid[c.geom1] - 1, model.geom_bodyid[c.geom2] - 1}
                    == {first, second}
                )
                assert depth > -0.02, (joint.name, angle)


@pytest.mark.parametrize("seed", range(4))
def test_bodies_are_their_own_mirror_images_unless_told_otherwise(seed):
    def sideways(body):
        model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        return abs(data.subtree_com[1][1])

    assert sideways(_grow(seed, 8)) == pytest.approx(0.0, abs=1e-12)
    lopsided = _grow(seed, 8, form=Form(symmetric=False))
    assert lopsided.symmetric_limbs == ()
    assert sideways(lopsided) > 1e-3


def test_sizes_are_scaled_per_limb_or_pair():
    body = _grow(0, 9, form=Form(size=(0.8, 1.2)))
    radii = {limb.geom.radius for limb in body.limbs[1:]}
    assert len(radii) > 2
    assert 0.04 <= min(radii) <= max(radii) <= 0.06
    for first, second in body.symmetric_limbs:
        assert body.limbs[first].geom.radius == body.limbs[second].geom.radius
    plain = _grow(0, 9)
    assert {limb.geom.radius for limb in plain.limbs[1:]} == {design.LIMB_RADIUS}
    for limb in body.limbs[1:]:  # the same factor, up to rounding; segments are one radius longer
        scale = limb.geom.radius / design.LIMB_RADIUS
        height = (math.hypot(*limb.geom.end) - limb.geom.radius) / scale
        assert min(abs(height - usual) for usual in design.LIMB_HEIGHTS) < 0.02
    assert any(round(radius, 2) != radius for radius in radii)  # millimetres
    assert all(round(radius, 3) == radius for radius in radii)
    draft = grow_draft(np.random.default_rng(0), 9, Form(size=(0.8, 1.2)))
    assert all(round(part.height, 2) == part.height for part in draft.parts)
    assert all(part.shape.radius == part.radius for part in draft.parts)


def test_sizes_reach_both_ends_of_the_range():
    form = Form(size=(0.8, 1.2))
    drafts = [grow_draft(np.random.default_rng(seed), 6, form) for seed in range(8)]
    radii = [part.radius for draft in drafts for part in draft.parts[1:]]
    assert 0.04 <= min(radii) < 0.042
    assert 0.058 < max(radii) <= 0.06


def test_large_bodies_stand_little_higher_than_the_small_ones_they_grow_from():
    rises = []
    for seed in range(3):
        body = _grow(seed, bodies_module.LARGE)
        grown = sorted(range(1, body.num_limbs), key=lambda i: int(body.limbs[i].name[5:]))
        rises.append(_height(body, range(body.num_limbs)) - _height(body, [0, *grown[:8]]))
    # Its base has 4 to 8 limbs, so that its height is at most that of the first 8.
    assert max(rises) <= bodies_module.RISE + 1e-9
    assert _height(_grow(0, 11), range(12)) > 0.0


@pytest.mark.parametrize(
    ("num_limbs", "symmetric", "bases"),
    [
        (11, True, {11}),
        (12, True, {4, 6, 8}),
        (13, True, {5, 7}),  # pairs cannot make an odd number even
        (13, False, {4, 5, 6, 7, 8}),
    ],
)
def test_large_bodies_grow_from_small_ones_and_reach_little_lower(
    num_limbs, symmetric, bases, monkeypatch
):
    calls = []
    growth = Growth((Site(TORSO, (0.0, 0.0, 0.0), middle=False),), ((0.0, 0.0, -1.0),))

    def hang(rng, draft, most, form, floor=-math.inf):
        calls.append((most, floor))
        draft.parts += place(draft.parts, growth, 0.2, ())
        return True

    monkeypatch.setattr(bodies_module, "grow_limbs", hang)
    found = set()
    for seed in range(40):
        calls.clear()
        grow_draft(np.random.default_rng(seed), num_limbs, Form(symmetric=symmetric))
        base = calls[0][0]
        found.add(base)
        # Torso 0.1 m, limb 0.2 m and twice its radius of 0.05 m, and 0.1 m more.
        rest = [(num_limbs, pytest.approx(-0.5))] * (num_limbs - base)
        assert calls == [(base, -math.inf)] * base + rest
    assert found == bases


def _height(body, limbs):
    """Return how far some of a body's limbs reach below the torso's centre, m."""
    origins = [0.0]
    for limb in body.limbs[1:]:
        origins.append(origins[limb.parent] + limb.position[2])
    return max(
        body.limbs[i].geom.radius - min(origins[i], origins[i] + body.limbs[i].geom.end[2])
        for i in limbs
    )


def test_lowest_point_is_at_the_published_clearance():
    body = _grow(3, 7)
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    ends = np.concatenate([
        data.geom_xpos + side * data.geom_xmat.reshape(-1, 3, 3)[:, :, 2] * model.geom_size[:, 1:2]
        for side in (-1, 1)
    ])  # fmt: skip
    lowest = (ends[:, 2] - np.tile(model.geom_size[:, 0], 2)).min()
    assert lowest == pytest.approx(0.2, abs=1e-9)


def test_equal_generators_give_equal_bodies():
    assert _grow(5, 8) == _grow(5, 8)
    assert _grow(5, 8).digest != _grow(6, 8).digest


def test_refuses_what_cannot_grow():
    with pytest.raises(MorphologyError, match="0 limbs; ask for at least 1"):
        _grow(0, 0)
    with pytest.raises(MorphologyError, match="no body with 2 limbs and 3 loops in 2 tries"):
        _grow(0, 2, loops=3, tries=2)


def test_hinges_of_scaled_limbs_are_where_the_limb_grows():
    form = Form(symmetric=False, size=(0.5, 2.0))
    at_tips = 0
    for seed in range(6):
        body = grow_clear_body(np.random.default_rng(seed), 7, "scaled", form)
        for limb in body.limbs[1:]:
            # The radius of the limb that it grows on, or its own inside the torso; in centimetres.
            radius = (body.limbs[limb.parent] if limb.parent > 0 else limb).geom.radius
            for joint in limb.joints:
                assert math.hypot(*joint.position) == pytest.approx(radius, abs=0.009)
            if limb.parent > 0:
                end = np.array(body.limbs[limb.parent].geom.end)
                hinge = np.add(limb.position, limb.joints[0].position)
                at_tip = np.allclose(hinge, end, atol=1e-9)
                half_way = np.allclose(hinge, end / 2, atol=0.06)  # half-way along the height
                assert at_tip or half_way
                assert np.linalg.norm(np.cross(hinge, end)) / np.linalg.norm(end) < 0.01
                at_tips += at_tip
    assert at_tips >= 3
