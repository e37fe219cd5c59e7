"""A method of two layers per token, without a graph, for tests of what carries policies."""

from dataclasses import dataclass

from torch import nn

from gmc_bench.methods import MethodSpec


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    width: int = 8
    """Hidden channels."""


class ToyNetwork(nn.Module):
    """out = W2 tanh(W1 x + b1) + b2 + mean of the height map, if there is one."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(spec.num_features, config.width),
            nn.Tanh(),
            nn.Linear(config.width, num_outputs),
        )

    def forward(self, tokens):
        outputs = self.layers(tokens.features)
        if tokens.height_map is None:
            return outputs
        return outputs + tokens.height_map.mean(dim=1)[:, None, None]


TOY = MethodSpec(id="toy", config=ToyConfig, builder=ToyNetwork)
