"""The vector environment against the plain task, with models that are compiled apart."""

import math
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf, read_mjcf
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from tests.reference_tasks.plain_task import CONTEXT, DYNAMIC, PlainTask

SLOTS = 12
FLOOR = '<geom name="floor" type="box" size="100 100 1" condim="3" friction="0.7 0.1 0.1"/>'


def _released():
    train = load_morphologies("gmc-unimal-mini-v1").split("train")
    return [max(train, key=lambda body: body.num_limbs), *train[1:4]]


def _one_of_each(bodies):
    return MorphologyVectorEnv(
        TASK, bodies, len(bodies), token_spec=TokenSpec(SLOTS), num_threads=1, fixed=True
    )


def _assert_same_tokens(env, dynamic, row, tokens, tolerance, where):
    limbs = len(tokens)
    fixed = env.table.context[row][:limbs]
    for found, places in ((dynamic[:limbs], DYNAMIC), (fixed, CONTEXT)):
        np.testing.assert_allclose(
            found, tokens[:, places], rtol=tolerance, atol=tolerance, err_msg=where
        )
    assert not dynamic[limbs:].any(), where


def _start(env, plain, row):
    data = env.core.simulator.data(row)
    return plain.reset_from(data.qpos, data.qvel)[0]


def _assert_same_rollout(env, models, num_steps, tolerance):
    """Step both with the same random actions and compare everything; return episodes ended."""
    observation, _ = env.reset(seed=5)
    tasks = [PlainTask(TASK.id, model, model.body_pos[1][2] - 1.0) for model in models]
    for row, plain in enumerate(tasks):
        tokens = _start(env, plain, row)
        _assert_same_tokens(env, observation["dynamic"][row], row, tokens, tolerance, "the start")
    random = np.random.default_rng(0)
    ended = 0
    for step in range(num_steps):
        actions = random.uniform(-1.5, 1.5, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(actions)
        assert not truncated.any()
        for row, plain in enumerate(tasks):
            where = f"step {step} of {env.table.names[row]}"
            expected = plain.step(actions[row])
            dynamic = observation["dynamic"][row]
            if terminated[row]:
                dynamic = info["final_obs"][row]["dynamic"]
            _assert_same_tokens(env, dynamic, row, expected.tokens, tolerance, where)
            assert reward[row] == pytest.approx(expected.reward, rel=tolerance, abs=tolerance)
            assert terminated[row] == bool(expected.reasons), where
            if terminated[row]:
                ended += 1
                _start(env, plain, row)
    return ended


def test_200_random_steps_equal_the_reference():
    bodies = [chain(3), chain(6), star(4), biped(), *_released()]
    env = _one_of_each(bodies)
    models = [
        mujoco.MjModel.from_xml_string(emit_mjcf(body, floor=FLOOR, spawn=(0, 0, 1)))
        for body in bodies
    ]
    assert _assert_same_rollout(env, models, num_steps=200, tolerance=1e-5) > 5


def _published_model(path):
    """Compile a published file as the task's description says, without the package's writer."""
    root = ElementTree.parse(path).getroot()
    for name in ("contact", "sensor"):
        for found in root.findall(name):
            root.remove(found)
    root.find("option/flag").set("filterparent", "enable")
    root.find("option").set("jacobian", "dense")
    world = root.find("worldbody")
    world.insert(0, ElementTree.fromstring(FLOOR))
    torso = world.find("body")
    x, y, z = (float(number) for number in torso.get("pos").split())
    torso.set("pos", f"{x!r} {y!r} {z + 1.0!r}")
    return mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))


def _published_files():
    default = Path(__file__).parents[3] / "shared" / "data" / "unimals_100"
    folder = Path(os.environ.get("GMC_UNIMALS_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"the published bodies are not in {folder}; set GMC_UNIMALS_DIR")
    return sorted(folder.glob("*/xml/*.xml"))


def _assert_like_the_published_files(files):
    env = _one_of_each([read_mjcf(path) for path in files])
    models = [_published_model(path) for path in files]
    # Angles read in degrees and in radians differ in their last bit, and contact amplifies it.
    _assert_same_rollout(env, models, num_steps=25, tolerance=1e-5)


@pytest.mark.slow
def test_published_bodies_equal_the_reference_without_the_package_s_mjcf():
    files = _published_files()[::17]
    assert len(files) == math.ceil(202 / 17)
    _assert_like_the_published_files(files)


@pytest.mark.slow
def test_every_published_body_equals_the_reference():
    files = _published_files()
    assert len(files) == 202
    _assert_like_the_published_files(files)
