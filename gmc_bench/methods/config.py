"""Settings that controllers share."""

from dataclasses import dataclass
from typing import Any

from gmc_bench.core.config import fields_of
from gmc_bench.core.errors import ConfigError


def require_positive(config: Any, *names: str) -> None:
    """Raise unless sizes and scales among a method's settings are positive.

    Args:
        config: the settings.
        names: of the fields; by default all. Numbers count, also in tuples; all else passes.

    Raises:
        ConfigError: an integer is below one, or a number not positive and finite.
    """
    for name in names or fields_of(config):
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else (value,):
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                continue
            if not 0 < number < float("inf"):
                kind = "at least 1" if isinstance(number, int) else "positive"
                what = f"hold numbers that are {kind}" if isinstance(value, tuple) else f"be {kind}"
                raise ConfigError(f"{name!r} must {what}, got {value}")


def require_unset(config: "NetworkConfig", name: str, why: str) -> None:
    """Raise if one of the shared settings, which a method has no use for, is set.

    Args:
        config: the settings.
        name: of the field.
        why: rest of the sentence "... has no effect", which says why, and what to do.

    Raises:
        ConfigError: its value is not the default.
    """
    if getattr(config, name) != getattr(NetworkConfig, name):
        raise ConfigError(f"{name!r} has no effect {why}")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of the parts every controller has: embedding, decoder, height map.

    Subclasses add their own fields, which may hold anything, also zero. In a `__post_init__` that
    calls this one they may check them, sizes with `require_positive(self, "width")`.

    Raises:
        ConfigError: of the fields here, a width is below one, or a number not positive and finite.
    """

    embedding_init: float = 0.1
    """The embedding weight starts in U(-x, x)."""
    decoder_init: float = 0.01
    """The last decoder weight starts in U(-x, x)."""
    decoder_hidden: tuple[int, ...] = ()
    """Widths of hidden decoder layers; empty for one linear layer."""
    height_map_hidden: tuple[int, ...] = (64, 64)
    """Widths of the height map's encoder, for tasks that have one."""

    def __post_init__(self) -> None:
        require_positive(self, *fields_of(NetworkConfig))
        if not self.height_map_hidden:
            raise ConfigError("'height_map_hidden' must hold at least one width, got none")

    @property
    def decoder_settings(self) -> dict[str, Any]:
        """Keyword arguments of `gmc_bench.nn.LimbDecoder`."""
        return {
            "hidden": self.decoder_hidden,
            "init": self.decoder_init,
            "height_map_hidden": self.height_map_hidden,
        }


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(NetworkConfig):
    """Settings of controllers whose layers are those of a transformer's encoder.

    The default sizes are MetaMorph's (Gupta et al. 2022, arXiv:2203.11931).

    Raises:
        ConfigError: see `NetworkConfig`; or the heads do not divide the width.
    """

    width: int = 128
    """Channels of a limb's representation."""
    num_heads: int = 2
    """Attention heads; must divide `width`."""
    feedforward: int = 1024
    """Hidden channels of each layer's feed-forward network."""
    num_layers: int = 5
    """Layers, one after the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, *fields_of(AttentionConfig))
        if self.width % self.num_heads:
            raise ConfigError(
                f"'num_heads' must divide 'width', got {self.num_heads} and {self.width}"
            )
