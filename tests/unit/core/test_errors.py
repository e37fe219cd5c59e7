import inspect

import pytest

from gmc_bench.core import errors
from gmc_bench.core.errors import GmcBenchError, did_you_mean


def test_did_you_mean_names_the_closest_name():
    assert did_you_mean("recmorhp", ["metamorph", "recmorph"]) == "; did you mean 'recmorph'?"


def test_did_you_mean_takes_small_letters_for_capitals():
    assert did_you_mean("SWAT", ["mlp", "swap", "swat"]) == "; did you mean 'swat'?"
    assert did_you_mean("spec", ["SPEC", "spectra"]) == "; did you mean 'SPEC'?"


def test_did_you_mean_lists_all_names_sorted_when_none_is_close():
    assert did_you_mean("xyz", ["swat", "modumorph"]) == "; known: modumorph, swat"


def test_did_you_mean_shows_names_in_full_and_compares_their_ends():
    assert did_you_mean("lrr", ["lr", "gamma"], "ppo.") == "; did you mean 'ppo.lr'?"
    assert did_you_mean("xyz", ["lr", "gamma"], "ppo.") == "; known: ppo.gamma, ppo.lr"


def test_did_you_mean_is_silent_when_nothing_is_known():
    assert did_you_mean("anything", []) == ""


@pytest.mark.parametrize(
    "error",
    [
        item
        for item in vars(errors).values()
        if getattr(item, "__module__", "") == errors.__name__ and inspect.isclass(item)
    ],
)
def test_every_error_is_caught_by_the_base_class_and_ends_with_code_2(error):
    assert issubclass(error, GmcBenchError)
    assert error.exit_code == 2
    assert error.__doc__


def test_a_message_that_quotes_a_long_input_is_cut_in_its_middle():
    text = str(GmcBenchError(f"got {'x' * 10**6}, expected y"))
    assert len(text) < errors.LONGEST + 50
    assert text.startswith("got xxx")
    assert "[997,016 characters left out]" in text
    assert text.endswith("xxx, expected y")
    longest = "x" * errors.LONGEST
    assert str(GmcBenchError(longest)) == longest
