"""A body and its mirror image, driven alike, move as mirror images, and so do their tokens."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks.unimal_ft import TASK
from tests.property.random_bodies import mirrored_body, random_body

STEPS = 60
QUIET = replace(TASK, reset_noise=0.0, terminations=())
PLACE, AXIS, TURN, SAME = (1, -1, 1), (-1, 1, -1), (1, -1, 1, -1), None
SIGNS = {
    "body_xpos": PLACE, "body_xvelp": PLACE, "body_xvelr": AXIS, "body_xquat": TURN,
    "body_pos": PLACE, "body_ipos": PLACE, "body_mass": SAME, "body_shape": SAME, "qpos": SAME,
    "qvel": SAME, "jnt_pos": PLACE, "joint_range": SAME, "joint_axis": AXIS, "gear": SAME,
}  # fmt: skip
"""Of every group of features but two: the axes of inertia and of a shape have no order or sense."""
AXES = {"body_iquat", "geom_quat"}

TOLERANCE = 1e-3
"""Relative to the largest number of a group: contacts make much of the last bits."""

bodies = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 64), st.integers(0, 2))
"""A seed, limbs and loops."""


def compare(spec, kind, rows):
    """Hold the features of a body (L, F) of one kind against those of its mirror image."""
    places = spec.dynamic_indices if kind == "dynamic" else spec.context_indices
    names = {place: group for group in spec.slices for place in range(group.start, group.stop)}
    for group in {names[place] for place in places.tolist()}:
        name = group.name.partition("/")[0]
        if name in AXES:
            continue
        chosen = np.flatnonzero((places >= group.start) & (places < group.stop))
        found, expected = rows[1][:, chosen], rows[0][:, chosen] * np.array(SIGNS[name] or 1)
        if name == "body_xquat":  # both signs are the same turn
            expected = expected * np.sign((found * expected).sum(1, keepdims=True))
        largest = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=TOLERANCE * largest, err_msg=group.name)


def check(seed, limbs, loops):
    body = random_body(seed, limbs, loops)
    env = MorphologyVectorEnv(QUIET, [body, mirrored_body(body)], 2, num_threads=1)
    seen, _ = env.reset(seed=0, options={"morphology_index": np.arange(2)})
    compare(env.token_spec, "context", env.table.context)
    rng, moved = np.random.default_rng(seed), 0.0
    for _ in range(STEPS):
        compare(env.token_spec, "dynamic", seen["dynamic"])
        action = rng.uniform(-1.0, 1.0, (1, *env.single_action_space.shape)).astype(np.float32)
        seen, reward, *_ = env.step(np.repeat(action, 2, axis=0))
        moved = max(moved, abs(float(reward[0])))
        assert abs(reward[1] - reward[0]) <= TOLERANCE * max(moved, 1e-3)
    assert moved > 0.0


def test_mirroring_twice_changes_nothing():
    body = random_body(3, 20, 2)
    assert len(body.loops) == 2
    assert mirrored_body(mirrored_body(body)).digest == body.digest != mirrored_body(body).digest


@settings(max_examples=10, deadline=None, derandomize=True)
@given(bodies)
def test_a_mirror_image_moves_as_one(body):
    check(*body)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=200, deadline=None)
@given(bodies)
def test_many_mirror_images_move_as_such(body):
    check(*body)
