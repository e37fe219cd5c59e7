"""Settings of NerveNet."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.config import NetworkConfig, require_positive, require_unset


@dataclass(frozen=True, kw_only=True)
class NerveNetConfig(NetworkConfig):
    """Size and form of the network.

    The default sizes are chosen here, because the RecMorph paper, whose form this is, gives none;
    the original's are those of the preset `paper-gru`.

    Raises:
        ConfigError: in the form `gru`, an odd width, or an initialisation that it does not use.
    """

    form: Literal["residual", "gru"] = "residual"
    """A residual update in every layer, or the gated one of Wang et al. 2018."""
    width: int = 256
    """Channels of a limb's representation and of a message."""
    num_layers: int = 4
    """Message-passing steps: a limb sees limbs up to that many joints away."""
    share_weights: bool = False
    """Use one layer's weights in every step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self)
        if self.form != "gru":
            return
        if self.width % 2:
            raise ConfigError(
                f"'width' must be even in the form 'gru', where one half of it holds the "
                f"observation and one the node type, got {self.width}"
            )
        why = (
            "in the form 'gru', whose weights start orthogonal; leave it out, or take the form "
            "'residual'"
        )
        for name in ("embedding_init", "decoder_init"):
            require_unset(self, name, why)
