"""What the batched step measures on closed loops, against MuJoCo's own frames."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.schema import Loop
from gmc_bench.conformance.morphologies import LIMB_RADIUS, TORSO_RADIUS, chain, linkage, star
from gmc_bench.sim.batch import BatchSimulator, available_threads
from gmc_bench.sim.loops import tabulate_loops
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

SLOTS = 9
BODIES = (linkage(1), chain(4), linkage(2, "weld"))


@pytest.fixture(scope="module")
def models():
    return compile_models(BODIES, TASK.scene)


@pytest.fixture
def make_batch(models):
    layout = build_table(models, TokenSpec(SLOTS)).layout

    def make(num_envs=3, num_threads=1, hosted=None):
        batch = BatchSimulator(models, num_envs, layout, num_threads)
        rows = np.arange(num_envs)
        batch.assign(rows, rows % 3 if hosted is None else np.array(hosted))
        batch.seed(0)
        readings = np.zeros((num_envs, SLOTS, 17), np.float32)
        batch.reset(rows, 0.005, readings)
        return batch, readings

    return make


def run(batch, readings, steps, seed=0):
    actions = np.random.default_rng(seed).normal(size=(steps, batch.num_envs, 2 * SLOTS))
    found = []
    for action in actions.astype(np.float32):
        batch.step(action, readings)
        found.append((readings.copy(), batch.loop_residual.copy()))
    return found


def test_tables_by_hand(models):
    tables = tabulate_loops(models)
    assert tables.num_loops.tolist() == [1, 0, 2]
    assert tables.bodies.shape == (3, 2, 2)
    assert tables.bodies[0, 0].tolist() == [3, 5]  # engine bodies are limbs + 1
    assert tables.bodies[2].tolist() == [[5, 3], [9, 7]]  # a weld names the second limb first
    tips = [BODIES[0].limbs[limb].geom.end for limb in (2, 4)]
    np.testing.assert_allclose(tables.anchors[0, 0], tips, atol=1e-12)
    assert (tables.turns[:2] == 0.0).all()
    np.testing.assert_allclose(tables.turns[2], [[1.0, 0, 0, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(tables.lengths, [[0.35, 1.0], [1.0, 1.0], [0.35, 0.35]])


def test_lengths_are_those_of_the_shorter_limb_and_spheres_count_only_among_themselves():
    body = chain(4)  # limbs of 0.25, 0.35 and 0.45 m
    ends = ((1, 3), (0, 3), (0, 2))
    bodies = [
        replace(body, loops=(Loop(first=first, second=second, anchor=(0.0, 0.0, 0.0)),))
        for first, second in ends
    ]
    ball = replace(body.limbs[2].geom, kind="sphere", end=body.limbs[2].geom.start)
    limbs = (*body.limbs[:2], replace(body.limbs[2], geom=ball), body.limbs[3])
    bodies.append(replace(bodies[2], limbs=limbs))
    stout = replace(body.limbs[2].geom, radius=0.3)  # wider than it is long
    for kind in ("capsule", "cylinder"):
        limb = replace(body.limbs[2], geom=replace(stout, kind=kind))
        bodies.append(replace(bodies[2], limbs=(*body.limbs[:2], limb, body.limbs[3])))
    brick = replace(ball, kind="box", radius=0.15, half_sizes=(0.05, 0.15, 0.1))
    limbs = (*body.limbs[:2], replace(body.limbs[2], geom=brick), body.limbs[3])
    bodies.append(replace(bodies[2], limbs=limbs))
    found = tabulate_loops(compile_models(bodies, TASK.scene)).lengths[:, 0]
    width = 2 * min(LIMB_RADIUS, TORSO_RADIUS)
    np.testing.assert_allclose(found, [0.25, 0.45, 0.35, width, 0.35, 0.35, 0.3])


def test_residuals_are_the_gaps_and_angles_of_the_engines_frames(make_batch):
    batch, readings = make_batch()
    run(batch, readings, 30)
    for row, body in enumerate(BODIES):
        data = batch.data(row)
        start = mujoco.MjData(batch.model(row))
        mujoco.mj_forward(batch.model(row), start)
        for place, loop in enumerate(body.loops):
            first, second = loop.first + 1, loop.second + 1
            world = start.xpos[first] + start.xmat[first].reshape(3, 3) @ loop.anchor
            other = start.xmat[second].reshape(3, 3).T @ (world - start.xpos[second])
            images = [
                data.xpos[limb] + data.xmat[limb].reshape(3, 3) @ anchor
                for limb, anchor in ((first, np.array(loop.anchor)), (second, other))
            ]
            gap = np.linalg.norm(images[0] - images[1])
            assert gap > 1e-5
            found = batch.loop_residual[row, place]
            assert found[0] == pytest.approx(gap / 0.35, rel=1e-9)
            if loop.kind == "connect":
                assert found[1] == 0.0
                continue
            # Bodies are not turned against each other at the start.
            turn = data.xmat[first].reshape(3, 3).T @ data.xmat[second].reshape(3, 3)
            angle = np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))
            assert angle > 1e-3
            assert found[1] == pytest.approx(angle, rel=1e-6)
        assert (batch.loop_residual[row, len(body.loops) :] == 0.0).all()


def test_a_quaternion_and_its_negative_are_one_orientation(make_batch):
    batch, mirrored = (make_batch() for _ in range(2))
    mirrored[0]._loops.turns[:] *= -1.0
    for (_, found), (_, expected) in zip(run(*mirrored, 5), run(*batch, 5), strict=True):
        assert (expected[2, :, 1] > 0.0).all()
        np.testing.assert_array_equal(found, expected)


def test_every_weld_has_a_length_and_an_orientation_of_its_own(make_batch):
    (plain, readings), (batch, others) = (make_batch() for _ in range(2))
    lengths, quaternions = batch._loops.lengths[2], batch._loops.turns[2]
    lengths[:] = 0.7, 0.175  # twice and half as long as they are
    quaternions[:] = (0.5, -0.1, 0.7, 0.5), (0.1, 0.9, -0.3, 0.3)  # of length 1
    run(plain, readings, 5)
    run(batch, others, 5)
    scaled = plain.loop_residual[2, :, 0] * (0.5, 2.0)
    np.testing.assert_allclose(batch.loop_residual[2, :, 0], scaled, rtol=1e-12)
    model, data, kept = batch.model(2), batch.data(2), np.empty(9)
    for weld in range(2):
        first, second = model.eq_obj1id[weld], model.eq_obj2id[weld]
        mujoco.mju_quat2Mat(kept, quaternions[weld])
        expected = data.xmat[first].reshape(3, 3) @ kept.reshape(3, 3)
        turn = expected.T @ data.xmat[second].reshape(3, 3)
        angle = np.arccos((np.trace(turn) - 1) / 2)
        assert batch.loop_residual[2, weld, 1] == pytest.approx(angle, rel=1e-6)


def test_residuals_start_at_zero_and_do_not_outlive_their_body(make_batch):
    batch, readings = make_batch()
    assert (batch.loop_residual == 0.0).all()
    run(batch, readings, 5)
    assert (batch.loop_residual[0, 0, 0], batch.loop_residual[2, 1, 0]) > (0.0, 0.0)
    kept = batch.loop_residual[2].copy()
    batch.assign(np.array([0]), np.array([1]))
    batch.reset(np.array([0]), 0.005, readings)
    assert (batch.loop_residual[0] == 0.0).all()
    np.testing.assert_array_equal(batch.loop_residual[2], kept)
    run(batch, readings, 1)
    assert (batch.loop_residual[0] == 0.0).all()
    batch.set_state(batch.get_state())
    assert (batch.loop_residual == 0.0).all()


def test_bodies_without_loops_move_alike_beside_bodies_with_them(make_batch):
    trees = compile_models([chain(4), star(3)], TASK.scene)
    layout = build_table(trees, TokenSpec(SLOTS)).layout
    alone = BatchSimulator(trees, 3, layout, 1)
    alone.assign(np.arange(3), np.zeros(3, np.int64))
    alone.seed(0)
    readings = np.zeros((3, SLOTS, 17), np.float32)
    alone.reset(np.arange(3), 0.005, readings)
    assert alone.loop_residual.shape == (3, 0, 2)
    mixed, others = make_batch(hosted=(0, 1, 2))
    for (expected, _), (found, _) in zip(
        run(alone, readings, 40), run(mixed, others, 40), strict=True
    ):
        np.testing.assert_array_equal(found[1], expected[1])


def test_threads_measure_alike(make_batch):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    one, two = (run(*make_batch(12, threads), 20) for threads in (1, 2))
    for (_, first), (_, second) in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)
