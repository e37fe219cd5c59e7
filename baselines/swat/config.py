"""Settings of SWAT."""

from dataclasses import dataclass

from baselines.swat.relations import NUM_TRAVERSALS
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class SwatConfig(NetworkConfig):
    """Size of the network; the defaults are those of the ModuMorph repository.

    Raises:
        ConfigError: see `NetworkConfig`; or the heads do not divide the width, or there are fewer
            channels than traversals.
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
        if self.width < NUM_TRAVERSALS:
            raise ConfigError(f"'width' must be at least {NUM_TRAVERSALS}, got {self.width}")

    @property
    def traversal_widths(self) -> tuple[int, ...]:
        """Channels of each traversal's table: equal shares, the last one takes what is left."""
        share = self.width // NUM_TRAVERSALS
        return (*[share] * (NUM_TRAVERSALS - 1), self.width - (NUM_TRAVERSALS - 1) * share)
