import math

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.collision import Capsule, any_near, gap
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Geom, Joint, Limb
from gmc_bench.generation import sweep as sweep_module
from gmc_bench.generation.bodies import grow_clear_body
from gmc_bench.generation.sweep import start_sweep

RNG = np.random.default_rng(0)


def _limb(parent, position, end, *ranges, axis=(0.0, 1.0, 0.0), pivot=(0.0, 0.0, 0.0)):
    joints = tuple(
        Joint(
            name=f"j{slot}",
            axis=axis,
            position=pivot,
            range=tuple(map(math.radians, pair)),
            slot=slot,
        )
        for slot, pair in enumerate(ranges)
    )
    geom = Geom(kind="capsule", radius=0.05, end=end)
    return Limb(name="limb", parent=parent, position=position, geom=geom, joints=joints)


def _arms(*second):
    """Return what comes of a still arm along +x, 0.3 m up, and a second limb below it."""
    arm = start_sweep().with_limb(_limb(0, (0.2, 0.0, 0.3), (0.4, 0.0, 0.0)), RNG)
    return arm.with_limb(_limb(0, (0.2, 0.0, 0.0), (0.4, 0.0, 0.0), *second), RNG)


def test_a_limb_that_swings_into_another_is_refused():
    # Turning by -a lifts the tip by 0.4 sin a; the axes must stay 0.1 m apart: a < asin(0.5).
    assert _arms((-20, 0)) is not None
    assert _arms((-40, 0)) is None
    assert _arms((0, 40)) is not None


@pytest.mark.parametrize(("height", "clear"), [(0.0, False), (-0.01, True)])
def test_limbs_that_just_touch_are_refused(height, clear):
    """Radii are 0.05 m and the other arm's height is 0.1 m; lengths are whole centimetres."""
    arm = start_sweep().with_limb(_limb(0, (0.2, 0.0, 0.1), (0.4, 0.0, 0.0)), RNG)
    found = arm.with_limb(_limb(0, (0.2, 0.0, height), (0.4, 0.0, 0.0)), RNG)
    assert (found is not None) is clear


def test_a_limb_that_swings_past_between_two_ends_of_its_range_is_refused():
    # Both ends of the range are clear; the other arm lies on the way.
    assert _arms((-90, 0)) is None
    last = _arms((-20, 0)).movers
    assert np.count_nonzero(last == 2) == 3


def test_combined_joints_are_looked_at_in_random_poses(monkeypatch):
    two = ((-20, 0), (-20, 0))
    assert _arms(*two) is not None  # one joint at a time clears
    many = start_sweep(200).with_limb(_limb(0, (0.2, 0.0, 0.3), (0.4, 0.0, 0.0)), RNG)
    assert many.with_limb(_limb(0, (0.2, 0.0, 0.0), (0.4, 0.0, 0.0), *two), RNG) is None


def test_parents_and_named_limbs_may_be_touched():
    first = start_sweep().with_limb(_limb(0, (0.1, 0.0, 0.0), (0.3, 0.0, 0.0)), RNG)
    assert first is not None  # it starts inside the torso, its parent
    crossing = _limb(0, (0.3, 0.0, 0.0), (0.0, 0.3, 0.0))
    assert first.with_limb(crossing, RNG) is None
    assert first.with_limb(crossing, RNG, free_of=[1]) is not None


def test_children_move_with_their_parents():
    # The child hangs on the tip of a limb that turns; it meets the still arm, the limb does not.
    sweep = start_sweep().with_limb(_limb(0, (0.6, 0.0, 0.3), (0.4, 0.0, 0.0)), RNG)
    sweep = sweep.with_limb(_limb(0, (0.15, 0.0, 0.0), (0.2, 0.0, 0.0), (-45, 0)), RNG)
    assert sweep.with_limb(_limb(2, (0.3, 0.0, 0.0), (0.2, 0.0, 0.0)), RNG) is None
    still = start_sweep().with_limb(_limb(0, (0.6, 0.0, 0.3), (0.4, 0.0, 0.0)), RNG)
    still = still.with_limb(_limb(0, (0.15, 0.0, 0.0), (0.2, 0.0, 0.0)), RNG)
    assert still.with_limb(_limb(2, (0.3, 0.0, 0.0), (0.2, 0.0, 0.0)), RNG) is not None


def test_a_bridge_is_looked_at_only_while_its_loop_is_closed():
    # Two posts, and a bridge between their tips that a third limb meets when the first turns.
    sweep = start_sweep().with_limb(_limb(0, (0.3, 0.0, 0.0), (0.0, 0.0, -0.3), (-60, 0)), RNG)
    sweep = sweep.with_limb(_limb(0, (-0.3, 0.0, 0.0), (0.0, 0.0, -0.3)), RNG)
    sweep = sweep.with_limb(_limb(0, (0.5, 0.0, -0.7), (0.1, 0.0, 0.0)), RNG)
    bridge = _limb(1, (-0.1, 0.0, -0.3), (-0.4, 0.0, 0.0), (-60, 60))
    assert sweep.with_limb(bridge, RNG) is None
    closed = sweep.with_limb(bridge, RNG, closes=2)
    assert closed is not None
    torn = np.isin(closed.movers, [1, sweep_module._ALL])
    assert (closed.placed[4] == ~torn).all()
    assert closed.placed[:4].all()


def test_a_bridge_is_in_nobodys_way_while_its_loop_is_torn():
    sweep = start_sweep().with_limb(_limb(0, (0.3, 0.0, 0.0), (0.0, 0.0, -0.3), (-60, 0)), RNG)
    sweep = sweep.with_limb(_limb(0, (-0.3, 0.0, 0.0), (0.0, 0.0, -0.3)), RNG)
    bridge = _limb(1, (-0.1, 0.0, -0.3), (-0.4, 0.0, 0.0), (-60, 60))
    closed = sweep.with_limb(bridge, RNG, closes=2)
    # Where the first post carries the tip of the bridge when it turns to the end of its range.
    below = _limb(0, (0.3, 0.0, -0.65), (0.0, 0.0, -0.1))
    between = _limb(0, (0.0, 0.0, -0.3), (0.1, 0.0, 0.0))
    assert closed.with_limb(below, RNG) is not None
    assert closed.with_limb(between, RNG) is None


def test_a_loop_stays_closed_while_a_limb_that_carries_it_moves():
    sweep = start_sweep().with_limb(_limb(0, (0.0, 0.0, -0.2), (0.0, 0.0, -0.2), (-10, 10)), RNG)
    for x in (0.3, -0.3):
        sweep = sweep.with_limb(_limb(1, (x, 0.0, -0.3), (0.0, 0.0, -0.3), (-20, 0)), RNG)
    closed = sweep.with_limb(_limb(2, (-0.1, 0.0, -0.3), (-0.4, 0.0, 0.0)), RNG, closes=3)
    assert set(closed.movers) == {sweep_module._ALL, 0, 1, 2, 3}
    assert (closed.placed[4] == np.isin(closed.movers, [0, 1])).all()


@pytest.mark.parametrize("seed", range(3))
def test_poses_are_those_of_the_engine(seed):
    body = grow_clear_body(np.random.default_rng(seed), 6, "b")
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    sweep = start_sweep(0)
    for limb in body.limbs[1:]:
        sweep = sweep.with_limb(limb, RNG, free_of=range(body.num_limbs))
    pose = 1
    for index, limb in enumerate(body.limbs):
        for joint in limb.joints:
            low, high = joint.range
            steps = math.ceil(math.degrees(high - low) / 10 - 1e-9)
            for angle in np.linspace(low, high, steps + 1):
                data.qpos[:] = 0.0
                data.qpos[3] = 1.0
                data.joint(joint.name).qpos = angle
                mujoco.mj_kinematics(model, data)
                np.testing.assert_allclose(sweep.origins[:, pose], data.xpos[1:], atol=1e-9)
                frames = data.xmat[1:].reshape(-1, 3, 3)
                np.testing.assert_allclose(sweep.rotations[:, pose], frames, atol=1e-9)
                assert sweep.movers[pose] == index
                pose += 1
    assert pose == len(sweep.movers)


def test_compiled_distances_are_those_of_shapes_in_every_pose():
    """Of one shape and three others in four poses; the others move or stand still."""
    rng = np.random.default_rng(1)
    met = 0
    for number in range(200):
        start, end = rng.uniform(-0.5, 0.5, size=(2, 4, 3))
        starts, ends = rng.uniform(-0.5, 0.5, size=(2, 3, 4 if number % 2 else 1, 3))
        if rng.random() < 0.2:
            end = start  # a sphere
        if rng.random() < 0.2:
            ends = starts
        elif rng.random() < 0.2:
            ends = starts + (end - start)[: starts.shape[1]]  # beside it
        reach, counts = rng.uniform(0.0, 0.3, size=3), rng.random((3, 4)) < 0.4
        poses = [(k, n, n if number % 2 else 0) for k, n in np.argwhere(counts)]
        expected = any(
            gap(
                Capsule(tuple(start[n]), tuple(end[n]), reach[k]),
                Capsule(tuple(starts[k, m]), tuple(ends[k, m]), 0.0),
            )
            < 0.0
            for k, n, m in poses
        )
        met += expected
        assert any_near(start, end, starts, ends, reach, counts) == expected
        assert not any_near(start, end, starts, ends, reach, np.zeros((3, 4), bool))
    assert 40 < met < 160
