"""The description of a controller: light to import, with its heavy parts named by string."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

from gmc_bench.core.config import shown, with_overrides
from gmc_bench.core.errors import ConfigError, PluginError, did_you_mean
from gmc_bench.core.registry import importable, load_target, origin_of, share_origin
from gmc_bench.methods.settings import require_settings
from gmc_bench.methods.tuning import read_trials, require_tuned

REQUIRED_PRESETS = ("paper", "lite")
"""Presets that every method of a comparison has."""
LITE_PARAMETERS = 140_099
"""RecMorph's; the other methods' `lite` is as large, so that scores compare architectures."""
LITE_SPREAD = 0.15
"""Share by which `lite` may be smaller or larger."""
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a controller claims; the conformance checks test the claims."""

    permutation_equivariant: bool = False
    """Reordering the limbs (with masks and parents) reorders the outputs, nothing else."""
    uses_graph: bool = False
    """Reads who is joined to whom (parents, edges, distances), not the order of limbs alone."""
    temporal: bool = False
    """Remembers earlier control steps of an episode (see `gmc_bench.nn.History`)."""
    per_body: bool = False
    """Holds separate weights for every training body, and cannot control any other."""
    surrogate_gradients: bool = False
    """Its gradients are deliberately not those of its outputs, as with stop-gradients or
    straight-through estimates; `deviations` or the paper say why."""


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A registered controller: what it is, where it comes from, and how it is built.

    Importing a spec must not import torch, so that listing methods stays instant: `config` and
    `builder` may be given as `"module:attribute"` and are then loaded on first use.

    Raises:
        PluginError: a field has the wrong type; whether the description is complete and keeps the
            rules is for `require_description`.
    """

    id: str
    """Name used on the command line, in records and in folder names: at most 100 lower-case
    letters, digits, '.', '_' and '-'."""
    version: int = 1
    """Raised whenever a change can move the method's numbers."""
    title: str = ""
    paper: str = ""
    """Citation, with arXiv number or DOI."""
    reference_code: str = ""
    """Public code the implementation was checked against, as `owner/name@commit`, several joined by
    commas; empty if none exists."""
    licence: str = "unknown"
    """Licence of the reference code."""
    deviations: tuple[str, ...] = ()
    """Every choice that differs from, or is left open by, the source."""
    footnote: str = ""
    """One sentence below tables, where the method is not what papers ran under its name: built from
    descriptions alone, in another form, or with a mistake of the public code mended."""
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
    task_target_kl: Mapping[str, float] = field(default_factory=dict)
    """The same threshold for single tasks, by full id, where a paper tunes it per task."""
    tuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The method's tuned values, `{"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": ...}}`, by
    suite, task and protocol; within the ranges that all methods have, runs keep the suite's
    protocol (see `gmc_bench.methods.tuning`)."""
    tuning: str = ""
    """File of these trials, `"package:file.json"` or a path, which starts from the folder of the
    method's file; empty if there are none."""
    env_steps_per_body: int | None = None
    """Control steps for every training body in place of the protocol's total, for references with
    a budget of their own; without `Capabilities.per_body` such a run has a protocol of its own."""
    trainable: bool = True
    """Whether there is anything to train; otherwise runs score the controller as it is."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What the method claims, in every preset that `preset_capabilities` does not name."""
    preset_capabilities: Mapping[str, Capabilities] = field(default_factory=dict)
    """Claims of the presets whose settings change them."""

    @cached_property
    def before_tuning(self) -> "MethodSpec":
        """The same method with the protocol's own values for what was tuned."""
        untuned = replace(self, tuned={}, tuning="")
        share_origin(self, untuned)
        return untuned

    def trials(self) -> dict[str, Any]:
        """Return the trials of `tuning`, by suite, task and protocol.

        Raises:
            PluginError: the file is missing or holds no trials.
        """
        origin = origin_of(self)
        folder = None if origin is None or origin.file is None else origin.file.parent
        return read_trials(self.id, self.tuning, folder)

    def __post_init__(self) -> None:
        _require_types(self)
        if not _ID.fullmatch(self.id):
            raise PluginError(
                f"the id of a method must be lower-case letters, digits, '.', '_' and '-' only, at "
                f"most 100, and start with a letter or digit, got {shown(self.id)}"
            )
        if self.version < 1:
            raise PluginError(
                f"'version' of the method {self.id!r} must be at least 1, got {self.version}"
            )

    def config_class(self) -> type[Any]:
        """Return the class of the method's settings.

        Raises:
            PluginError: what the specification names is not there or no frozen dataclass, or a
                record cannot hold one of its fields, see `gmc_bench.methods.settings`.
        """
        with self._beside():
            found = load_target(self.config) if isinstance(self.config, str) else self.config
        if not (isinstance(found, type) and is_dataclass(found)):
            raise PluginError(
                f"the config of method {self.id!r} must be a dataclass, got {found!r}"
            )
        # Else a network could change the settings that were recorded.
        if not found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise PluginError(
                f"the config of method {self.id!r} must be a frozen dataclass; write "
                f"@dataclass(frozen=True) above {found.__name__}"
            )
        require_settings(self.id, found)
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
            PluginError: see `config_class`.
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
        with self._beside():
            builder = load_target(self.builder) if isinstance(self.builder, str) else self.builder
            if self.capabilities.per_body:
                return builder(config, spec, num_outputs, num_bodies)
            return builder(config, spec, num_outputs)

    def _beside(self) -> AbstractContextManager[None]:
        """Let a method that is a file import what lies beside it."""
        origin = origin_of(self)
        if origin is None or origin.file is None or origin.digest is None:
            return nullcontext()
        return importable(origin.file.parent)


def require_training(method: MethodSpec) -> None:
    """Raise unless a method brings along to training only what methods may bring along.

    Raises:
        PluginError: it would change a rule of the protocol, or sets a value out of range.
    """
    for group, held in method.training.items():
        settings = dict(held) if isinstance(held, Mapping) else {}
        threshold: Any = settings.pop("target_kl", None) if group == "ppo" else None
        foreign = [f"{group}.{name}" for name in settings] or [group] * (threshold is None)
        if foreign:
            raise PluginError(
                f"the method {method.id!r} sets {foreign[0]!r} in 'training', but a method may "
                f"bring along 'ppo.target_kl' only; everything else is the protocol's"
            )
        if not (_is(threshold, (int, float)) and 0 < threshold < math.inf):
            raise PluginError(
                f"'training' of the method {method.id!r} must set 'ppo.target_kl' to a positive "
                f"number, got {threshold!r}"
            )
    for task, threshold in method.task_target_kl.items():
        if not (_is(threshold, (int, float)) and 0 < threshold < math.inf):
            raise PluginError(
                f"'task_target_kl' of the method {method.id!r} must give {task!r} a positive "
                f"number, got {threshold!r}"
            )
    require_tuned(method.id, method.tuned)
    if method.env_steps_per_body is not None and method.env_steps_per_body < 1:
        raise PluginError(
            f"'env_steps_per_body' of the method {method.id!r} must be at least 1, "
            f"got {method.env_steps_per_body}"
        )


def require_description(method: MethodSpec) -> None:
    """Raise unless a method says all that a comparison needs, and keeps its rules.

    Raises:
        PluginError: the source, a preset or a number of parameters is missing, a name is none of
            a preset, or see `require_training`.
    """
    if not method.paper.strip():
        raise PluginError(
            f"'paper' of the method {method.id!r} is empty; name its source, or write 'unpublished'"
        )
    for name in REQUIRED_PRESETS:
        if name not in method.presets:
            raise PluginError(
                f"the method {method.id!r} lacks the preset {name!r}; 'presets' must hold "
                f"{' and '.join(map(repr, REQUIRED_PRESETS))}"
            )
    for name in method.presets:
        if name not in method.parameters:
            raise PluginError(
                f"'parameters' of the method {method.id!r} states nothing for the preset {name!r}"
            )
    for field_name in ("parameters", "preset_capabilities"):
        for name in getattr(method, field_name):
            if name not in method.presets:
                raise PluginError(
                    f"{field_name!r} of the method {method.id!r} names {name!r}, which is none of "
                    f"its presets{did_you_mean(name, method.presets)}"
                )
    require_training(method)


_Kind = type[Any] | tuple[type[Any], ...]
_TEXT: tuple[_Kind, str] = (str, "a string")
_KINDS: dict[str, tuple[_Kind, str]] = {
    "id": _TEXT,
    "version": (int, "an integer"),
    "title": _TEXT,
    "paper": _TEXT,
    "reference_code": _TEXT,
    "licence": _TEXT,
    "deviations": ((tuple, list), "a tuple of sentences"),
    "footnote": _TEXT,
    "presets": (Mapping, "a mapping of names to settings"),
    "parameters": (Mapping, "a mapping of presets to numbers"),
    "training": (Mapping, "a mapping of settings"),
    "task_target_kl": (Mapping, "a mapping of tasks to numbers"),
    "tuned": (Mapping, "a mapping of 'SUITE/TASK/PROTOCOL' to settings"),
    "tuning": (str, "a string"),
    "env_steps_per_body": ((int, type(None)), "an integer or None"),
    "trainable": (bool, "True or False"),
    "capabilities": (Capabilities, "Capabilities(...)"),
    "preset_capabilities": (Mapping, "a mapping of presets to Capabilities(...)"),
}
"""What the fields of a specification hold."""
_ITEMS: dict[str, tuple[_Kind, str]] = {
    "deviations": _TEXT,
    "presets": (Mapping, "a mapping of settings"),
    "parameters": (int, "an integer"),
    "preset_capabilities": (Capabilities, "Capabilities(...)"),
}
"""What is in the fields that hold several things."""


def _require_types(method: MethodSpec) -> None:
    for name, (kind, wanted) in _KINDS.items():
        value: Any = getattr(method, name)
        if not _is(value, kind):
            owner = "a method" if name == "id" else f"the method {method.id!r}"
            raise PluginError(f"{name!r} of {owner} must be {wanted}, got {value!r}")
    for name, (kind, wanted) in _ITEMS.items():
        items: Any = getattr(method, name)
        places = items.items() if isinstance(items, Mapping) else enumerate(items)
        for place, value in places:
            if not _is(value, kind):
                raise PluginError(
                    f"{name!r} of the method {method.id!r} must hold {wanted} under {place!r}, "
                    f"got {value!r}"
                )
    for claims in (method.capabilities, *method.preset_capabilities.values()):
        for claim in fields(Capabilities):
            value = getattr(claims, claim.name)
            if not isinstance(value, bool):
                raise PluginError(
                    f"the capability {claim.name!r} of the method {method.id!r} must be True or "
                    f"False, got {value!r}"
                )


def _is(value: Any, kind: _Kind) -> bool:
    # `True` is an integer to Python, but no number of parameters.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
