"""Settings of RecMorph."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class RecMorphConfig(NetworkConfig):
    """Size and parts of the network; the defaults are the paper's."""

    width: int = 128
    """Channels of a limb's representation."""
    hidden: int = 256
    """Channels of the recurrent state, per direction."""
    num_blocks: int = 4
    """Blocks, one after the other."""
    cell: Literal["birnn"] = "birnn"
    """Recurrent transition: bidirectional tanh RNN."""
    residual: bool = True
    """Add each block's input to its output."""
    rms_norm: bool = True
    """Normalise each block's input, modulated context and output."""
    modulation: bool = True
    """Multiply the context by a gate computed from the limb's own representation."""
    norm_eps: float = 1e-6
    """Added to the mean square inside every norm."""
