"""The two tasks whose ground is drawn anew at every reset: obstacles and variable terrain."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.core.config import definition_digest
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.tasks import TASKS, unimal_obstacles, unimal_vt
from gmc_bench.tasks.spec import Transition


@pytest.fixture(params=[unimal_obstacles, unimal_vt], ids=["obstacles", "vt"])
def module(request):
    return request.param


@pytest.mark.parametrize(
    ("name", "module"), [("unimal-obstacles-v1", unimal_obstacles), ("unimal-vt-v1", unimal_vt)]
)
def test_it_is_registered_under_its_id(name, module):
    assert TASKS.get(name) is module.TASK
    assert module.TASK.scene.terrain is module.TERRAIN


@pytest.mark.parametrize(("module", "share"), [(unimal_obstacles, 0.5), (unimal_vt, 0.3)])
def test_the_reward_is_the_speed_along_x_and_lying_low_or_beside_the_track_ends_an_episode(
    module, share
):
    (reward,) = module.TASK.rewards
    fall, side = module.TASK.terminations
    low = 3.0 + share * 0.8  # the share of the standing height that counts as a fall
    transition = Transition(
        torso_before=np.zeros((3, 3)),
        torso_after=np.array([[0.1, 0.0, low + 0.001], [-0.1, 19.0, low], [0, 0, 9]]),
        standing_height=np.full(3, 0.8),
        ground_height=np.full(3, 3.0),
        control_dt=0.02,
    )
    np.testing.assert_allclose(reward.weight * reward.function(transition), [5.0, -5.0, 0.0])
    assert fall.function(transition).tolist() == [False, True, False]
    assert side.function(transition).tolist() == [False, True, False]
    (metric,) = module.TASK.metrics
    assert metric.function(transition).tolist() == [0.1, -0.1, 0.0]


def test_a_start_is_on_flat_ground_at_the_origin(module):
    core = EnvironmentCore(module.TASK, [biped()], 8, num_threads=1)
    core.reset(np.arange(8), np.zeros(8, np.int64))
    height = biped().limbs[0].position[2] + 1.0
    np.testing.assert_allclose(core.simulator.torso_position, [[0.0, 0.0, height]] * 8, atol=0.005)
    assert all(core.simulator.data(row).ncon == 0 for row in range(8))
    result = core.step(np.zeros((8, core.spec.max_limbs, 2), np.float32))
    assert result.metrics["x"] == pytest.approx(core.simulator.torso_position[:, 0])


def test_the_digest_follows_the_terrain(module):
    # Numbers of the draws alone: the floor's parts are the same.
    rarer = {"num_tries": 9} if hasattr(module.TERRAIN, "num_tries") else {"frequencies": (10,)}
    terrain = replace(module.TERRAIN, **rarer)
    changed = replace(module.TASK, scene=replace(module.TASK.scene, terrain=terrain))
    assert definition_digest(changed) != definition_digest(module.TASK)
