"""Every registered method keeps the contract, in every preset."""

import re
from pathlib import Path

import pytest
import torch

from gmc_bench.conformance.check_method import check_method
from gmc_bench.methods import METHODS

REPOSITORY = Path(__file__).parents[2]
LITE_PARAMETERS = 140_099
"""RecMorph's; the other methods' `lite` is as large, so that scores compare architectures."""
LITE_TOLERANCE = 0.15


@pytest.fixture(autouse=True)
def _one_thread():
    # The matrices are small: a second thread only waits, all the longer on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def failed(name, preset, **options):
    results = check_method(METHODS.get(name), preset, **options)
    return [(result.name, result.detail) for result in results if result.passed is False]


NAMES = METHODS.names()
OTHERS = [
    (name, preset)
    for name in NAMES
    for preset in METHODS.get(name).presets
    if preset != "lite"
]  # fmt: skip
IN_TREE = [
    name
    for name in NAMES
    if str(METHODS.get(name).builder).partition(".")[0] in ("gmc_baselines", "recmorph")
]


@pytest.mark.parametrize("name", NAMES)
def test_lite_passes_every_check(name):
    assert failed(name, "lite") == []


@pytest.mark.parametrize(("name", "preset"), OTHERS)
def test_other_presets_pass_every_check_but_compiling(name, preset):
    assert failed(name, preset, backend="none") == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_passes_every_check_compiled_in_full(name):
    for preset in METHODS.get(name).presets:
        backend = "inductor" if preset == "lite" else "aot_eager"
        assert failed(name, preset, backend=backend) == []


@pytest.mark.parametrize("name", NAMES)
def test_method_describes_itself(name):
    spec = METHODS.get(name)
    assert spec.id == name
    assert spec.title
    assert spec.paper
    assert spec.deviations
    assert {"paper", "lite"} <= set(spec.presets)
    assert set(spec.parameters) == set(spec.presets)
    assert set(spec.preset_capabilities) <= set(spec.presets)


@pytest.mark.parametrize("name", NAMES)
def test_lite_has_the_size_of_the_others(name):
    ratio = METHODS.get(name).parameters["lite"] / LITE_PARAMETERS
    assert abs(ratio - 1) <= LITE_TOLERANCE


@pytest.mark.parametrize("name", sorted(set(IN_TREE) - {"mlp", "mlp-10m", "recmorph-bimamba2"}))
def test_lite_has_half_of_the_published_depth_rounded_up(name):
    """`mlp` has no layers among limbs; BiMamba2 keeps RecMorph's depth (docs/protocols.md)."""
    spec, found = METHODS.get(name), []
    for preset in ("paper", "lite"):
        config = spec.make_config(preset)
        found.append(getattr(config, "num_blocks", None) or config.num_layers)
    assert found[1] == -(-found[0] // 2)


@pytest.mark.parametrize("name", IN_TREE)
def test_readme_lists_the_deviations(name):
    module = str(METHODS.get(name).builder).partition(":")[0]
    readme = REPOSITORY.joinpath(*module.split(".")[:-1], "README.md")
    text = readme.read_text(encoding="utf-8")
    section = re.search(
        r"^##+ [^\n]*deviations?\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.I | re.M | re.S
    )
    assert section is not None
    assert re.search(r"^\|[- |:]+\|$", section[1], re.M), "the section holds no table"


def test_in_tree_methods_are_registered():
    folders = {path.parent.name for path in REPOSITORY.glob("baselines/*/__init__.py")}
    modules = {
        str(METHODS.get(name).builder).split(".")[1] for name in IN_TREE if name != "recmorph"
    }
    assert "recmorph" in IN_TREE
    assert modules >= folders
