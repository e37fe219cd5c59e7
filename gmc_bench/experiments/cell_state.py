"""State of a run of a sweep, reported by its worker in a small file that others read."""

import math
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from gmc_bench.experiments.lease import NAME as LEASE
from gmc_bench.experiments.lease import TIMEOUT_S, is_alive
from gmc_bench.experiments.run_folder import CONFIG, RECORD
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import sealed, unsealed, write_atomic

Phase = Literal[
    "to do", "waiting", "starting", "training", "scoring", "finished", "failed", "stopped"
]
"""What is going on with a run. `waiting`: a launcher has it; `stopped`: it was begun and goes on
when the sweep does."""
PHASES: tuple[Phase, ...] = get_args(Phase)
RUNNING: tuple[Phase, ...] = ("starting", "training", "scoring")
STATES = ".states"
"""Folder of these files beside the runs, made when the first run begins."""


@dataclass(frozen=True, kw_only=True)
class CellState:
    """How far one run of a sweep is."""

    phase: Phase = "to do"
    env_steps: int = 0
    """Control steps so far, over all environments."""
    env_steps_planned: int = 0
    """Control steps of the whole run."""
    mean_return: float | None = None
    """In training, over the bodies that have finished an episode."""
    env_steps_per_s: float | None = None
    """In training, since the present process began to train."""
    scoring_s: float | None = None
    """Seconds that scoring took."""
    memory: int | None = None
    """Largest memory of the process so far, bytes."""
    node: str = ""
    """Host name of the machine."""
    pid: int = 0
    attempt: int = 0
    """How many times the run was begun or continued."""
    began: float = 0.0
    """When the present process began, seconds since 1970."""
    updated: float = 0.0
    """When this was written, likewise."""
    reason: str = ""
    """Why it failed, a sentence."""
    permanent: bool = False
    """It would fail in the same way again."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the state that `to_dict` describes; what is unknown or missing is passed over."""
        known = {item.name for item in fields(cls)}
        state = cls(**{name: value for name, value in content.items() if name in known})
        return state if state.phase in PHASES else replace(state, phase="to do")

    def with_record(self, record: RunRecord) -> Self:
        """Return the state with what the record of the finished run says."""
        return replace(
            self,
            env_steps=record.env_steps,
            env_steps_planned=record.env_steps_planned,
            mean_return=record.training_return,
            env_steps_per_s=record.env_steps_per_s or None,
        )

    def time_left(self) -> float | None:
        """Return the seconds of training that are left at the present speed, if that is known."""
        if self.phase != "training" or not self.env_steps_per_s:
            return None
        return max(0, self.env_steps_planned - self.env_steps) / self.env_steps_per_s


def state_file(sweep: Path, name: str) -> Path:
    """Return the file of a run's state."""
    return sweep / STATES / f"{name}.json"


def write_state(sweep: Path, name: str, state: CellState) -> None:
    """Write a run's state.

    Raises:
        StorageError: it could not be written.
    """
    # A reason may quote a path whose name is no UTF-8, which JSON does not hold.
    reason = state.reason.encode(errors="backslashreplace").decode()
    content = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in replace(state, reason=reason, updated=time.time()).to_dict().items()
    }
    write_atomic(state_file(sweep, name), sealed(content))


def read_state(sweep: Path, name: str, *, launched: bool = False) -> CellState:
    """Return what is known of a run; one whose process is gone has stopped.

    A record decides, unless the run was found to have failed with the record there: the record is
    damaged, or another run's.

    Args:
        sweep: the sweep's folder.
        name: of the run.
        launched: a launcher may have it, perhaps on a machine that shares no folder with this one
            and sends states but no lease.
    """
    finished = _written(sweep / name / RECORD) is not None
    try:
        state = CellState.from_dict(unsealed(state_file(sweep, name).read_bytes()))
    except (OSError, ValueError, TypeError):
        state = CellState(phase=_phase_without_worker(sweep / name))
    if finished:
        refused = state.phase == "failed" and is_vouched_for(sweep, name)
        return state if refused else replace(state, phase="finished", reason="")
    if state.phase == "finished":  # its record was taken away
        return replace(state, phase="stopped")
    held = is_alive(sweep / name)
    if state.phase in RUNNING and not held and not (launched and _is_recent(sweep, name)):
        return replace(state, phase="stopped")
    if state.phase in ("stopped", "failed") and held:  # by a process that writes no state
        return replace(state, phase="training", reason="", permanent=False)
    return state


def is_vouched_for(sweep: Path, name: str) -> bool:
    """Return whether a run's state is newer than its record: its writer made or read the record."""
    # By the clock of the file system, which all machines share.
    record, state = _written(sweep / name / RECORD), _written(state_file(sweep, name))
    return record is not None and state is not None and state >= record


def _is_recent(sweep: Path, name: str) -> bool:
    """Return whether a state was written recently beside a folder without a lease.

    The file's time counts and not `updated`: states that are sent are written again and again also
    while nothing in them changes, and by the clock of the machine that reads them.
    """
    if (sweep / name / LEASE).exists():  # which tells more
        return False
    written = _written(state_file(sweep, name))
    return written is not None and time.time() - written < TIMEOUT_S


def _written(path: Path) -> float | None:
    """Return when a file was written, none if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def _phase_without_worker(run: Path) -> Phase:
    """Return what a folder tells of a run that the process of its sweep runs itself."""
    if not (run / CONFIG).is_file():
        return "to do"
    return "training" if is_alive(run) else "stopped"


@dataclass(frozen=True)
class SweepOverview:
    """How far a sweep is."""

    path: Path
    states: Mapping[str, CellState]
    """Of each run, by name, in order."""
    time_left: float | None = None
    """Seconds until all are done, if anything is known."""
    is_lower_bound: bool = False
    """Scoring time is unknown and not included."""
    is_over: bool = False
    """It was begun, nothing is being run, and nothing will be without another start."""

    def counts(self) -> dict[str, int]:
        """Return how many runs are in each phase, without those that have none."""
        found = Counter(state.phase for state in self.states.values())
        return {phase: found[phase] for phase in PHASES if found[phase]}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        states = {name: state.to_dict() for name, state in self.states.items()}
        return {
            "path": str(self.path),
            "counts": self.counts(),
            "time_left": self.time_left,
            "is_lower_bound": self.is_lower_bound,
            "is_over": self.is_over,
            "runs": states,
        }


def read_overview(sweep: Path, names: Iterable[str]) -> SweepOverview:
    """Return how far the sweep in a folder is."""
    held = is_alive(sweep)
    states = {name: read_state(sweep, name, launched=held) for name in names}
    return SweepOverview(sweep, states, is_over=not held)
