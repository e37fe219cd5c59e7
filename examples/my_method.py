"""A complete controller in one file: an MLP per limb that also sees the mean over all limbs.

Check it with `gmc-bench check-method examples/my_method.py:SPEC`, train it with
`gmc-bench run --method examples/my_method.py:SPEC --suite unimal --task ft`;
`docs/add-your-method.md` leads from here to a comparison with other methods.
"""

from dataclasses import dataclass

import torch
from torch import nn

from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.config import NetworkConfig, require_positive
from gmc_bench.nn import LimbDecoder, Tap, TokenBatch, TokenEmbedding, take_rows
from gmc_bench.tokens import TokenSpec


@dataclass(frozen=True, kw_only=True)
class MyConfig(NetworkConfig):
    """Settings; every field becomes a command-line flag."""

    width: int = 256
    """Channels of a limb's representation."""

    def __post_init__(self) -> None:
        """Refuse a width of zero; the inherited settings are checked, too."""
        super().__post_init__()
        require_positive(self, "width")


class MyNetwork(nn.Module):
    """Embed every limb, add the body's mean, decode every limb."""

    def __init__(self, config: MyConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        self.limb = nn.Linear(config.width, config.width)
        self.body = nn.Linear(config.width, config.width, bias=False)
        # Optional: where studies look at limbs before and after they exchange information.
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Map B environments to (B, L, num_outputs); P rows are all their real limbs."""
        rows = nn.functional.relu(self.embedding.packed(tokens))  # (P, width)
        rows = self.before_communication(rows)
        bodies = tokens.packing.bodies  # (P,): which environment a row belongs to
        total = rows.new_zeros(len(tokens), rows.shape[1]).index_add(0, bodies, rows)
        mean = self.body(total / tokens.num_limbs.unsqueeze(1))  # (B, width)
        rows = nn.functional.relu(self.limb(rows) + take_rows(mean, bodies))
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


SPEC = MethodSpec(
    id="my-method",
    title="Mean-pooled limb MLP",
    paper="Zaheer et al. 2017, Deep Sets, arXiv:1703.06114",
    deviations=("The paper pools by a sum; the mean keeps its size for bodies of any size.",),
    config=MyConfig,
    presets={"paper": {}, "lite": {"width": 174}},
    parameters={"paper": 290_563, "lite": 140_421},
    builder=MyNetwork,
    capabilities=Capabilities(permutation_equivariant=True),
)
