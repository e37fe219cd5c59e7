import pytest
import torch
from torch import nn

from gmc_bench.deployment.plain import plain_copy
from gmc_bench.nn.norm import NormLinear, RMSNorm
from gmc_bench.nn.packing import make_packing
from gmc_bench.nn.recurrence import BidirectionalGRU, BidirectionalLSTM, BidirectionalRNN


@pytest.mark.parametrize("kind", [BidirectionalRNN, BidirectionalGRU, BidirectionalLSTM])
@pytest.mark.parametrize("limbs", [1, 12])
def test_recurrences_agree_with_the_packed_ones(kind, limbs):
    torch.manual_seed(1)
    cell, rows = kind(5, 7), torch.randn(limbs, 5)
    packing = make_packing(torch.tensor([limbs]), 12)
    plain = plain_copy(cell)
    assert type(plain) is not kind
    with torch.no_grad():
        assert torch.allclose(plain(rows, packing), cell(rows, packing), atol=1e-6)


def test_norms_agree():
    torch.manual_seed(1)
    for layer in (RMSNorm(6), NormLinear(6, 3)):
        for values in layer.parameters():
            nn.init.uniform_(values)
        for size in (3.0, 1e-4, 0.0):  # the last are as small as what is added to their square
            rows = size * torch.randn(4, 6)
            with torch.no_grad():
                assert torch.allclose(plain_copy(layer)(rows), layer(rows), atol=1e-6)


def test_a_copy_has_weights_of_its_own():
    layer = RMSNorm(3)
    plain_copy(layer).weight.data.zero_()
    assert type(layer) is RMSNorm
    assert layer.weight.sum() == 3


def test_a_copy_neither_drops_nor_learns():
    network = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5))
    plain = plain_copy(network)
    assert not any(module.training for module in plain.modules())
    assert not any(weight.requires_grad for weight in plain.parameters())
    assert network.training
    assert network[0].weight.requires_grad
