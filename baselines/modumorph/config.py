"""Settings of ModuMorph."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class ModuMorphConfig(NetworkConfig):
    """Size of the network; the defaults are the published ones.

    Raises:
        ConfigError: also when `num_heads` does not divide `width`.
    """

    width: int = 128
    """Channels of a limb's representation, and of the context that attention looks at."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden channels of each layer's feed-forward network."""
    num_layers: int = 5
    """Attention layers."""
    attention_context_layers: int = 3
    """Linear layers of the context encoder that attention probabilities are made from."""
    generator_context_width: int = 128
    """Channels of the context that embedding and decoder are generated from."""
    generator_context_layers: int = 2
    """Linear layers of the context encoder that embedding and decoder are generated from."""
    context_init: float = 0.1
    """The first weight of both context encoders starts in U(-x, x)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
