"""Catalogue of what there is to run, and environments by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from gmc_bench.core.errors import ConfigError, PluginError, UnknownNameError, did_you_mean
from gmc_bench.core.registry import Registry
from gmc_bench.methods import METHODS, MethodSpec

if TYPE_CHECKING:  # suites and tasks load the engine, which a list of methods does not need
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.envs.morphology_env import MorphologyEnv
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
    from gmc_bench.suites import Suite
    from gmc_bench.tasks import Task


def list_methods() -> list[str]:
    """Return the ids of all registered methods."""
    return METHODS.names()


def list_suites() -> list[str]:
    """Return the ids of all registered suites."""
    return _kind("suites")[0].names()


def list_tasks() -> list[str]:
    """Return the ids of all registered tasks."""
    return _kind("tasks")[0].names()


def list_bodies() -> list[str]:
    """Return the ids of all body sets that are at hand."""
    from gmc_bench.bodies.sets import list_sets  # loads the engine

    return [item.id for item in list_sets() if item.status not in ("not imported", "broken")]


def describe(what: str, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return what is registered of a kind, as plain values by field.

    Args:
        what: `methods`, `suites`, `tasks` or `morphologies`. What is registered and broken has the
            fields `id`, `title` and `error`.
        names: only these, in this order, as `gmc-bench run` takes them; by default everything.

    Raises:
        UnknownNameError: one of them is not registered.
        PluginError: a method that is given as a file or module cannot be loaded.
    """
    if what == "morphologies":
        from gmc_bench.bodies.sets import list_sets

        rows = [asdict(item) for item in list_sets()]
    else:
        registry, fields = _kind(what)
        rows = [
            {"id": name, "title": f"broken: {item}", "error": str(item)}
            if isinstance(item, PluginError)
            else fields(item)
            for name, item in registry.items()
        ]
    known = {row["id"]: row for row in rows}
    return [_find(name, what, known) for name in names] if names else rows


def _find(name: str, what: str, known: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if name in known:
        return known[name]
    if what == "methods":  # also one that is not listed: a file's, a module's, a reference
        return _of_method(METHODS.load(name))
    return known[_full_name(name, what, known)]


def _full_name(name: str, what: str, known: Iterable[str]) -> str:
    if what == "morphologies":
        raise UnknownNameError(f"unknown body set {name!r}{did_you_mean(name, known)}")
    registry = _kind(what)[0]
    if what == "tasks":
        from gmc_bench.suites.schema import short_name

        name = {short_name(task): task for task in registry.names()}.get(name, name)
    return registry.resolve(name)


def _of_method(spec: MethodSpec) -> dict[str, Any]:
    names = (
        "id", "version", "title", "paper", "reference_code", "licence", "presets", "parameters",
        "training", "tuned", "env_steps_per_body", "deviations", "footnote", "capabilities",
        "preset_capabilities",
    )  # fmt: skip
    return {name: _plain(getattr(spec, name)) for name in names}


def _of_suite(suite: "Suite") -> dict[str, Any]:
    return {
        "id": suite.id,
        "title": suite.title,
        "description": suite.description,
        "tasks": list(suite.tasks),
        "protocols": {name: p.env_steps for name, p in suite.protocols.items()},
        "default_protocol": suite.default_protocol,
        "default_morphologies": list(suite.default_morphologies),
    }


def _of_task(task: "Task") -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "rewards": task.reward_weights,
        "terminations": list(task.termination_names),
        "metrics": {term.name: term.unit for term in task.metrics},
        "horizon": task.horizon,
        "source": task.source,
    }


def _kind(what: str) -> tuple[Registry[Any], Callable[[Any], dict[str, Any]]]:
    """Return the registry of a kind, and what turns one of it into plain values."""
    if what == "methods":
        return METHODS, _of_method
    if what == "suites":
        from gmc_bench.suites import SUITES

        return SUITES, _of_suite
    from gmc_bench.tasks import TASKS

    return TASKS, _of_task


def _plain(value: Any) -> Any:
    """Return settings as JSON can hold them; what it cannot hold as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def make_env(
    task: str,
    bodies: "str | MorphologySet | None" = None,
    *,
    num_envs: int | None = None,
    split: str = "train",
    **options: Any,
) -> "MorphologyEnv | MorphologyVectorEnv":
    """Return an environment of gymnasium.

    Args:
        task: id, with or without its version.
        bodies: body set, or its id; by default that of the command line, for tasks of bodies with
            joint drives the quadrupeds.
        num_envs: environments in a batch; without it, a single environment.
        split: `train` or `test`.
        options: of `MorphologyEnv` or `MorphologyVectorEnv`, e.g. `token_spec`.

    Raises:
        GmcBenchError: no such task or body set.
    """
    if "morphologies" in options:  # gymnasium.make's name of it
        raise ConfigError("'morphologies' is called 'bodies' here; give the body set as that")
    from gmc_bench.envs.morphology_env import MorphologyEnv
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
    from gmc_bench.envs.registration import make_single, make_vector, require_known
    from gmc_bench.tasks import TASKS

    environment = MorphologyEnv if num_envs is None else MorphologyVectorEnv
    require_known(environment, options, ("bodies", "num_envs", "split"))
    task = TASKS.resolve(task)
    if num_envs is None:
        return make_single(task, bodies, split, **options)
    return make_vector(task, num_envs, bodies, split, **options)
