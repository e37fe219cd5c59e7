"""Networks that memory cannot hold are refused before they are drawn, others are as without."""

import copy
import threading
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies import size
from gmc_bench.policies.size import WEIGHT, count_parameters, within_memory
from gmc_bench.tokens.spec import TokenSpec

SPEC = TokenSpec(4)
LAYERS = 30


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 100


class Drawn(nn.Linear):
    """A layer that notes when numbers are drawn for it."""

    count = 0

    def reset_parameters(self):
        if self.weight.device.type == "cpu":
            Drawn.count += 1
        super().reset_parameters()


class Deep(nn.Module):
    """101,000 parameters in every layer of width 100."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.first = nn.Linear(spec.num_features, config.width)
        self.layers = nn.ModuleList(self.make_layers(config.width))
        self.last = nn.Linear(config.width, num_outputs)

    def make_layers(self, width):
        return [Drawn(width, 10 * width) for _ in range(LAYERS)]

    def forward(self, tokens):
        return self.last(self.first(tokens.features))


class NeedsNumbers(Deep):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        assert float(torch.rand(())) >= 0.0


class ReplacesParameters(Deep):
    """Draws every layer anew: at no time are there more parameters than those and a layer's."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        for layer in self.layers:
            layer.weight = nn.Parameter(torch.randn_like(layer.weight))


class Lazy(Deep):
    """The last layer knows its size only once it is called."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.last = nn.LazyLinear(num_outputs)


class Copies(Deep):
    """Copies of modules register no parameters."""

    def make_layers(self, width):
        first = Drawn(width, 10 * width)
        return [copy.deepcopy(first) for _ in range(LAYERS)]


class Frozen(Deep):
    """More parameters again that are not trained."""

    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.table = nn.Parameter(torch.zeros(1_000_000), requires_grad=False)


def method(builder=Deep):
    return MethodSpec(
        id="fake", paper="unpublished", config=Config, presets={}, parameters={}, builder=builder
    )


ALL = sum(item.numel() for n in (2, 1) for item in Deep(Config(), SPEC, n).parameters())
"""Parameters of actor and critic."""


def build(method, config, free, bytes_each=WEIGHT):
    count = partial(count_parameters, method, config, SPEC, 1)
    with within_memory(count, bytes_each=bytes_each, free=free) as require:
        policy = ActorCritic(method, config, SPEC)
        require(policy.num_parameters())
        return policy


@pytest.fixture(autouse=True)
def _nothing_drawn():
    Drawn.count = 0


@pytest.mark.parametrize("builder", [Deep, NeedsNumbers, ReplacesParameters, Lazy])
@pytest.mark.parametrize("free", [4 * ALL + 800_000, 400 * ALL, None])
def test_networks_that_fit_are_the_same_as_without(builder, free):
    drawn = []
    for limit in (free, None):
        torch.manual_seed(3)
        drawn.append([*build(method(builder), Config(), limit).parameters(), torch.rand(3)])
    for one, other in zip(*drawn, strict=True):
        assert torch.equal(one, other)


def test_what_does_not_fit_is_refused_after_a_twentieth_was_drawn():
    network = method()
    with pytest.raises(
        ConfigError, match=r"'fake' need more memory .* parameters take 0\.0 GiB, and"
    ):
        build(network, Config(), 4 * ALL - 1)
    assert 0 < Drawn.count <= 2 * LAYERS / 20 + 1
    Drawn.count = 0
    with pytest.raises(ConfigError, match="gradients, Adam's moments and a checkpoint take"):
        build(network, Config(), 28 * ALL - 1, size.TRAINED)
    build(network, Config(), 28 * ALL, size.TRAINED)
    build(method(Frozen), Config(), 4 * ALL)  # what is not trained does not count


def test_a_builder_that_needs_numbers_is_stopped_where_memory_ends():
    with pytest.raises(ConfigError, match="need more memory"):
        build(method(NeedsNumbers), Config(), 4 * ALL - 1)
    assert LAYERS < Drawn.count <= 2 * LAYERS


def test_what_another_thread_builds_meanwhile_does_not_count():
    built = []
    thread = threading.Thread(target=lambda: built.append(nn.Linear(9, 9)))
    with within_memory(lambda: None, bytes_each=WEIGHT, free=100):
        thread.start()
        thread.join()
        with pytest.raises(MemoryError, match=r"^at least 81 parameters take"):
            nn.Linear(9, 9)
    assert len(built) == 1


def test_a_small_network_is_built_once():
    built = []

    def builder(config, spec, num_outputs):
        built.append(num_outputs)
        return Deep(config, spec, num_outputs)

    build(method(builder), Config(), round(4.0 * ALL / size._SHARE) + 4)
    assert built == [2, 1]
    build(method(builder), Config(), round(4.0 * ALL / size._SHARE) - 4)
    assert built == [2, 1, 2, 1, 2, 1]


def test_copies_of_modules_are_counted_in_advance_or_at_last(monkeypatch):
    build(method(Copies), Config(), 4 * ALL)
    sentence = rf"{ALL:,} parameters take 0\.0 GiB, and 0\.0 GiB are free"
    with pytest.raises(MemoryError, match=f"^{sentence}$"):
        build(method(Copies), Config(), 4 * ALL - 1)
    monkeypatch.setattr(size, "_SHARE", 0.01)
    with pytest.raises(
        ConfigError, match=rf"'fake' need more memory .*\(MemoryError: {sentence}\)"
    ):
        build(method(Copies), Config(), 4 * ALL - 1)


@pytest.mark.parametrize("name", METHODS.names())
def test_the_methods_here_can_be_counted(name):
    found = METHODS.load(name)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    count = count_parameters(found, found.make_config("lite"), TokenSpec(12), 1)
    assert count == found.parameters["lite"]
    assert torch.equal(torch.get_rng_state(), before)
