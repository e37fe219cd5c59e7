"""What a specification may hold, and how it is refused if it holds something else."""

import json
import math
import sys
from dataclasses import dataclass

import pytest

from gmc_bench.core.errors import PluginError
from gmc_bench.core.registry import Registry, load_target
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.spec import require_description, require_training
from gmc_bench.methods.tuning import (
    DROPOUT,
    PPO_RANGES,
    range_of,
    ranges_of,
    read_trials,
    require_own_trials,
)

FIELDS = {
    "id": "fake",
    "config": "nowhere:Config",
    "builder": "nowhere:build",
    "presets": {"paper": {"width": 8}, "lite": {}},
    "parameters": {"paper": 2, "lite": 1},
}


def test_a_complete_specification_is_taken():
    spec = MethodSpec(
        **FIELDS,
        paper="unpublished",
        training={"ppo": {"target_kl": 0.2}},
        env_steps_per_body=1,
        preset_capabilities={"lite": Capabilities(uses_graph=True)},
    )
    require_description(spec)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("id", 3, "'id' of a method must be a string, got 3"),
        ("id", "", "the id of a method must be lower-case letters"),
        ("id", "My Method", "the id of a method must be lower-case letters"),
        ("id", "../other", "the id of a method must be lower-case letters"),
        ("id", "fake\n", "the id of a method must be lower-case letters"),
        ("id", 101 * "a", "'_' and '-' only, at most 100, and start with a letter"),
        ("version", 0, "'version' of the method 'fake' must be at least 1, got 0"),
        ("version", "1", "'version' of the method 'fake' must be an integer, got '1'"),
        ("version", True, "'version' of the method 'fake' must be an integer, got True"),
        ("licence", None, "'licence' of the method 'fake' must be a string, got None"),
        ("deviations", "One.", "'deviations' of the method 'fake' must be a tuple of sentences"),
        ("deviations", (1,), "'deviations' of the method 'fake' must hold a string under 0, got 1"),
        ("presets", ["lite"], "'presets' of the method 'fake' must be a mapping of names"),
        ("presets", {"lite": 3}, "must hold a mapping of settings under 'lite', got 3"),
        ("parameters", 7, "'parameters' of the method 'fake' must be a mapping of presets"),
        ("parameters", {"lite": "7"}, "must hold an integer under 'lite', got '7'"),
        ("training", 0.2, "'training' of the method 'fake' must be a mapping of settings, got 0.2"),
        ("env_steps_per_body", 1e6, "must be an integer or None, got 1000000.0"),
        ("trainable", "no", "'trainable' of the method 'fake' must be True or False, got 'no'"),
        ("trainable", 1, "'trainable' of the method 'fake' must be True or False, got 1"),
        ("capabilities", {}, "'capabilities' of the method 'fake' must be Capabilities(...)"),
        ("preset_capabilities", {"lite": {}}, "must hold Capabilities(...) under 'lite', got {}"),
    ],
)
def test_a_field_of_another_type_is_refused_in_one_sentence(field, value, sentence):
    with pytest.raises(PluginError) as error:
        MethodSpec(**{**FIELDS, field: value})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


KEY = "unimal-v1/unimal-ft-v1/lite"
KEPT = {"ppo.lr": 0.002, "model.dropout": 0.0}


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("training", {"ppo": {"target_kl": math.inf}}, "to a positive number, got inf"),
        ("training", {"ppo": {}}, "sets 'ppo' in 'training'"),
        ("training", {"dqn": {"target_kl": 0.1}}, "sets 'dqn.target_kl' in 'training'"),
        ("task_target_kl", {"x-v1": 0.0}, "must give 'x-v1' a positive number, got 0.0"),
        ("task_target_kl", {"x-v1": math.inf}, "must give 'x-v1' a positive number, got inf"),
        ("env_steps_per_body", 0, "must be at least 1, got 0"),
        ("tuned", {"lite": KEPT}, "must map 'SUITE/TASK/PROTOCOL' to settings"),
        ("tuned", {KEY: 0.1}, f"to settings, got 0.1 for {KEY!r}"),
        ("tuned", {KEY: {"ppo.lr": 0}}, "to a positive number, got 0"),
        ("tuned", {KEY: {"model.dropout": -0.1}}, "to a positive number, got -0.1"),
        ("tuned", {KEY: {"ppo.lr": math.nan}}, "to a positive number, got nan"),
        ("tuned", {KEY: {"ppo.dropout": 0.1}}, "sets 'ppo.dropout'"),
    ],
)
def test_what_changes_a_rule_of_the_protocol_is_refused(field, value, sentence):
    method = MethodSpec(**{**FIELDS, "paper": "unpublished", field: value})
    for require in (require_training, require_description):
        with pytest.raises(PluginError) as error:
            require(method)
        assert sentence in str(error.value)


def test_settings_are_a_class_and_no_object_of_one():
    with pytest.raises(PluginError, match="config of method 'fake' must be a dataclass, got"):
        MethodSpec(**{**FIELDS, "config": Capabilities()}).config_class()


def test_settings_cannot_be_changed_by_the_network_that_gets_them():
    @dataclass
    class Loose:
        width: int = 8

    why = r"method 'fake' must be a frozen dataclass; write @dataclass\(frozen=True\) above Loose"
    with pytest.raises(PluginError, match=why):
        MethodSpec(**{**FIELDS, "config": Loose}).config_class()


@pytest.mark.parametrize("value", ["no", 0, None])
def test_a_capability_is_claimed_or_not(value):
    odd = Capabilities(temporal=value)
    why = f"'temporal' of the method 'fake' must be True or False, got {value!r}"
    for changes in ({"capabilities": odd}, {"preset_capabilities": {"lite": odd}}):
        with pytest.raises(PluginError, match=why):
            MethodSpec(**FIELDS, **changes)


def test_before_tuning_a_method_has_neither_values_nor_trials():
    tuned = MethodSpec(**FIELDS, version=2, tuned={KEY: KEPT}, tuning="tuning.json")
    require_training(tuned)
    assert tuned.before_tuning == MethodSpec(**FIELDS, version=2)


MINE = """
from gmc_bench.methods import MethodSpec
SPEC = MethodSpec(id="a", config="mine_net:Config", builder="mine_net:build", tuning="x.json")
def build(config, spec, num_outputs):
    from mine_net import WIDTH
    return WIDTH
LATER = MethodSpec(id="b", config="mine_net:Config", builder=build)
"""
NET = """
from __future__ import annotations
from dataclasses import dataclass
Number = int
@dataclass(frozen=True)
class Config:
    width: Number = {0}
def build(config, spec, num_outputs):
    return {0}
WIDTH = {0}
"""


def test_a_method_finds_its_settings_and_network_beside_its_file(tmp_path):
    found = []
    for width in (1, 2):
        folder = tmp_path / str(width)
        folder.mkdir()
        (folder / "mine.py").write_text(MINE)
        (folder / "mine_net.py").write_text(NET.format(width))
        found.append([load_target(f"{folder / 'mine.py'}:{name}") for name in ("SPEC", "LATER")])
    for width, specs in enumerate(found, start=1):
        for spec in (*specs, specs[0].before_tuning):
            assert spec.make_config().width == width
            assert spec.build(spec.make_config(), None, 1) == width


def test_rates_that_are_dropped_have_a_range_of_their_own():
    @dataclass(frozen=True)
    class Config:
        dropout: float = 0.1
        path_dropout: float = 0.0
        undropout: float = 0.1
        other_dropout: bool = True

    own = {"model.dropout": DROPOUT, "model.path_dropout": DROPOUT}
    assert ranges_of(Config()) == {**PPO_RANGES, **own}
    assert range_of("model.undropout") is range_of("ppo.dropout") is None


SEARCH = {
    "method": "fake",
    "kept": KEPT,
    "bodies": {"id": "gmc-search-v1", "digest": None},
    "env_steps": 1,
    "trials": [{"settings": KEPT, "returns": {"1": 5.0, "2": None}}],
}
"""A trial may have lost a run."""


def write_trials(folder, **changes):
    search = {name: value for name, value in {**SEARCH, **changes}.items() if value is not ...}
    content = {"format": 1, "searches": {KEY: search}}
    (folder / "tuning.json").write_text(json.dumps(content))
    return {KEY: search}


@pytest.mark.parametrize(
    "changes", [{}, {"bodies": ..., "env_steps": ..., "trials": ...}, {"env_steps": None}]
)
def test_trials_are_read_from_beside_the_method(tmp_path, changes):
    expected = write_trials(tmp_path, **changes)
    assert read_trials("fake", "tuning.json", tmp_path) == expected
    assert read_trials("fake", "") == {}
    (tmp_path / "mine.py").write_text(
        "from gmc_bench.methods import MethodSpec\n"
        "SPEC = MethodSpec(id='fake', config='x:y', builder='x:y', tuning='tuning.json')\n"
    )
    assert load_target(f"{tmp_path / 'mine.py'}:SPEC").trials() == expected


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"method": 3}, "method"),
        ({"kept": ...}, "kept"),
        ({"kept": {"ppo.lr": None}}, "kept"),
        ({"kept": {"ppo.lr": math.inf}}, "kept"),
        ({"bodies": {"id": 3}}, "bodies"),
        ({"bodies": 3}, "bodies"),
        ({"env_steps": 0}, "env_steps"),
        ({"env_steps": 0.5}, "env_steps"),
        ({"trials": {}}, "trials"),
        ({"trials": [3]}, "trials"),
        ({"trials": [{"settings": {"ppo.lr": "x"}, "returns": {}}]}, "trials"),
        ({"trials": [{"settings": KEPT, "returns": {"1": "x"}}]}, "trials"),
    ],
)
def test_damaged_trials_are_refused(tmp_path, changes, name):
    write_trials(tmp_path, **changes)
    with pytest.raises(PluginError, match=f"{KEY}' that can be read .'{name}' is missing or dam"):
        read_trials("fake", "tuning.json", tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read from 'tuning.json'"),
        ("[" * 100_000, "cannot be read from 'tuning.json'"),
        ("[]", "holds no trials of format 1"),
        ('{"searches": {}}', "holds no trials of format 1"),
        ('{"format": 1, "searches": []}', "holds no trials under 'searches'"),
        (
            '{"format": 1, "searches": {"x": 3}}',
            "for 'x' that can be read .expected a mapping, got",
        ),
    ],
)
def test_what_is_no_file_of_trials_is_refused(tmp_path, text, why):
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(PluginError, match=why):
        read_trials("fake", "tuning.json", tmp_path)
    with pytest.raises(PluginError, match=r"cannot be read from 'no_such_package:tuning\.json'"):
        read_trials("fake", "no_such_package:tuning.json", tmp_path)


def test_a_method_keeps_what_trials_of_its_own_found():
    def check(tuned, file="tuning.json", **changes):
        trials = {KEY: {**SEARCH, **changes}} if file else {}
        require_own_trials("fake", 2, tuned, file, trials)

    for changes in ({}, {"method_version": 2}):
        check({KEY: KEPT}, **changes)
    check({})  # of protocols that are not here, e.g.
    check({KEY: KEPT}, file="")
    for changes, why in (
        ({"method": "swat"}, "those of the method 'swat'"),
        ({"method_version": 1}, "those of its version 1, but it has version 2"),
        ({"method_version": 3}, "those of its version 3, but it has version 2"),
        ({"kept": {"ppo.lr": 0.1}}, "found {'ppo.lr': 0.1}; keep that"),
    ):
        with pytest.raises(PluginError, match=why):
            check({KEY: KEPT}, **changes)
    with pytest.raises(PluginError, match="has no trials of it; did you mean"):
        check({KEY.replace("lite", "life"): KEPT})


def test_a_broken_specification_is_listed_as_broken(tmp_path, monkeypatch):
    group = "test_gmc_bench.methods"
    (tmp_path / "broken_spec.py").write_text(
        "from gmc_bench.methods import MethodSpec\n"
        "SPEC = MethodSpec(id='x', config='a:b', builder='a:b', parameters=140_099)\n"
    )
    info = tmp_path / "broken_spec-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_spec\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nx = broken_spec:SPEC\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_spec", raising=False)
    ((name, found),) = Registry("method", group, MethodSpec).items()
    assert name == "x"
    assert isinstance(found, PluginError)
    assert "'parameters' of the method 'x' must be a mapping of presets to numbers" in str(found)
