"""The description of a controller: light to import, with its heavy parts named by string."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from gmc_bench.config import with_overrides
from gmc_bench.errors import ConfigError, PluginError, did_you_mean
from gmc_bench.registry import load_target


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a controller claims; the conformance checks hold it to it."""

    permutation_equivariant: bool = False
    """Reordering the limbs (with masks and parents) reorders the outputs, nothing else."""
    uses_graph: bool = False
    """Reads the parents of the tokens."""
    temporal: bool = False
    """Remembers earlier control steps of an episode (see `gmc_bench.nn.History`)."""
    per_body: bool = False
    """Holds separate weights for every training body, and cannot control any other."""


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A registered controller: what it is, where it comes from, and how it is built.

    Importing a spec must not import torch, so that listing methods stays instant: `config` and
    `builder` may be given as `"module:attribute"` and are then loaded on first use.
    """

    id: str
    """Lower-case name used on the command line."""
    version: int = 1
    """Raised whenever a change can move the method's numbers."""
    title: str = ""
    paper: str = ""
    """Citation, with arXiv number or DOI."""
    reference_code: str = ""
    """Public repository and commit the implementation was checked against; empty if none exists."""
    licence: str = "unknown"
    """Licence of the reference code."""
    deviations: tuple[str, ...] = ()
    """Every choice that differs from, or is left open by, the source."""
    config: str | type[Any]
    """Frozen dataclass of the method's settings, or where to find it."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Named changes to `config`; `paper` and `lite` are expected, others are variants."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """Trainable actor + critic parameters per preset, for 52 features and two joint slots."""
    builder: str | Callable[..., Any]
    """`build(config, spec: TokenSpec, num_outputs: int) -> torch.nn.Module`, or where to find it.

    The module maps a `gmc_bench.nn.TokenBatch` to (B, L, num_outputs); it is built once as the
    actor (`num_outputs` = actions per token) and once as the critic (`num_outputs` = 1). The
    network of a temporal method also takes a `gmc_bench.nn.History` and returns its new state.
    The builder of a per-body method takes the number of bodies as a fourth argument.
    """
    training: Mapping[str, Any] = field(default_factory=dict)
    """The setting a method may bring along: `{"ppo": {"target_kl": ...}}`, the threshold of the
    KL stop, which papers tune per method. Runs with it keep the suite's protocol."""
    env_steps_per_body: int | None = None
    """Control steps for every training body in place of the protocol's total, for references with
    a budget of their own; such a run has a protocol of its own."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What the method claims, in every preset that `preset_capabilities` does not name."""
    preset_capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    """What presets claim whose settings change it."""

    def config_class(self) -> type[Any]:
        """Return the class of the method's settings."""
        found = load_target(self.config) if isinstance(self.config, str) else self.config
        if not (isinstance(found, type) and is_dataclass(found)):
            raise PluginError(
                f"the config of method {self.id!r} must be a dataclass, got {found!r}"
            )
        return found

    def make_config(
        self, preset: str | None = None, changes: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the method's settings.

        Args:
            preset: a name in `presets`; `None` takes the defaults of the class.
            changes: further changes on top.

        Raises:
            ConfigError: unknown preset or setting.
        """
        config = self.config_class()()
        if preset is not None:
            if preset not in self.presets:
                hint = did_you_mean(preset, self.presets)
                raise ConfigError(f"method {self.id!r} has no preset {preset!r}{hint}")
            config = with_overrides(config, self.presets[preset])
        return with_overrides(config, changes or {})

    def capabilities_of(self, preset: str | None) -> Capabilities:
        """Return what the method claims in a preset."""
        return self.preset_capabilities.get(preset or "", self.capabilities)

    def build(self, config: Any, spec: Any, num_outputs: int, num_bodies: int = 1) -> Any:
        """Build the network (imports torch); `num_bodies` counts for per-body methods only."""
        builder = load_target(self.builder) if isinstance(self.builder, str) else self.builder
        if self.capabilities.per_body:
            return builder(config, spec, num_outputs, num_bodies)
        return builder(config, spec, num_outputs)
