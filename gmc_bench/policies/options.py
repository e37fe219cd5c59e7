"""Options of a policy beside its method; light to import."""

from dataclasses import dataclass

from gmc_bench.core.config import coerce_fields
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.precision import Precision
from gmc_bench.suites.protocol import Normalization, require_action_std
from gmc_bench.tokens.config import Order


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """What a policy has beside its method; the defaults are the benchmark's.

    Raises:
        ConfigError: a value does not fit its field.
    """

    order: Order = "dfs"
    """In which order it reads the limbs of a body; not `siblings`, which is for training only."""
    normalization: Normalization = "per_feature"
    """What observation statistics are kept of, see `TokenNormalizer`."""
    action_std: float = 0.9
    """Standard deviation of every action."""
    precision: Precision = "float32"
    """Number format of the networks' matrix products."""
    device: str = "cpu"
    """Where the networks run."""

    def __post_init__(self) -> None:
        coerce_fields(self)
        if self.order == "siblings":
            raise ConfigError(
                "'order' must be 'dfs', 'bfs' or 'random', got 'siblings', which is for training "
                "only; give it to the trainer instead"
            )
        require_action_std(self.action_std)
