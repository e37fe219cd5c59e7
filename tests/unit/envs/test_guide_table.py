import numpy as np
import pytest

from gmc_bench.envs.guide_table import GuideTable


def by_search(probabilities, uniform):
    cumulative = np.cumsum(probabilities)
    return np.searchsorted(cumulative / cumulative[-1], uniform, "right")


def distribution(kind, count, rng):
    weights = {
        "uniform": np.ones(count),
        "random": rng.random(count),
        "steep": rng.random(count) ** 12,
        "sparse": (rng.random(count) < 0.1) + np.eye(1, count, count // 2)[0],
        "one": np.eye(1, count, count - 1)[0],
    }[kind]
    return weights / weights.sum()


@pytest.mark.parametrize("kind", ["uniform", "random", "steep", "sparse", "one"])
@pytest.mark.parametrize("count", [1, 2, 3, 100, 8_200, 10_000])
def test_it_finds_what_a_binary_search_finds(kind, count):
    rng = np.random.default_rng(count)
    probabilities = distribution(kind, count, rng)
    cumulative = np.cumsum(probabilities)
    edges = np.concatenate(
        [cumulative / cumulative[-1], np.arange(count) / count, [0.0, 1 - 2**-53]]
    )
    uniform = np.concatenate(
        [rng.random(5_000), *(np.nextafter(edges, to) for to in (0, 1)), edges]
    )
    uniform = uniform[(uniform >= 0) & (uniform < 1)]
    found = GuideTable(probabilities).find(uniform)
    np.testing.assert_array_equal(found, by_search(probabilities, uniform))
    assert (probabilities[found] > 0).all()


def test_bodies_are_drawn_as_often_as_asked():
    probabilities = np.array([0.5, 0.0, 0.3, 0.2])
    found = GuideTable(probabilities).find(np.random.default_rng(0).random(100_000))
    np.testing.assert_allclose(np.bincount(found, minlength=4) / 1e5, probabilities, atol=0.005)
