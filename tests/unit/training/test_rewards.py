"""Running normalisation of rewards, worked out by hand."""

import numpy as np

from gmc_bench.training.rewards import RewardNormalizer


def test_rewards_by_hand():
    normalizer = RewardNormalizer(num_envs=2, gamma=0.5)
    done = np.array([False, True])
    # Step 1: returns (1, 3) have mean 2 and variance 1.
    scaled = normalizer(np.array([1.0, 3.0]), done)
    np.testing.assert_allclose(scaled, [1.0, 3.0], rtol=2e-3)
    np.testing.assert_array_equal(normalizer.discounted, [1.0, 0.0])  # the second one ended
    # Step 2: returns (0.5 * 1 + 0.5, 0 + 2) = (1, 2); of 1, 3, 1, 2 the mean is 1.75 and the
    # variance (0.5625 + 1.5625 + 0.5625 + 0.0625) / 4 = 0.6875.
    scaled = normalizer(np.array([0.5, 2.0]), np.array([False, False]))
    np.testing.assert_allclose(scaled, np.array([0.5, 2.0]) / np.sqrt(0.6875), rtol=2e-3)
    np.testing.assert_array_equal(normalizer.discounted, [1.0, 2.0])


def test_rewards_are_clipped():
    normalizer = RewardNormalizer(num_envs=4, gamma=0.9)
    scaled = normalizer(np.array([0.0, 0.0, 0.0, 0.0]), np.zeros(4, np.bool_))
    np.testing.assert_array_equal(scaled, np.zeros(4))
    for _ in range(200):
        normalizer(np.array([0.1, -0.1, 0.1, -0.1]), np.ones(4, np.bool_))
    scaled = normalizer(np.array([50.0, -50.0, 0.0, 0.1]), np.zeros(4, np.bool_))
    np.testing.assert_array_equal(scaled[:2], [10.0, -10.0])
    assert scaled[2] == 0.0
    assert 0.0 < scaled[3] < 1.0


def test_reward_statistics_survive_the_round_trip():
    random = np.random.default_rng(0)
    normalizer, twin = RewardNormalizer(3, 0.9), RewardNormalizer(3, 0.9)
    rewards = random.normal(size=(40, 3))
    done = random.random((40, 3)) < 0.1
    for step in range(20):
        normalizer(rewards[step], done[step])
    state = normalizer.get_state()
    kept = {name: value.copy() for name, value in state.items()}
    twin.set_state(state)
    for step in range(20, 40):
        np.testing.assert_array_equal(
            normalizer(rewards[step], done[step]), twin(rewards[step], done[step])
        )
    for name, value in kept.items():
        np.testing.assert_array_equal(state[name], value)


def test_every_body_has_a_reward_scale_of_its_own():
    index = np.repeat(np.arange(3), 2)
    together = RewardNormalizer(6, 0.9, 3)
    alone = [RewardNormalizer(2, 0.9) for _ in range(3)]
    random = np.random.default_rng(0)
    for _ in range(20):
        reward = random.normal(size=6) * (1 + 10 * index)
        done = random.random(6) < 0.2
        found = together(reward, done)
        for body, normalizer in enumerate(alone):
            rows = body == index
            np.testing.assert_allclose(found[rows], normalizer(reward[rows], done[rows]))
    twin = RewardNormalizer(6, 0.9, 3)
    twin.set_state({name: value.copy() for name, value in together.get_state().items()})
    np.testing.assert_array_equal(twin(reward, done), together(reward, done))
