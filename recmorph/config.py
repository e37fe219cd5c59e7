"""Settings of RecMorph and of its variants with another cell."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig, require_positive

CellName = Literal["birnn", "bigru", "bilstm", "bimamba2"]
_MAMBA = ("mamba_state", "mamba_expand", "mamba_head", "mamba_conv")
"""Settings of the cell `bimamba2` only."""


@dataclass(frozen=True, kw_only=True)
class RecMorphConfig(NetworkConfig):
    """Size and parts of the network; the defaults are the paper's."""

    width: int = 128
    """Channels of a limb's representation."""
    hidden: int = 256
    """Channels of the cell's input and of its output, per direction."""
    num_blocks: int = 4
    """Recurrent blocks, one after the other."""
    cell: CellName = "birnn"
    """What passes information along a body, in both directions: tanh RNN, GRU, LSTM or Mamba-2."""
    residual: bool = True
    """Add each block's input to its output."""
    rms_norm: bool = True
    """Normalise each block's input, modulated context and output."""
    modulation: bool = True
    """Multiply the context by a gate computed from the limb's own representation."""
    norm_eps: float = 1e-6
    """Added to the mean square inside every norm; the paper gives none."""
    mamba_state: int = 128
    """Rows of a head's state; for the cell `bimamba2` only, as are the following. Their defaults
    are Mamba-2's, because the paper gives none."""
    mamba_expand: int = 2
    """Inner channels per channel of the cell's input."""
    mamba_head: int = 64
    """Channels per head; must divide the inner channels."""
    mamba_conv: int = 4
    """Limbs the convolution in front of the scan sees."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
        for name in _MAMBA if self.cell != "bimamba2" else ():
            if getattr(self, name) != getattr(RecMorphConfig, name):
                raise ConfigError(
                    f"{name!r} has no effect with the cell {self.cell!r}; leave it out, or set "
                    f"'cell' to bimamba2"
                )
        inner = self.mamba_expand * self.hidden
        if self.cell == "bimamba2" and inner % self.mamba_head:
            raise ConfigError(
                f"'mamba_head' must divide the inner channels, mamba_expand * hidden = {inner}, "
                f"got {self.mamba_head}"
            )


@dataclass(frozen=True, kw_only=True)
class BiGRUConfig(RecMorphConfig):
    """RecMorph with gated recurrent units."""

    cell: CellName = "bigru"
    """As in `RecMorphConfig`."""


@dataclass(frozen=True, kw_only=True)
class BiLSTMConfig(RecMorphConfig):
    """RecMorph with long short-term memory."""

    cell: CellName = "bilstm"
    """As in `RecMorphConfig`."""


@dataclass(frozen=True, kw_only=True)
class BiMamba2Config(RecMorphConfig):
    """RecMorph with Mamba-2 mixers."""

    cell: CellName = "bimamba2"
    """As in `RecMorphConfig`."""
    num_blocks: int = 2
    """As in `RecMorphConfig`; the paper compares Mamba-2 with two blocks."""
