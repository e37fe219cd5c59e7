"""Resolution of a specification into the settings of a run."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies, resolve_default
from gmc_bench.core.config import fields_of, leaves, nest, shown, to_dict, with_overrides
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.experiments.devices import check_device
from gmc_bench.experiments.launch import check_processes, processes_here
from gmc_bench.experiments.method import check_shares, executed_digest, full_name, load_method
from gmc_bench.experiments.spec import GROUPS, ExperimentSpec
from gmc_bench.methods import MethodSpec
from gmc_bench.records.environment import GitState, git_state
from gmc_bench.records.seeds import further_seeds
from gmc_bench.suites import SUITES, Protocol, Suite
from gmc_bench.suites.choice import Choice
from gmc_bench.suites.method_rules import with_method_training
from gmc_bench.suites.schema import short_name
from gmc_bench.tasks import TASKS, Task
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.trackers.choice import choose_tracker
from gmc_bench.training.run_config import RunConfig

LOCKED = {"name", "preset", "seeds"}
"""Protocol fields that have no setting: they identify the protocol."""
_FIELDS = {*fields_of(ExperimentSpec)} - {"settings"}
"""Fields that stand beside the settings."""
_OPTIONS = {"bodies": "morphologies"}
"""Options by the field that they give, where the names differ."""


@dataclass(frozen=True)
class Resolved:
    """A specification with everything looked up that it leaves out or names."""

    config: RunConfig
    choice: Choice
    bodies: MorphologySet
    why: str
    """Which bodies and why, and what the method brings along, a sentence each."""


def choose(spec: ExperimentSpec) -> Choice:
    """Look up method, suite and protocol.

    Raises:
        UnknownNameError: a name is not registered.
        ConfigError: the suite has no such protocol, or the method no such preset.
        PluginError: the method cannot be loaded, has the id of another one, or changes rules that
            are the suite's.
    """
    method = load_method(spec.method)
    suite = SUITES.load(spec.suite)
    base = suite.protocol(spec.protocol)
    protocol = with_method_training(base, method)
    preset = base.preset if spec.preset is None else spec.preset
    if preset not in method.presets and (method.presets or spec.preset is not None):
        asks = "" if spec.preset is not None else f", which the protocol {protocol.name!r} asks for"
        known = ", ".join(sorted(method.presets)) or "none"
        raise ConfigError(f"method {method.id!r} has no preset {preset!r}{asks}; known: {known}")
    name = full_name(spec.method)
    protocol = replace(protocol, preset=preset)
    return Choice(name, method, suite, protocol)


def choose_task(spec: ExperimentSpec, suite: Suite) -> str:
    """Return the full id of a specification's task.

    Raises:
        ConfigError: the suite has no such task, or several where none is named.
    """
    if spec.task is not None:
        return suite.task(spec.task)
    if len(suite.tasks) > 1:
        known = ", ".join(map(short_name, suite.tasks))
        raise ConfigError(f"the suite {suite.id!r} has several tasks; name one of them: {known}")
    return suite.tasks[0]


def choose_bodies(name: str | None, suite: Suite) -> tuple[MorphologySet, str]:
    """Return the body set to train on, and one sentence that says which and why.

    Args:
        name: the set that is asked for; `None` is the suite's.
        suite: says which sets it prefers.

    Raises:
        UnknownNameError: no set of this name is known.
        MorphologySetError: the set cannot be had here.
        ConfigError: it holds variations, which are not trained on.
    """
    if name is None:
        set_id, why = resolve_default(suite.default_morphologies)
        return load_morphologies(set_id), why
    bodies = load_morphologies(name)
    if "+" in bodies.id:
        raise ConfigError(
            f"{bodies.id} holds variations for 'gmc-bench evaluate --morphologies'; train on "
            f"{bodies.id.partition('+')[0]}"
        )
    return bodies, f"Using {bodies.id}, as asked for."


def resolve(
    spec: ExperimentSpec,
    bodies: tuple[MorphologySet, str] | None = None,
    *,
    git: GitState | None = None,
    elsewhere: bool = False,
) -> Resolved:
    """Return the settings of the run that a specification asks for.

    Args:
        spec: the specification.
        bodies: what `choose_bodies` returns, if that is at hand.
        git: what `checkout` returns, likewise.
        elsewhere: another machine will run it, which need not have this one's threads and device.

    Raises:
        GmcBenchError: a name is unknown, or a setting does not fit.
    """
    choice = choose(spec)
    source = executed_digest(choice.method_name, choice.method)
    task = choose_task(spec, choice.suite)
    _require_rewards(TASKS.get(task))
    found, why = bodies or choose_bodies(spec.bodies, choice.suite)
    decided = _decide(choice, spec, task, len(found.split("train")))
    choice, protocol = decided.choice, decided.protocol
    seed = protocol.seeds[0] if spec.seed is None else spec.seed
    processes = check_processes(spec.processes)
    config = RunConfig(
        method=choice.method_name,
        method_config=to_dict(decided.method_config),
        method_source_digest=source,
        suite=choice.suite.id,
        task=task,
        task_digest=TASKS.get(task).digest,
        morphologies=found.id,
        morphologies_digest=found.digest,
        protocol=protocol,
        seed=seed,
        tokens=decided.tokens,
        precision=spec.precision,
        untrained=spec.untrained or not choice.method.trainable,
        unofficial_reasons=(*decided.reasons, *_reasons_of_seed(seed, protocol)),
        device=check_device(spec.device, here=not elsewhere),
        threads=spec.threads
        if elsewhere and spec.threads
        else check_threads(spec.threads, processes),
        processes=processes,
        checkpoint_interval_s=spec.checkpoint_interval,
        track=check_track(spec.track),
        git_commit=(git or checkout()).commit,
    )
    check_shares(config, choice.method)
    if tuned := choice.tuned(task):
        values = ", ".join(f"{name} {value:g}" for name, value in tuned.items())
        why += f" {choice.method.id} brings along what it was tuned to: {values}."
    return Resolved(config, choice, found, why)


def resolve_all(specs: Iterable[ExperimentSpec], *, elsewhere: bool) -> Iterator[Resolved]:
    """Resolve specifications; those that differ in their seeds alone are resolved once.

    Every body set is loaded once.

    Args:
        specs: the specifications.
        elsewhere: see `resolve`.

    Raises:
        GmcBenchError: a name is unknown, or a setting does not fit.
    """
    loaded: dict[tuple[str, str | None], tuple[MorphologySet, str]] = {}
    known: dict[tuple[Any, ...], Resolved] = {}
    git = checkout()
    for spec in specs:
        same = tuple(
            json.dumps(value) if name == "settings" else value
            for name, value in vars(spec).items()
            if name != "seed"
        )
        if same in known:
            found = known[same]
            protocol = found.config.protocol
            seed = protocol.seeds[0] if spec.seed is None else spec.seed
            yield replace(found, config=with_seed(found.config, seed))
            continue
        key = (spec.suite, spec.bodies)
        if key not in loaded:
            loaded[key] = choose_bodies(spec.bodies, choose(spec).suite)
        known[same] = resolve(spec, loaded[key], git=git, elsewhere=elsewhere)
        yield known[same]


@dataclass(frozen=True)
class _Decided:
    """Rules and settings of a run, and why they are not the suite's."""

    choice: Choice
    """Without what the method was tuned to, where the run is."""
    protocol: Protocol
    method_config: Any
    tokens: TokenConfig
    reasons: tuple[str, ...]


def _require_rewards(task: Task) -> None:
    """Raise for a task that rewards nothing, as one may for rewards of one's own outside a run."""
    if not task.reward_weights:
        raise ConfigError(
            f"the task {task.id!r} rewards nothing, so no method can learn it; give it at least "
            f"one RewardTerm"
        )


def _decide(choice: Choice, spec: ExperimentSpec, task: str, num_train: int) -> _Decided:
    changes = _by_group(spec)
    usual = choice.rules(task, num_train), choice.settings(task)
    _require_groups(changes["protocol"], *usual)
    protocol = with_overrides(usual[0], nest(changes["protocol"]))
    try:
        method_config = with_overrides(usual[1], nest(changes["model"]), "model.")
        _require_same_mappings(usual[1], method_config)
    except ConfigError as error:  # of several methods, it would be unclear which
        raise ConfigError(f"method {choice.method.id!r}: {error}") from error
    untuned = choice.before_tuning
    if (protocol, method_config) == (untuned.rules(task, num_train), untuned.settings(task)):
        # The protocol's own values are no change either: a method can be run without its tuning.
        choice, usual = untuned, (protocol, method_config)
    tokens = with_overrides(TokenConfig(), nest(changes["tokens"]), "tokens.")
    reasons = (
        *_reasons(choice, usual, (protocol, method_config)),
        *(f"the tokens' {name} was changed" for name in changed(TokenConfig(), tokens)),
        *((f"the networks ran in {spec.precision}",) * (spec.precision != "float32")),
    )
    return _Decided(choice, protocol, method_config, tokens, reasons)


def _require_groups(names: Iterable[str], protocol: Protocol, method_config: Any) -> None:
    """Raise for a setting that is in none of the groups, naming the closest of all settings."""
    fields = {*fields_of(Protocol)} - LOCKED
    for name in names:
        if name.partition(".")[0] not in fields:
            groups = {"": protocol, "model.": method_config, "tokens.": TokenConfig()}
            every = [item for group in groups for item, *_ in leaves(groups[group], group)]
            close = did_you_mean(name, {*every} - LOCKED)
            hint = close if "did you mean" in close else did_you_mean(name, {*fields, *GROUPS})
            raise ConfigError(f"unknown setting {name!r}{hint}")


def _require_same_mappings(before: Any, after: Any) -> None:
    """Raise if settings changed a mapping, whose own keys cannot be told from names of settings."""
    differing = changed(before, after)
    for name, value, _ in leaves(after):
        if isinstance(value, Mapping) and name in differing:
            raise ConfigError(
                f"'model.{name}' is a mapping, which settings cannot change, got {shown(value)} "
                f"for it; add a preset with this mapping to the method, and choose that preset"
            )


def unofficial_reasons(spec: ExperimentSpec, num_train: int) -> tuple[str, ...]:
    """Return why a run is unofficial beyond its seed; the bodies need not be here.

    Args:
        spec: the run.
        num_train: M, bodies it trains on.

    Raises:
        GmcBenchError: a name is unknown, or a setting does not fit.
    """
    choice = choose(spec)
    return _decide(choice, spec, choose_task(spec, choice.suite), num_train).reasons


def with_seed(config: RunConfig, seed: int) -> RunConfig:
    """Return the settings of the same run with another seed.

    Raises:
        ConfigError: it is no seed.
    """
    before = _reasons_of_seed(config.seed, config.protocol)
    reasons = tuple(reason for reason in config.unofficial_reasons if reason not in before)
    reasons += _reasons_of_seed(seed, config.protocol)
    return replace(config, seed=seed, unofficial_reasons=reasons)


def _by_group(spec: ExperimentSpec) -> dict[str, dict[str, Any]]:
    """Return a specification's settings for the protocol, the method and the tokens."""
    found: dict[str, dict[str, Any]] = {"protocol": {}, **{name: {} for name in GROUPS}}
    for name, value in spec.settings.items():
        group, _, rest = name.partition(".")
        if name in _FIELDS:
            option = _OPTIONS.get(name, name).replace("_", "-")
            raise ConfigError(
                f"{name!r} is not one of the settings, got {value!r} for it; give {name}=, or "
                f"--{option}"
            )
        if name in LOCKED:
            raise ConfigError(
                f"the protocol's {name!r} cannot be changed; choose another --protocol"
            )
        if name in GROUPS:
            raise ConfigError(
                f"{name!r} must hold {GROUPS[name]}, got {value!r}; name one, {name}.NAME"
            )
        if group in GROUPS and rest:
            found[group][rest] = value
        else:
            found["protocol"][name] = value
    return found


def _reasons(
    choice: Choice,
    before: tuple[Protocol, Any],
    after: tuple[Protocol, Any],
) -> tuple[str, ...]:
    """Return why a run is unofficial; its protocol and method's settings before and after."""
    reasons = [f"the protocol's {name} was changed" for name in changed(before[0], after[0])]
    preset, usual = after[0].preset, choice.suite.protocol(choice.protocol.name).preset
    if preset != usual:
        reasons.append(f"the method's preset is {preset!r}, not the protocol's {usual!r}")
    reasons += [f"the method's {name} was changed" for name in changed(before[1], after[1])]
    return tuple(reasons)


def _reasons_of_seed(seed: int, protocol: Protocol) -> tuple[str, ...]:
    if seed in (*protocol.seeds, *further_seeds(protocol.seeds)):
        return ()
    seeds = ", ".join(str(s) for s in protocol.seeds)
    return (f"seed {seed} is not one of the protocol's seeds ({seeds})",)


def changed(before: Any, after: Any) -> list[str]:
    """Return the dotted names of settings that differ between two configurations."""
    # A mapping counts as a whole: an entry that it has no more is a change, too.
    old, new = ({name: value for name, value, _ in leaves(item)} for item in (before, after))
    missing = object()
    return sorted(name for name in old | new if old.get(name, missing) != new.get(name, missing))


def checkout(besides: Sequence[str] = ()) -> GitState:
    """Return commit and cleanliness of the checkout that this package runs from.

    Args:
        besides: folders in it whose changes do not count.
    """
    return git_state(Path(__file__).parents[2], besides)


def another_commit(configs: Iterable[RunConfig]) -> str:
    """Return what it means that runs go on at another commit than they were begun or planned at.

    Args:
        configs: settings of runs that have no record yet.

    Returns:
        A sentence; empty if all are of the commit that this package runs from.
    """
    now = checkout().commit
    begun = {config.git_commit for config in configs} - {now}
    former = sorted(commit[:12] for commit in begun if commit)
    if now is None or not former:
        return ""
    return (
        f"Begun at commit {' and '.join(former)}, but the checkout is at {now[:12]}: no "
        f"leaderboard will take runs that go on from here; check out the former commit first to "
        f"keep them."
    )


def check_threads(count: int | None, processes: int = 1) -> int:
    """Return a number of threads that can be used here; `None` takes all.

    Args:
        count: that was asked for.
        processes: of the run; those on this machine share its cores.

    Raises:
        ConfigError: none, or more than there are.
    """
    from gmc_bench.sim.batch import available_threads

    available = available_threads()
    if count is not None and not 1 <= count <= available:
        raise ConfigError(f"--threads must be from 1 to {available} here, got {count}")
    return count or max(1, available // processes_here(processes))


def check_track(text: str | None) -> str | None:
    """Return the choice of a tracker that can be used here; `None` is none.

    Raises:
        GmcBenchError: there is no such tracker, or its package is not installed.
    """
    if text is not None:
        choose_tracker(text)
    return text


def threads_here(count: int) -> int:
    """Return how many of a run's threads this machine has."""
    return min(count, check_threads(None))


def run_name(config: RunConfig, method: MethodSpec) -> str:
    """Return the default folder name of a run."""
    task = config.task.rpartition("-v")[0]
    who = f"{method.id}-untrained" if config.untrained and method.trainable else method.id
    return f"{who}_{task}_{config.protocol.name}_{config.morphologies}_seed{config.seed}"
