"""Check of what a method says of suites and tasks: they exist, and its trials found the values."""

import difflib
from typing import Any

from gmc_bench.core.config import leaves
from gmc_bench.core.errors import PluginError, did_you_mean
from gmc_bench.core.registry import Registry
from gmc_bench.methods.spec import MethodSpec, require_training
from gmc_bench.methods.tuning import ranges_of, require_own_trials
from gmc_bench.suites import SUITES, Suite
from gmc_bench.suites.method_rules import with_method_training
from gmc_bench.suites.schema import short_name
from gmc_bench.tasks import TASKS

_SAME = 0.9
"""Likeness of two names (`difflib`) from which on one is taken for the other, misspelt."""


def require_kept(method: MethodSpec) -> tuple[str, ...]:
    """Raise unless everything that a method keeps for suites and tasks has an effect and a source.

    Returns:
        Names of what is not here. A method may be tuned for the suite of another package, or for
        that of another version of this one, and must work without it.

    Raises:
        PluginError: a name is no full id, a value is out of its range, the network has no such
            setting, or the file of trials is missing, damaged, or that of another method.
    """
    require_training(method)
    require_own_trials(method.id, method.version, method.tuned, method.tuning, method.trials())
    absent = [
        task
        for task in method.task_target_kl
        if not _is_here(TASKS, task, f"'task_target_kl' of the method {method.id!r}")
    ]
    for key in method.tuned:
        name, task, protocol = key.split("/")
        where = f"'tuned' of the method {method.id!r}"
        if _is_here(SUITES, name, where):
            suite = SUITES.get(name)
            _require_part(suite, task, protocol, where)
            _require_ranges(method, key, suite)
        else:
            absent.append(key)
    return tuple(absent)


def _is_here(registry: Registry[Any], name: str, where: str) -> bool:
    """Return whether a suite or task is here; raise if nothing can have that name."""
    names = registry.names()
    if name in names:
        return True
    bare, mark, version = name.rpartition("-v")
    by_bare_name = {known.rpartition("-v")[0]: known for known in names}
    if mark and version.isdigit():
        alike = difflib.get_close_matches(bare, by_bare_name, n=1, cutoff=_SAME)
        if not alike or bare in by_bare_name:
            return False
        hint = f"; did you mean {by_bare_name[alike[0]]!r}?"
    else:
        short = {short_name(known): known for known in names}
        meant = by_bare_name.get(name) or short.get(name)
        hint = f"; did you mean {meant!r}?" if meant else did_you_mean(name, names)
    raise PluginError(f"{where} names {name!r}, which is no full id of a {registry.kind}{hint}")


def _require_part(suite: Suite, task: str, protocol: str, where: str) -> None:
    if task not in suite.tasks:
        by_short_name = {short_name(known): known for known in suite.tasks}
        meant = by_short_name.get(task)
        hint = f"; did you mean {meant!r}?" if meant else did_you_mean(task, suite.tasks)
        raise PluginError(f"{where} names {task!r}, which is no task of {suite.id!r}{hint}")
    if protocol not in suite.protocols:
        raise PluginError(
            f"{where} names {protocol!r}, which is no protocol of {suite.id!r}"
            f"{did_you_mean(protocol, suite.protocols)}"
        )


def _require_ranges(method: MethodSpec, key: str, suite: Suite) -> None:
    """Raise unless values are within the ranges of tuning, or those without any."""
    _, task, name = key.split("/")
    protocol = suite.protocol(name, task)
    settings = method.make_config(protocol.preset if method.presets else None)
    rules = with_method_training(protocol, method, task)
    ranges = ranges_of(settings)
    untuned = {f"ppo.{item}": value for item, value, _ in leaves(rules.ppo)}
    untuned |= {f"model.{item}": value for item, value, _ in leaves(settings)}
    for setting, value in method.tuned[key].items():
        if setting not in ranges:
            raise PluginError(
                f"'tuned' of the method {method.id!r} sets {setting!r} for {key!r}, but its "
                f"settings have nothing of this kind to tune{did_you_mean(setting, ranges)}"
            )
        allowed = ranges[setting]
        if value not in allowed and value != untuned[setting]:
            raise PluginError(
                f"'tuned' of the method {method.id!r} sets {setting!r} for {key!r} to {value!r}, "
                f"but methods tune it from {allowed.low:g} to {allowed.high:g}; keep what "
                f"'gmc-bench tune' finds"
            )
