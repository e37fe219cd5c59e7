import math
from dataclasses import replace
from functools import cache

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.refit import refit_loops
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.variations import build_variations
from gmc_bench.core.errors import MorphologySetError
from gmc_bench.generation import bodies as bodies_module
from gmc_bench.generation.bodies import grow_clear_body
from gmc_bench.generation.judge import simulate_randomly


@cache
def _grow(seed, loops, num_limbs=8, **options):
    rng = np.random.default_rng(seed)
    return grow_clear_body(rng, num_limbs, f"b{seed}", loops=loops, **options)


def _origins(body):
    origins = [np.zeros(3)]
    for limb in body.limbs[1:]:
        origins.append(origins[limb.parent] + np.array(limb.position))
    return origins


@pytest.mark.parametrize(("seed", "loops"), [(0, 1), (2, 2)])
def test_loops_of_an_unchanged_body_stay_as_they_are(seed, loops):
    body = _grow(seed, loops)
    limbs = list(body.limbs)
    for old, new in zip(body.loops, refit_loops(body, limbs), strict=True):
        assert new.anchor == pytest.approx(old.anchor, abs=1e-5)
    for old, new in zip(body.limbs, limbs, strict=True):
        assert new.position == pytest.approx(old.position, abs=1e-5)
        assert new.geom.end == pytest.approx(old.geom.end, abs=1e-5)
        for joint, again in zip(old.joints, new.joints, strict=True):
            assert again.axis == pytest.approx(joint.axis, abs=2e-4)


def test_shape_variants_close_their_loops():
    body = _grow(0, 1)
    base = MorphologySet(
        id="b", splits={"train": (body,), "test": (_grow(1, 1),)}, source="grown here"
    )
    variants = build_variations(base, "module-shape").split("test")
    assert len({variant.digest for variant in variants} | {body.digest}) == 5
    for variant in variants:
        (loop,) = variant.loops
        origins = _origins(variant)
        other = variant.limbs[loop.second]
        tip = origins[loop.second] + np.array(other.geom.end)
        np.testing.assert_allclose(origins[loop.first] + np.array(loop.anchor), tip, atol=1e-9)
        bridge = variant.limbs[loop.first]
        parent = variant.limbs[bridge.parent]
        near = origins[bridge.parent] + np.array(parent.geom.end)
        for joint in bridge.joints:  # at the tip, whatever the radii
            hinge = origins[loop.first] + np.array(joint.position)
            np.testing.assert_allclose(hinge, near, atol=1e-9)
        assert math.dist(origins[loop.first], near) == pytest.approx(parent.geom.radius, abs=1e-9)
        far = origins[loop.first] + np.array(bridge.geom.end)
        assert math.dist(far, tip) == pytest.approx(other.geom.radius, abs=1e-9)
        model = mujoco.MjModel.from_xml_string(emit_mjcf(variant))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        closing = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        assert np.abs(data.efc_pos[closing]).max() < 1e-9
        openings = simulate_randomly(variant, model, 100, np.random.default_rng(0))
        assert openings.max() < 0.2


def test_joined_tips_stay_joined_half_way(monkeypatch):
    monkeypatch.setattr(bodies_module, "add_bridges", lambda rng, draft, loops: None)
    body = _grow(1, 1, 7, tries=1)
    limbs = list(body.limbs)
    (loop,) = body.loops
    long = limbs[loop.second]
    stretched = tuple(1.1 * number for number in long.geom.end)
    limbs[loop.second] = replace(long, geom=replace(long.geom, end=stretched))
    (new,) = refit_loops(body, limbs)
    grown = np.array(stretched) - np.array(long.geom.end)
    np.testing.assert_allclose(np.array(new.anchor) - loop.anchor, grown / 2, atol=2e-6)
    limbs = list(body.limbs)
    moved = np.add(limbs[loop.first].position, (0.01, 0.0, 0.0))  # and with it the first tip
    limbs[loop.first] = replace(limbs[loop.first], position=tuple(map(float, moved)))
    (new,) = refit_loops(body, limbs)
    np.testing.assert_allclose(np.subtract(new.anchor, loop.anchor), (-0.005, 0, 0), atol=2e-6)
    beside = replace(loop, anchor=(loop.anchor[0] + 1e-4, *loop.anchor[1:]))
    with pytest.raises(MorphologySetError, match="loops do not join the tips"):
        refit_loops(replace(body, loops=(beside,)), list(body.limbs))


def test_a_bridge_between_limbs_that_nearly_touch_keeps_a_length():
    body = _grow(0, 1)
    limbs = list(body.limbs)
    (loop,) = body.loops
    before, other = limbs[loop.first].geom.end, limbs[loop.second]
    limbs[loop.second] = replace(other, geom=replace(other.geom, radius=1.0))
    refit_loops(body, limbs)
    expected = np.array(before) * 0.05 / math.hypot(*before)
    np.testing.assert_allclose(limbs[loop.first].geom.end, expected, atol=1e-6)


def test_loops_between_other_points_are_refused():
    body = _grow(0, 1)
    loop = replace(body.loops[0], anchor=(0.0, 0.0, 0.0))
    moved = replace(body, loops=(loop,))
    with pytest.raises(MorphologySetError, match="loops do not join the tips"):
        refit_loops(moved, list(moved.limbs))
    turned = replace(body.limbs[-1], orientation=(0.0, 0.0, 0.0, 1.0))
    moved = replace(body, limbs=(*body.limbs[:-1], turned))
    with pytest.raises(MorphologySetError, match="loops do not join the tips"):
        refit_loops(moved, list(moved.limbs))
