"""GCNT: who attends to whom is decided by a graph encoding of the body."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import nn
from torch_geometric.nn import GCNConv

from gmc_baselines.gcnt.config import GcntConfig
from gmc_baselines.gcnt.wl import colour_histogram
from gmc_bench.nn import LimbDecoder, PerBody, Tap, TokenBatch, TokenEmbedding, TokenTable
from gmc_bench.nn.fixed_attention import FixedAttentionLayer
from gmc_bench.nn.graph import INNER, LEAF, TORSO
from gmc_bench.nn.grouped_linear import take_rows
from gmc_bench.nn.packing import uncompiled
from gmc_bench.tokens.spec import TokenSpec

LIMB_TYPES = (TORSO, INNER, LEAF)


class GraphConvolution(nn.Module):
    """Graph convolution with a second matrix and a residual.

    H <- relu(D^-1/2 A D^-1/2 H W1) W2 + H, where A has self loops and D is its degree

    Args:
        width: channels of a node.

    Shapes:
        nodes (N, width), edges (2, E) -> (N, width)

    Source:
        Luo et al. 2025 (GCNT), arXiv:2505.15211, improved GCN; Kipf and Welling 2017,
        arXiv:1609.02907. The activation is a choice.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.spread = GCNConv(width, width, bias=False)  # W1, normalisation, self loops
        self.update = nn.Linear(width, width, bias=False)  # W2

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Pass messages along `edges`, which hold every joint in both directions."""
        found: torch.Tensor = self.update(nn.functional.relu(self.spread(nodes, edges))) + nodes
        return found


class GraphEncoder(nn.Module):
    """What the place of a limb in its body is: graph feature and colours of the body.

    g_i = W [h_i ; c] + b, with h the limb types after the graph convolutions, and c the shares of
    the body's limbs that have each colour (see `gmc_baselines.gcnt.wl`)

    Padding is made of nodes without neighbours whose type is the zero vector; as no layer before
    the last has a bias, h stays zero there.

    Args:
        config: settings.

    Shapes:
        table of M bodies, rows (U,) int64 -> (U, L, width)

    Source:
        Luo et al. 2025 (GCNT), arXiv:2505.15211, GCN and Weisfeiler-Lehman modules.
    """

    def __init__(self, config: GcntConfig) -> None:
        super().__init__()
        self.colour_rounds = config.colour_rounds
        self.colour_bins = config.colour_bins
        self.types = nn.Linear(len(LIMB_TYPES), config.width, bias=False)
        self.convolutions = nn.ModuleList(
            GraphConvolution(config.width) for _ in range(config.num_convolutions)
        )
        self.join = nn.Linear(config.width + config.colour_bins, config.width)

    def forward(self, table: TokenTable, bodies: torch.Tensor) -> torch.Tensor:
        """Encode the rows `bodies` of a table as one graph."""
        limb_type = table.graph.limb_type[bodies]  # (U, L)
        kinds = torch.tensor(LIMB_TYPES, device=limb_type.device)
        one_hot = (limb_type.unsqueeze(-1) == kinds).to(self.types.weight.dtype)  # (U, L, 3)
        count, slots = limb_type.shape
        nodes = self.types(one_hot.flatten(0, 1))  # (U * L, width)
        body, target, source = table.graph.adjacency[bodies].nonzero(as_tuple=True)  # (E,) each
        edges = torch.stack((source, target)) + body * slots  # (2, E)
        for convolution in self.convolutions:
            nodes = convolution(nodes, edges)
        nodes = nodes.view(count, slots, -1)  # h, (U, L, width)
        # A compiler would translate the 64-bit arithmetic, which torch does not have in full.
        colours = uncompiled(table.once, colours_of, self.colour_rounds, self.colour_bins)
        colours = colours[bodies].to(nodes.dtype).unsqueeze(1).expand(-1, slots, -1)  # c
        encoded: torch.Tensor = self.join(torch.cat((nodes, colours), dim=-1))
        return encoded


def colours_of(table: TokenTable, rounds: int, bins: int) -> torch.Tensor:
    """Return the shares (M, bins) float64 of the limbs of a table's bodies that have a colour."""
    graph = table.graph
    counts = colour_histogram(
        graph.limb_type.cpu().numpy(), graph.adjacency.cpu().numpy(), rounds=rounds, bins=bins
    )
    return torch.from_numpy(counts).to(graph.parents.device)


class GraphAttention(PerBody):
    """The encoder's layers, and the attention of each: it depends on the body alone.

    Q and K of every layer come from g (`GraphEncoder`); t_h[d(i, j)] is added to the logits of
    head h, with d the joints between two limbs and t a table shared by the layers.

    Args:
        config: settings.

    Shapes:
        TokenBatch -> one tensor (U, H, L, L) per layer, and (B,) int64; see `PerBody`.

    Source:
        Luo et al. 2025 (GCNT), arXiv:2505.15211, distance embedding and transformer.
    """

    def __init__(self, config: GcntConfig) -> None:
        super().__init__()
        self.encoder = GraphEncoder(config)
        self.distances = nn.Parameter(torch.zeros(config.max_distance + 1, config.num_heads))
        self.layers = nn.ModuleList(
            FixedAttentionLayer(config.width, config.num_heads, config.feedforward)
            for _ in range(config.num_layers)
        )

    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return each layer's attention for the rows `bodies` of a table."""
        encoded = self.encoder(table, bodies)  # g, (U, L, width)
        padding = table.limb_padding_mask[bodies]
        distance = table.graph.distance[bodies].long().clamp(max=len(self.distances) - 1)
        bias = take_rows(self.distances, distance.flatten()).view(*distance.shape, -1)
        bias = bias.permute(0, 3, 1, 2)  # (U, L, L, H) -> (U, H, L, L)
        layers = cast(Iterable[FixedAttentionLayer], self.layers)
        return tuple(layer.probabilities(encoded, padding, bias) for layer in layers)


class GCNT(nn.Module):
    """Embedding, pre-norm attention layers with attention fixed per body, decoder.

    x_i = sqrt(d) (W o_i + b), with o_i the features of limb i and d the width
    x <- x + A(g, N1 x);  x <- x + W2 relu(W1 N2 x), where only the values of A come from x
    y_i = decoder(x_i)

    with g from `GraphEncoder` and the attention of A from `GraphAttention`.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Luo, Yao and Xiao 2025 (GCNT), arXiv:2505.15211. Deviations are listed in
        `gmc_baselines.gcnt.SPEC.deviations`.
    """

    padded_rows = True

    def __init__(self, config: GcntConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        self.attention = GraphAttention(config)
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        rows = self.before_communication(self.embedding.packed(tokens))  # (P, width)
        probabilities, index = self.attention(tokens)  # one (U, H, L, L) per layer; (B,)
        for layer, of_bodies in zip(self.attention.layers, probabilities, strict=True):
            rows = layer(rows, packing, take_rows(of_bodies, index))  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: GcntConfig, spec: TokenSpec, num_outputs: int) -> GCNT:
    """Build one network (see `MethodSpec.builder`)."""
    return GCNT(config, spec, num_outputs)
