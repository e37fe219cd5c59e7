"""Settings of SMR."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.methods.config import AttentionConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class SMRConfig(AttentionConfig):
    """Size and parts of the network.

    The defaults of the attention layers are MetaMorph's, those of the memory are chosen here,
    because the paper's are not known.
    """

    cell: Literal["gru", "lstm"] = "gru"
    """Recurrent unit over time, one set of weights for all limbs."""
    memory_place: Literal["after_embedding", "before_embedding"] = "after_embedding"
    """Whether the unit reads the embedded limb or its features."""
    sequence_length: int = 16
    """Consecutive control steps that training unrolls; must divide the protocol's rollout, as 16
    does in all of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
