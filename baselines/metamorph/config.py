"""Settings of MetaMorph."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import AttentionConfig


@dataclass(frozen=True, kw_only=True)
class MetaMorphConfig(AttentionConfig):
    """Size and parts of the network; the defaults are the paper's.

    Raises:
        ConfigError: see `AttentionConfig`; or every channel would be dropped.
    """

    positions: bool = True
    """Add a learned vector per token slot to the embedded limbs."""
    embedding_dropout: float = 0.1
    """Share of the embedded limbs' channels that training sets to zero, before the layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_dropout < 0:
            raise ConfigError(
                f"'embedding_dropout' must not be negative, got {self.embedding_dropout}"
            )
        if not self.embedding_dropout < 1:
            raise ConfigError(f"'embedding_dropout' must be below 1, got {self.embedding_dropout}")
