"""The guide for new methods: its code runs, and its numbers are those of the benchmark."""

import ast
import dataclasses
import math
import re
import tomllib
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gmc_bench.nn
from gmc_bench.conformance.check_method import check_method
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.errors import PluginError
from gmc_bench.core.registry import Registry
from gmc_bench.methods import METHODS, Capabilities, MethodSpec
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import with_method_training
from gmc_bench.tokens import TokenSpec

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "my_method.py"
PAGE = (ROOT / "docs" / "add-your-method.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def snippet(words):
    """Return the one block of Python that holds some words."""
    (found,) = [block for block in PYTHON if words in block]
    return found


def run(code, **names):
    exec(compile(code, "add-your-method.md", "exec"), names)
    return names


def example():
    return METHODS.load(f"{EXAMPLE}:SPEC")


def with_network(builder, **changes):
    """Return the example's specification with another network."""
    return dataclasses.replace(
        example(), builder=builder, presets={"paper": {}, "lite": {}}, **changes
    )


def column(heading):
    """Return the names in code font in the first column of the table below a heading row."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def whole(text):
    return int(text.replace(",", ""))


def failures(method):
    results = check_method(method, "lite")
    return {result.name: result.detail for result in results if result.passed is False}


@pytest.mark.slow
def test_the_network_with_a_memory_conforms():
    network = run(snippet("class MemoryNetwork"))["MemoryNetwork"]
    claims = Capabilities(permutation_equivariant=True, temporal=True)
    method = with_network(network, capabilities=claims)
    assert set(failures(method)) == {"parameter counts"}  # which the page leaves to the reader


def test_the_part_per_body_gives_every_environment_its_own():
    spec = TokenSpec(6)
    tokens = random_tokens(np.random.default_rng(0), spec, (6, 3, 4), 5)
    torch.manual_seed(0)
    names = run(snippet("class BodyGate"))
    gate = names["BodyGate"](spec, 8)
    start = torch.randn(tokens.packing.num_rows, 8)
    this = SimpleNamespace(gate=gate)
    use = snippet("= self.gate(tokens)")
    rows = run(use, self=this, tokens=tokens, rows=start, take_rows=names["take_rows"])["rows"]
    context = tokens.table.scaled_context[tokens.morphology_index]
    expected = start * tokens.packing.pack(torch.sigmoid(gate.linear(context)))
    torch.testing.assert_close(rows, expected)


def test_the_mean_over_neighbours_is_that_of_the_limb_graph():
    tokens = random_tokens(np.random.default_rng(0), TokenSpec(6), (6, 3, 1), 5)
    start = torch.randn(tokens.packing.num_rows, 8)
    code = snippet("= tokens.packed_edges")
    names = run(code, tokens=tokens, rows=start, torch=torch, take_rows=gmc_bench.nn.take_rows)
    joined = tokens.table.graph.adjacency[tokens.morphology_index].float()  # (B, L, L)
    mean = joined / joined.sum(dim=2, keepdim=True).clamp(min=1)
    expected = tokens.packing.pack(mean @ tokens.packing.unpack(start))
    torch.testing.assert_close(names["heard"], expected)


def test_the_line_of_an_error_is_to_be_had(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = snippet('METHODS.load("my_method.py:SPEC")'), EXAMPLE.read_text(encoding="utf-8")
    Path("my_method.py").write_text(text.replace("self.limb(rows)", "self.limb(rows[:, 1:])"))
    with pytest.raises(PluginError) as caught:
        run(code)
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)
    (found,) = [frame for frame in frames if frame.filename == str(tmp_path / "my_method.py")]
    assert "self.limb(rows[:, 1:])" in found.line
    assert str(caught.value).endswith(f" [my_method.py:{found.lineno}]")


def test_an_entry_point_makes_a_package_a_method(tmp_path, monkeypatch):
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    ((group, points),) = tomllib.loads(block)["project"]["entry-points"].items()
    ((name, target),) = points.items()
    package = tmp_path / target.partition(":")[0]
    package.mkdir()
    (package / "__init__.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    installed = tmp_path / "anything-1.0.dist-info"  # what pip leaves behind
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: anything\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = Registry("method", group, MethodSpec).load(name)
    assert found.id == name
    assert found.builder.__module__ == package.name


def test_what_a_network_gets_is_there():
    tokens = random_tokens(np.random.default_rng(0), TokenSpec(4, num_heights=3), (4, 2), 3)
    names = column("| of `tokens` |")
    assert len(names) >= 10
    for name in names:
        place = tokens
        for part in name.split("."):
            place = getattr(place, part)
        assert place is not None


def test_blocks_named_are_there_and_no_layer_is_left_out():
    names = set(column("| block |"))
    assert names <= set(gmc_bench.nn.__all__)
    public = {name: getattr(gmc_bench.nn, name) for name in gmc_bench.nn.__all__}
    layers = {
        name
        for name, item in public.items()
        if isinstance(item, type) and issubclass(item, torch.nn.Module)
    }
    assert layers <= names


def test_the_fields_of_a_specification_are_explained():
    fields = {field.name for field in dataclasses.fields(MethodSpec)}
    named = set(re.findall(r"`(\w+)", PAGE)) | {"title"}  # which says it all
    assert fields <= named
    assert set(column("| field |")) <= fields
    assert {field.name for field in dataclasses.fields(Capabilities)} <= named


def test_the_size_named_is_that_of_the_others():
    stated = re.search(r"([\d,]+) parameters \+-15 %, ([\d,]+) to ([\d,]+),", PAGE)
    center, low, high = map(whole, stated.groups())
    assert center == METHODS.get("recmorph").parameters["lite"]
    assert (low, high) == (math.ceil(center * 0.85), math.floor(center * 1.15))
    width, size = re.search(r'`\{"width": (\d+)\}` makes ([\d,]+)\.', PAGE).groups()
    assert example().presets["lite"] == {"width": int(width)}
    assert example().parameters["lite"] == whole(size)  # which the checks hold it to
    assert low < whole(size) < high


def test_the_seeds_shown_are_those_of_the_default_protocol():
    suite = SUITES.load("unimal")
    (seeds,) = re.findall(r"for seed in ([\d ]+); do", PAGE)
    assert tuple(map(int, seeds.split())) == suite.protocol(None).seeds


def test_sequences_of_the_length_named_fit_into_every_protocol():
    lengths = [protocol.rollout_length for protocol in SUITES.load("unimal").protocols.values()]
    assert int(re.search(r"divisor of (\d+)", PAGE)[1]) == math.gcd(*lengths)


def test_the_training_setting_shown_may_be_brought_along():
    (training,) = re.findall(r"`training=(\{.*?\}\})`", PAGE)
    protocol = SUITES.load("unimal").protocol(None)
    method = dataclasses.replace(example(), training=ast.literal_eval(training))
    assert with_method_training(protocol, method).ppo.target_kl == 0.2


@pytest.mark.parametrize("name", METHODS.names())
def test_reference_code_is_named_as_asked_for(name):
    method = METHODS.get(name)
    repository = r"[\w.-]+/[\w.-]+@[0-9a-f]{7}"
    assert re.fullmatch(rf"(?:{repository}(?:, {repository})*)?", method.reference_code)
    assert re.fullmatch(r"unknown|[A-Z][\w.-]*", method.licence)
