"""What there is to run, for people and for programs."""

import json

import pytest

from gmc_bench.methods import METHODS, Capabilities, MethodSpec


@pytest.mark.parametrize(
    ("what", "expected", "fields"),
    [
        ("methods", "recmorph", {"version", "paper", "presets", "parameters", "deviations"}),
        ("suites", "unimal-v1", {"tasks", "protocols", "default_protocol"}),
        ("tasks", "unimal-ft-v1", {"rewards", "terminations", "metrics", "horizon", "source"}),
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


def test_the_list_of_tasks_shows_metrics_with_their_units(gmc):
    lines = gmc("list", "tasks")[1].splitlines()
    shown = {line.split()[0]: line for line in lines}
    assert " distance (m) " in shown["unimal-incline-v1"]
    assert " cells " in shown["unimal-exploration-v1"]
    assert max(map(len, lines)) <= 120
    rows = {row["id"]: row for row in json.loads(gmc("list", "tasks", "--json")[1])}
    assert rows["unimal-vt-v1"]["metrics"] == {"x": "m"}
    assert rows["unimal-ft-v1"]["metrics"] == {}


def test_the_list_of_bodies_says_how_variants_are_named(gmc):
    code, out, _ = gmc("list", "morphologies")
    assert code == 0
    assert "SET+armature-v1" in out
    assert "SET+kinematics-v1" in out
    assert max(map(len, out.splitlines())) <= 120
    assert "SET+" not in gmc("list", "morphologies", "tiny")[1]


def many_words():
    return MethodSpec(
        id="wordy",
        title="Wordy",
        paper="A paper with a title of many words, " * 10,
        reference_code="someone/something@1234567",
        licence="MIT",
        deviations=("One.", "Two."),
        config=dict,
        builder="nowhere:build",
        presets={"paper": {"widths": (1, 2), "norm": NotImplemented}, "lite": {}},
        parameters={"paper": 1_234_567, "lite": 8_901},
        training={"ppo": {"target_kl": 0.2}},
        env_steps_per_body=1_000,
        capabilities=Capabilities(uses_graph=True, temporal=True),
        preset_capabilities={"lite": Capabilities(per_body=True)},
    )


def test_the_list_of_methods_is_readable(gmc):
    with METHODS.temporarily("wordy", many_words()):
        code, out, _ = gmc("list", "methods")
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 120
    place = next(i for i, line in enumerate(lines) if line.startswith("wordy"))
    assert lines[place].split(maxsplit=5)[1:] == ["1,234,567", "8,901", "2", "MIT", "tree, memory"]
    assert lines[place + 1].startswith("    A paper with a title of many words, A paper")
    assert lines[place + 1].endswith("...")
    assert lines[place + 2] == "    code: someone/something@1234567"


def test_the_json_list_of_methods_has_everything(gmc):
    with METHODS.temporarily("wordy", many_words()):
        rows = {row["id"]: row for row in json.loads(gmc("list", "methods", "--json")[1])}
    row = rows["wordy"]
    assert row["presets"] == {"paper": {"widths": [1, 2], "norm": "NotImplemented"}, "lite": {}}
    assert row["parameters"] == {"paper": 1_234_567, "lite": 8_901}
    assert row["deviations"] == ["One.", "Two."]
    assert row["training"] == {"ppo": {"target_kl": 0.2}}
    assert row["env_steps_per_body"] == 1_000
    assert row["reference_code"] == "someone/something@1234567"
    assert rows["recmorph"]["env_steps_per_body"] is None
    claims = {"permutation_equivariant": False, "uses_graph": True, "temporal": True}
    assert row["capabilities"] == {**claims, "per_body": False, "surrogate_gradients": False}
    assert row["preset_capabilities"]["lite"]["per_body"]


@pytest.mark.parametrize(
    ("what", "short", "full"),
    [
        ("suites", "unimal", "unimal-v1"),
        ("tasks", "ft", "unimal-ft-v1"),
        ("tasks", "unimal-vt", "unimal-vt-v1"),
        ("morphologies", "tiny", "tiny"),
    ],
)
def test_names_are_those_that_a_run_takes(gmc, what, short, full):
    assert [row["id"] for row in json.loads(gmc("list", what, short, "--json")[1])] == [full]


def test_the_list_of_bodies_says_what_is_at_hand(gmc):
    status = {
        row["id"]: row["status"] for row in json.loads(gmc("list", "morphologies", "--json")[1])
    }
    assert status == {
        "gmc-large-v1": "generated",
        "gmc-loops-v1": "generated",
        "gmc-search-v1": "generated",
        "gmc-unimal-1k-v1": "generated",
        "gmc-unimal-mini-v1": "generated",
        "gmc-unimal-mini-v2": "generated",
        "gmc-unimal-v1": "generated",
        "gmc-unimal-v2": "generated",
        "quadrupeds-v1": "built in",
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


def test_help_of_every_verb_has_two_examples(gmc, capfd):
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


def _help(gmc, capfd, *argv):
    """Return exit code and output, whether the verb or argparse shows the help."""
    capfd.readouterr()
    try:
        code, out, _ = gmc(*argv, "--help")
    except SystemExit as end:
        return end.code, capfd.readouterr().out
    return code, out


def test_without_a_verb_the_help_is_shown(gmc):
    code, out, err = gmc()
    assert (code, err) == (2, "")
    assert out.startswith("usage: gmc-bench")


def test_a_named_method_is_shown_with_every_preset_and_deviation(gmc):
    code, out, _ = gmc("list", "methods", "smr", "mlp")
    assert code == 0
    spec = METHODS.get("smr")
    text = " ".join(out.split())
    for preset, size in spec.parameters.items():
        assert f"- {preset}: {size:,} parameters" in text
    assert all(deviation in text for deviation in spec.deviations)
    assert "claims: any order, memory" in text
    assert f"mlp (version {METHODS.get('mlp').version})" in out
    assert "recmorph" not in out
    assert max(map(len, out.splitlines())) <= 120
    assert out.count("footnote in tables: ") == 1  # of smr, a reading


def test_an_unknown_name_is_refused_with_a_suggestion(gmc):
    code, _, err = gmc("list", "methods", "recmorf")
    assert code == 2
    assert "unknown method 'recmorf'; did you mean 'recmorph'?" in err


def test_only_the_named_are_listed(gmc):
    code, out, _ = gmc("list", "tasks", "unimal-ft-v1", "--json")
    assert code == 0
    assert [row["id"] for row in json.loads(out)] == ["unimal-ft-v1"]


def test_a_method_of_a_file_or_module_is_shown_like_a_registered_one(gmc, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom recmorph import SPEC as BASE\n"
        "SPEC = replace(BASE, id='mine', tuned={}, tuning='')\n"
    )
    code, out, err = gmc("list", "methods", f"{tmp_path}/mine.py:SPEC", "recmorph:SPEC", "--json")
    assert (code, err) == (0, "")
    assert [row["id"] for row in json.loads(out)] == ["mine", "recmorph"]
    code, _, err = gmc("list", "methods", f"{tmp_path}/mine.py")
    assert code == 2
    assert f"give {tmp_path}/mine.py:SPEC" in err


def test_a_reference_is_shown_by_name_though_it_is_not_listed(gmc):
    (row,) = json.loads(gmc("list", "methods", "zero-action", "--json")[1])
    assert row["id"] == "zero-action"
