import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.bodies.mjcf import read_mjcf
from gmc_bench.bodies.schema import Loop
from gmc_bench.conformance.morphologies import biped, chain, linkage, star
from gmc_bench.core.errors import ConfigError, TokenOverflowError
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

# Places among the 35 numbers of a limb's context, in the documented order.
BODY_POS, BODY_IPOS = slice(0, 3), slice(3, 6)
BODY_IQUAT, GEOM_QUAT = slice(6, 10), slice(10, 14)
BODY_MASS, BODY_SHAPE = 14, slice(15, 17)
JNT_POS = (slice(17, 20), slice(26, 29))
JOINT_RANGE = (slice(20, 22), slice(29, 31))
JOINT_AXIS = (slice(22, 25), slice(31, 34))
GEAR = (25, 34)


def _table(bodies, spec):
    return build_table(compile_models(bodies, TASK.scene), spec)


def test_shapes_names_and_padding():
    bodies = [chain(2), biped()]
    table = _table(bodies, TokenSpec(7, 3))
    assert len(table) == 2
    assert table.names == ("chain-2", "biped")
    assert table.digests == (bodies[0].digest, bodies[1].digest)
    assert table.context.shape == (2, 7, 44)  # 17 of the limb, 9 of each of 3 joint slots
    assert table.context.dtype == np.float32
    np.testing.assert_array_equal(table.num_limbs, [2, 5])
    np.testing.assert_array_equal(table.parents, [[-1, 0] + [-2] * 5, [-1, 0, 1, 0, 3, -2, -2]])
    np.testing.assert_array_equal(table.limb_padding_mask.sum(axis=1), [5, 2])
    assert (table.context[table.limb_padding_mask] == 0).all()
    # Thighs have x and y hinges (slots 0 and 1), shins only y; nobody uses slot 2.
    driven = [(1, 0), (1, 1), (2, 1), (3, 0), (3, 1), (4, 1)]
    assert np.argwhere(~table.action_padding_mask[1]).tolist() == [list(place) for place in driven]
    np.testing.assert_array_equal(
        table.layout.actuator_slot[1], [limb * 3 + slot for limb, slot in driven]
    )


def test_context_of_a_limb_by_hand():
    # The thigh of the biped: azimuth 90, 135 degrees from +z, 0.35 m long, hinges x and y.
    table = _table([biped()], TokenSpec(5))
    thigh = table.context[0, 1].astype(np.float64)
    direction = np.array([0.0, math.sqrt(0.5), -math.sqrt(0.5)])
    mass = 900 * math.pi * (0.05**2 * 0.35 + 4 / 3 * 0.05**3)
    # The limb's z axis points back along it: z is turned about +x by 45 degrees.
    turned = [math.cos(math.pi / 8), math.sin(math.pi / 8), 0.0, 0.0]
    expected = np.zeros(35)
    expected[BODY_POS] = 0.1 * direction  # at the surface of the torso
    expected[BODY_IPOS] = 0.175 * direction
    expected[BODY_IQUAT] = expected[GEOM_QUAT] = turned
    expected[BODY_MASS] = mass
    expected[BODY_SHAPE] = (0.05, 0.175)
    expected[JNT_POS[0]] = expected[JNT_POS[1]] = -0.05 * direction
    expected[JOINT_RANGE[0]] = (-math.pi / 6, math.pi / 6)
    expected[JOINT_RANGE[1]] = (-math.pi / 3, math.pi / 6)
    expected[JOINT_AXIS[0]] = (1.0, 0.0, 0.0)
    expected[JOINT_AXIS[1]] = (0.0, math.sqrt(0.5), math.sqrt(0.5))
    expected[list(GEAR)] = 200.0
    np.testing.assert_allclose(thigh, expected, rtol=1e-6, atol=1e-7)


def test_context_of_a_torso_has_its_start_position_and_no_joints():
    body = star(3)
    table = _table([body], TokenSpec(4))
    torso = table.context[0, 0]
    np.testing.assert_allclose(torso[BODY_POS], [0, 0, body.limbs[0].position[2] + 1], rtol=1e-6)
    np.testing.assert_allclose(torso[BODY_SHAPE], [0.1, 0.0], rtol=1e-6)
    assert torso[BODY_MASS] == pytest.approx(1000 * 4 / 3 * math.pi * 0.1**3)
    assert (torso[17:] == 0).all()


def test_an_absent_joint_leaves_zeros_in_its_slot():
    table = _table([biped()], TokenSpec(5))
    shin = table.context[0, 2]
    assert (shin[17:26] == 0).all()  # no x hinge
    assert (shin[26:35] != 0).any()
    assert shin[GEAR[1]] == 200.0
    np.testing.assert_array_equal(table.layout.joint_qpos[0, 2], [-1, 9])  # 7 root, 2 thigh
    np.testing.assert_array_equal(table.layout.joint_qvel[0, 2], [-1, 8])  # 6 root, 2 thigh
    np.testing.assert_allclose(table.layout.joint_lower[0, 2, 1], -math.pi / 3)
    np.testing.assert_allclose(table.layout.joint_span[0, 2, 1], math.pi / 2)


def test_a_hinge_without_motor_is_felt_but_takes_no_action():
    body = biped()
    body = replace(body, actuators=tuple(m for m in body.actuators if m.joint != "limbx/3"))
    table = _table([body], TokenSpec(5))
    assert table.action_padding_mask[0, 3].tolist() == [True, False]
    assert table.context[0, 3, GEAR[0]] == 0.0
    assert (table.context[0, 3, JOINT_AXIS[0]] != 0).any()
    assert table.layout.joint_qpos[0, 3, 0] >= 0
    np.testing.assert_array_equal(table.layout.actuator_slot[0], [2, 3, 5, 7, 9])


def test_the_gear_of_a_servo_is_its_torque_per_unit_of_control():
    body = biped()
    servos = tuple(replace(m, gear=70.0, bias=(0.0, -70.0, -1.0)) for m in body.actuators[:1])
    body = replace(body, actuators=(*servos, *body.actuators[1:]))
    table = _table([body], TokenSpec(5))
    assert table.context[0, 1, list(GEAR)].tolist() == [70.0, 200.0]


def test_bodies_with_few_motors_share_the_table_of_those_with_many():
    table = _table([chain(2), biped()], TokenSpec(5))
    assert table.layout.actuator_slot.shape == (2, 6)
    np.testing.assert_array_equal(table.layout.actuator_slot[0], [2, 3, 0, 0, 0, 0])


def test_no_bodies_make_no_table():
    with pytest.raises(ConfigError, match="got no bodies"):
        _table([], TokenSpec(5))


def test_limbs_do_not_fit_a_layout_of_actuators():
    with pytest.raises(TokenOverflowError, match="has 3 limbs, but the token layout has 12 actuat"):
        _table([chain(3)], TokenSpec(12, 1, parts="actuators"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [(TokenSpec(4, 2), "has 4 slots with 2"), (TokenSpec(9, 1), "has 9 slots with 1")],
)
def test_a_body_that_does_not_fit_is_refused(spec, message):
    with pytest.raises(TokenOverflowError, match=r"'biped' has 5 limbs with up to 2 joints .*"):
        _table([biped()], spec)
    with pytest.raises(TokenOverflowError, match=message):
        _table([biped()], spec)


@pytest.fixture(scope="module")
def published():
    """Tables of the published bodies, by split."""
    default = Path(__file__).parents[4] / "shared" / "data" / "unimals_100"
    folder = Path(os.environ.get("GMC_UNIMALS_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"the published bodies are not in {folder}; set GMC_UNIMALS_DIR")
    files = {split: sorted((folder / split / "xml").glob("*.xml")) for split in ("train", "test")}
    assert [len(found) for found in files.values()] == [100, 102]
    return {
        split: _table([read_mjcf(path) for path in found], TokenSpec(12))
        for split, found in files.items()
    }


def _both(slots, limbs):
    return np.concatenate([limbs[:, slot].reshape(len(limbs), -1) for slot in slots])


@pytest.mark.slow
def test_context_bounds_of_the_published_train_bodies(published):
    """Bounds that the public ModuMorph code normalises with.

    They are those of the 100 train bodies on flat terrain, with one difference: the lightest limb
    has 500 kg/m^3 and a length of 0.25 m, which is 1.2435 kg today and was 1.1781 kg in
    MuJoCo 2.0, whose capsules were lighter.
    """
    table = published["train"]
    limbs = table.context[~table.limb_padding_mask].astype(np.float64)
    half = math.sqrt(0.5)
    lightest = 500 * math.pi * (0.05**2 * 0.25 + 4 / 3 * 0.05**3)
    heaviest = 1000 * 4 / 3 * math.pi * 0.1**3
    assert lightest == pytest.approx(1.2435, abs=1e-4)
    assert heaviest == pytest.approx(4.1887902, abs=1e-7)
    bounds = {
        "body_pos": (limbs[:, BODY_POS], [-0.5, -0.45, -0.49], [0.5, 0.45, 2.04]),
        "body_ipos": (limbs[:, BODY_IPOS], [-0.225] * 3, [0.225, 0.225, 0.0]),
        "body_iquat": (limbs[:, BODY_IQUAT], [half, -half, -half, 0], [1, half, half, 0]),
        "geom_quat": (limbs[:, GEOM_QUAT], [half, -half, -half, 0], [1, half, half, 0]),
        "body_mass": (limbs[:, [BODY_MASS]], [lightest], [heaviest]),
        "body_shape": (limbs[:, BODY_SHAPE], [0.05, 0.0], [0.1, 0.22627417]),
        "jnt_pos": (_both(JNT_POS, limbs), [-0.05, -0.05, 0], [0.05, 0.05, 0.05]),
        "joint_range": (_both(JOINT_RANGE, limbs), [-math.pi / 2, 0], [0, math.pi / 2]),
        "joint_axis": (_both(JOINT_AXIS, limbs), [-0.5000024, -0.5000024, -1], [1, 1, 1]),
        "gear": (_both(GEAR, limbs), [0], [300]),
    }
    for name, (values, lowest, highest) in bounds.items():
        np.testing.assert_allclose(values.min(axis=0), lowest, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(values.max(axis=0), highest, atol=1e-6, err_msg=name)
    # Joints without a slot count as zeros above; real motors start at 150.
    gears = _both(GEAR, limbs)
    assert Counter(gears[gears > 0].tolist()) == {150: 407, 200: 227, 250: 253, 300: 183}


def _counts(table):
    """Return how often each number of limbs occurs, motors per body, and motors per limb."""
    driven = ~table.action_padding_mask
    motors = driven.sum(axis=(1, 2))
    x, y = driven[..., 0], driven[..., 1]
    return (
        Counter((~table.limb_padding_mask).sum(axis=1).tolist()),
        (motors.min(), motors.mean().round(2), motors.max()),
        {"x": (x & ~y).sum(), "y": (y & ~x).sum(), "xy": (x & y).sum()},
    )


@pytest.mark.slow
def test_masks_of_the_published_bodies(published):
    for table in published.values():
        assert table.limb_padding_mask.shape == (len(table), 12)
        limbs = (~table.limb_padding_mask).sum(axis=1)
        np.testing.assert_array_equal(limbs, table.num_limbs)
        np.testing.assert_array_equal((table.parents == -2).sum(axis=1), 12 - limbs)
        assert table.action_padding_mask[:, 0].all()  # the torso has no joints
        assert table.action_padding_mask[table.limb_padding_mask].all()
    counts = {split: _counts(table) for split, table in published.items()}
    assert counts["train"] == (
        {5: 1, 6: 5, 7: 8, 8: 16, 9: 28, 10: 26, 11: 16},
        (5, 10.70, 15),
        {"x": 225, "y": 319, "xy": 263},
    )
    assert counts["test"] == (
        {6: 1, 7: 23, 8: 28, 9: 22, 10: 13, 11: 15},
        (6, 9.95, 16),
        {"x": 285, "y": 264, "xy": 233},
    )
    motors = (~published["train"].action_padding_mask).sum(axis=(1, 2)).tolist()
    assert Counter(motors) == {
        5: 1, 6: 4, 7: 7, 8: 11, 9: 2, 10: 20, 11: 16, 12: 17, 13: 8, 14: 8, 15: 6,
    }  # fmt: skip


def test_loops_are_pairs_of_limbs_where_a_body_has_some():
    table = _table([linkage(1), biped(), linkage(2)], TokenSpec(10))
    assert table.loops.tolist() == [
        [[2, 4], [-1, -1]], [[-1, -1], [-1, -1]], [[2, 4], [6, 8]],
    ]  # fmt: skip
    assert table.loops.dtype == np.int64
    assert _table([biped()], TokenSpec(10)).loops is None


def test_loops_are_marked_in_layouts_that_ask_for_it_alone():
    loop = Loop(first=1, second=3, anchor=(0.0, 0.0, 0.0))
    bodies = [biped(), replace(chain(5), loops=(loop,)), linkage(1)]
    plain, marked = _table(bodies, TokenSpec(7)), _table(bodies, TokenSpec(7, loops=True))
    np.testing.assert_array_equal(marked.context[..., :-1], plain.context)
    assert marked.context[..., -1].tolist() == [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
    ]
    trees = _table(bodies[:1], TokenSpec(7, loops=True))
    assert (trees.context[..., -1] == 0).all()


def test_a_tree_grown_breadth_first_takes_loops_for_joints():
    loop = Loop(first=0, second=4, anchor=(0.0, 0.0, 0.0))
    bodies = [replace(chain(5), loops=(loop,)), biped()]
    kinematic = _table(bodies, TokenSpec(6))
    grown = _table(bodies, TokenSpec(6, tree="breadth-first"))
    assert kinematic.parents.tolist() == [[-1, 0, 1, 2, 3, -2], [-1, 0, 1, 0, 3, -2]]
    assert grown.parents.tolist() == [[-1, 0, 1, 4, 0, -2], [-1, 0, 1, 0, 3, -2]]
    assert grown.loops.tolist() == [[[2, 3]], [[-1, -1]]]
    marked = _table(bodies, TokenSpec(6, loops=True, tree="breadth-first"))
    assert marked.context[..., -1].tolist() == [[1, 1, 1, 1, 1, 0], [0] * 6]
    np.testing.assert_array_equal(grown.context, kinematic.context)
