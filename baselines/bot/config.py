"""Settings of the Body Transformer."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.methods.config import AttentionConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class BotConfig(AttentionConfig):
    """Size and masking of the network; the default sizes are chosen here, not the paper's."""

    masking: Literal["mixed", "hard"] = "mixed"
    """Which layers attend to neighbours only: the even ones, counted from 0 (BoT-Mix), or all
    (BoT-Hard)."""
    positions: bool = False
    """Add a learned vector per token slot to the embedded limbs."""
    encoder_init: float = 0.02
    """Standard deviation of the encoder's linear weights (not the query, key and value map) and
    of the slot vectors at the start; the reference's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
