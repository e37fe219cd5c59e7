"""Settings of GCNT."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class GcntConfig(NetworkConfig):
    """Size of the network; the defaults are those of the preset `paper`.

    Raises:
        ConfigError: a number is out of range, or the heads do not divide the width.
    """

    width: int = 128
    """Channels of a limb's representation, and of its graph feature."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden width of the feed-forward networks."""
    num_layers: int = 5
    """Encoder layers, one after the other."""
    num_convolutions: int = 3
    """Graph convolutions over the limb types."""
    colour_rounds: int = 3
    """Rounds of Weisfeiler-Lehman colour refinement."""
    colour_bins: int = 32
    """Bins that colours are hashed to."""
    max_distance: int = 12
    """Joints between two limbs from which on all distances share one row of the table."""

    def __post_init__(self) -> None:
        NetworkConfig.__post_init__(self)
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
