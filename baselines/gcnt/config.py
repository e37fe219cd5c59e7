"""Settings of GCNT."""

from dataclasses import dataclass

from gmc_bench.methods.config import AttentionConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class GcntConfig(AttentionConfig):
    """Size of the network; the defaults are chosen here, because the paper's are not known."""

    num_convolutions: int = 3
    """Graph convolutions over the limb types."""
    colour_rounds: int = 3
    """Rounds of Weisfeiler-Lehman colour refinement."""
    colour_bins: int = 32
    """Bins that colours are hashed to."""
    max_distance: int = 12
    """Distance in joints from which on all distances share the last row of the table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
