"""Both sides of the measurement do the same work: the same models, states and controls."""

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.profiling import simulation
from gmc_bench.tasks import TASKS


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.parts == "limbs"])
def test_the_bare_loop_moves_the_bodies_of_the_environment(name):
    """A block of control steps later every body is where the environment has it, to the bit."""
    env = MorphologyVectorEnv(TASKS.get(name), [chain(4), biped()], 3, num_threads=1, fixed=True)
    env.reset(seed=4)
    simulator = env.core.simulator
    actions = simulation.random_actions(env.action_space.shape)
    for action in actions:
        env.step(action)
    env.reset()  # on other terrain than the twin would draw itself
    bare, block = simulation.BareTwin(env.core), actions[: simulation.BLOCK]
    bare.prepare(block)
    for row, places in enumerate(bare._places):  # all motors of the body, and nothing beyond
        assert places[places >= 0].tolist() == list(range(simulator.model(row).nu))
    for action in block:
        *_, terminated, _, _ = env.step(action)
        assert not terminated.any()  # a reset would end the comparison
    bare.run()
    twin = bare.batch
    for row in range(3):
        assert twin.data(row).qpos.tobytes() == simulator.data(row).qpos.tobytes()
        if simulator.ground:
            ground, other = twin.model(row), simulator.model(row)
            assert ground is not other
            np.testing.assert_array_equal(ground.geom_pos, other.geom_pos)
    if simulator.ground:
        np.testing.assert_array_equal(twin.ground.cells, simulator.ground.cells)
