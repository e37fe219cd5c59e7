"""Options made from settings, and converters."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gmc_bench.cli.parser import Parser, add_settings, amount, integer, settings_given
from gmc_bench.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    learning_rate: float = 0.5
    """Step size in % of the gradient."""


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "x"
    """Locked."""
    num_envs: int = 4
    """Environments."""
    splits: tuple[str, ...] = ("train", "test")
    """Parts."""
    widths: tuple[int, ...] = ()
    """Layers."""
    limit: float | None = None
    """Threshold."""
    ppo: Inner = field(default_factory=Inner)


@pytest.fixture
def parser():
    parser = Parser(prog="demo", allow_abbrev=False)
    add_settings(parser, Outer(), "protocol", "", {"name"})
    add_settings(parser, Inner(), "method", "model.", set())
    return parser


def test_every_setting_is_an_option_with_its_help_and_default(parser):
    text = " ".join(parser.format_help().split())
    assert "--num-envs VALUE Environments. (default: 4)" in text
    assert "--ppo.learning-rate VALUE Step size in % of the gradient. (default: 0.5)" in text
    assert "--splits VALUE Parts. (default: train,test)" in text
    assert "--widths VALUE Layers. (default: none)" in text
    assert "--limit VALUE Threshold. (default: none)" in text
    assert "--name" not in text


def test_only_what_was_given_is_returned_and_prefixes_are_kept_apart(parser):
    argv = ["--ppo.learning-rate", "1", "--model.learning-rate=-2", "--num-envs", "8"]
    arguments = parser.parse_args(argv)
    assert settings_given(arguments, "model.") == {"learning_rate": "-2"}
    given = settings_given(arguments, "")
    assert given == {
        "ppo.learning_rate": "1",
        "num_envs": "8",
        "model.learning_rate": "-2",
    }


def test_abbreviations_are_unknown(parser):
    _, unknown = parser.parse_known_args(["--num", "8"])
    with pytest.raises(ConfigError, match=r"unknown option '--num'; did you mean '--num-envs'\?"):
        parser.reject_unknown(unknown)
    parser.reject_unknown([])


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("007", 7), ("1_000", 1000)])
def test_integers(text, value):
    assert integer(1)(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "1e3", "", "x", "inf"])
def test_what_is_no_integer_from_one_up(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be an integer of at least 1, got"):
        integer(1)(text)


def test_an_upper_end_counts():
    assert integer(0, 3)("3") == 3
    with pytest.raises(argparse.ArgumentTypeError, match="an integer from 0 to 3, got 4"):
        integer(0, 3)("4")


def test_durations():
    assert amount("seconds", zero=True)("0") == 0.0
    assert amount("seconds", zero=False)("0.5") == 0.5
    for text in ("-1", "nan", "inf", "x", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="that is not negative, got"):
            amount("seconds", zero=True)(text)
    with pytest.raises(argparse.ArgumentTypeError, match="a positive number of seconds, got '0'"):
        amount("seconds", zero=False)("0")


def test_the_home_folder_of_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    parser = Parser(prog="demo")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--name")
    found = parser.parse_args(["--out=~/runs", "--name=~/runs"])
    assert (found.out, found.name) == (tmp_path / "runs", "~/runs")
    assert parser.parse_args(["--out=~nobody-here/runs"]).out == Path("~nobody-here/runs")
