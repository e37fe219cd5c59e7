"""What a rollout holds, against the environments stepped by hand."""

import numpy as np
import torch

from gmc_bench.envs.normalization import RewardNormalizer
from gmc_bench.nn.tokens import TokenBatch


def collected(make_trainer, **changes):
    trainer = make_trainer(**changes)
    trainer.collector.collect(trainer.buffer)
    return trainer


def test_stepping_by_hand_gives_the_same_rollout(make_trainer):
    trainer = collected(make_trainer)
    buffer, twin = trainer.buffer, make_trainer("twin")
    normalizer, scale = twin.normalizer, RewardNormalizer(4, 0.99)
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


def test_every_time_limit_leaves_its_last_observation(make_trainer):
    """The horizon is 10, so every row of 16 steps is cut off, unless the body falls before."""
    trainer = collected(make_trainer)
    buffer = trainer.buffer
    cut = torch.zeros_like(buffer.truncated)
    for t, row, dynamic, _, _ in buffer.cut_off:
        cut[t, row] = True
        assert dynamic.shape == buffer.dynamic[0, 0].shape
        following = buffer.dynamic[t + 1, row] if t + 1 < buffer.length else None
        assert following is None or not torch.equal(dynamic, following)
    assert cut.any()
    assert torch.equal(cut, buffer.truncated & ~buffer.diverged)


def test_episodes_are_counted_and_passed_on(make_trainer):
    trainer = collected(make_trainer)
    ended = int((trainer.buffer.terminated | trainer.buffer.truncated).sum())
    assert ended > 0
    assert trainer.collector.episodes == ended
    assert trainer.sampler.state_dict()["count"].sum() == ended
    returns = trainer.tracker.state_dict()["returns"]
    assert np.isfinite(returns).sum() == ended


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
    assert not [place for place in trainer.buffer.cut_off if list(place[:2]) in broken]


def test_the_time_of_simulation_and_policy_is_measured(make_trainer):
    timers = collected(make_trainer).timers
    assert timers.simulation > 0
    assert timers.policy > 0
    assert timers.update == 0
