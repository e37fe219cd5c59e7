"""The bare loop beside quadrupeds does the same work: the same states, torques and friction."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.profiling import simulation
from gmc_bench.profiling.setting import Setting
from gmc_bench.robots import ROBOTS
from gmc_bench.suites import SUITES
from gmc_bench.tasks.quadruped_velocity import TASK
from gmc_bench.tokens.spec import TokenSpec

BODIES = list(ROBOTS.values())
SPEC = TokenSpec(12, 1, parts="actuators")


@pytest.mark.parametrize("rule", ["two-state", "dynamic"])
def test_the_bare_loop_moves_the_robots_of_the_environment(rule):
    """A block of control steps later every robot is where the environment has it, to the bit."""
    task = replace(
        TASK,
        scene=replace(TASK.scene, friction_rule=rule),
        events=tuple(event for event in TASK.events if event.name != "push"),
    )
    env = MorphologyVectorEnv(task, BODIES, 8, token_spec=SPEC, num_threads=1, fixed=True)
    env.reset(seed=4)
    actions = simulation.random_actions(env.action_space.shape)
    for action in actions[:5]:
        env.step(action)
    twin, block = simulation.BareTwin(env.core), actions[: simulation.BLOCK]
    before = env.core.simulator.get_state()["physics"].tobytes()
    twin.prepare(block)
    assert env.core.simulator.get_state()["physics"].tobytes() == before  # it was only read
    for action in block:
        *_, terminated, truncated, _ = env.step(action)
        assert not (terminated | truncated).any()  # a reset would end the comparison
    twin.run()
    for row in range(8):
        live, bare = env.core.simulator.data(row), twin.batch.data(row)
        assert bare.qpos.tobytes() == live.qpos.tobytes()
        assert bare.ctrl.tobytes() == live.ctrl.tobytes()
    friction = np.concatenate([friction for _, friction in twin.steps], axis=1)
    assert (np.ptp(friction, axis=1) > 0.05).any() == (rule == "two-state")


def test_whole_steps_are_measured_beside_bare_ones():
    setting = Setting(
        suite=SUITES.load("quadruped-friction-v3"),
        task=TASK,
        bodies=BODIES,
        bodies_id="unit",
        bodies_digest="0" * 64,
        spec=SPEC,
        methods=(),
        protocol=SUITES.load("quadruped-friction-v3").protocol("smoke", TASK.id),
        num_envs=8,
        threads=1,
        seconds=0.05,
    )
    figures = simulation.profile_tasks([setting]).figures
    found = figures["tasks"][TASK.id]
    assert found["env_steps_per_s"] > 0.0
    ratio = found["env_steps_per_s"] / found["bare_steps_per_s"]
    assert found["ratio_env_to_bare_mj_step"] == ratio
    assert 0.2 < ratio < 1.5
