"""The verb `check-method`: what it prints, and the three ways it may end."""

import json

import pytest

METHODS = """
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.config import NetworkConfig
from gmc_bench.nn import LimbDecoder
from torch import nn

class Linear(nn.Module):
    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.linear = LimbDecoder(spec, spec.num_features, num_outputs)

    def forward(self, tokens):
        return self.linear(tokens.packed_features, tokens)

class Wrong(Linear):
    def forward(self, tokens):
        return super().forward(tokens) * tokens.spec.max_limbs

def spec(builder, **options):
    return MethodSpec(
        id="linear", paper="unpublished", config=NetworkConfig, builder=builder,
        capabilities=Capabilities(permutation_equivariant=True), **options,
    )

SIZES = {"presets": {"paper": {}, "lite": {}}, "parameters": {"paper": 159, "lite": 159}}
SPEC = spec(Linear, **SIZES)
WRONG = spec(Wrong, **SIZES)
PLAIN = spec(Linear)
"""


@pytest.fixture(autouse=True)
def _methods(tmp_path, monkeypatch):
    monkeypatch.setattr("gmc_bench.conformance.method_checks.LITE_PARAMETERS", 159)
    (tmp_path / "methods.py").write_text(METHODS)
    (tmp_path / "raises.py").write_text("raise RuntimeError('no luck')\n")


def test_a_sound_method_passes_in_all_presets(gmc):
    code, out, err = gmc("check-method", "methods.py:SPEC", "--backend", "none")
    assert code == 0
    assert err == "checking linear (paper)\nchecking linear (lite)\n"
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["check", "passed", "detail"]
    assert lines[2][:2] == ["description", "yes"]
    assert lines.count(["parameter", "counts", "yes", "159"]) == 2
    assert lines.count(["torch.compile", "-", "skipped,", "as", "asked", "for"]) == 2


def test_a_failed_check_is_named_with_its_counterexample(gmc):
    code, out, err = gmc("check-method", "methods.py:WRONG", "--preset", "lite", "--backend=none")
    assert code == 1
    assert any(line.split()[:4] == ["more", "token", "slots", "NO"] for line in out.splitlines())
    sentence = "adding token slots changes the actor's outputs: environment 0"
    assert f"more token slots: {sentence}" in out
    assert f"gmc-bench: linear (lite) fails 'more token slots': {sentence}" in err


def test_a_method_without_presets_is_checked_with_its_defaults(gmc):
    code, out, err = gmc("check-method", "methods.py:PLAIN", "--backend", "none", "--json")
    assert code == 1
    assert err.startswith("checking linear (defaults)\n")
    ((label, results),) = json.loads(out)["presets"].items()
    assert label == "defaults"
    assert [r["name"] for r in results if r["passed"] is False] == ["description"]


def test_json_has_every_result(gmc):
    code, out, _ = gmc("check-method", "methods.py:WRONG", "--backend", "none", "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["method"], found["backend"], found["passed"]) == ("linear", "none", False)
    assert list(found["presets"]) == ["paper", "lite"]
    for results in found["presets"].values():
        assert [r["name"] for r in results if r["passed"] is False] == ["more token slots"]
        assert [r["name"] for r in results if r["passed"] is None] == ["torch.compile"]
        assert {"name": "parameter counts", "passed": True, "detail": "159"} in results


@pytest.mark.slow
def test_the_backend_is_handed_on(gmc):
    argv = ("--preset", "lite", "--backend", "aot_eager", "--json")
    code, out, _ = gmc("check-method", "methods.py:SPEC", *argv)
    (last,) = (r for r in json.loads(out)["presets"]["lite"] if r["name"] == "torch.compile")
    assert code == 0
    assert last["detail"].startswith("aot_eager; ")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["recmorf"], "unknown method 'recmorf'; did you mean 'recmorph'?"),
        (["methods.py:SPEC", "--preset", "light"], "no preset 'light'; did you mean 'lite'?"),
        (["methods.py:SPEC", "--backend", "eager"], "unknown backend 'eager'"),
        (["nowhere.py:SPEC"], "the file 'nowhere.py' does not exist"),
        (["raises.py:SPEC"], "'raises.py' could not be imported: RuntimeError: no luck"),
        (["methods.py:SIZES"], "methods.py:SIZES is a dict, but a method must be a MethodSpec"),
        ([], "METHOD"),
    ],
)
def test_bad_input_gives_one_sentence(gmc, argv, sentence):
    code, out, err = gmc("check-method", *argv)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/g++")


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_default_is_tracing_only(gmc):
    code, out, err = gmc("check-method", "methods.py:SPEC", "--preset", "lite", "--json")
    assert code == 0
    assert json.loads(out)["backend"] == "aot_eager"
    assert err.splitlines() == [
        "no C++ compiler '/nowhere/g++' found: compiling with aot_eager, which needs none",
        "checking linear (lite)",
    ]


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_full_compilation_is_refused(gmc):
    code, out, err = gmc("check-method", "methods.py:SPEC", "--backend", "inductor")
    assert (code, out) == (2, "")
    assert err == (
        "gmc-bench: --backend inductor needs a C++ compiler, but '/nowhere/g++' was not found; "
        "install it, name another one in the variable CXX, or use --backend aot_eager\n"
    )
