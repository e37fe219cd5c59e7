"""Stored activations of public implementations, to hold a re-implementation against.

A case holds the weights of one small network under the reference's own names, its inputs and its
outputs. Nothing about its sizes is assumed: they follow from the shapes of the arrays.
`data/README.md` says where the numbers come from.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gmc_bench.conformance.tokens import select
from gmc_bench.core.types import Array
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.spec import TokenSpec

DATA = Path(__file__).with_name("data")
DEFAULT_HEADS = 2
"""Attention heads of a network whose file does not say (as input `num_heads`); weights do not."""


@dataclass(frozen=True, kw_only=True)
class ReferenceCase:
    """One network of a public implementation: weights, inputs, outputs."""

    name: str
    weights: dict[str, Array]
    """Parameters under the reference's names."""
    inputs: dict[str, Array]
    """Everything that went in, also what `tokens` does not hold, such as node types."""
    outputs: dict[str, Array]
    """`per_limb` (B, L, num_outputs) float32; compare real limbs only."""
    tokens: TokenBatch
    """The same inputs as tokens; every environment has a body of its own in the table."""

    @property
    def num_outputs(self) -> int:
        """Numbers per limb."""
        return int(self.outputs["per_limb"].shape[-1])

    @property
    def num_heads(self) -> int:
        """Attention heads."""
        return int(self.inputs.get("num_heads", DEFAULT_HEADS))

    def largest_error(self, network: nn.Module) -> tuple[float, float]:
        """Return the largest absolute differences of a network's outputs on real limbs.

        Args:
            network: maps tokens to (B, L, num_outputs); is put into evaluation mode.

        Returns:
            The difference with all bodies in one batch, and with every body alone.
        """
        network.eval()
        expected = torch.from_numpy(self.outputs["per_limb"])
        with torch.no_grad():
            together = network(self.tokens)
            alone = [network(select(self.tokens, [row])) for row in range(len(self.tokens))]
        real = ~self.tokens.limb_padding_mask
        first, second = (
            float((found - expected)[real].abs().max()) for found in (together, torch.cat(alone))
        )
        return first, second


def case_names(prefix: str) -> list[str]:
    """Return the names of the stored cases that start with `prefix`, sorted."""
    names = {path.name.split(".")[0] for path in DATA.glob("*.npz")}
    return sorted(name for name in names if name.startswith(prefix))


def read_case(name: str, folder: Path = DATA) -> ReferenceCase:
    """Read one case.

    Args:
        name: of its file `<name>.npz`, or of its files `<name>.1.npz`, `<name>.2.npz`.
        folder: where they lie. Keys are `w:<name>`, `in:<name>` and `out:per_limb`; inputs are
            at least `tokens` (B, L, F), `token_padding_mask` (B, L) and `parents` (B, L), and may
            hold `context` (B, L, Fc) and `height_field` (B, G).
    """
    groups: dict[str, dict[str, Array]] = {"w": {}, "in": {}, "out": {}}
    for path in (*folder.glob(f"{name}.npz"), *folder.glob(f"{name}.[0-9].npz")):
        with np.load(path) as file:
            for key in file.files:
                group, part = key.split(":", maxsplit=1)
                groups[group][part] = file[key]
    return ReferenceCase(
        name=name,
        weights=groups["w"],
        inputs=groups["in"],
        outputs=groups["out"],
        tokens=_make_tokens(groups["in"]),
    )


def _make_tokens(inputs: dict[str, Array]) -> TokenBatch:
    arrays = {name: torch.from_numpy(value) for name, value in inputs.items()}
    features, padding = arrays["tokens"].float(), arrays["token_padding_mask"].bool()
    heights, scaled = arrays.get("height_field"), arrays.get("context")
    spec = _spec_of(
        features.shape[1], features.shape[2], 0 if heights is None else heights.shape[1]
    )
    context = features[..., torch.from_numpy(spec.context_indices)]
    table = TokenTable(
        spec=spec,
        context=context,
        scaled_context=torch.zeros_like(context) if scaled is None else scaled.float(),
        limb_padding_mask=padding,
        # The outputs are compared before actions are masked, so every limb may have all of them.
        action_padding_mask=padding.unsqueeze(-1).expand(-1, -1, spec.joints_per_limb),
        parents=arrays["parents"].long(),
        num_limbs=(~padding).sum(dim=1),
    )
    return TokenBatch(
        table,
        torch.arange(len(features)),
        features[..., torch.from_numpy(spec.dynamic_indices)],
        None if heights is None else heights.float(),
    )


def _spec_of(max_limbs: int, num_features: int, num_heights: int) -> TokenSpec:
    """Return the layout with that many features; each joint slot adds the same number."""
    joints = 1
    while TokenSpec(max_limbs, joints).num_features < num_features:
        joints += 1
    return TokenSpec(max_limbs, joints, num_heights)
