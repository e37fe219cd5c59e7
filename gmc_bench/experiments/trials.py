"""Trials of a tuning: what they tried, what came of it, and the files that say so."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.records.store import unsealed

RETURN = "training_return.json"
"""File in the folder of a trial's run: what it is judged by. Records have no training return where
some body finished no episode, which may happen in a short run to a body that never falls."""
DIVERGED = "diverged.json"
"""File in the folder of a trial's run that diverged."""


@dataclass(frozen=True)
class TuningTrial:
    """One choice of settings and what came of it."""

    number: int
    settings: dict[str, float]
    """By dotted name."""
    returns: dict[int, float | None]
    """Training return of the run of each seed, over the bodies that finished an episode; none where
    none did."""
    core_seconds: float
    """Threads x seconds of training, all seeds."""

    @property
    def value(self) -> float | None:
        """Mean over seeds of the training return; none where one is missing."""
        found = [item for item in self.returns.values() if item is not None]
        return statistics.fmean(found) if len(found) == len(self.returns) else None


@dataclass(frozen=True)
class TuningResult:
    """All trials of a method, and the values of the best."""

    key: str
    """Suite, task and protocol, as `MethodSpec.tuned` names them."""
    trials: tuple[TuningTrial, ...]
    content: dict[str, Any]
    """Everything about the search, as `tuning.json` has it."""

    @property
    def best(self) -> TuningTrial:
        """The trial with the highest mean training return, the first of equals.

        Raises:
            ConfigError: no trial has one.
        """
        return best_of(self.trials)

    def to_spec(self) -> str:
        """Return what the method's specification says of it, as Python."""
        return f'tuned={{"{self.key}": {self.best.settings!r}}},'.replace("'", '"')


def read_result(path: Path) -> tuple[str, dict[str, Any]]:
    """Return what `tuning.json` of a finished tuning says: its key, and everything about it.

    Raises:
        RunFolderError: it is no such file.
    """
    try:
        ((key, content),) = json.loads(path.read_text(encoding="utf-8"))["searches"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(
            f"{path} is not the result of a tuning; finish it with: gmc-bench tune --resume "
            f"{path.parent}"
        ) from error
    return key, content


def read_return(path: Path) -> float | None:
    """Return the training return that a run of a trial kept, `None` where it has none.

    Raises:
        RunFolderError: the file is missing or damaged.
    """
    found: float | None = _content(path, "training_return")["training_return"]
    return found


def read_diverged(path: Path, run_digest: str) -> float:
    """Return the core seconds of a trial's run that diverged.

    Raises:
        RunFolderError: the file is damaged, or it was another run that diverged.
    """
    content = _content(path, "core_seconds")
    # Older files do not say which run it was.
    if content.get("run", run_digest) != run_digest:
        raise RunFolderError(
            f"{path} is of a run with other settings or another method; delete the folder "
            f"{path.parent} to make this run again"
        )
    return float(content["core_seconds"])


def _content(path: Path, needed: str) -> dict[str, Any]:
    """Return what a sealed file holds, a needed key among it."""
    try:
        content = unsealed(path.read_bytes())
        content[needed]
        return content
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(
            f"{path} is damaged ({error}); delete the folder {path.parent} to make this run again"
        ) from error


def best_of(trials: Sequence[TuningTrial]) -> TuningTrial:
    """Return the trial with the highest mean training return, the first of equals.

    Raises:
        ConfigError: no trial has one.
    """
    judged = [(trial.value, -trial.number, trial) for trial in trials if trial.value is not None]
    if not judged:
        raise ConfigError(
            "no trial has a training return, because no body finished an episode or training "
            "diverged; raise 'env_steps', or set lower rates"
        )
    return max(judged, key=lambda item: item[:2])[2]
