"""The RecMorph network: recurrence along the depth-first order of a body's limbs."""

from typing import Any

import torch
from torch import nn

from gmc_bench.nn import (
    BidirectionalGRU,
    BidirectionalLSTM,
    BidirectionalMamba2,
    BidirectionalRNN,
    LimbDecoder,
    NormLinear,
    Packing,
    RMSNorm,
    Tap,
    TokenBatch,
    TokenEmbedding,
)
from gmc_bench.nn.compiled import runs_compiled
from gmc_bench.tokens.spec import TokenSpec
from recmorph.compiled_block import compilable, compiled_block
from recmorph.config import RecMorphConfig


class RecurrentBlock(nn.Module):
    """Stabilised bidirectional spatial recurrence.

    u_j = SiLU(W_x N_x(x_j)),  z_j = W_z x_j
    y_j = [f_j ; r_j], forward and backward output of the cell over u, by default the states of
          `BidirectionalRNN`
    g_j = [SiLU(z_j) ; SiLU(z_j)]
    x_j <- N_o(x_j + W_o N_g(y_j * g_j))

    Norms, gate g and the residual x_j drop out where the settings switch them off.

    While it is trained on a CPU, a block that has all of them and a tanh recurrence runs in
    compiled code (see `recmorph.compiled_block`), whose last bits differ.

    Args:
        config: settings.

    Shapes:
        rows (P, width) -> (P, width)

    Source:
        "RecMorph: Topology-Guided Spatial Recurrence for Generalized Morphology Control".
    """

    def __init__(self, config: RecMorphConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden
        self.residual = config.residual
        self.input_projection = _projection(width, hidden, config)  # W_x N_x
        self.gate_projection = (
            nn.Linear(width, hidden, bias=False) if config.modulation else None  # W_z
        )
        self.recurrence = _cell(config)
        self.output_projection = _projection(2 * hidden, width, config)  # W_o N_g
        self.output_norm = RMSNorm(width, config.norm_eps) if config.rms_norm else nn.Identity()
        self._compilable = compilable(config)

    def forward(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Exchange information along every body."""
        if self._compilable and not packing.padded and runs_compiled(rows, self):
            return self._compiled(rows, packing)
        drive = nn.functional.silu(self.input_projection(rows))  # u, (P, hidden)
        context: torch.Tensor = self.recurrence(drive, packing)  # y, (P, 2 * hidden)
        if self.gate_projection is not None:
            gate = nn.functional.silu(self.gate_projection(rows))  # SiLU(z), (P, hidden)
            # y seen as (P, 2, hidden): both directions take the same gate without copying it.
            context = (context.view(-1, 2, gate.shape[1]) * gate.unsqueeze(1)).flatten(1)
        update: torch.Tensor = self.output_projection(context)  # (P, width)
        mixed: torch.Tensor = self.output_norm(rows + update if self.residual else update)
        return mixed

    def _compiled(self, rows: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Return the same from `compiled_block`, which takes norm scales multiplied into matrices.

        `Any`, because types do not know what `compilable` has seen: which modules these are.
        """
        inward: Any = self.input_projection
        gate: Any = self.gate_projection
        outward: Any = self.output_projection
        recurrence: Any = self.recurrence
        scale: Any = self.output_norm.weight
        drive, bias = recurrence.inputs()  # (2 * hidden, hidden), (2 * hidden,)
        return compiled_block(  # weights in the order of `recmorph.kernels.Weights`
            rows,
            packing,
            inward.eps,
            torch.cat((inward.weight * inward.scale, gate.weight)),  # W_x and W_z
            drive,
            bias,
            recurrence.weight_hh_l0,
            recurrence.weight_hh_l0_reverse,
            outward.weight * outward.scale,  # W_o
            scale,
        )


class RecMorph(nn.Module):
    """Embedding, recurrent blocks, decoder.

    x_j = sqrt(d) (W o_j + b), with o_j the features of limb j and d the width
    x <- `RecurrentBlock`(x) in every block
    y_j = decoder(x_j)

    Tokens are taken in the order they come, which the token interface fixes to depth-first
    preorder; the outputs keep that order. States start at zero in every call: there is no memory
    over time. Only real limbs are computed (see `Packing`).

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        "RecMorph: Topology-Guided Spatial Recurrence for Generalized Morphology Control".
        Deviations are listed in `recmorph.SPEC.deviations`.
    """

    def __init__(self, config: RecMorphConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        # Torch's own cells would start from padding, where it follows a body's last limb.
        self.padded_rows = config.cell in ("birnn", "bimamba2")
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        self.blocks = nn.ModuleList(RecurrentBlock(config) for _ in range(config.num_blocks))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        rows = self.before_communication(self.embedding.packed(tokens))  # (P, width)
        for block in self.blocks:
            rows = block(rows, packing)  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: RecMorphConfig, spec: TokenSpec, num_outputs: int) -> RecMorph:
    """Build one network (see `MethodSpec.builder`)."""
    return RecMorph(config, spec, num_outputs)


def _cell(config: RecMorphConfig) -> nn.Module:
    """Return a module (P, hidden) -> (P, 2 * hidden)."""
    if config.cell == "bimamba2":
        return BidirectionalMamba2(
            config.hidden,
            config.mamba_state,
            config.mamba_expand,
            config.mamba_head,
            config.mamba_conv,
        )
    kinds: dict[str, type[nn.Module]] = {
        "birnn": BidirectionalRNN,
        "bigru": BidirectionalGRU,
        "bilstm": BidirectionalLSTM,
    }
    return kinds[config.cell](config.hidden, config.hidden)


def _projection(inputs: int, outputs: int, config: RecMorphConfig) -> nn.Module:
    """Return a linear map without bias (P, inputs) -> (P, outputs), after a norm or without."""
    if config.rms_norm:
        return NormLinear(inputs, outputs, config.norm_eps)
    return nn.Linear(inputs, outputs, bias=False)
