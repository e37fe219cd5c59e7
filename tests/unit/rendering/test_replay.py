"""The episode that is shown is the one that was scored."""

import numpy as np
import pytest
import torch

from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation import episode_subset
from gmc_bench.evaluation import evaluate as module
from gmc_bench.sim.batch import spawn_streams
from tests.support.slow import slow_but

EVERY = [(body, episode) for body in range(3) for episode in range(3)]


@pytest.mark.parametrize(
    ("mode", "rows"),
    slow_but(
        [(mode, rows) for mode in ("deterministic", "stochastic") for rows in (2, 256)],
        ("deterministic", 256),
        ("stochastic", 2),
    ),
)
def test_returns_are_those_of_the_evaluation(subject, monkeypatch, mode, rows):
    for place in (module, episode_subset):  # with two, most episodes wait for a row
        monkeypatch.setattr(place, "MAX_ROWS", rows)
    results = subject.score(mode)
    assert len({item.ended for items in results for item in items}) == 2
    for body, episode in EVERY:
        replay, scored = subject.replay(body, episode, mode), results[body][episode]
        assert replay.episode_return == scored.episode_return
        assert (replay.length, replay.ended) == (scored.length, scored.ended)
        assert replay.morphology is subject.bodies[body]


def test_returns_are_those_of_the_evaluation_on_every_ground(ground_subject):
    results = ground_subject.score()
    for body, episode in ((0, 2), (2, 1)):
        replay, scored = ground_subject.replay(body, episode), results[body][episode]
        found = replay.episode_return, replay.length, replay.ended
        assert found == (scored.episode_return, scored.length, scored.ended)
        assert bool(replay.terrain) == bool(ground_subject.task.scene.terrain)
        # A body stands on the ground, neither above nor below it.
        assert replay.ground.shape == (replay.length + 1,)
        assert (np.abs(replay.states[:, 2] - replay.ground - 0.4) < 0.5).all()


def test_watching_changes_nothing(subject):
    class Watcher(module.Observer):
        steps = 0

        def started(self, core, rows, numbers):
            assert len(rows) == len(numbers)

        def stepped(self, core, numbers, actions, step):
            self.steps += int((numbers >= 0).sum())

    watcher = Watcher()
    results = subject.score("stochastic", observers=(watcher,))
    assert results == subject.score("stochastic")
    assert watcher.steps == sum(item.length for items in results for item in items)


def test_states_lead_from_the_start_to_the_end(subject):
    replay = subject.replay(1, 2)
    core = EnvironmentCore(subject.task, subject.bodies, 1, num_threads=1)
    core.simulator.streams[0] = spawn_streams(5, 9)[5]
    core.reset(np.array([0]), np.array([1]))
    np.testing.assert_array_equal(replay.states[0], core.simulator.data(0).qpos)
    assert len(replay.states) == len(replay.returns) == len(replay.activity) + 1
    # The reward is the speed of the torso, whose position the engine reports one substep late.
    moved = np.diff(replay.states[:, 0]) / replay.control_dt
    rewards = np.diff(replay.returns)
    assert np.corrcoef(moved, rewards)[0, 1] > 0.9
    assert replay.speed(0) == 0.0
    expected = (replay.states[30, 0] - replay.states[5, 0]) / 0.5
    assert replay.speed(30) == pytest.approx(expected)
    early = (replay.states[10, 0] - replay.states[0, 0]) / 0.2
    assert replay.speed(10) == pytest.approx(early)


def test_a_broken_simulation_is_shown_as_it_was_before(wild_subject):
    replay = wild_subject.replay(0, 1)
    assert (replay.ended, replay.length) == ("diverged", 1)
    np.testing.assert_array_equal(replay.states[1], replay.states[0])
    assert replay.ground[1] == replay.ground[0]


def test_activity_is_the_mean_size_of_a_limbs_actions(subject):
    for parameter in subject.model.parameters():
        torch.nn.init.zeros_(parameter)
    subject.model.actor.layers[-1].bias.data[:] = torch.tensor([-0.5, 3.0])
    replay = subject.replay(2, 0)
    for limb, found in zip(replay.morphology.limbs, replay.activity[4], strict=True):
        driven = {actuator.joint for actuator in replay.morphology.actuators}
        sizes = [{0: 0.5, 1: 1.0}[j.slot] for j in limb.joints if j.name in driven]
        expected = np.mean(sizes) if sizes else np.nan
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_episode_can_be_left_early(subject):
    steps = []
    replay = subject.replay(0, 0, seconds=0.2, on_step=lambda: steps.append(1))
    assert (replay.length, replay.ended, len(steps)) == (10, None, 10)
    whole = subject.replay(0, 0)
    np.testing.assert_array_equal(replay.states, whole.states[:11])
    assert replay.episode_return == whole.returns[10]


def test_the_policy_is_left_in_training_mode(subject):
    subject.model.train()
    subject.replay(0, 0)
    assert subject.model.training
