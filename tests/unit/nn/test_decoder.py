import torch

from gmc_bench.nn import LimbDecoder


def test_last_layer_starts_small_and_without_bias():
    decoder = LimbDecoder(200, 10, hidden=(100,), init=0.01)
    assert 0.009 < decoder.output.weight.abs().max() <= 0.01
    assert not decoder.output.bias.any()
    assert decoder.hidden[0].weight.abs().max() > 0.05  # torch's default, 1 / sqrt(200) = 0.07


def test_hidden_layers_use_relu_and_the_output_does_not():
    decoder = LimbDecoder(1, 1, hidden=(2,))
    decoder.hidden[0].weight.data = torch.tensor([[1.0], [-1.0]])
    decoder.hidden[0].bias.data = torch.tensor([0.5, 0.0])
    decoder.output.weight.data = torch.tensor([[2.0, -3.0]])
    decoder.output.bias.data = torch.tensor([0.25])
    # x = 1: hidden (1.5, 0), output 3.25; x = -2: hidden (0, 2), output -5.75.
    assert decoder(torch.tensor([[1.0], [-2.0]])).flatten().tolist() == [3.25, -5.75]


def test_leading_dimensions_are_kept():
    assert LimbDecoder(4, 2)(torch.zeros(3, 5, 4)).shape == (3, 5, 2)
    assert [name for name, _ in LimbDecoder(4, 2).named_parameters()] == [
        "output.weight",
        "output.bias",
    ]
