"""Settings of MetaMorph."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class MetaMorphConfig(NetworkConfig):
    """Size and parts of the network; the defaults are the paper's.

    Raises:
        ConfigError: see `NetworkConfig`; or the heads do not divide the width, or every channel
            would be dropped.
    """

    width: int = 128
    """Channels of a limb's representation."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden channels of the feed-forward networks."""
    num_layers: int = 5
    """Encoder layers, one after the other."""
    positions: bool = True
    """Add a learned vector per token slot to the embedded limbs."""
    embedding_dropout: float = 0.1
    """Share of the embedded limbs' channels that training sets to zero, before the layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
        if not self.embedding_dropout < 1:
            raise ConfigError(f"'embedding_dropout' must be below 1, got {self.embedding_dropout}")

    def _may_be_zero(self) -> tuple[str, ...]:
        return ("embedding_dropout",)
