"""Settings of the single-robot MLP."""

from dataclasses import dataclass

from gmc_bench.methods.config import NetworkConfig, require_positive, require_unset


@dataclass(frozen=True, kw_only=True)
class MLPConfig(NetworkConfig):
    """Size of the network; the defaults are the paper's.

    Raises:
        ConfigError: `embedding_init` or `decoder_hidden` is set, which nothing would use.
    """

    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, ReLU after each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
        require_unset(self, "embedding_init", "here: hidden layers start as in torch; leave it out")
        require_unset(
            self, "decoder_hidden", "here: all hidden layers are those of 'hidden'; set that one"
        )
