"""Exponents of power laws, from numbers whose growth is known."""

import numpy as np
import pytest

from gmc_bench.studies.scaling import (
    QUANTITIES,
    Measurements,
    ScalingCell,
    fit_exponent,
    of_axis,
    upper_sizes,
)

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
ACTING = QUANTITIES[0]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_power_of_a_power_law_is_found_exactly(power):
    found = fit_exponent({size: 3.0 * size**power for size in SIZES})
    assert found.value == pytest.approx(power, abs=1e-9)
    assert found.low == pytest.approx(power, abs=1e-6)
    assert found.high == pytest.approx(power, abs=1e-6)
    assert found.sizes == (128, 256, 512, 1024)


def test_only_the_upper_part_of_the_range_counts():
    constant_below = {size: max(float(size), 100.0) for size in SIZES}
    assert fit_exponent(constant_below).value == pytest.approx(1.0)


def test_the_interval_is_that_of_a_straight_line():
    # log2 y - log2 n is +1, -1, -1, +1 over four sizes: the slope stays 1, s^2 = 4 / 2 and the
    # squared deviations of log2 n add up to 5, so that the error is sqrt(2 / 5).
    values = {2**k: 2.0 ** (k + e) for k, e in zip((7, 8, 9, 10), (1, -1, -1, 1), strict=True)}
    found = fit_exponent({8: 1.0, **values})
    assert found.value == pytest.approx(1.0)
    reach = 4.302653 * np.sqrt(2 / 5)  # t(0.975) with two degrees of freedom
    assert (found.low, found.high) == pytest.approx((1.0 - reach, 1.0 + reach), rel=1e-6)
    assert found.text == "1.00 (-1.72 to 3.72)"


def test_intervals_cover_the_true_exponent_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        found = fit_exponent(
            {size: size**1.3 * np.exp(0.1 * rng.standard_normal()) for size in SIZES}
        )
        inside += found.low <= 1.3 <= found.high
    assert 0.92 <= inside / 400 <= 0.98


def test_too_few_sizes_have_no_exponent():
    assert fit_exponent({}) is None
    assert fit_exponent({8: 1.0, 16: 2.0}) is None
    assert fit_exponent({8: 1.0, 16: 2.0, 32: 4.0}) is None  # two of them are in the upper part


def test_numbers_without_a_logarithm_are_left_out():
    values = {size: float(size) for size in SIZES} | {2: -1.0, 128: 0.0, 4096: float("nan")}
    assert fit_exponent(values).sizes == (256, 512, 1024)
    values = {size: float(size) for size in SIZES} | {512: float("inf")}
    assert fit_exponent(values).sizes == (128, 256, 1024)


def test_the_upper_part_begins_at_the_geometric_mean():
    assert upper_sizes(SIZES) == (128, 256, 512, 1024)
    assert upper_sizes((10000, 1, 100, 10, 1000)) == (100, 1000, 10000)
    assert upper_sizes(()) == ()


def test_a_series_holds_what_was_measured():
    cells = [ScalingCell("act-time", "a", size, {"act_ms": size / 4}) for size in (32, 8, 16)]
    cells.append(ScalingCell("act-time", "a", 64, reason="more than 1 s"))
    cells.append(ScalingCell("act-time", "b", 8, {"act_ms": 1.0}))
    cells.append(ScalingCell("act-time", "c", 8, reason="more than 1 s"))
    found = Measurements(cells)
    assert found.series(ACTING, "a") == {8: 2.0, 16: 4.0, 32: 8.0}
    assert list(found.series(ACTING, "a")) == [8, 16, 32]
    assert found.methods(ACTING) == ["a", "b", "c"]  # also one that nothing was measured of
    assert found.series(ACTING, "c") == {}
    assert found.sizes("tokens") == [8, 16, 32, 64]
    assert found.sizes("bodies") == []
    assert found.cell(ACTING, "b", 16) is None


def test_quantities_that_are_not_fitted_have_no_exponent():
    throughput, kept = [q for q in QUANTITIES if not q.fitted]
    assert (throughput.key, kept.key) == ("samples_per_s", "kept_mib")
    cells = [
        ScalingCell("train-time", "a", s, {"samples_per_s": 1 / s, "train_ms": s}) for s in SIZES
    ]
    found = Measurements(cells)
    assert found.series(throughput, "a")
    assert found.exponent(throughput, "a") is None
    step = next(q for q in QUANTITIES if q.key == "train_ms")
    assert found.exponent(step, "a").value == pytest.approx(1.0)


@pytest.mark.parametrize(
    "cell",
    [
        ScalingCell("act-time", "a", 8, {"act_ms": 0.5}),
        ScalingCell("table", "", 10, reason="more than 1 s"),
    ],
)
def test_cells_survive_a_file(cell):
    assert ScalingCell.from_dict(cell.to_dict()) == cell


def test_no_two_quantities_share_a_place():
    assert len({(q.kind, q.key) for q in QUANTITIES}) == len(QUANTITIES)
    assert len({q.kind for q in of_axis("tokens")} & {q.kind for q in of_axis("bodies")}) == 0
