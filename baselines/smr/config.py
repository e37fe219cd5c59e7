"""Settings of SMR."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.methods.config import AttentionConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class SMRConfig(AttentionConfig):
    """Size and parts of the network; the backbone's defaults are those of MetaMorph."""

    cell: Literal["gru", "lstm"] = "gru"
    """Recurrent unit over time, one set of weights for all limbs."""
    memory_place: Literal["after_embedding", "before_embedding"] = "after_embedding"
    """Whether the unit reads the embedded limb or its features."""
    sequence_length: int = 16
    """Consecutive control steps that training unrolls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
