"""Settings of the single-robot MLP."""

from dataclasses import dataclass

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig, require_positive

_WITHOUT_EFFECT = {
    "embedding_init": "hidden layers start as in torch; leave it out",
    "decoder_hidden": "all hidden layers are those of 'hidden'; set that one",
}


@dataclass(frozen=True, kw_only=True)
class MLPConfig(NetworkConfig):
    """Size of the network; the defaults are the published ones.

    Raises:
        ConfigError: `embedding_init` or `decoder_hidden` is set, which nothing would use.
    """

    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, ReLU after each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
        for name, reason in _WITHOUT_EFFECT.items():
            if getattr(self, name) != getattr(NetworkConfig, name):
                raise ConfigError(f"{name!r} has no effect here: {reason}")
