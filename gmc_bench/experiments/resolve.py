"""From what the user asked for to the resolved settings of a run."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies, resolve_default
from gmc_bench.core.config import load_yaml, nest, to_dict, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.method import full_name, load_method, source_digest
from gmc_bench.methods import MethodSpec
from gmc_bench.records.environment import GitState, git_state
from gmc_bench.suites import SUITES, Protocol, Suite
from gmc_bench.suites.method_rules import (
    with_method_budget,
    with_method_training,
    with_task_decoder,
)
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.training.run_config import RunConfig

DEFAULT_PRESET = "default"
"""What stands for the preset of a method that has none."""
LOCKED = {"name", "preset", "seeds"}
"""Protocol fields that have no option: they identify the protocol."""


@dataclass(frozen=True)
class Choice:
    """Method, suite and protocol as first read from the command line, for no task yet."""

    method_name: str
    method: MethodSpec
    suite: Suite
    protocol: Protocol
    preset: str
    """Preset of the method's settings."""

    @property
    def method_config(self) -> Any:
        """The method's settings before any change."""
        return self.method.make_config(None if self.preset == DEFAULT_PRESET else self.preset)

    def rules(self, task: str) -> Protocol:
        """Return the protocol of a run on a task, before any change."""
        protocol = self.suite.protocol(self.protocol.name, task)
        protocol = with_method_training(protocol, self.method, task)
        return replace(protocol, preset=self.protocol.preset)

    def settings(self, task: str) -> Any:
        """Return the method's settings on a task, before any change."""
        return with_task_decoder(self.method_config, self.method, self.suite, task)


def choose(arguments: argparse.Namespace) -> Choice:
    """Resolve method, suite and protocol.

    Raises:
        UnknownNameError: a name is not registered.
        ConfigError: the suite has no such protocol, or the method no such preset.
        PluginError: the method cannot be loaded, has the id of another one, or changes rules that
            are the suite's.
    """
    method = load_method(arguments.method)
    suite = SUITES.load(arguments.suite)
    base = suite.protocol(arguments.protocol)
    protocol = with_method_training(base, method)
    preset = arguments.preset or base.preset
    if preset not in method.presets and (method.presets or arguments.preset):
        asks = "" if arguments.preset else f", which the protocol {protocol.name!r} asks for"
        known = ", ".join(sorted(method.presets)) or "none"
        raise ConfigError(f"method {method.id!r} has no preset {preset!r}{asks}; known: {known}")
    name = full_name(arguments.method)
    protocol = replace(protocol, preset=preset)
    return Choice(name, method, suite, protocol, preset if method.presets else DEFAULT_PRESET)


def choose_morphologies(arguments: argparse.Namespace, suite: Suite) -> tuple[MorphologySet, str]:
    """Return the bodies to use, and one sentence that says which and why."""
    if arguments.morphologies is None:
        set_id, why = resolve_default(suite.default_morphologies)
        return load_morphologies(set_id), why
    bodies = load_morphologies(arguments.morphologies)
    if "+" in bodies.id:
        raise ConfigError(
            f"{bodies.id} holds variations for 'gmc-bench evaluate --morphologies'; train on "
            f"{bodies.id.partition('+')[0]}"
        )
    return bodies, f"Using {bodies.id}, as asked for."


def plan_run(
    choice: Choice,
    task: str,
    bodies: MorphologySet,
    arguments: argparse.Namespace,
    protocol_changes: dict[str, Any],
    method_changes: dict[str, Any],
    token_changes: dict[str, Any],
) -> RunConfig:
    """Return the resolved settings of one run.

    Args:
        choice: method, suite and protocol.
        task: full task id.
        bodies: the body set.
        arguments: the common options.
        protocol_changes: dotted names to values, from `--config` and options.
        method_changes: the same for the method's settings.
        token_changes: the same for how bodies are shown.

    Raises:
        ConfigError: a change does not fit.
    """
    protocol_changes, method_changes = dict(protocol_changes), dict(method_changes)
    if arguments.config is not None:
        content = load_yaml(arguments.config)
        model, shown = content.pop("model", {}), content.pop("tokens", {})
        if not isinstance(model, dict):
            raise ConfigError(
                f"'model' in {arguments.config} must hold the method's settings, got {model!r}"
            )
        if not isinstance(shown, dict):
            raise ConfigError(
                f"'tokens' in {arguments.config} must hold how bodies are shown, got {shown!r}"
            )
        token_changes = {**shown, **token_changes}
        method_changes = {**_flat(model), **method_changes}
        protocol_changes = {**_flat(content), **protocol_changes}
    if arguments.env_steps is not None:
        protocol_changes["env_steps"] = arguments.env_steps
    for name in protocol_changes:
        if name in LOCKED:
            raise ConfigError(
                f"the protocol's {name!r} cannot be changed; choose another --protocol"
            )
    rules = with_method_budget(choice.rules(task), choice.method, len(bodies.split("train")))
    protocol = with_overrides(rules, nest(protocol_changes))
    settings = choice.settings(task)
    method_config = with_overrides(settings, nest(method_changes))
    tokens = with_overrides(TokenConfig(), token_changes)
    seed = arguments.seed if arguments.seed is not None else protocol.seeds[0]
    return RunConfig(
        method=choice.method_name,
        method_config=to_dict(method_config),
        method_source_digest=source_digest(choice.method_name),
        suite=choice.suite.id,
        task=task,
        morphologies=bodies.id,
        morphologies_digest=bodies.digest,
        protocol=protocol,
        seed=seed,
        tokens=tokens,
        precision=arguments.precision,
        unofficial_reasons=_reasons(choice, (rules, protocol), (settings, method_config), seed)
        + tuple(f"the tokens' {name} was changed" for name in changed(TokenConfig(), tokens))
        + ((f"the networks ran in {arguments.precision}",) * (arguments.precision != "float32")),
        device=check_device(arguments.device),
        threads=check_threads(arguments.threads),
        checkpoint_interval_s=arguments.checkpoint_interval,
        git_commit=checkout().commit,
    )


def _reasons(
    choice: Choice,
    protocols: tuple[Protocol, Protocol],
    settings: tuple[Any, Any],
    seed: int,
) -> tuple[str, ...]:
    """Return why a run is unofficial; protocols and settings before and after the changes."""
    reasons = [f"the protocol's {name} was changed" for name in changed(*protocols)]
    protocol, usual = protocols[1], choice.suite.protocol(choice.protocol.name).preset
    if protocol.preset != usual:
        reasons.append(f"the method's preset is {protocol.preset!r}, not the protocol's {usual!r}")
    reasons += [f"the method's {name} was changed" for name in changed(*settings)]
    if seed not in protocol.seeds:
        seeds = ", ".join(str(s) for s in protocol.seeds)
        reasons.append(f"seed {seed} is not one of the protocol's seeds ({seeds})")
    return tuple(reasons)


def changed(before: Any, after: Any) -> list[str]:
    """Return the dotted names of settings that differ between two configurations."""
    old, new = _flat(to_dict(before)), _flat(to_dict(after))
    return sorted(name for name in new if new[name] != old.get(name))


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def checkout() -> GitState:
    """Return commit and cleanliness of the checkout that this package runs from."""
    return git_state(Path(__file__).parents[2])


def check_device(name: str) -> str:
    """Return a device name that torch can use here.

    Raises:
        ConfigError: no such device.
    """
    import torch

    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise ConfigError(f"the device {name!r} is not supported; use --device cpu or cuda")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the device {name!r} cannot be used here ({str(error).splitlines()[0]}); "
            f"use --device cpu"
        ) from error
    return str(device)


def check_threads(count: int | None) -> int:
    """Return a number of threads that can be used here; `None` takes all.

    Raises:
        ConfigError: more than there are.
    """
    from gmc_bench.sim.batch import available_threads

    available = available_threads()
    if count is not None and count > available:
        raise ConfigError(f"--threads must be at most {available} here, got {count}")
    return count or available


def threads_here(count: int) -> int:
    """Return how many of a run's threads this machine has."""
    return min(count, check_threads(None))


def run_name(config: RunConfig, method: MethodSpec) -> str:
    """Return the default folder name of a run."""
    task = config.task.rpartition("-v")[0]
    return f"{method.id}_{task}_{config.protocol.name}_{config.morphologies}_seed{config.seed}"
