import math
from functools import cache
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.collision import Capsule
from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.generation import bodies as bodies_module
from gmc_bench.generation import loops as loops_module
from gmc_bench.generation.bodies import Form, grow_clear_body
from gmc_bench.generation.grown_limbs import TORSO, Closure, Growth, Site, place


@cache
def _grow(seed, num_limbs, loops, **options):
    return grow_clear_body(np.random.default_rng(seed), num_limbs, "b", loops=loops, **options)


def _origins(body):
    origins = [np.zeros(3)]
    for limb in body.limbs[1:]:
        origins.append(origins[limb.parent] + np.array(limb.position))
    return origins


def _leaves(body):
    return set(range(body.num_limbs)) - set(body.parents)


@pytest.mark.parametrize(("seed", "loops"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_a_bridge_spans_two_tips(seed, loops):
    body = _grow(seed, 8, loops)
    assert body.num_limbs == 9
    assert len(body.loops) == loops
    origins = _origins(body)
    for loop in body.loops:
        bridge, other = body.limbs[loop.first], body.limbs[loop.second]
        far = origins[loop.second] + np.array(other.geom.end)
        near = origins[bridge.parent] + np.array(body.limbs[bridge.parent].geom.end)
        anchor = origins[loop.first] + np.array(loop.anchor)
        np.testing.assert_allclose(anchor, far, atol=2e-6)
        # The capsule leaves one radius at both ends, and its hinges are at the upper tip.
        assert math.dist(near, far) == pytest.approx(math.hypot(*bridge.geom.end) + 0.1, abs=1e-5)
        pivot = origins[loop.first] + np.array(bridge.joints[0].position)
        np.testing.assert_allclose(pivot, near, atol=2e-6)
        low, high = loops_module.BRIDGED
        assert low <= math.dist(near, far) <= high
        assert bridge.geom.end[2] <= 1e-9  # never upwards
        assert [joint.slot for joint in bridge.joints] == [0, 1]
        assert all(joint.range[0] < 0.0 < joint.range[1] for joint in bridge.joints)
        assert {loop.first, loop.second} <= _leaves(body)


def test_two_loops_of_a_symmetric_body_are_mirror_images():
    for seed in range(10):
        body = _grow(seed, 8, 2)
        first, second = body.loops
        if (first.first, second.first) in body.symmetric_limbs:
            break
    else:
        pytest.fail("no body had a pair of loops")
    assert second.anchor == pytest.approx((first.anchor[0], -first.anchor[1], first.anchor[2]))
    assert (first.second, second.second) in body.symmetric_limbs


@pytest.mark.parametrize("seed", range(2))
def test_the_engine_starts_with_closed_loops_and_no_contact(seed):
    body = _grow(seed, 9, 1 + seed % 2)
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    closing = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    assert closing.sum() == 3 * len(body.loops)
    assert np.abs(data.efc_pos[closing]).max() < 1e-9
    for contact in data.contact:
        pair = tuple(sorted(model.geom_bodyid[[contact.geom1, contact.geom2]] - 1))
        assert pair in body.symmetric_limbs


def test_tips_are_joined_where_no_bridge_fits(monkeypatch):
    monkeypatch.setattr(bodies_module, "add_bridges", lambda rng, draft, loops: None)
    body = _grow(1, 7, 1, tries=1)
    assert body.num_limbs == 8
    (loop,) = body.loops
    origins = _origins(body)
    tips = [
        origins[limb] + np.array(body.limbs[limb].geom.end) for limb in (loop.first, loop.second)
    ]
    anchor = origins[loop.first] + np.array(loop.anchor)
    np.testing.assert_allclose(anchor, (tips[0] + tips[1]) / 2, atol=2e-6)
    assert math.dist(*tips) <= loops_module.JOINED
    assert {loop.first, loop.second} <= _leaves(body)


def test_asymmetric_bodies_have_loops_of_their_own():
    body = _grow(1, 9, 1, form=Form(symmetric=False))
    assert len(body.loops) == 1
    assert body.symmetric_limbs == ()


def test_the_tip_of_a_bridge_has_no_room_for_another_loop():
    """After the first bridge, only its own tip would be near enough to the last limb."""

    draft = SimpleNamespace(parts=[_tip(x, 0.0, 0.0) for x in (0.0, 0.4, 0.8)])

    def bridge(ends):
        if ends == ((1, 2),):
            return None  # no place
        draft.parts.append(_tip(0.4, 0.0, 0.0))
        return (Closure(len(draft.parts) - 1, 1, (0.0, 0.0, 0.0)),)

    rng = np.random.default_rng(0)
    assert loops_module._close_all(rng, draft, 2, (0.0, 0.5), bridge) is None
    assert len(draft.parts) == 4


def _tip(x, y, z, partner=None):
    """Return a stand-in for a limb on the torso that hangs down to its tip."""
    return SimpleNamespace(
        site=SimpleNamespace(parent=-1),
        shape=Capsule((x, y, z + 0.2), (x, y, z), 0.05),
        partner=partner,
    )


def _joined(loops, *tips, seed=0):
    draft = SimpleNamespace(parts=list(tips))
    return loops_module.join_tips(np.random.default_rng(seed), draft, loops)


def test_tips_of_pairs_are_joined_on_both_sides_or_between_them():
    """Anchors are half-way between the tips, in the frame of the limb whose tip is higher."""
    pairs = [_tip(0.2, 0.3, 0.0, 1), _tip(0.2, -0.3, 0.0, 0)]
    pairs += [_tip(0.0, 0.3, 0.1, 3), _tip(0.0, -0.3, 0.1, 2)]
    found = _joined(2, *pairs)
    assert [(loop.first, loop.second) for loop in found] == [(2, 0), (3, 1)]
    assert all(loop.anchor == pytest.approx((0.1, 0.0, -0.25)) for loop in found)
    assert _joined(1, *pairs) is None  # one side alone
    (found,) = _joined(1, _tip(0.0, 0.1, 0.0, 1), _tip(0.0, -0.1, 0.0, 0))
    assert (found.first, found.second) == (0, 1)
    assert found.anchor == pytest.approx((0.0, -0.1, -0.2))
    # Where one loop is left to close, the two of the pairs are one too many.
    others = [_tip(1.0, 0.0, 0.0), _tip(1.2, 0.0, 0.0)]
    closed = [_joined(2, *pairs, *others, seed=seed) for seed in range(8)]
    assert {found and len(found) for found in closed} == {None, 2}


@pytest.mark.parametrize(
    ("apart", "bridged"), [(0.29, False), (0.3, True), (0.65, True), (0.66, False)]
)
def test_bridges_are_neither_too_short_nor_too_long(apart, bridged):
    tips = [_tip(0.0, 0.0, 0.0), _tip(apart, 0.0, 0.0)]
    found = list(loops_module._options(tips, set(), loops_module.BRIDGED))
    assert found == [((0, 1),)] * bridged


def test_a_bridge_is_as_thick_as_the_limb_that_it_grows_on():
    torso = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    growths = [Growth((torso,), (direction,)) for direction in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))]
    parts = [
        place((), growth, 0.2, (), r)[0] for growth, r in zip(growths, (0.06, 0.04), strict=True)
    ]
    bridge, _ = loops_module._bridge(parts, 0, 1, (), None)
    assert bridge.radius == bridge.shape.radius == 0.06
    assert math.hypot(*bridge.segment) == pytest.approx(bridge.height + 0.06, abs=1e-5)


def test_a_tip_has_room_for_one_joint():
    row = [_tip(x, 0.0, 0.0) for x in (0.0, 0.35, 0.7)]
    assert len(_joined(1, *row)) == 1
    assert _joined(2, *row) is None
    assert _joined(1, row[0], _tip(0.36, 0.0, 0.0)) is None  # too far apart
    # A limb is joined neither to its parent nor to one without a tip of its own.
    child = _tip(0.1, 0.0, 0.0)
    child.site.parent = 0
    assert _joined(1, row[0], child) is None


def test_loops_survive_being_written_and_read():
    body = _grow(0, 8, 2)
    assert parse_mjcf(emit_mjcf(body), "b").digest == body.digest
