"""Settings of MetaMorph*."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class MetaMorphStarConfig(NetworkConfig):
    """Size of the network; the defaults are the paper's.

    Raises:
        ConfigError: see `NetworkConfig`; or the heads do not divide the width.
    """

    width: int = 128
    """Channels of a limb's representation."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden channels of the feed-forward networks."""
    num_layers: int = 5
    """Encoder layers, one after the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
