"""Scores against an environment stepped by hand, and what they must not depend on."""

import numpy as np
import pytest
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.evaluation import evaluate as module
from gmc_bench.evaluation.evaluate import EpisodeCounter, Observer, Scoring
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.policies.bound import token_table


def score(trained, *, bodies=None, episodes=2, mode="deterministic", seed=5, **options):
    scoring = Scoring(
        task=trained.task,
        bodies=bodies or trained.bodies,
        episodes=episodes,
        mode=mode,
        seed=seed,
        num_threads=1,
    )
    return scoring.run(trained.policy, **options)


def by_hand(trained, episodes, seed):
    """Play the deterministic policy in the vector environment; first episode of every row."""
    rows = len(trained.bodies) * episodes
    env = MorphologyVectorEnv(
        trained.task, trained.bodies, rows, token_spec=trained.model.spec, fixed=True
    )
    index = np.repeat(np.arange(len(trained.bodies)), episodes)
    observation, _ = env.reset(seed=seed, options={"morphology_index": index})
    table = token_table(env.table, trained.normalizer)
    padding = env.table.limb_padding_mask[index]
    total, found = np.zeros(rows), [None] * rows
    while None in found:
        dynamic = trained.normalizer.normalize(observation["dynamic"], padding)
        tokens = TokenBatch(table, torch.from_numpy(index), torch.from_numpy(dynamic))
        with torch.no_grad():
            actions = trained.model.actor(tokens).masked_fill(tokens.action_padding_mask, 0.0)
        observation, reward, terminated, truncated, info = env.step(actions.numpy())
        total += reward
        for row in np.flatnonzero(terminated | truncated):
            if found[row] is None:
                final = info["final_info"]
                found[row] = (total[row], final["episode_length"][row], final["ended"][row])
    return found


def flat(results):
    return [(e.episode_return, e.length, e.ended) for items in results for e in items]


def test_episodes_are_those_of_the_vector_environment(trained):
    assert flat(score(trained, episodes=3, seed=5)) == by_hand(trained, 3, 5)


def test_both_kinds_of_end_occur_and_are_named(make_trained):
    results = flat(score(make_trained(horizon=60), episodes=4))
    assert {ended for _, _, ended in results} == {"fell", "time_limit"}
    assert all((length == 60) == (ended == "time_limit") for _, length, ended in results)


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
def test_the_same_seed_gives_the_same_numbers(trained, mode):
    first = score(trained, mode=mode)
    torch.manual_seed(99)
    np.random.default_rng(99).random()
    assert score(trained, mode=mode) == first
    assert score(trained, mode=mode, seed=6) != first


def test_modes_differ(trained):
    deterministic, stochastic = score(trained), score(trained, mode="stochastic")
    assert [len(items) for items in deterministic] == [2, 2, 2]
    assert flat(deterministic) != flat(stochastic)


def test_later_bodies_do_not_change_a_deterministic_score(trained):
    """Up to the rounding of the network, whose sums depend on the size of the batch."""
    alone = score(trained, bodies=trained.bodies[:1], episodes=2)[0]
    together = score(trained, episodes=2)[0]
    for one, other in zip(alone, together, strict=True):
        assert one.episode_return == pytest.approx(other.episode_return, rel=1e-3)


def test_the_statistics_and_the_mode_of_the_model_stay_as_they_are(trained):
    before = {name: value.copy() for name, value in trained.normalizer.get_state().items()}
    weights = [p.clone() for p in trained.model.parameters()]
    trained.model.train()
    score(trained, mode="stochastic")
    assert trained.model.training
    trained.model.eval()
    score(trained)
    assert not trained.model.training
    for name, value in trained.normalizer.get_state().items():
        np.testing.assert_array_equal(value, before[name])
    assert all(torch.equal(p, q) for p, q in zip(trained.model.parameters(), weights, strict=True))


def test_batches_do_not_change_deterministic_scores(trained, monkeypatch):
    whole = score(trained, episodes=3)
    monkeypatch.setattr(module, "MAX_ROWS", 4)  # of 9 episodes, five wait for a row
    finished = []
    parts = score(trained, episodes=3, observers=(EpisodeCounter(finished.append),))
    assert sum(finished) == 9
    assert [len(items) for items in parts] == [3, 3, 3]
    for one, other in zip(flat(whole), flat(parts), strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-3)
        assert one[1:] == other[1:]


def test_as_many_rows_are_stepped_together_as_when_records_were_made():
    """The last bits of a score depend on it."""
    assert module.MAX_ROWS == 256


def test_a_row_takes_the_next_episode_as_soon_as_its_own_has_ended(make_trained, monkeypatch):
    trained = make_trained(horizon=60)
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    steps, step = [], EnvironmentCore.step
    monkeypatch.setattr(EnvironmentCore, "step", lambda *args: steps.append(0) or step(*args))
    lengths = [length for _, length, _ in flat(score(trained, episodes=4))]
    assert len(set(lengths)) > 2
    in_batches = sum(max(lengths[k : k + 3]) for k in range(0, 12, 3))
    assert sum(lengths) / 3 <= len(steps) < in_batches


def test_a_row_whose_episode_was_the_last_is_not_simulated_any_more(make_trained):
    class Clock(Observer):
        def stepped(self, core, numbers, actions, step):
            self.times = [core.simulator.data(row).time for row in range(core.num_envs)]
            self.control_dt = core.simulator.control_dt

    clock = Clock()
    results = score(make_trained(horizon=60), episodes=4, observers=(clock,))
    lengths = [length for _, length, _ in flat(results)]
    assert len(set(lengths)) > 2
    assert clock.times == pytest.approx([length * clock.control_dt for length in lengths])


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
def test_every_episode_is_the_same_in_whatever_row_it_runs(make_trained, monkeypatch, mode):
    trained = make_trained(horizon=60)
    whole = flat(score(trained, episodes=4, mode=mode))
    monkeypatch.setattr(module, "MAX_ROWS", 5)
    for one, other in zip(whole, flat(score(trained, episodes=4, mode=mode)), strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-3, abs=1e-3)
        assert one[1:] == other[1:]


def test_a_memory_lasts_for_one_episode(remembering, monkeypatch):
    whole = flat(score(remembering, episodes=4))
    assert len({length for _, length, _ in whole}) > 2
    monkeypatch.setattr(module, "MAX_ROWS", 5)
    for one, other in zip(whole, flat(score(remembering, episodes=4)), strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-3, abs=1e-3)
        assert one[1:] == other[1:]


class Actions(Observer):
    """Keeps the actions of every episode, step by step."""

    def __init__(self):
        self.taken = {}

    def started(self, core, rows, numbers):
        self.taken |= {int(number): [] for number in numbers}

    def stepped(self, core, numbers, actions, step):
        for row, number in enumerate(numbers.tolist()):
            if number >= 0:
                padding = core.table.action_padding_mask[core.morphology_index[row]]
                assert not actions[row][padding].any()
                self.taken[number].append(np.ma.array(actions[row], mask=padding))


@pytest.mark.parametrize("rows", [256, 4])
def test_stochastic_actions_are_the_mean_and_noise_of_the_episodes_own_stream(
    make_trained, monkeypatch, rows
):
    """Its spread is the policy's; every episode, step, limb and seed draws its own."""
    monkeypatch.setattr(module, "MAX_ROWS", rows)
    trained, mean, deviation = make_trained(horizon=12), 0.2, 0.37
    *_, last = trained.model.actor.layers
    with torch.no_grad():  # the mean of every action is the same whatever is seen
        last.weight.zero_()
        last.bias.fill_(mean)
        trained.model.action_std.fill_(deviation)
    for seed in (5, 6):
        watch = Actions()
        score(trained, episodes=3, mode="stochastic", seed=seed, observers=(watch,))
        assert sorted(watch.taken) == list(range(9))
        for number, taken in watch.taken.items():
            key = np.random.SeedSequence(seed, spawn_key=(2**31, number))
            shape = (12, *taken[0].shape)
            drawn = np.random.default_rng(key).standard_normal(shape, np.float32)
            assert len(taken) > 3
            for step, actions in enumerate(taken):
                expected = np.ma.array(mean + deviation * drawn[step], mask=actions.mask)
                np.testing.assert_allclose(actions.compressed(), expected.compressed(), atol=1e-6)


def test_episodes_of_a_body_start_differently(trained):
    returns = [e.episode_return for e in score(trained, episodes=4)[1]]
    assert len(set(returns)) == 4


def test_a_body_that_was_not_trained_on_is_scored_in_the_same_layout(trained):
    results = score(trained, bodies=trained.bodies[2:], episodes=1)
    assert len(results) == 1
    assert np.isfinite(results[0][0].episode_return)


def test_a_broken_simulation_ends_its_episode_only(trained, monkeypatch):
    step = EnvironmentCore.step

    def breaking(core, *args):
        result = step(core, *args)
        if core.episode_length[0] == 4:
            result.diverged[0] = result.truncated[0] = True
            result.terminated[0] = False
            result.reward[0] = 0.0
            for name, hit in result.events.items():
                hit[0] = name == "diverged"
        return result

    expected = flat(score(trained))
    monkeypatch.setattr(EnvironmentCore, "step", breaking)
    found = flat(score(trained))
    assert found[0][1:] == (4, "diverged")
    assert found[1:] == expected[1:]


@pytest.mark.parametrize(
    "options", [{"episodes": 0}, {"episodes": 1.5}, {"mode": "stochastical"}, {"seed": -1}]
)
def test_an_evaluation_that_cannot_be_is_refused(trained, options):
    """A mode that is misspelt would pass for the deterministic one."""
    with pytest.raises(ConfigError, match=r"an evaluation needs|a seed must be"):
        score(trained, **options)
