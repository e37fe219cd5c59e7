"""What a specification may hold, and how it is refused if it holds something else."""

import sys

import pytest

from gmc_bench.core.errors import PluginError
from gmc_bench.core.registry import Registry
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.spec import require_description

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
        ("capabilities", {}, "'capabilities' of the method 'fake' must be Capabilities(...)"),
        ("preset_capabilities", {"lite": {}}, "must hold Capabilities(...) under 'lite', got {}"),
    ],
)
def test_a_field_of_another_type_is_refused_in_one_sentence(field, value, sentence):
    with pytest.raises(PluginError) as error:
        MethodSpec(**{**FIELDS, field: value})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


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
