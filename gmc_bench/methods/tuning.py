"""What a method may tune: settings, the ranges they come from, and the values that it keeps."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gmc_bench.core.config import leaves
from gmc_bench.core.errors import PluginError

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
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0 or (value == 0 and name[0] == "p"):
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


def read_trials(method: str, file: str) -> dict[str, Any]:
    """Return the trials beside a method, by `tuning_key`, as `gmc-bench tune` writes them.

    Args:
        method: its id.
        file: as in `MethodSpec.tuning`.

    Returns:
        Nothing where the method names no file.

    Raises:
        PluginError: the file is missing or holds no trials.
    """
    if not file:
        return {}
    package, colon, name = file.rpartition(":")
    try:
        place = resources.files(package) / name if colon else Path(file)
        content = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, ModuleNotFoundError) as error:
        raise PluginError(
            f"the trials of the method {method!r} cannot be read from {file!r} "
            f"({error}); restore the file, or leave 'tuning' out"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PluginError(
            f"{file!r} of the method {method!r} holds no trials of format {FORMAT}; "
            f"make them again with: gmc-bench tune {method}"
        )
    searches: dict[str, Any] = content["searches"]
    return searches
