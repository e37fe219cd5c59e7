"""Settings of SWAT."""

from dataclasses import dataclass

from gmc_baselines.swat.relations import NUM_TRAVERSALS
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import AttentionConfig


@dataclass(frozen=True, kw_only=True)
class SwatConfig(AttentionConfig):
    """Size of the network; the defaults are those of MasterXiong/ModuMorph.

    Raises:
        ConfigError: see `AttentionConfig`; or there are fewer channels than traversals.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < NUM_TRAVERSALS:
            raise ConfigError(f"'width' must be at least {NUM_TRAVERSALS}, got {self.width}")

    @property
    def traversal_widths(self) -> tuple[int, ...]:
        """Channels of each traversal's table: equal shares, and what is left for the last one."""
        share = self.width // NUM_TRAVERSALS
        return (*[share] * (NUM_TRAVERSALS - 1), self.width - (NUM_TRAVERSALS - 1) * share)
