"""Every conformance check must catch the fault it is there for."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.methods import METHODS, Capabilities, MethodSpec
from gmc_bench.nn import LimbDecoder
from gmc_bench.testing.check_method import check_method


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 8


class Sound(nn.Module):
    """A linear map per limb, without communication."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.linear = LimbDecoder(spec, spec.num_features, num_outputs)

    def forward(self, tokens):
        return self.linear(tokens.packed_features, tokens)


class ReadsPadding(Sound):
    def forward(self, tokens):
        return super().forward(tokens) + tokens.dynamic.mean(dim=(1, 2), keepdim=True)


class MixesBodies(Sound):
    def forward(self, tokens):
        limbs = super().forward(tokens)
        return limbs + limbs[:, :1].mean(dim=0, keepdim=True)


class CountsSlots(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * tokens.spec.max_limbs


class HasDeadParameter(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.unused = nn.Parameter(torch.ones(3))


class HidesTensor(Sound):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.hidden = torch.rand(1)

    def forward(self, tokens):
        return super().forward(tokens) + self.hidden


class DrawsFromNumpy(Sound):
    source = np.random.default_rng(0)

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.linear.output.bias.data += float(self.source.random())


class UsesSlots(Sound):
    def forward(self, tokens):
        slots = torch.arange(tokens.spec.max_limbs).view(1, -1, 1)
        return super().forward(tokens) * (1 + slots)


class ReadsParents(Sound):
    def forward(self, tokens):
        slots = torch.arange(tokens.spec.max_limbs).view(1, -1, 1)
        num_children = (tokens.parents.unsqueeze(1) == slots).sum(dim=2, keepdim=True)
        return super().forward(tokens) + num_children


class Overflows(Sound):
    def forward(self, tokens):
        return super().forward(tokens) * torch.where(tokens.dynamic.amax() > 1, torch.inf, 1.0)


class WritesInput(Sound):
    def forward(self, tokens):
        tokens.features.mul_(0.5)
        return super().forward(tokens)


class NeedsTwoBodies(Sound):
    def forward(self, tokens):
        if len(tokens) < 2:
            raise ValueError("batch norm needs two bodies")
        return super().forward(tokens)


def spec(builder, *, equivariant=True, graph=False, count=2 * 52 + 2 + 52 + 1):
    return MethodSpec(
        id="fake",
        config=Config,
        presets={"lite": {}},
        parameters={"lite": count},
        builder=builder,
        capabilities=Capabilities(permutation_equivariant=equivariant, uses_graph=graph),
    )


def failures(method):
    return {result.name: result.detail for result in check_method(method) if not result.passed}


def test_a_sound_method_passes_every_check():
    results = check_method(spec(Sound), "lite")
    assert [result for result in results if not result.passed] == []
    assert len(results) == 13


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (spec(Sound, count=158), "parameter counts"),
        (spec(NeedsTwoBodies), "output shapes"),
        (spec(Overflows), "finite outputs"),
        (spec(WritesInput), "inputs unchanged"),
        (spec(ReadsPadding), "padding ignored"),
        (spec(MixesBodies), "bodies independent"),
        (spec(CountsSlots), "more token slots"),
        (spec(HasDeadParameter, count=165), "gradients"),
        (spec(HidesTensor), "state dict"),
        (spec(DrawsFromNumpy), "seeded build"),
        (spec(UsesSlots), "limb order"),
        (spec(Sound, equivariant=False), "limb order"),
        (spec(ReadsParents), "limb tree"),
        (spec(Sound, graph=True), "limb tree"),
    ],
)
def test_each_fault_is_caught_by_its_check(method, check):
    assert check in failures(method)


@pytest.mark.parametrize(
    ("method", "only"),
    [
        (spec(UsesSlots, equivariant=False), set()),
        (spec(ReadsParents, graph=True), set()),
        (spec(CountsSlots), {"more token slots"}),
        (spec(HasDeadParameter, count=165), {"gradients"}),
    ],
)
def test_other_checks_stay_quiet(method, only):
    assert set(failures(method)) == only


def test_a_method_that_cannot_be_built_gives_one_result():
    (result,) = check_method(spec("no_such_module:build"))
    assert result.name == "build"
    assert not result.passed
    assert "no_such_module" in result.detail
    (result,) = check_method(spec(Sound), "huge")
    assert "has no preset 'huge'" in result.detail


def test_checks_leave_torchs_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    check_method(spec(Sound))
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("preset", ["paper", "lite"])
def test_the_example_method_conforms(preset, repository):
    example = repository / "examples" / "my_method.py"
    assert failures(METHODS.load(f"{example}:SPEC")) == {}
    assert [r for r in check_method(METHODS.load(f"{example}:SPEC"), preset) if not r.passed] == []
    assert len(example.read_text().splitlines()) <= 60
