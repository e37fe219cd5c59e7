"""The check of what networks show must catch taps at the wrong place."""

import pytest
import torch
from torch import nn

from gmc_bench.conformance.check_method import check_method
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.config import NetworkConfig
from gmc_bench.nn import LimbDecoder, Tap, TokenEmbedding

WIDTH = 8


class Parents(nn.Module):
    """Every limb adds what its parent has to its own representation."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.embedding = TokenEmbedding(spec, WIDTH)
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, WIDTH, num_outputs)

    def exchange(self, rows, tokens):
        parents = tokens.packed_parents
        return torch.where(parents.unsqueeze(1) < 0, rows, rows + rows[parents])

    def forward(self, tokens):
        rows = self.before_communication(self.embedding.packed(tokens))
        rows = self.exchange(rows, tokens)
        return self.decoder(self.after_communication(rows), tokens)


class Padded(Parents):
    def forward(self, tokens):
        packing = tokens.packing
        padded = self.before_communication(packing.unpack(self.embedding.packed(tokens)))
        rows = self.exchange(packing.pack(padded), tokens)
        padded = self.after_communication(packing.unpack(rows))
        return self.decoder(packing.pack(padded), tokens)


class Nothing(Parents):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        del self.before_communication, self.after_communication

    def forward(self, tokens):
        return self.decoder(self.exchange(self.embedding.packed(tokens), tokens), tokens)


class OneOnly(Nothing):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        self.after_communication = Tap()

    def forward(self, tokens):
        rows = self.exchange(self.embedding.packed(tokens), tokens)
        return self.decoder(self.after_communication(rows), tokens)


class BeforeTooLate(Parents):
    def forward(self, tokens):
        rows = self.before_communication(self.exchange(self.embedding.packed(tokens), tokens))
        return self.decoder(self.after_communication(self.exchange(rows, tokens)), tokens)


class BeforeTheFeatures(Parents):
    """Shows the same numbers whatever the limb's features are."""

    def forward(self, tokens):
        rows = self.embedding.packed(tokens)
        rows = rows + self.before_communication(torch.ones_like(rows))
        return self.decoder(self.after_communication(self.exchange(rows, tokens)), tokens)


class AfterTooEarly(Parents):
    def forward(self, tokens):
        rows = self.before_communication(self.embedding.packed(tokens))
        rows = self.exchange(self.after_communication(self.exchange(rows, tokens)), tokens)
        return self.decoder(rows, tokens)


class ExchangesNothing(Parents):
    def exchange(self, rows, tokens):
        return 2 * rows


class GoesOnWithout(Parents):
    def forward(self, tokens):
        rows = self.embedding.packed(tokens)
        self.before_communication(rows)
        return self.decoder(self.after_communication(self.exchange(rows, tokens)), tokens)


class RunsTwice(Parents):
    def forward(self, tokens):
        return super().forward(tokens) + 0 * super().forward(tokens)


class TorsosOnly(Parents):
    def forward(self, tokens):
        rows = self.before_communication(self.embedding.packed(tokens))
        self.after_communication(rows[: len(tokens)])
        return self.decoder(self.exchange(rows, tokens), tokens)


def result(network):
    method = MethodSpec(
        id="fake",
        config=NetworkConfig,
        builder=network,
        capabilities=Capabilities(uses_graph=True),
    )
    return check_method(method, checks=["representations"])[-1]


@pytest.mark.parametrize("network", [Parents, Padded])
def test_taps_at_the_right_places_pass(network):
    found = result(network)
    assert found.passed
    assert found.detail == "8 channels before, 8 after"


def test_a_network_without_taps_does_not_fail():
    found = result(Nothing)
    assert found.passed
    assert found.detail == "not offered"


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (OneOnly, "has only one of 'before_communication' and 'after_communication'"),
        (BeforeTooLate, "move 'before_communication' of the actor for another limb"),
        (BeforeTheFeatures, "do not move 'before_communication' of the actor for this limb"),
        (AfterTooEarly, "one limb's rows of 'after_communication' moves the actor's outputs of"),
        (ExchangesNothing, "move 'after_communication' of the actor by at most 0e+00"),
        (GoesOnWithout, "actor's outputs do not depend on what passes 'before_communication'"),
        (RunsTwice, "'before_communication' of the network RunsTwice ran 2 times"),
        (TorsosOnly, "limb representations have the shape (7, 8), expected ("),
    ],
)
def test_taps_at_a_wrong_place_are_caught(network, sentence):
    found = result(network)
    assert found.passed is False
    assert sentence in found.detail
