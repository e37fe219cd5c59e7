"""The arithmetic that is counted is that of the networks, worked out by hand for simple ones."""

from dataclasses import dataclass, replace

import pytest
from torch import nn

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.profiling import Setting
from gmc_bench.profiling.padding import profile_padding
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

SIZES = (2, 5, 5, 8)
SLOTS = 10


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 8
    """Outputs of a token's map."""


class Padded(nn.Module):
    """One linear map over every token slot."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.map = nn.Linear(spec.num_features, num_outputs)

    def forward(self, tokens):
        return self.map(tokens.features)


class Packed(Padded):
    """The same over real limbs alone."""

    def forward(self, tokens):
        return tokens.packing.unpack(self.map(tokens.packed_features))


@pytest.fixture
def figures():
    def profile(*methods, batch_size=8):
        protocol = SUITE.protocol("lite")
        return profile_padding(
            Setting(
                suite=SUITE,
                task=TASK,
                bodies=[chain(size) for size in SIZES],
                bodies_id="unit",
                bodies_digest="0" * 64,
                spec=TokenSpec(SLOTS, 2),
                methods=methods,
                protocol=replace(protocol, ppo=replace(protocol.ppo, batch_size=batch_size)),
                num_envs=2,
                threads=1,
                seconds=0.1,
            )
        )

    return profile


def test_a_map_of_every_slot_wastes_the_share_of_padding(figures):
    padded = MethodSpec(id="padded", config=Config, builder=Padded)
    packed = MethodSpec(id="packed", config=Config, builder=Packed)
    report = figures(padded, packed)
    found = report.figures
    per_token = 2 * 52 * 2 / 1e6
    mean = sum(SIZES) / len(SIZES)
    assert found["methods"]["padded"]["mflop"] == pytest.approx(SLOTS * per_token)
    assert found["methods"]["padded"]["needed_mflop"] == pytest.approx(mean * per_token)
    assert found["methods"]["padded"]["waste"] == pytest.approx(1 - mean / SLOTS)
    assert found["methods"]["packed"]["mflop"] == pytest.approx(mean * per_token)
    assert found["methods"]["packed"]["waste"] == 0.0
    assert found["limbs"] == {"smallest": 2, "mean": mean, "largest": 8}
    assert found["rows"] == found["setting"]["num_envs"] == 8
    (table,) = report.tables
    assert "8 environments, bodies of 2 to 8 limbs" in table.title
    assert [row[-1] for row in table.rows] == ["50.0 %", "0.0 %"]
    assert len(table.headings) == len(table.rows[0])


def test_torch_is_left_as_it_was(torch_as_it_was, figures):
    figures(METHODS.get("recmorph"))


def test_a_network_without_products_wastes_nothing(figures):
    found = figures(METHODS.get("zero-action")).figures["methods"]["zero-action"]
    assert (found["mflop"], found["waste"]) == (0.0, 0.0)


def test_two_methods_with_one_id_are_refused(figures):
    padded, packed = (MethodSpec(id="mine", config=Config, builder=of) for of in (Padded, Packed))
    with pytest.raises(ConfigError, match="ids of their own, but 'mine' was given twice; leave"):
        figures(padded, packed)


def test_a_batch_shows_every_body(figures):
    found = figures(MethodSpec(id="packed", config=Config, builder=Packed), batch_size=5)
    assert found.figures["rows"] == 8  # the next multiple of four bodies


@pytest.mark.parametrize("name", ["recmorph", "recmorph-bigru", "recmorph-bilstm", "nervenet"])
def test_recurrences_and_messages_waste_nothing(figures, name):
    assert figures(METHODS.get(name)).figures["methods"][name]["waste"] == 0.0


def test_attention_wastes_what_its_square_of_slots_takes(figures):
    found = figures(METHODS.get("metamorph")).figures["methods"]["metamorph"]
    config = METHODS.get("metamorph").make_config("lite")
    # Per layer, each of L x L pairs takes a product of `width` numbers twice: logits and mixing.
    pair = config.num_layers * 2 * 2 * config.width / 1e6
    extra = SLOTS**2 - sum(size**2 for size in SIZES) / len(SIZES)
    assert found["mflop"] - found["needed_mflop"] == pytest.approx(pair * extra)
    assert found["waste"] > 0.0
