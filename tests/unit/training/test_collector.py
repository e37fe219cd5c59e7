"""What a rollout holds, against the environments stepped by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.sim.terrain import SURFACE
from gmc_bench.tasks.unimal_ft import TASK as FLAT
from gmc_bench.tasks.unimal_vt import TASK as RUGGED
from gmc_bench.training.rewards import RewardNormalizer

NEAR_SLOPES = replace(RUGGED, scene=replace(RUGGED.scene, spawn=(4.0, 0.0, SURFACE)))


def collected(make_trainer, **changes):
    trainer = make_trainer(**changes)
    trainer.collector.collect(trainer.buffer)
    return trainer


def test_stepping_by_hand_gives_the_same_rollout(make_trainer):
    trainer = collected(make_trainer, gamma=0.9)
    buffer, twin = trainer.buffer, make_trainer("twin", gamma=0.9)
    normalizer, scale = twin.policy.normalizer, RewardNormalizer(4, 0.9)
    raw, index = twin.env.core.dynamic.copy(), twin.env.core.morphology_index.copy()
    for t in range(buffer.length):
        padding = twin.env.table.limb_padding_mask[index]
        normalizer.update(raw, padding)
        dynamic = normalizer.normalize(raw, padding)
        np.testing.assert_array_equal(buffer.dynamic[t].numpy(), dynamic)
        np.testing.assert_array_equal(buffer.morphology_index[t].numpy(), index)
        observation, reward, terminated, truncated, _ = twin.env.step(buffer.actions[t].numpy())
        done = terminated | truncated
        expected = scale(reward, done).astype(np.float32)
        np.testing.assert_array_equal(buffer.reward[t].numpy(), expected)
        np.testing.assert_array_equal(buffer.terminated[t].numpy(), terminated)
        np.testing.assert_array_equal(buffer.truncated[t].numpy(), truncated)
        raw, index = observation["dynamic"], observation["morphology_index"]
    padding = twin.env.table.limb_padding_mask[index]
    np.testing.assert_array_equal(buffer.last_dynamic.numpy(), normalizer.normalize(raw, padding))
    np.testing.assert_array_equal(buffer.last_morphology_index.numpy(), index)


def test_log_probabilities_are_those_of_the_policy_that_acted(make_trainer):
    trainer = collected(make_trainer)
    buffer = trainer.buffer
    for t in (0, 7):
        tokens = TokenBatch(buffer.table, buffer.morphology_index[t], buffer.dynamic[t])
        found = trainer.model.distribution(tokens).log_prob(buffer.actions[t])
        assert torch.equal(found, buffer.log_prob[t])


@pytest.mark.parametrize("make", ["make_trainer", "make_bank_trainer"])
def test_actions_are_perturbed_by_normal_numbers_that_are_others_at_every_step(make, request):
    trainer = request.getfixturevalue(make)()
    trainer.collector.collect(trainer.buffer)
    buffer, noise, real = trainer.buffer, [], []
    for t in range(buffer.length):
        tokens = buffer.tokens(buffer.morphology_index[t], buffer.dynamic[t], buffer.height_map[t])
        mean = trainer.model.distribution(tokens).mean.detach()
        noise.append((buffer.actions[t] - mean) / 0.9)
        real.append(~tokens.action_padding_mask)
    noise, real = torch.stack(noise), torch.stack(real)
    changes = (noise[1:] - noise[:-1]).abs()[real[1:] & real[:-1]]
    assert float(changes.mean()) == pytest.approx(2 / np.sqrt(np.pi), abs=0.2)
    drawn = noise[real]
    assert float(drawn.mean()) == pytest.approx(0.0, abs=0.2)
    assert float(drawn.std()) == pytest.approx(1.0, abs=0.1)
    assert float(drawn.abs().max()) > 2.5


def test_the_first_actions_follow_from_the_seed_of_the_run(make_trainer):
    """The third number of the run's seed sequence is the seed of the action noise."""
    trainer = collected(make_trainer, seed=1, rollout_length=4, env_steps=80, batch_size=16)
    buffer, seeds = trainer.buffer, np.random.SeedSequence(1).generate_state(4, np.uint32)
    tokens = buffer.tokens(buffer.morphology_index[0], buffer.dynamic[0], buffer.height_map[0])
    mean, real = trainer.model.distribution(tokens).mean.detach(), ~tokens.action_padding_mask
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(int(seeds[2])))
    np.testing.assert_allclose(buffer.actions[0][real], (mean + 0.9 * noise)[real], atol=1e-6)


def test_dropout_is_on_while_acting(make_trainer):
    """As in the public MetaMorph code: every pass of training draws masks, not just updates."""
    trainer, training = make_trainer(dropout=0.5), []
    dropout = trainer.model.actor.dropout
    dropout.register_forward_hook(lambda module, *_: training.append(module.training))
    trainer.collector.collect(trainer.buffer)
    assert training == [True] * trainer.buffer.length


def test_before_a_rollout_is_forgotten_what_was_worked_out_with_earlier_weights(make_trainer):
    """On a GPU, graphs hold maps that the weights of their time have generated."""
    trainer, told = make_trainer(), []
    bound = trainer.collector.bound
    explore, forget = bound.explore, bound.explorer.forget
    bound.explorer.forget = lambda: told.append("forget") or forget()
    bound.explore = lambda *what: told.append("step") or explore(*what)
    for _ in range(2):
        trainer.collector.collect(trainer.buffer)
    assert told == 2 * ["forget", *trainer.buffer.length * ["step"]]


def plainly_normalized(values, padding, moments):
    """Normalise one row (L, F), feature by feature, in float64."""
    deviation = np.sqrt(moments.variance + 1e-8)
    shifted = np.clip((values - moments.mean) / deviation, -10.0, 10.0)
    return np.where(padding[:, None], 0.0, shifted)


@pytest.mark.parametrize(
    ("order", "task"), [("dfs", FLAT), ("bfs", FLAT), ("siblings", FLAT), ("dfs", NEAR_SLOPES)]
)
def test_every_time_limit_leaves_its_last_observation(make_trainer, order, task):
    """Of the episode that was cut off, as the policy sees it; that of the next one differs.

    The horizon is 10, so every row of 16 steps is cut off, unless the body falls before.
    """
    trainer = make_trainer(order=order, task=task)
    core, buffer, expected = trainer.env.core, trainer.buffer, {}
    serialization, step = trainer.collector.bound.serialization, core.step
    moments, t = trainer.policy.normalizer.dynamic, itertools.count()

    def noting(actions):
        result, now = step(actions), next(t)
        for row in np.flatnonzero(result.truncated & ~result.diverged).tolist():
            body = core.morphology_index[row]
            padding = core.table.limb_padding_mask[body]
            seen = plainly_normalized(core.dynamic[row].astype(np.float64), padding, moments)
            sequence = buffer.morphology_index[now, [row]].numpy()  # as shown before this step
            shown = serialization.arrange(seen[None], sequence)[0]
            heights = np.zeros(0) if core.height_map is None else core.height_map[row].copy()
            expected[now, row] = shown, heights
        return result

    core.step = noting
    trainer.collector.collect(buffer)
    found = {(t, row): (dynamic, heights) for t, row, dynamic, heights, _ in buffer.truncations}
    assert found.keys() == expected.keys()
    assert {row for _, row in found} == set(range(4))
    for place, (dynamic, heights) in found.items():
        np.testing.assert_allclose(dynamic, expected[place][0], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(heights, expected[place][1])
        assert dynamic.abs().max() > 0.1
        if place[0] + 1 < buffer.length:
            following = buffer.dynamic[place[0] + 1, place[1]]
            assert (dynamic - following).abs().max() > 0.1
    if task.num_heights:
        assert max(float(heights.std()) for _, heights in found.values()) > 0.0
    cut = torch.zeros_like(buffer.truncated)
    for t, row in found:
        cut[t, row] = True
    assert torch.equal(cut, buffer.truncated & ~buffer.diverged)


def test_the_ground_after_the_last_step_is_kept(make_trainer):
    trainer = make_trainer(task=NEAR_SLOPES, rollout_length=8, env_steps=160)  # no time limit
    trainer.collector.collect(trainer.buffer)
    last, shown = trainer.buffer.last_height_map.numpy(), trainer.env.core.height_map
    assert shown.std() > 0.0
    assert (shown != trainer.buffer.height_map[-1].numpy()).any()
    np.testing.assert_array_equal(last, shown)


def test_episodes_are_counted_and_passed_on(make_trainer):
    trainer, ended = make_trainer(), []
    for _ in range(2):  # the second rollout adds to the first
        trainer.collector.collect(trainer.buffer)
        ended.append(int((trainer.buffer.terminated | trainer.buffer.truncated).sum()))
        assert trainer.collector.episodes == sum(ended)
        assert trainer.sampler.get_state()["count"].sum() == sum(ended)
        assert trainer.tracker.get_state()["sums"][..., 0].sum() == sum(ended)
    assert min(ended) > 0


def test_episodes_are_noted_in_the_order_of_their_ends(make_trainer):
    """Step by step, and row by row within a step: an average that moves depends on it."""
    trainer, noted, ended, t = make_trainer(), [], [], itertools.count()
    step, record = trainer.env.step, trainer.sampler.record

    def stepping(actions):
        result, now = step(actions), next(t)
        for row in np.flatnonzero(result[2] | result[3]).tolist():
            final = result[4]["final_info"]
            body, length = final["morphology_index"][row], final["episode_length"][row]
            ended.append((now, row, body, length))
        return result

    def noting(bodies, lengths):
        noted.extend(zip(bodies, lengths, strict=True))
        record(bodies, lengths)

    trainer.env.core.episode_length[:] = (3, 6, 0, 1)  # so that the second row ends first
    trainer.env.step, trainer.sampler.record = stepping, noting
    trainer.collector.collect(trainer.buffer)
    assert noted == [(body, length) for _, _, body, length in ended]
    by_row = sorted(ended, key=lambda end: end[1::-1])
    assert noted != [(body, length) for _, _, body, length in by_row]


def test_episodes_of_all_processes_are_noted_in_the_order_of_their_ends(make_trainer, monkeypatch):
    """Processes hand them over one after the other, each all steps of its own environments."""
    trainer, noted = make_trainer(), []
    collector = trainer.collector
    ends = [(0, 3), (1, 0), (1, 2), (2, 1), (2, 3), (4, 0)]  # step and environment
    lengths = [float(10 + number) for number in range(len(ends))]
    rows = [(*end, 0.0, 1.0, length, 0.0) for end, length in zip(ends, lengths, strict=True)]
    first, second = (np.array([row for row in rows if row[1] // 2 == rank]) for rank in (0, 1))

    def gather(values, dim=0):
        return torch.cat((values, torch.from_numpy(second)), dim)

    collector._ended = [first]
    monkeypatch.setattr(collector.learner.group, "gather", gather)
    monkeypatch.setattr(collector.sampler, "record", lambda bodies, steps: noted.extend(steps))
    collector._count()
    assert noted == lengths
    assert collector.episodes == len(ends)


def test_a_broken_simulation_is_marked_and_not_bootstrapped(make_trainer):
    trainer = make_trainer()
    step = trainer.env.core.step

    def breaking(actions):
        result = step(actions)
        if trainer.env.core.episode_length[2] == 3:
            result.diverged[2] = result.truncated[2] = True
            result.terminated[2] = False
            for name, hit in result.events.items():
                hit[2] = name == "diverged"
        return result

    trainer.env.core.step = breaking
    trainer.collector.collect(trainer.buffer)
    broken = torch.nonzero(trainer.buffer.diverged).tolist()
    assert [2, 2] in broken
    assert {row for _, row in broken} == {2}
    assert trainer.collector.diverged_episodes == len(broken)
    assert not [place for place in trainer.buffer.truncations if list(place[:2]) in broken]
    again = make_trainer("again")
    again.set_state(trainer.get_state())
    assert again.collector.diverged_episodes == len(broken)
    trainer.env.core.step = step
    trainer.collector.collect(trainer.buffer)
    assert not trainer.buffer.diverged.any()
    assert len(trainer.buffer.truncations) == int(trainer.buffer.truncated.sum()) > 0
    assert trainer.collector.diverged_episodes == len(broken)
