"""Settings of SMR."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class SMRConfig(NetworkConfig):
    """Size and parts of the network; the backbone's defaults are those of MetaMorph."""

    width: int = 128
    """Channels of a limb's representation and of its memory."""
    num_heads: int = 2
    """Attention heads."""
    feedforward: int = 1024
    """Hidden width of each layer's feed-forward network."""
    num_layers: int = 5
    """Attention layers."""
    cell: Literal["gru", "lstm"] = "gru"
    """Recurrent unit over time, one set of weights for all limbs."""
    memory_place: Literal["after_embedding", "before_embedding"] = "after_embedding"
    """Whether the unit reads the embedded limb or its features."""
    sequence_length: int = 16
    """Consecutive control steps that training unrolls."""

    def __post_init__(self) -> None:
        NetworkConfig.__post_init__(self)
        if self.width % self.num_heads:
            raise ConfigError(
                f"'width' must be a multiple of 'num_heads', got {self.width} and {self.num_heads}"
            )
