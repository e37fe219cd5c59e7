"""Terms of one's own: more observations, actions in rewards, events, and what bodies lack."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.robots import GO1, GO2
from gmc_bench.sim.model import RoughGround
from gmc_bench.tasks import events
from gmc_bench.tasks.quadruped_velocity import TASK as VELOCITY
from gmc_bench.tasks.spec import EventTerm, ObservationTerm, RewardTerm
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tasks.velocity_rewards import tilted_base

BODIES = [chain(3), biped()]
ROWS = np.arange(4)


def place(moment):
    """Return where the torso is, the same for all limbs, m."""
    return moment.torso_position[:, None, :2]


def effort(transition):
    """Return the sum of squared actions."""
    return np.square(transition.action).sum(axis=1)


def _core(task, bodies=BODIES):
    core = EnvironmentCore(task, bodies, 4, num_threads=1)
    core.simulator.seed(1)
    core.reset(ROWS, ROWS % len(bodies))
    return core


def _actions(core):
    shape = (4, core.spec.max_limbs, core.spec.joints_per_limb)
    return np.random.default_rng(0).normal(0.0, 0.5, shape).astype(np.float32)


def test_an_observation_is_added_at_the_end_of_the_tokens():
    term = ObservationTerm("place", place, scale=2.0, width=2, unit="0.5 m", frame="world")
    plain, core = _core(TASK), _core(replace(TASK, observations=(term,)))
    assert core.spec.slices[-1].name == "place"
    assert core.spec.num_features == plain.spec.num_features + 2
    for _ in range(3):
        padding = core.table.limb_padding_mask[core.morphology_index]
        np.testing.assert_array_equal(core.dynamic[..., :-2], plain.dynamic)
        expected = np.broadcast_to(
            2.0 * core.simulator.torso_position[:, None, :2], (*padding.shape, 2)
        )
        np.testing.assert_allclose(core.dynamic[~padding, -2:], expected[~padding], rtol=1e-6)
        np.testing.assert_array_equal(core.dynamic[padding], 0.0)
        core.step(_actions(core))
        plain.step(_actions(plain))


def test_rewards_see_the_actions_of_motors_only():
    core = _core(replace(TASK, rewards=(*TASK.rewards, RewardTerm("effort", -0.1, effort))))
    actions = _actions(core)
    found = core.step(actions).reward_terms["effort"]
    told = ~core.table.action_padding_mask[core.morphology_index]
    expected = -0.1 * np.square(np.where(told, actions, 0.0)).sum(axis=(1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not told.all()


def test_friction_can_change_from_time_to_time():
    pair = (0.3, 0.2)
    slip = EventTerm(
        "ice", "friction", lambda draw: np.tile(pair, (draw.num_rows, 1)), every=(0.1, 0.1)
    )
    core = _core(replace(VELOCITY, events=(slip,)), [GO1, GO2])
    for step in range(1, 8):
        np.testing.assert_array_equal(
            core.simulator.drive_state.friction, [pair if step > 5 else (0.8, 0.6)] * 4
        )
        core.step(np.zeros((4, 12, 1), np.float32))


def test_what_a_body_has_no_part_for_is_refused():
    push = EventTerm("push", "base_velocity", events.within(0.3), every=(1.0, 2.0))
    for changes in ({"events": (push,)}, {"scene": replace(TASK.scene, rough=RoughGround())}):
        with pytest.raises(ConfigError, match="only bodies with joint drives"):
            _core(replace(TASK, **changes))
    heavier = EventTerm("load", "base_mass", events.factor(1.0, 1.5), every=(1.0, 2.0))
    with pytest.raises(ConfigError, match="'base_mass', which only resets can"):
        _core(replace(VELOCITY, events=(heavier,)), [GO1])
    core = _core(replace(TASK, rewards=(RewardTerm("tilt", -1.0, tilted_base),)))
    with pytest.raises(ConfigError, match="only bodies with joint drives have"):
        core.step(_actions(core))


def test_a_layout_with_observations_of_another_task_is_refused():
    """What no term fills would be zero without a word."""
    more = replace(TASK, observations=(ObservationTerm("place", place, width=2),))
    with pytest.raises(ConfigError, match=r"adds place, but the task 'unimal-ft-v1' adds nothing"):
        EnvironmentCore(TASK, BODIES, 1, token_spec=more.token_spec(5, 2), num_threads=1)
    wide = replace(TASK, observations=(ObservationTerm("place", place, width=3),))
    with pytest.raises(ConfigError, match=r"token_spec of the task"):
        EnvironmentCore(more, BODIES, 1, token_spec=wide.token_spec(5, 2), num_threads=1)


def test_an_observation_with_the_name_of_a_fixed_feature_is_refused():
    """It would be written over readings of the limbs."""
    task = replace(TASK, observations=(ObservationTerm("body_mass", place),))
    with pytest.raises(ConfigError, match=r"'body_mass', as a feature that is fixed by the body"):
        _core(task)


def test_actions_of_limbs_are_cut_off_where_the_task_says_so():
    term = RewardTerm("effort", -1.0, effort)
    core, gentle = (
        _core(replace(TASK, rewards=(term,), action_clip=clip)) for clip in (None, 0.25)
    )
    actions = _actions(core)
    assert np.abs(actions).max() > 0.25
    clipped = np.clip(actions, -0.25, 0.25)
    np.testing.assert_array_equal(gentle.step(actions).reward, core.step(clipped).reward)
    np.testing.assert_array_equal(gentle.dynamic, core.dynamic)
