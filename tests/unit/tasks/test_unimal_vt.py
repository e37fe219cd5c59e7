from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.core.config import definition_digest
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import Transition
from gmc_bench.tasks.unimal_vt import TASK, TERRAIN


def test_it_is_registered_under_its_id():
    assert TASKS.get("unimal-vt-v1") is TASK
    assert TASK.scene.terrain is TERRAIN


def test_the_reward_is_the_speed_along_x_and_lying_low_or_beside_the_track_ends_an_episode():
    (reward,) = TASK.rewards
    fall, side = TASK.terminations
    transition = Transition(
        torso_before=np.zeros((3, 3)),
        torso_after=np.array(
            [[0.1, 0.0, 3.0 + 0.3 * 0.8 + 0.001], [-0.1, 19.0, 3.0 + 0.3 * 0.8], [0, 0, 9]]
        ),
        standing_height=np.full(3, 0.8),
        ground_height=np.full(3, 3.0),
        control_dt=0.02,
    )
    np.testing.assert_allclose(reward.weight * reward.function(transition), [5.0, -5.0, 0.0])
    assert fall.function(transition).tolist() == [False, True, False]
    assert side.function(transition).tolist() == [False, True, False]
    (metric,) = TASK.metrics
    assert metric.function(transition).tolist() == [0.1, -0.1, 0.0]


def test_a_start_is_on_flat_ground_at_the_origin():
    core = EnvironmentCore(TASK, [biped()], 8, num_threads=1)
    core.reset(np.arange(8), np.zeros(8, np.int64))
    height = biped().limbs[0].position[2] + 1.0
    np.testing.assert_allclose(core.simulator.torso_position, [[0.0, 0.0, height]] * 8, atol=0.005)
    assert all(core.simulator.data(row).ncon == 0 for row in range(8))
    result = core.step(np.zeros((8, core.spec.max_limbs, 2), np.float32))
    assert result.metrics["x"] == pytest.approx(core.simulator.torso_position[:, 0])


def test_the_digest_follows_the_terrain():
    terrain = replace(TERRAIN, half_width=19.0)
    changed = replace(TASK, scene=replace(TASK.scene, terrain=terrain))
    assert definition_digest(changed) != definition_digest(TASK)
