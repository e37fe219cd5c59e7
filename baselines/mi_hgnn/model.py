"""The MI-HGNN network: limbs of three types exchange messages, each relation in its own way."""

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import nn
from torch_geometric.nn import GraphConv, HeteroConv, HeteroDictLinear

from gmc_baselines.mi_hgnn.config import MIHGNNConfig
from gmc_bench.nn import LimbDecoder, Tap, TokenBatch
from gmc_bench.nn.graph import INNER, LEAF, TORSO
from gmc_bench.tokens.spec import TokenSpec

Relation = tuple[str, str, str]
"""Source type, name, target type: torch-geometric's edge type."""

LIMB_TYPES = {"base": TORSO, "joint": INNER, "foot": LEAF}
"""Node type of the original -> kind of limb in `LimbGraph.limb_type`, numbered 0, 1, 2."""

RELATIONS: tuple[Relation, ...] = (
    ("base", "to", "joint"),
    ("joint", "to", "base"),
    ("joint", "to", "joint"),
    ("foot", "to", "joint"),
    ("joint", "to", "foot"),
    ("base", "to", "foot"),
    ("foot", "to", "base"),
)
"""Every pair of types that can be joined: a foot has one neighbour, and there is one base."""


@dataclass(frozen=True)
class TypedLimbs:
    """The limbs of a batch sorted by type, and the joints between them by relation."""

    order: torch.Tensor
    """(P,) int64, packed rows, those of the bases first, then joints, then feet."""
    sizes: tuple[int, ...]
    """Limbs of each type; any may be zero."""
    edges: dict[Relation, torch.Tensor]
    """(2, E_r) int64 per relation, places of source and target among the limbs of their type."""

    def split(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Split packed rows (P, ...) into the rows of each type."""
        parts = rows.index_select(0, self.order).split_with_sizes(self.sizes)
        return dict(zip(LIMB_TYPES, parts, strict=True))

    def join(self, parts: dict[str, torch.Tensor]) -> torch.Tensor:
        """Put the rows of each type back at their places, (P, ...)."""
        rows = torch.cat([parts[name] for name in LIMB_TYPES])
        return torch.empty_like(rows).index_copy(0, self.order, rows)


def typed_limbs(tokens: TokenBatch) -> TypedLimbs:
    """Sort the limbs of a batch by type and its joints by relation.

    Every relation of `RELATIONS` is listed, with no edges where the batch has none: a relation
    that is left out would not contribute its root term and bias either.
    """
    types = tokens.packing.pack(tokens.table.graph.limb_type[tokens.morphology_index])  # (P,)
    order = types.argsort(stable=True)  # (P,): sorted place -> row
    sizes = tuple(torch.bincount(types, minlength=len(LIMB_TYPES)).tolist())
    starts = torch.tensor((0, *accumulate(sizes[:-1])), device=types.device)  # of each type
    place = torch.empty_like(order)  # (P,): row -> sorted place, then place within its type
    place[order] = torch.arange(len(order), device=order.device)
    place -= starts[types]
    ends = types[tokens.packed_edges]  # (2, E): types of source and target
    edges = {}
    for relation in RELATIONS:
        source, _, target = relation
        chosen = (ends[0] == LIMB_TYPES[source]) & (ends[1] == LIMB_TYPES[target])
        edges[relation] = place[tokens.packed_edges[:, chosen]]
    return TypedLimbs(order, sizes, edges)


class MIHGNN(nn.Module):
    """Embedding by type, heterogeneous graph convolutions, decoder.

    x_i = relu(E_t o_i + e_t), with o_i the features of limb i and t its type
    x_i <- relu(sum over relations r into t of W_r (sum of x_j over N_r(i)) + b_r + R_r x_i)
    y_i = decoder(x_i)

    N_r(i) are the neighbours of i that r starts from, over joints and closed loops. Sums have no
    normalisation and there is no residual, as published. Parameters carry the names of the public
    code.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Butterfield et al. 2025 (MI-HGNN), arXiv:2409.11146;
        lunarlab-gatech/Morphology-Informed-HGNN, commit 98e8768; the convolution is Morris et al.
        2019, arXiv:1810.02244. Deviations are listed in `gmc_baselines.mi_hgnn.SPEC.deviations`.
    """

    def __init__(self, config: MIHGNNConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        width = config.width
        self.encoder = HeteroDictLinear(spec.num_features, width, types=list(LIMB_TYPES))
        self.convs = nn.ModuleList(
            HeteroConv({r: GraphConv(width, width, aggr="add") for r in RELATIONS}, aggr="sum")
            for _ in range(config.num_layers)
        )
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        limbs = tokens.once(typed_limbs)
        # One (rows of that type, channels) per type: `parts` hold P rows together.
        parts = _relu(self.encoder(limbs.split(tokens.packed_features)))
        parts = limbs.split(self.before_communication(limbs.join(parts)))
        for conv in self.convs:
            parts = _relu(conv(parts, limbs.edges))
        rows = self.after_communication(limbs.join(parts))  # (P, width)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: MIHGNNConfig, spec: TokenSpec, num_outputs: int) -> MIHGNN:
    """Build one network (see `MethodSpec.builder`)."""
    return MIHGNN(config, spec, num_outputs)


def _relu(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: nn.functional.relu(rows) for name, rows in parts.items()}
