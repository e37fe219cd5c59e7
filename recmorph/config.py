"""Settings of RecMorph."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RecMorphConfig:
    """Size, parts and initialisation of the network; the defaults are the paper's.

    Raises:
        ConfigError: a size is below one, or a scale is not positive.
    """

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
    embedding_init: float = 0.1
    """The embedding weight starts in U(-x, x)."""
    decoder_init: float = 0.01
    """The last decoder weight starts in U(-x, x)."""
    decoder_hidden: tuple[int, ...] = ()
    """Widths of hidden decoder layers; empty for one linear layer."""

    def __post_init__(self) -> None:
        for name in ("width", "hidden", "num_blocks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name!r} must be at least 1, got {getattr(self, name)}")
        if any(width < 1 for width in self.decoder_hidden):
            raise ConfigError(
                f"'decoder_hidden' must hold widths of at least 1, got {self.decoder_hidden}"
            )
        for name in ("norm_eps", "embedding_init", "decoder_init"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name!r} must be positive, got {getattr(self, name)}")
