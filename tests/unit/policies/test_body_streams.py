"""Random numbers that follow from the seed and the body alone."""

import numpy as np

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.policies.body_streams import BodyStreams
from gmc_bench.sim.batch import spawn_streams

DIGESTS = tuple(body.digest for body in (chain(3), star(3), biped()))


def numbers(streams, body, iteration):
    """Everything random that concerns one body."""
    streams.iteration = iteration
    noise = streams.action_noise(5, 2, (4, 2)).reshape(5, len(streams), 2, 4, 2)
    return (
        streams.weights()[body],
        streams.environments(2).reshape(len(streams), 2, 4)[body].tolist(),
        noise[:, body].tolist(),
        streams.orders(3, 7)[:, body].tolist(),
    )


def test_numbers_do_not_depend_on_other_bodies():
    together, alone = BodyStreams(1, DIGESTS), BodyStreams(1, DIGESTS[1:2])
    assert numbers(together, 1, 4) == numbers(alone, 0, 4)


def test_bodies_seeds_and_iterations_have_numbers_of_their_own():
    streams, twins = BodyStreams(1, DIGESTS), BodyStreams(1, (DIGESTS[0], DIGESTS[0]))
    first = numbers(streams, 0, 0)
    assert numbers(twins, 0, 0) == first
    others = [numbers(streams, 1, 0), numbers(twins, 1, 0), numbers(BodyStreams(2, DIGESTS), 0, 0)]
    for other in others:
        assert all(a != b for a, b in zip(first, other, strict=True))
    later = numbers(streams, 0, 1)
    assert [a == b for a, b in zip(first, later, strict=True)] == [True, True, False, False]


def test_what_is_drawn_for_one_purpose_is_drawn_for_no_other(monkeypatch):
    streams, seen, make = BodyStreams(1, DIGESTS), [], np.random.default_rng
    environments = streams.environments(2).reshape(3, 2, 4)
    for seed, own in zip(streams.weights(), environments, strict=True):
        assert not np.array_equal(own, spawn_streams(seed, 2))

    def seeded(part):
        seen.append((tuple(part.entropy), part.spawn_key))
        return make(part)

    monkeypatch.setattr(np.random, "default_rng", seeded)
    streams.action_noise(1, 1, (1,))
    streams.orders(1, 2)
    assert len({*seen}) == len(seen) == 6


def test_numbers_follow_from_seed_repetition_content_and_purpose_as_they_always_have():
    """Else no run of a released method could be made again."""
    streams, iteration = BodyStreams(1, (DIGESTS[0], DIGESTS[0])), 4
    streams.iteration = iteration

    def sequence(body, *purpose):
        return np.random.SeedSequence([1, body, int(DIGESTS[0], 16)], spawn_key=purpose)

    environments = streams.environments(2).reshape(2, 2, 4)
    noise, orders = streams.action_noise(3, 2, (4, 2)), streams.orders(1, 7)
    for body in range(2):
        first, second = (int(sequence(body, k).generate_state(1)[0]) for k in (0, 1))
        assert streams.weights()[body] == first
        np.testing.assert_array_equal(environments[body], spawn_streams(second, 2))
        drawn = np.random.default_rng(sequence(body, 2, iteration))
        expected = drawn.standard_normal((3, 2, 4, 2), np.float32)
        np.testing.assert_array_equal(noise[:, 2 * body : 2 * body + 2], expected)
        order = np.random.default_rng(sequence(body, 3, iteration)).permutation(7)
        assert orders[0, body].tolist() == order.tolist()


def test_orders_are_permutations_and_noise_is_normal():
    streams = BodyStreams(0, DIGESTS)
    orders = streams.orders(2, 9)
    assert orders.shape == (2, 3, 9)
    np.testing.assert_array_equal(np.sort(orders), np.broadcast_to(np.arange(9), orders.shape))
    assert len({tuple(order) for order in orders.reshape(-1, 9).tolist()}) == 6
    noise = streams.action_noise(500, 2, (4, 2))
    assert noise.shape == (500, 6, 4, 2)
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1.0) < 0.02
