from itertools import permutations

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.policies.normalization import RunningMoments, TokenNormalizer
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

LIMBS, WIDTH = 6, 17
PRIOR = 1e-4  # weight of the start value: mean 0, variance 1


def _table(*bodies):
    return build_table(compile_models(bodies, TASK.scene), TokenSpec(LIMBS))


@pytest.fixture(scope="module")
def table():
    return _table(chain(2), star(3), biped())


def _batches(table, filler=0.0):
    """Return (values, padding) of five batches of unlike sizes and scales."""
    random = np.random.default_rng(0)
    batches = []
    for size, scale in ((4, 1.0), (9, 30.0), (1, 0.1), (16, 5.0), (3, 1.0)):
        padding = table.limb_padding_mask[random.integers(len(table), size=size)]
        values = random.normal(scale, scale, (size, LIMBS, WIDTH)) * np.arange(1, WIDTH + 1)
        values[padding] = filler
        batches.append((values.astype(np.float32), padding))
    return batches


def _plain_moments(samples):
    """Mean and variance of (N, ...) samples, with the start value as a weak extra sample."""
    samples = samples.astype(np.float64)
    total = len(samples) + PRIOR
    mean = samples.sum(axis=0) / total
    return mean, ((samples**2).sum(axis=0) + PRIOR) / total - mean**2


def test_per_feature_statistics_are_those_of_all_real_limbs(table):
    normalizer = TokenNormalizer(table)
    batches = _batches(table)
    for values, padding in batches:
        normalizer.update(values, padding)
    real = np.concatenate([values[~padding] for values, padding in batches])
    mean, variance = _plain_moments(real)
    np.testing.assert_allclose(normalizer.dynamic.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(normalizer.dynamic.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(normalizer.dynamic.count, len(real) + PRIOR)
    # The start value hardly counts.
    exact = real.astype(np.float64)
    np.testing.assert_allclose(normalizer.dynamic.mean, exact.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.dynamic.variance, exact.var(axis=0), rtol=1e-5)


def test_per_slot_statistics_count_padding_as_zeros(table):
    normalizer = TokenNormalizer(table, "per_slot")
    batches = _batches(table)
    for values, padding in batches:
        normalizer.update(values, padding)
    mean, variance = _plain_moments(np.concatenate([values for values, _ in batches]))
    assert mean.shape == (LIMBS, WIDTH)
    np.testing.assert_allclose(normalizer.dynamic.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(normalizer.dynamic.variance, variance, rtol=1e-9, atol=1e-12)
    assert (normalizer.dynamic.mean[5] == 0).all()  # no body has six limbs


@pytest.mark.parametrize("mode", ["per_feature", "per_slot"])
def test_what_stands_in_padding_never_counts(table, mode):
    results = []
    for filler in (0.0, 1e6, np.nan):
        normalizer = TokenNormalizer(table, mode)
        for values, padding in _batches(table, filler):
            normalizer.update(values, padding)
        out = normalizer.normalize(values, padding)
        assert (out[padding] == 0).all()
        results.append((normalizer.dynamic.mean, normalizer.dynamic.variance, out))
    for found in results[1:]:
        for part, expected in zip(found, results[0], strict=True):
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("mode", ["per_feature", "per_slot"])
def test_the_order_of_batches_hardly_matters(table, mode):
    batches = _batches(table)
    found = []
    for order in permutations(range(len(batches))):
        normalizer = TokenNormalizer(table, mode)
        for place in order:
            normalizer.update(*batches[place])
        found.append((normalizer.dynamic.mean, normalizer.dynamic.variance))
    for mean, variance in found[1:]:
        np.testing.assert_allclose(mean, found[0][0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance, found[0][1], rtol=1e-9, atol=1e-9)


def test_normalized_features_have_mean_zero_and_variance_one(table):
    random = np.random.default_rng(1)
    padding = table.limb_padding_mask[random.integers(len(table), size=4000)]
    values = random.normal(50.0, 3.0, (4000, LIMBS, WIDTH)).astype(np.float32)
    normalizer = TokenNormalizer(table)
    normalizer.update(values, padding)
    out = normalizer.normalize(values, padding)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out[~padding].mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(out[~padding].std(axis=0), 1.0, atol=1e-3)


def test_normalized_values_by_hand(table):
    normalizer = TokenNormalizer(table)
    normalizer.dynamic = RunningMoments(
        mean=np.full(WIDTH, 2.0), variance=np.full(WIDTH, 16.0), count=np.full(WIDTH, 1.0)
    )
    values = np.zeros((1, LIMBS, WIDTH), np.float32)
    values[0, 0, :4] = (10.0, -6.0, 1000.0, -1000.0)
    raw = values.copy()
    out = normalizer.normalize(values, np.array([[False] * 5 + [True]]))
    # (x - 2) / 4, clipped to +-10; zeros become -0.5, padding stays zero.
    np.testing.assert_allclose(out[0, 0, :5], [2.0, -2.0, 10.0, -10.0, -0.5])
    np.testing.assert_allclose(out[0, 4], -0.5)
    np.testing.assert_array_equal(out[0, 5], 0.0)
    np.testing.assert_array_equal(values, raw)


def test_a_variance_of_zero_counts_as_a_deviation_of_a_ten_thousandth(table):
    normalizer = TokenNormalizer(table)
    normalizer.dynamic = RunningMoments(np.zeros(WIDTH), np.zeros(WIDTH), np.ones(WIDTH))
    values = np.full((1, LIMBS, WIDTH), 5e-4, np.float32)
    out = normalizer.normalize(values, np.zeros((1, LIMBS), np.bool_))
    np.testing.assert_allclose(out, 5.0, rtol=1e-6)


def test_a_feature_that_never_varies_becomes_zero(table):
    normalizer = TokenNormalizer(table)
    padding = table.limb_padding_mask
    values = np.full((3, LIMBS, WIDTH), 0.7, np.float32)
    for _ in range(1000):
        normalizer.update(values, padding)
    assert np.abs(normalizer.normalize(values, padding)).max() < 0.01


def test_context_statistics_are_exact_over_the_training_bodies(table):
    normalizer = TokenNormalizer(table)
    real = table.context[~table.limb_padding_mask].astype(np.float64)
    assert real.shape == (2 + 4 + 5, 35)
    np.testing.assert_allclose(normalizer.context_mean, real.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.context_variance, real.var(axis=0), rtol=1e-12)
    # By hand: 3 of 11 limbs are torsos of radius 0.1, the others have radius 0.05.
    radius = 15  # place of the first of body_shape's two numbers among the 35
    assert normalizer.context_mean[radius] == pytest.approx((3 * 0.1 + 8 * 0.05) / 11)
    out = normalizer.normalize_context(table)
    assert out.dtype == np.float32
    assert (out[table.limb_padding_mask] == 0).all()
    varying = real.std(axis=0) > 1e-3
    out = out[~table.limb_padding_mask]
    np.testing.assert_allclose(out.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(out.std(axis=0)[varying], 1.0, rtol=1e-3)


def test_context_of_other_bodies_uses_the_statistics_of_training(table):
    normalizer = TokenNormalizer(table)
    other = _table(chain(5))
    out = normalizer.normalize_context(other)
    mean, variance = normalizer.context_mean, normalizer.context_variance
    expected = np.clip((other.context[0, :5] - mean) / np.sqrt(variance + 1e-8), -10, 10)
    np.testing.assert_allclose(out[0, :5], expected, rtol=1e-3, atol=1e-3)
    assert (out[0, 5] == 0).all()


def test_scaled_context_runs_from_minus_one_to_one_and_is_cut_off_at_three(table):
    normalizer = TokenNormalizer(table)
    real = table.context[~table.limb_padding_mask].astype(np.float64)
    low, high = real.min(axis=0), real.max(axis=0)
    varying = np.flatnonzero(high > low)
    out = normalizer.scale_context(table)[~table.limb_padding_mask][:, varying]
    np.testing.assert_allclose(out.min(axis=0), -1.0, atol=1e-6)
    np.testing.assert_allclose(out.max(axis=0), 1.0, atol=1e-6)
    # Limbs of other bodies lie outside of the range of the training bodies by its multiples.
    feature, other = varying[0], _table(chain(5))
    middle, half = (low + high)[feature] / 2, (high - low)[feature] / 2
    wanted = np.array([-9.0, -2.5, 0.5, 2.5, 9.0])
    other.context[0, :5, feature] = middle + half * wanted
    found = normalizer.scale_context(other)[0, :5, feature]
    np.testing.assert_allclose(found, [-3.0, -2.5, 0.5, 2.5, 3.0], rtol=1e-5)


def test_zeros_that_stand_for_a_missing_joint_are_scaled(table):
    """Not left at 0, as the public code of ModuMorph does."""
    limb, first = (2, 2), 17  # of the biped; place of the first joint's features among the 35
    assert table.action_padding_mask[limb].tolist() == [True, False]
    assert not table.context[limb][first : first + 9].any()
    position, limits, axis, gear = [0.3957, 0.0, -1.0], [1.0, -1.0], [-1.0, 0.0, -0.3957], [-1.0]
    found = TokenNormalizer(table).scale_context(table)[limb][first : first + 9]
    np.testing.assert_allclose(found, position + limits + axis + gear, atol=1e-4)


@pytest.mark.parametrize("size", [0.0, 0.1, 1000.1, -1000.1])
def test_scaled_context_is_zero_in_padding_and_where_only_rounding_varies(size):
    constant, varying = 14, 15  # places of body_mass and of a radius among the 35
    table, size = _table(chain(2), star(3), biped()), np.float32(size)
    table.context[..., constant] = size
    table.context[0, 0, constant] = np.nextafter(size, np.float32(np.inf))
    normalizer = TokenNormalizer(table)
    assert normalizer.context_high[constant] > normalizer.context_low[constant]
    other = _table(chain(5))
    other.context[0, :, constant], other.context[0, 5] = 2.0 * size, 7.0
    out = normalizer.scale_context(other)[0]
    assert (out[:, constant] == 0).all()
    assert (out[:5, varying] != 0).all()
    assert (out[5] == 0).all()


def test_per_slot_context_counts_padding_as_zeros(table):
    normalizer = TokenNormalizer(table, "per_slot")
    mass = 14  # place of body_mass among the 35
    masses = [table.context[k, 3, mass] for k in range(3)]
    assert masses[0] == 0.0  # the first body has two limbs only
    assert normalizer.context_mean[3, mass] == pytest.approx(sum(masses) / 3)
    real = table.context[~table.limb_padding_mask][:, mass]  # whose range has no padding
    assert normalizer.context_low[mass] == real.min() > 0.0
    assert normalizer.context_high[mass] == real.max()
    out = normalizer.normalize_context(table)
    assert out[0, 3, mass] == 0.0
    assert out[1, 3, mass] > 0.0


@pytest.mark.parametrize("mode", ["per_feature", "per_slot"])
def test_statistics_survive_the_round_trip(table, mode):
    normalizer = TokenNormalizer(table, mode)
    batches = _batches(table)
    for batch in batches[:3]:
        normalizer.update(*batch)
    state = normalizer.get_state()
    assert all(value.dtype == np.float64 for value in state.values())
    kept = {name: value.copy() for name, value in state.items()}

    twin = TokenNormalizer(_table(chain(3)), mode)
    twin.set_state(state)
    for batch in batches[3:]:
        normalizer.update(*batch)
        twin.update(*batch)
    values, padding = batches[0]
    np.testing.assert_array_equal(
        twin.normalize(values, padding), normalizer.normalize(values, padding)
    )
    np.testing.assert_array_equal(
        twin.normalize_context(table), normalizer.normalize_context(table)
    )
    np.testing.assert_array_equal(twin.scale_context(table), normalizer.scale_context(table))
    for name, value in kept.items():  # the state that was taken has not moved
        np.testing.assert_array_equal(state[name], value)


def test_moments_skip_entries_without_samples():
    moments = RunningMoments(np.array([1.0, 5.0]), np.array([2.0, 3.0]), np.array([4.0, 4.0]))
    moments.merge(np.array([3.0, 99.0]), np.array([2.0, 99.0]), np.array([4.0, 0.0]))
    # Two groups of four with means 1 and 3 and variance 2: mean 2, variance 2 + 1.
    np.testing.assert_allclose(moments.mean, [2.0, 5.0])
    np.testing.assert_allclose(moments.variance, [3.0, 3.0])
    np.testing.assert_allclose(moments.count, [8.0, 4.0])
