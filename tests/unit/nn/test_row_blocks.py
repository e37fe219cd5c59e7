"""Products over whole blocks of rows: the same numbers, fewer shapes."""

import copy

import pytest
import torch
from torch import nn

from gmc_bench.nn import row_blocks
from gmc_bench.nn.row_blocks import BLOCK, LinearInBlocks, filled, use_row_blocks


@pytest.mark.parametrize(
    ("count", "expected"), [(0, 0), (1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, 2 * BLOCK)]
)
def test_rows_of_zeros_fill_the_last_block(count: int, expected: int) -> None:
    rows = torch.randn(count, 3)
    whole = filled(rows)
    assert whole.shape == (expected, 3)
    assert torch.equal(whole[:count], rows)
    assert not whole[count:].any()


def test_it_pays_only_under_bfloat16_autocast() -> None:
    assert not row_blocks.pays()
    with torch.autocast("cpu", torch.bfloat16):
        assert row_blocks.pays()
    with torch.autocast("cpu", torch.float16):
        assert not row_blocks.pays()


def _network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.mark.parametrize("count", [1, 100, BLOCK])
def test_outputs_and_gradients_are_those_of_the_plain_product(count: int) -> None:
    plain, blocks = _network(), _network()
    use_row_blocks(blocks)
    rows = torch.randn(count, 8)
    outputs = []
    for network in (plain, blocks):
        with torch.autocast("cpu", torch.bfloat16):
            outputs.append(network(rows).float())
        outputs[-1].square().sum().backward()
    torch.testing.assert_close(outputs[1], outputs[0], rtol=2e-2, atol=2e-2)
    for name, parameter in plain.named_parameters():
        found = blocks.get_parameter(name).grad
        assert found is not None
        torch.testing.assert_close(found, parameter.grad, rtol=2e-2, atol=2e-2)


def test_products_see_whole_blocks_under_autocast_and_only_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    product = nn.Linear.forward

    def spy(layer: nn.Linear, rows: torch.Tensor) -> torch.Tensor:
        seen.append(rows.shape[0])
        return product(layer, rows)

    monkeypatch.setattr(nn.Linear, "forward", spy)
    network = _network()
    use_row_blocks(network)
    network(torch.randn(100, 8))
    network(torch.randn(2, 100, 8))
    with torch.autocast("cpu", torch.bfloat16):
        assert network(torch.randn(100, 8)).shape == (100, 4)
        assert network(torch.randn(2, 100, 8)).shape == (2, 100, 4)
    assert seen == [100, 100, 2, 2, BLOCK, BLOCK, 2, 2]


def test_the_parameters_stay_and_copies_work() -> None:
    network = _network()
    before = network.state_dict()
    use_row_blocks(network)
    assert isinstance(network[0], LinearInBlocks)
    assert list(network.state_dict()) == list(before)
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())
    assert isinstance(copy.deepcopy(network)[2], LinearInBlocks)


def test_layers_that_work_in_another_way_stay_what_they_are() -> None:
    class Halved(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return super().forward(rows) / 2

    network = nn.Sequential(Halved(8, 4))
    use_row_blocks(network)
    assert type(network[0]) is Halved
