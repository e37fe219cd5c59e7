"""Settings of MI-HGNN."""

from dataclasses import dataclass

from gmc_bench.methods.config import NetworkConfig, require_positive, require_unset


@dataclass(frozen=True, kw_only=True)
class MIHGNNConfig(NetworkConfig):
    """Size of the network; the defaults are the paper's.

    Raises:
        ConfigError: `embedding_init` is set, which nothing would use.
    """

    width: int = 128
    """Channels of a limb's representation."""
    num_layers: int = 8
    """Message-passing layers: a limb sees limbs up to that many joints away."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
        why = "here: the encoders start as in torch-geometric; leave it out"
        require_unset(self, "embedding_init", why)
