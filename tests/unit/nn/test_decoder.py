import numpy as np
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn import HeightMapEncoder, LimbDecoder
from gmc_bench.tokens import TokenSpec

SPEC = TokenSpec(4)


def batch(spec=SPEC, lengths=(2, 4)):
    return random_tokens(np.random.default_rng(0), spec, lengths, batch_size=len(lengths))


def test_last_layer_starts_small_and_without_bias():
    decoder = LimbDecoder(SPEC, 200, 10, hidden=(100,), init=0.01)
    assert 0.009 < decoder.output.weight.abs().max() <= 0.01
    assert not decoder.output.bias.any()
    assert decoder.hidden[0].weight.abs().max() > 0.05  # torch's default, 1 / sqrt(200) = 0.07


def test_hidden_layers_use_relu_and_the_output_does_not():
    tokens = batch(TokenSpec(2), lengths=(2,))
    decoder = LimbDecoder(tokens.spec, 1, 1, hidden=(2,))
    decoder.hidden[0].weight.data = torch.tensor([[1.0], [-1.0]])
    decoder.hidden[0].bias.data = torch.tensor([0.5, 0.0])
    decoder.output.weight.data = torch.tensor([[2.0, -3.0]])
    decoder.output.bias.data = torch.tensor([0.25])
    # x = 1: hidden (1.5, 0), output 3.25; x = -2: hidden (0, 2), output -5.75.
    assert decoder(torch.tensor([[1.0], [-2.0]]), tokens).flatten().tolist() == [3.25, -5.75]


def test_padding_is_zero():
    tokens = batch()
    decoder = LimbDecoder(SPEC, 3, 2)
    decoder.output.bias.data += 1.0
    found = decoder(torch.ones(6, 3), tokens)
    assert found.shape == (2, 4, 2)
    assert torch.equal(found == 0, tokens.limb_padding_mask.unsqueeze(-1).expand(-1, -1, 2))
    assert [name for name, _ in decoder.named_parameters()] == ["output.weight", "output.bias"]


def test_height_map_is_encoded_once_and_appended_to_every_limb():
    spec = TokenSpec(4, num_heights=5)
    tokens = batch(spec)
    decoder = LimbDecoder(spec, 3, 2, height_map_hidden=(7, 6))
    rows = torch.randn(6, 3)
    found = decoder(rows, tokens)
    first, second = decoder.height_map.layers
    places = zip(tokens.packing.bodies.tolist(), tokens.packing.positions.tolist(), strict=True)
    for row, (body, slot) in zip(rows, places, strict=True):
        encoded = tokens.height_map[body]
        for layer in (first, second):
            encoded = (layer.weight @ encoded + layer.bias).clamp(min=0)
        weight, bias = decoder.output.weight, decoder.output.bias
        expected = weight @ torch.cat((row, encoded)) + bias
        torch.testing.assert_close(found[body, slot], expected)


def test_height_map_encoder_has_the_published_size():
    # 1410 heights -> 64 -> 64: 90,304 + 4,160 parameters.
    encoder = HeightMapEncoder(1410)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 94_464
