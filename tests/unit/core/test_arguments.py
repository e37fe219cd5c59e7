"""Arguments from Python: paths in every spelling, and what is no path at all."""

from pathlib import Path

import numpy as np
import pytest

from gmc_bench.core.arguments import as_path, require_finite, require_instance, require_number
from gmc_bench.core.config import coerce
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_count, require_seed


@pytest.mark.parametrize("given", ["runs/a", Path("runs/a"), np.str_("runs/a")])
def test_text_and_paths_are_taken(given):
    assert as_path(given, "a run") == Path("runs/a")


def test_a_tilde_stands_for_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert as_path("~/runs", "a run") == as_path(Path("~/runs"), "a run") == tmp_path / "runs"
    assert as_path("~nobody-here/runs", "a run") == Path("~nobody-here/runs")


@pytest.mark.parametrize("given", [None, 3, [], {}, b"runs", object(), "", "a\0b", 1.5])
def test_what_names_nothing_is_refused(given):
    with pytest.raises(ConfigError, match="a run must be named by text or a path, got "):
        as_path(given, "a run")


def test_an_argument_of_another_class_is_refused():
    require_instance(3, int, "a count", "give one")
    with pytest.raises(ConfigError, match="a count needs a int, got 'a'; give one"):
        require_instance("a", int, "a count", "give one")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_the_first_number_that_is_not_finite_is_named(number):
    values = np.full((3, 4), 3e38, np.float32)  # their squares are infinite
    require_finite(values, str, "")
    require_finite(values[:0], str, "")
    values[2, 1] = values[2, 3] = number
    with pytest.raises(ConfigError, match=f"^row 2, column 1 is {number}, expected a finite.*; "):
        require_finite(values, "row {}, column {}".format, "give others")


@pytest.mark.parametrize(
    ("given", "hint", "expected"),
    [
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (np.bool_(True), bool, True),
        (np.str_("lite"), str, "lite"),
        (np.array(4), int | None, 4),
        ([np.int64(1), np.int64(2)], tuple[int, ...], (1, 2)),
    ],
)
def test_scalars_of_numpy_become_those_of_python(given, hint, expected):
    found = coerce(given, hint, "x")
    assert found == expected
    assert type(found) is type(expected)


def test_counts_seeds_and_limits_take_numbers_and_no_truth_values():
    assert [is_count(value) for value in (1, np.int64(2), 0, True, 1.0)] == [
        True,
        True,
        *[False] * 3,
    ]
    assert require_seed(np.int64(0)) == 0
    for seed in (-1, True, 1.0):
        with pytest.raises(ConfigError, match="a seed must be an integer that is not negative"):
            require_seed(seed)
    require_number(0.0, "the weight", low=0.0)
    for given, limits in ((0.0, {"above": 0.0}), (-1.0, {"low": 0.0}), (True, {})):
        with pytest.raises(ConfigError, match="the weight must be a finite number"):
            require_number(given, "the weight", **limits)
