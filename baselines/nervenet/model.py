"""The NerveNet network: limbs exchange messages with their neighbours in the limb graph."""

from collections.abc import Iterable

import torch
from torch import nn
from torch_geometric.nn import MessagePassing

from gmc_baselines.nervenet.config import NerveNetConfig
from gmc_bench.nn import LimbDecoder, Tap, TokenBatch, TokenEmbedding
from gmc_bench.nn.decoder import append_height_map
from gmc_bench.tokens.spec import TokenSpec

_BIAS_START = 0.01
"""Initial value of the biases of every MLP in the original form."""


class ResidualLayer(MessagePassing):  # type: ignore[misc]  # torch-geometric is not typed
    """One step of message passing with a residual.

    n_j = LayerNorm(h_j),  m_j = relu(W_proj n_j + b_proj)
    mbar_i = mean of m_j over the neighbours j of i, zero without neighbours
    s_i = relu(W_self n_i + b_self),  z_i = relu(W_msg [s_i ; mbar_i] + b_msg)
    h_i <- h_i + W_out z_i + b_out

    The norm has no scale and shift of its own: W_proj and W_self follow it directly.

    Args:
        width: channels of h, m, s and z.

    Shapes:
        rows (P, width), edges (2, E) int64 -> (P, width)

    Source:
        The linearised operator of the RecMorph paper, which leaves activations, norm and the
        aggregation weights open (see `gmc_baselines.nervenet.SPEC.deviations`).
    """

    def __init__(self, width: int) -> None:
        super().__init__(aggr="mean")
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.message_projection = nn.Linear(width, width)  # W_proj
        self.self_projection = nn.Linear(width, width)  # W_self
        self.update_projection = nn.Linear(2 * width, width)  # W_msg
        self.output_projection = nn.Linear(width, width)  # W_out

    def forward(self, rows: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Exchange one message along every edge."""
        normed = self.norm(rows)  # n, as all others (P, width)
        messages = nn.functional.relu(self.message_projection(normed))  # m
        heard = self.propagate(edges, x=messages)  # mbar
        own = nn.functional.relu(self.self_projection(normed))  # s
        joined = nn.functional.relu(self.update_projection(torch.cat((own, heard), dim=1)))  # z
        updated: torch.Tensor = rows + self.output_projection(joined)
        return updated


class GatedLayer(MessagePassing):  # type: ignore[misc]  # torch-geometric is not typed
    """One step of message passing with a gated update.

    m_j = tanh MLP(h_j), three layers
    mbar_i = mean of m_j over the neighbours j of i, zero without neighbours
    k_i = sigmoid(W_k mbar_i + U_k h_i + b_k),  r_i = sigmoid(W_r mbar_i + U_r h_i + b_r)
    u_i = tanh(W_u mbar_i + U_u (r_i * h_i) + b_u),  h_i <- k_i * h_i + (1 - k_i) * u_i

    `torch.nn.GRUCell` differs: it applies r after U_u, and each gate has two biases.

    Args:
        width: channels of h and m.

    Shapes:
        rows (P, width), edges (2, E) int64 -> (P, width)

    Source:
        Wang et al. 2018 (NerveNet), section 2.2; WilsonWangTHU/NerveNet, commit 9c4d0d7. Differs:
        messages are computed once per limb, not once per edge, which gives the same numbers.
    """

    def __init__(self, width: int) -> None:
        super().__init__(aggr="mean")
        self.message_layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.heard_gates = nn.Linear(width, 3 * width)  # W_k, W_r, W_u and the biases
        self.own_gates = nn.Linear(width, 2 * width, bias=False)  # U_k, U_r
        self.own_candidate = nn.Linear(width, width, bias=False)  # U_u
        _start_orthogonal(self.message_layers)
        for gates in (self.heard_gates, self.own_gates, self.own_candidate):
            # Each gate's matrix on its own.
            for matrix in gates.weight.detach().chunk(gates.out_features // width):
                nn.init.orthogonal_(matrix)
        nn.init.zeros_(self.heard_gates.bias)

    def forward(self, rows: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Exchange one message along every edge."""
        messages = rows
        for layer in self.message_layers:
            messages = torch.tanh(layer(messages))  # m, (P, width)
        heard = self.heard_gates(self.propagate(edges, x=messages))  # (P, 3 * width)
        width = rows.shape[1]
        gates = torch.sigmoid(heard[:, : 2 * width] + self.own_gates(rows))
        keep, reset = gates.chunk(2, dim=1)  # k and r, (P, width)
        candidate = torch.tanh(heard[:, 2 * width :] + self.own_candidate(reset * rows))  # u
        return keep * rows + (1 - keep) * candidate


class TypedEmbedding(nn.Module):
    """Node input of the original form: h_i = [t ; tanh(W o_i + b)], with o_i the limb's features.

    All limbs are of one type, so t is one learned vector. A table of type vectors starts with
    columns of unit norm, which for a single type is 1 or -1 in every channel.

    Args:
        spec: layout of the tokens.
        width: channels of h, half of them for each part.

    Shapes:
        TokenBatch -> (P, width)

    Source:
        Wang et al. 2018 (NerveNet), section 2.2; WilsonWangTHU/NerveNet, commit 9c4d0d7.
    """

    def __init__(self, spec: TokenSpec, width: int) -> None:
        super().__init__()
        self.type_vector = nn.Parameter(torch.randn(width // 2).sign())
        self.observation = nn.Linear(spec.num_features, width // 2)
        _start_orthogonal([self.observation])

    def packed(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (P, width), real limbs only, laid out by `tokens.packing`."""
        observed = torch.tanh(self.observation(tokens.packed_features))
        kind = self.type_vector.to(observed.dtype).expand(observed.shape[0], -1)
        return torch.cat((kind, observed), dim=1)


class TanhDecoder(LimbDecoder):
    """The common decoder with the activation and the initialisation of the original head.

    Args:
        spec: layout of the tokens.
        width: channels of a limb's representation.
        num_outputs: numbers per limb.
        config: settings.

    Shapes:
        rows (P, width), laid out by `tokens.packing` -> (B, L, num_outputs), zero in padding

    Source:
        Wang et al. 2018 (NerveNet); WilsonWangTHU/NerveNet, commit 9c4d0d7. Differs: one number
        per action of a limb instead of one per joint.
    """

    def __init__(
        self, spec: TokenSpec, width: int, num_outputs: int, config: NerveNetConfig
    ) -> None:
        super().__init__(
            spec,
            width,
            num_outputs,
            config.decoder_hidden,
            height_map_hidden=config.height_map_hidden,
        )
        _start_orthogonal([*self.hidden, self.output])

    def forward(self, rows: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
        """Decode every real limb."""
        rows = append_height_map(self.height_map, rows, tokens)
        for layer in self.hidden:
            rows = torch.tanh(layer(rows))
        return tokens.packing.unpack(self.output(rows))


class NerveNet(nn.Module):
    """Embedding, message passing, decoder.

    form `residual`: `TokenEmbedding`, `ResidualLayer` in every step, `LimbDecoder`
    form `gru`:      `TypedEmbedding`, `GatedLayer` in every step, `TanhDecoder`

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Wang et al. 2018, NerveNet, ICLR 2018. Deviations are listed in
        `gmc_baselines.nervenet.SPEC.deviations`.
    """

    def __init__(self, config: NerveNetConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.num_layers = config.num_layers
        gated, width = config.form == "gru", config.width
        self.embedding = (
            TypedEmbedding(spec, width)
            if gated
            else TokenEmbedding(spec, width, config.embedding_init)
        )
        layer = GatedLayer if gated else ResidualLayer
        different = 1 if config.share_weights else config.num_layers
        self.layers = nn.ModuleList(layer(width) for _ in range(different))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = (
            TanhDecoder(spec, width, num_outputs, config)
            if gated
            else LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)
        )

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        edges = tokens.packed_edges  # (2, E)
        rows = self.before_communication(self.embedding.packed(tokens))  # (P, width)
        for step in range(self.num_layers):
            rows = self.layers[step % len(self.layers)](rows, edges)  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: NerveNetConfig, spec: TokenSpec, num_outputs: int) -> NerveNet:
    """Build one network (see `MethodSpec.builder`)."""
    return NerveNet(config, spec, num_outputs)


def _start_orthogonal(layers: Iterable[nn.Module]) -> None:
    """Initialise layers as the original does its MLPs."""
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        nn.init.orthogonal_(layer.weight)
        nn.init.constant_(layer.bias, _BIAS_START)
