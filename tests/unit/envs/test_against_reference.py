"""The batched environment against a plain one, written from the task's public description.

The reference runs one body at a time on MuJoCo's Python interface and shares nothing with the
batched path but the MJCF text: no kernels, no tables, no feature names. Every place of the 52
features is written out below.
"""

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

SLOTS = 12
FLOOR = '<geom name="floor" type="box" size="100 100 1" condim="3" friction="0.7 0.1 0.1"/>'

# Where the 17 time-varying and the 35 fixed numbers stand among the 52 of a token.
DYNAMIC = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 30, 31, 41, 42)
CONTEXT = (
    13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
    32, 33, 34, 35, 36, 37, 38, 39, 40,
    43, 44, 45, 46, 47, 48, 49, 50, 51,
)  # fmt: skip


class ReferenceEnv:
    """Flat terrain for one body: slow, plain, without autoreset."""

    def __init__(self, model):
        self.model = model
        self.data = mujoco.MjData(model)
        self.height_at_rest = model.body_pos[1][2] - 1.0 - 0.2
        self.steps = 0

    def start_from(self, qpos, qvel):
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = qpos
        self.data.qvel[:] = qvel
        mujoco.mj_forward(self.model, self.data)
        self.steps = 0
        return self.tokens()

    def step(self, action):
        """Take (12, 2) actions; return tokens, reward, terminated, truncated."""
        control = [action[body - 1, column] for _, body, column in self._hinges()]
        self.data.ctrl[:] = np.clip(np.asarray(control, np.float64), -1.0, 1.0)
        x_before = self.data.xpos[1][0]
        for _ in range(4):
            mujoco.mj_step(self.model, self.data)
        self.steps += 1
        x, _, z = self.data.xpos[1]
        fell = round(z - 1.0, 3) <= 0.5 * self.height_at_rest
        return self.tokens(), (x - x_before) / 0.02, fell, self.steps >= 1000 and not fell

    def tokens(self):
        found = np.zeros((SLOTS, 52))
        for body in range(1, self.model.nbody):
            self._write_limb(body, found[body - 1])
        for joint, body, column in self._hinges():
            self._write_hinge(joint, column, found[body - 1])
        return found

    def _write_limb(self, body, token):
        model, data = self.model, self.data
        # Jacobians belong to the start of the last engine step, qvel is the newest.
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacBody(model, data, linear, angular, body)
        (geom,) = np.flatnonzero(model.geom_bodyid == body)
        token[0] = data.xpos[body][0] - data.xpos[1][0]
        token[1] = data.xpos[body][1]
        token[2] = data.xpos[body][2]
        token[3:6] = linear @ data.qvel
        token[6:9] = angular @ data.qvel
        token[9:13] = data.xquat[body]
        token[13:16] = model.body_pos[body]
        token[16:19] = model.body_ipos[body]
        token[19:23] = model.body_iquat[body]
        token[23:27] = model.geom_quat[geom]
        token[27] = model.body_mass[body]
        token[28] = model.geom_size[geom][0]
        token[29] = model.geom_size[geom][1]

    def _write_hinge(self, joint, column, token):
        model, data = self.model, self.data
        lower, upper = model.jnt_range[joint]
        angle = data.qpos[model.jnt_qposadr[joint]]
        speed = data.qvel[model.jnt_dofadr[joint]]
        (motor,) = np.flatnonzero(model.actuator_trnid[:, 0] == joint)
        gear = model.actuator_gear[motor][0]
        if column == 0:
            token[30] = (angle - lower) / (upper - lower)
            token[31] = speed
            token[32:35] = model.jnt_pos[joint]
            token[35:37] = lower, upper
            token[37:40] = model.jnt_axis[joint]
            token[40] = gear
        else:
            token[41] = (angle - lower) / (upper - lower)
            token[42] = speed
            token[43:46] = model.jnt_pos[joint]
            token[46:48] = lower, upper
            token[48:51] = model.jnt_axis[joint]
            token[51] = gear

    def _hinges(self):
        # In joint order, which is motor order; x joints are column 0, y joints column 1.
        for joint in range(1, self.model.njnt):
            column = {"limbx": 0, "limby": 1}[self.model.joint(joint).name.partition("/")[0]]
            yield joint, int(self.model.jnt_bodyid[joint]), column


def _released():
    train = load_morphologies("gmc-unimal-mini-v1").split("train")
    return [max(train, key=lambda body: body.num_limbs), *train[1:4]]


def _one_of_each(bodies):
    return MorphologyVectorEnv(
        TASK, bodies, len(bodies), token_spec=TokenSpec(SLOTS), num_threads=1, fixed=True
    )


def _tokens(env, dynamic, index):
    tokens = np.zeros((SLOTS, 52), np.float32)
    tokens[:, DYNAMIC] = dynamic
    tokens[:, CONTEXT] = env.table.context[index]
    return tokens


def _start(env, reference, row):
    data = env.core.simulator.data(row)
    return reference.start_from(data.qpos, data.qvel)


def _assert_same_rollout(env, references, num_steps, tolerance):
    """Step both with the same random actions and compare everything; return episodes ended."""
    observation, _ = env.reset(seed=5)
    for row, reference in enumerate(references):
        np.testing.assert_allclose(
            _tokens(env, observation["dynamic"][row], row),
            _start(env, reference, row),
            rtol=tolerance,
            atol=tolerance,
        )
    random = np.random.default_rng(0)
    ended = 0
    for step in range(num_steps):
        actions = random.uniform(-1.5, 1.5, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(actions)
        for row, reference in enumerate(references):
            where = f"step {step} of {env.table.names[row]}"
            tokens, value, fell, time_up = reference.step(actions[row])
            dynamic = observation["dynamic"][row]
            if terminated[row] or truncated[row]:
                dynamic = info["final_obs"][row]["dynamic"]
            np.testing.assert_allclose(
                _tokens(env, dynamic, row), tokens, rtol=tolerance, atol=tolerance, err_msg=where
            )
            assert reward[row] == pytest.approx(value, rel=tolerance, abs=tolerance), where
            assert (terminated[row], truncated[row]) == (fell, time_up), where
            if fell or time_up:
                ended += 1
                _start(env, reference, row)
    return ended


def test_200_random_steps_equal_the_reference():
    bodies = [chain(3), chain(6), star(4), biped(), *_released()]
    env = _one_of_each(bodies)
    references = [
        ReferenceEnv(mujoco.MjModel.from_xml_string(emit_mjcf(body, floor=FLOOR, spawn=(0, 0, 1))))
        for body in bodies
    ]
    assert _assert_same_rollout(env, references, num_steps=200, tolerance=1e-5) > 5


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
    default = Path(__file__).parents[4] / "shared" / "data" / "unimals_100"
    folder = Path(os.environ.get("GMC_UNIMALS_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"the published bodies are not in {folder}; set GMC_UNIMALS_DIR")
    return sorted(folder.glob("*/xml/*.xml"))


def _assert_like_the_published_files(files):
    env = _one_of_each([read_mjcf(path) for path in files])
    references = [ReferenceEnv(_published_model(path)) for path in files]
    # Angles read in degrees and in radians differ in their last bit, and contact amplifies it.
    _assert_same_rollout(env, references, num_steps=25, tolerance=1e-5)


def test_published_bodies_equal_the_reference_without_the_package_s_mjcf():
    files = _published_files()[::17]
    assert len(files) == math.ceil(202 / 17)
    _assert_like_the_published_files(files)


@pytest.mark.slow
def test_every_published_body_equals_the_reference():
    files = _published_files()
    assert len(files) == 202
    _assert_like_the_published_files(files)
