"""Settings of ModuMorph."""

from dataclasses import dataclass

from gmc_bench.methods.config import AttentionConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class ModuMorphConfig(AttentionConfig):
    """Size of the network; the defaults are the paper's."""

    attention_context_layers: int = 3
    """Linear layers of the context encoder that attention probabilities are made from."""
    generator_context_width: int = 128
    """Channels of the context that embedding and decoder are generated from."""
    generator_context_layers: int = 2
    """Linear layers of the context encoder that embedding and decoder are generated from."""
    context_init: float = 0.1
    """The first weight of either context encoder starts in U(-x, x)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
