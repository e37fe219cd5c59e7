"""Statistics of each body: those of the normalisers of bodies that are alone."""

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

BODIES = (chain(2), star(3), biped())
LIMBS, WIDTH, ENVS = 6, 17, 2
INDEX = np.repeat(np.arange(3), ENVS)


def table_of(*bodies):
    return build_table(compile_models(bodies, TASK.scene), TokenSpec(LIMBS))


@pytest.fixture(scope="module")
def table():
    return table_of(*BODIES)


def batches(table, count=5):
    """Yield rows of two environments per body, with unlike scales and rubbish in padding."""
    random = np.random.default_rng(0)
    for step in range(count):
        values = random.normal(step, 1 + INDEX[:, None, None], (len(INDEX), LIMBS, WIDTH))
        padding = table.limb_padding_mask[INDEX]
        values[padding] = 1e6
        yield values.astype(np.float32), padding


@pytest.mark.parametrize("mode", ["per_feature", "per_slot"])
def test_every_body_has_the_statistics_of_a_normaliser_of_its_own(table, mode):
    together = TokenNormalizer(table, mode, separate=True)
    tables = [table_of(body) for body in BODIES]
    alone = [TokenNormalizer(part, mode) for part in tables]
    for values, padding in batches(table):
        together.update(values, padding, INDEX)
        for body, normalizer in enumerate(alone):
            rows = body == INDEX
            normalizer.update(values[rows], padding[rows])
    values, padding = next(batches(table))
    shuffled = np.array([5, 0, 3, 1, 4, 2])
    found = np.empty_like(values)
    found[shuffled] = together.normalize(values[shuffled], padding[shuffled], INDEX[shuffled])
    for body, normalizer in enumerate(alone):
        rows, own = body == INDEX, tables[body]
        for name, expected in normalizer.get_state().items():
            value = together.get_state()[name][body]
            np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(
            found[rows], normalizer.normalize(values[rows], padding[rows]), atol=1e-6
        )
        for method in ("normalize_context", "scale_context"):
            of_all, of_one = getattr(together, method)(table), getattr(normalizer, method)(own)
            np.testing.assert_array_equal(of_all[body], of_one[0], err_msg=method)


def test_a_body_does_not_move_the_statistics_of_others(table):
    normalizer, other = (TokenNormalizer(table, separate=True) for _ in range(2))
    for values, padding in batches(table):
        normalizer.update(values, padding, INDEX)
        changed = np.where((INDEX == 1)[:, None, None], 3.0 * values, values)
        other.update(changed, padding, INDEX)
    same = (normalizer.dynamic.mean == other.dynamic.mean).all(axis=1)
    assert same.tolist() == [True, False, True]


def test_rows_without_their_bodies_are_refused(table):
    normalizer = TokenNormalizer(table, separate=True)
    values, padding = next(batches(table))
    with pytest.raises(ConfigError, match="need the body of each row"):
        normalizer.normalize(values, padding)
    for index in (None, INDEX[::-1].copy(), np.zeros(6, np.int64)):
        with pytest.raises(ConfigError, match="need equally many rows of each, body by body"):
            normalizer.update(values, padding, index)
    with pytest.raises(ConfigError, match="of 3 separate bodies cannot normalise a table of 1"):
        normalizer.normalize_context(table_of(BODIES[0]))
