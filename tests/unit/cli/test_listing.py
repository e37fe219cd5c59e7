"""What there is to run, for people and for programs."""

import json

import pytest


@pytest.mark.parametrize(
    ("what", "expected", "fields"),
    [
        ("methods", "recmorph", {"version", "paper", "presets", "parameters", "deviations"}),
        ("suites", "unimal-v1", {"tasks", "protocols", "default_protocol"}),
        ("tasks", "unimal-ft-v1", {"rewards", "terminations", "horizon", "source"}),
        ("morphologies", "tiny", {"status", "hint"}),
    ],
)
def test_lists(gmc, what, expected, fields):
    code, out, err = gmc("list", what, "--json")
    rows = {row["id"]: row for row in json.loads(out)}
    assert (code, err) == (0, "")
    assert fields <= rows[expected].keys()
    code, out, err = gmc("list", what)
    assert (code, err) == (0, "")
    assert any(line.startswith(expected) for line in out.splitlines())


def test_the_list_of_bodies_says_what_is_at_hand(gmc):
    status = {
        row["id"]: row["status"] for row in json.loads(gmc("list", "morphologies", "--json")[1])
    }
    assert status == {
        "gmc-unimal-mini-v1": "generated",
        "tiny": "imported",
        "unimals_100": "not imported",
    }


def test_bodies_are_described(gmc):
    code, out, err = gmc("morphologies", "describe", "tiny", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["id"] == "tiny"
    code, out, _ = gmc("morphologies", "describe", "tiny")
    assert code == 0
    assert "tiny" in out


def test_help_of_every_verb_has_runnable_examples(gmc, capfd):
    from gmc_bench.cli.main import VERBS

    for verb in VERBS:
        name = verb.__name__.rpartition(".")[2].replace("listing", "list").replace("_", "-")
        code, out = _help(gmc, capfd, name)
        assert code == 0
        assert out.count(f"\n  gmc-bench {name} ") >= 2


def test_help_of_run_lists_the_settings_of_method_and_protocol(gmc, capfd):
    code, out = _help(gmc, capfd, "run", "--method", "recmorph", "--suite", "unimal")
    assert code == 0
    assert "--ppo.gae-lambda" in out
    assert "--model.num-blocks" in out


def _help(gmc, capfd, *words):
    """Return exit code and output, whether the verb or argparse shows the help."""
    capfd.readouterr()
    try:
        code, out, _ = gmc(*words, "--help")
    except SystemExit as end:
        return end.code, capfd.readouterr().out
    return code, out


def test_without_a_verb_the_help_is_shown(gmc):
    code, out, err = gmc()
    assert (code, err) == (2, "")
    assert out.startswith("usage: gmc-bench")
