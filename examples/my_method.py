"""A complete controller in one file: an MLP per limb that also sees the mean over all limbs.

Train it with `gmc-bench run --method examples/my_method.py:SPEC --suite unimal`.
"""

from dataclasses import dataclass

import torch
from torch import nn

from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.nn import LimbDecoder, TokenBatch, TokenEmbedding
from gmc_bench.tokens import TokenSpec


@dataclass(frozen=True, kw_only=True)
class MyConfig:
    """Settings; every field becomes a command-line flag."""

    width: int = 64
    """Channels of a limb's representation."""


class MyNetwork(nn.Module):
    """Embed every limb, add the body's mean, decode every limb."""

    def __init__(self, config: MyConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width)
        self.limb = nn.Linear(config.width, config.width)
        self.body = nn.Linear(config.width, config.width, bias=False)
        self.decoder = LimbDecoder(spec, config.width, num_outputs)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Map B environments to (B, L, num_outputs); True in the mask is padding."""
        limbs = nn.functional.relu(self.embedding(tokens))  # (B, L, width)
        real = limbs.masked_fill(tokens.limb_padding_mask.unsqueeze(-1), 0.0)
        mean = real.sum(dim=1) / tokens.num_limbs.unsqueeze(-1)  # (B, width)
        mixed = nn.functional.relu(self.limb(limbs) + self.body(mean).unsqueeze(1))
        output: torch.Tensor = self.decoder(tokens.packing.pack(mixed), tokens)
        return output


SPEC = MethodSpec(
    id="my-method",
    title="Mean-pooled limb MLP",
    paper="Zaheer et al. 2017, Deep Sets, arXiv:1703.06114",
    config=MyConfig,
    presets={"paper": {}, "lite": {"width": 32}},
    parameters={"paper": 23_491, "lite": 7_651},
    builder=MyNetwork,
    capabilities=Capabilities(permutation_equivariant=True),
)
