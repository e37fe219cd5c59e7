"""Settings that a method may tune, the ranges they come from, and the values that it keeps."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gmc_bench.core.arguments import is_finite
from gmc_bench.core.config import leaves
from gmc_bench.core.errors import PluginError, did_you_mean

FORMAT = 1
"""Version of the layout of files of trials."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values that a setting is drawn from, both ends included."""

    low: float
    high: float
    log: bool = False
    """Draw uniformly in the logarithm."""

    def __contains__(self, value: object) -> bool:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        )


PPO_RANGES: Mapping[str, Range] = {
    "ppo.lr": Range(low=3e-4, high=3e-3, log=True),
    "ppo.target_kl": Range(low=0.02, high=0.2, log=True),
}
"""What every method tunes, by dotted name; papers of controllers tune these per method."""
DROPOUT = Range(low=0.0, high=0.2)
"""Range of every setting of a method that is a share of channels or weights to drop."""


def is_dropout(name: str) -> bool:
    """Return whether a method's setting, by dotted name, is a dropout rate."""
    last = name.rpartition(".")[2]
    return last == "dropout" or last.endswith("_dropout")


def range_of(name: str) -> Range | None:
    """Return the range of a setting by dotted name, e.g. `model.embedding_dropout`.

    Returns:
        `None` for what no method may tune.
    """
    if name.startswith("model.") and is_dropout(name):
        return DROPOUT
    return PPO_RANGES.get(name)


def ranges_of(settings: Any) -> dict[str, Range]:
    """Return what a method with these settings tunes, by dotted name."""
    own = [f"model.{name}" for name, value, _ in leaves(settings)
           if is_dropout(name) and isinstance(value, float)]  # fmt: skip
    return {**PPO_RANGES, **dict.fromkeys(own, DROPOUT)}


def tuning_key(suite: str, task: str, protocol: str) -> str:
    """Return the name of what a method is tuned for, e.g. `unimal-v1/unimal-ft-v1/lite`."""
    return f"{suite}/{task}/{protocol}"


def in_range(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some settings, by dotted name, that lie within the ranges."""
    found = ((name, range_of(name)) for name in settings)
    return {
        name: settings[name] for name, allowed in found if allowed and settings[name] in allowed
    }


def require_tuned(method: str, tuned: Mapping[str, Any]) -> None:
    """Raise unless what a method keeps of its trials is what methods may tune.

    Args:
        method: its id.
        tuned: what it keeps, as in `MethodSpec.tuned`.

    Raises:
        PluginError: it sets something else, or a value that is no number.
    """
    for key, name, value in _kept(method, tuned):
        if range_of(name) is None:
            known = ", ".join([*PPO_RANGES, "model.*dropout"])
            raise PluginError(
                f"'tuned' of the method {method!r} sets {name!r} for {key!r}, but a method may "
                f"tune {known} only; everything else is the protocol's"
            )
        if not _is_number(value) or value < 0 or (value == 0 and name[0] == "p"):
            raise PluginError(
                f"'tuned' of the method {method!r} must set {name!r} for {key!r} to a positive "
                f"number, got {value!r}"
            )


def _kept(method: str, tuned: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, settings in tuned.items():
        if key.count("/") != 2 or not isinstance(settings, Mapping):
            raise PluginError(
                f"'tuned' of the method {method!r} must map 'SUITE/TASK/PROTOCOL' to settings, "
                f"got {settings!r} for {key!r}"
            )
        for name, value in settings.items():
            yield key, name, value


def read_trials(method: str, file: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the trials beside a method, by `tuning_key`, as `gmc-bench tune` writes them.

    Args:
        method: its id.
        file: as in `MethodSpec.tuning`.
        folder: that a relative path starts from; by default the working folder.

    Returns:
        The trials; empty where the method names no file.

    Raises:
        PluginError: the file is missing or holds no trials.
    """
    if not file:
        return {}
    package, colon, name = file.rpartition(":")
    try:
        place = resources.files(package) / name if colon else (folder or Path()) / file
        content = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, ImportError, RecursionError) as error:
        raise PluginError(
            f"the trials of the method {method!r} cannot be read from {file!r} "
            f"({error}); restore the file, or leave 'tuning' out"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _no_trials(method, file, f"of format {FORMAT}")
    searches = content.get("searches")
    if not isinstance(searches, dict):
        raise _no_trials(method, file, "under 'searches'")
    for key, search in searches.items():
        if flaw := _flaw(search):
            raise _no_trials(method, file, f"for {key!r} that can be read ({flaw})")
    return searches


def require_own_trials(
    method: str, version: int, tuned: Mapping[str, Any], file: str, trials: Mapping[str, Any]
) -> None:
    """Raise unless what a method keeps follows from trials of its own.

    Args:
        method: its id.
        version: its version.
        tuned: what it keeps, as in `MethodSpec.tuned`.
        file: as in `MethodSpec.tuning`; a method without one may keep values.
        trials: what `read_trials` returns.

    Raises:
        PluginError: the trials are those of another method or version, or other values won them.
    """
    for key, search in trials.items():
        if search["method"] != method:
            raise PluginError(
                f"the trials in {file!r} of the method {method!r} are those of the method "
                f"{search['method']!r}; leave 'tuned' and 'tuning' out of a copied specification, "
                f"or make trials of its own with 'gmc-bench tune'"
            )
        if search.get("method_version", version) != version:
            raise PluginError(
                f"the trials in {file!r} of the method {method!r} are those of its version "
                f"{search['method_version']}, but it has version {version}; make them again with "
                f"'gmc-bench tune', or leave 'tuned' and 'tuning' out"
            )
        if key in tuned and dict(tuned[key]) != search["kept"]:
            raise PluginError(
                f"'tuned' of the method {method!r} keeps {dict(tuned[key])} for {key!r}, but its "
                f"trials in {file!r} found {search['kept']}; keep that"
            )
    for key in tuned:
        if file and key not in trials:
            raise PluginError(
                f"'tuned' of the method {method!r} keeps values for {key!r}, but {file!r} has no "
                f"trials of it{did_you_mean(key, trials)}"
            )


def _no_trials(method: str, file: str, what: str) -> PluginError:
    return PluginError(
        f"{file!r} of the method {method!r} holds no trials {what}; make them again with: "
        f"gmc-bench tune {method}"
    )


def _flaw(search: Any) -> str:
    """Return what a record could not take of a method's trials; empty if it can take all."""
    if not isinstance(search, dict):
        return f"expected a mapping, got {search!r:.60}"
    bodies, trials = search.get("bodies", {}), search.get("trials", [])
    texts = [bodies.get("id"), bodies.get("digest")] if isinstance(bodies, dict) else [bodies]
    steps = search.get("env_steps")
    right = {
        "method": isinstance(search.get("method"), str),
        "kept": _are_numbers(search.get("kept")),
        "bodies": all(text is None or isinstance(text, str) for text in texts),
        "env_steps": steps is None or (isinstance(steps, int) and steps > 0),
        "trials": isinstance(trials, list)
        and all(
            isinstance(trial, dict)
            and _are_numbers(trial.get("settings"))
            and _are_numbers(trial.get("returns"), or_none=True)
            for trial in trials
        ),
    }
    wrong = [name for name, fits in right.items() if not fits]
    return f"{wrong[0]!r} is missing or damaged" if wrong else ""


def _are_numbers(found: Any, *, or_none: bool = False) -> bool:
    """Return whether there is a mapping of names to finite numbers."""
    return isinstance(found, dict) and all(
        (value is None and or_none) or _is_number(value) for value in found.values()
    )


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and is_finite(value)
