"""Settings of the Body Transformer."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class BotConfig(NetworkConfig):
    """Size and masking of the network; the defaults are those of the preset `paper`.

    Raises:
        ConfigError: a number is out of range, or the heads do not divide the width.
    """

    width: int = 128
    """Channels of a limb's representation."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden width of the feed-forward networks."""
    num_layers: int = 5
    """Encoder layers, one after the other."""
    masking: Literal["mixed", "hard"] = "mixed"
    """Which layers attend to neighbours only: the even ones, counted from 0, or all."""
    positions: bool = False
    """Add a learned vector per token slot to the embedding."""
    encoder_init: float = 0.02
    """Standard deviation of the encoder's linear weights (not the query, key and value map) and
    of the slot vectors at the start."""

    def __post_init__(self) -> None:
        NetworkConfig.__post_init__(self)
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
