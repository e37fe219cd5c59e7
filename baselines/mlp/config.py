"""Settings of the single-robot MLP."""

from dataclasses import dataclass

from gmc_bench.methods.config import NetworkConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class MLPConfig(NetworkConfig):
    """Size of the network; the defaults are the published ones."""

    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, ReLU after each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
