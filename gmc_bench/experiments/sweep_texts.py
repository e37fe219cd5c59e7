"""Texts of a sweep that runs: one line about all, and a table of its runs."""

import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gmc_bench.core.escape import one_line
from gmc_bench.core.table import aligned, number
from gmc_bench.experiments.cell_state import RUNNING, CellState, SweepOverview
from gmc_bench.experiments.eta import about, duration
from gmc_bench.experiments.events import (
    Event,
    Remark,
    SweepMoved,
    SweepRunFailed,
    SweepRunFinished,
    SweepStarted,
)
from gmc_bench.records.summary import summary_line

HEADINGS = ("run", "state", "env steps", "return", "steps/s", "time left", "node")
_QUIET_S = 60.0
"""Seconds between two lines where nobody looks at a terminal."""


@dataclass(frozen=True)
class RunTexts:
    """One run as texts."""

    name: str
    phase: str
    share: str
    """Of its training that is done, 0 to 1."""
    steps: str
    mean_return: str
    speed: str
    left: str
    node: str
    reason: str

    @property
    def kind(self) -> str:
        """The phase as one word."""
        return self.phase.partition(" ")[0]

    def cells(self) -> list[str]:
        """Return the cells below `HEADINGS`."""
        return [
            self.name, self.phase, self.steps, self.mean_return, self.speed, self.left, self.node,
        ]  # fmt: skip


def rows_of(overview: SweepOverview, phases: Iterable[str]) -> list[RunTexts]:
    """Return the runs of a sweep in some phases as texts, in order."""
    wanted = set(phases)
    return [_row(name, state) for name, state in overview.states.items() if state.phase in wanted]


def _row(name: str, state: CellState) -> RunTexts:
    planned = state.env_steps_planned
    share = 1.0 if state.phase == "finished" else state.env_steps / planned if planned else 0.0
    left = state.time_left()
    return RunTexts(
        one_line(name),
        state.phase if state.attempt < 2 else f"{state.phase} (attempt {state.attempt})",
        f"{share:.3f}",
        f"{state.env_steps:,} of {planned:,}" if planned else "-",
        number(state.mean_return),
        number(state.env_steps_per_s, 0),
        "-" if left is None else duration(left),
        one_line(state.node) or "-",
        one_line(state.reason) if state.phase == "failed" else "",
    )


def headline(overview: SweepOverview) -> str:
    """Return one line about all runs, e.g. `2 runs: 1 finished, 1 to do; time left: about 1 h`."""
    counts = ", ".join(f"{count:,} {phase}" for phase, count in overview.counts().items())
    text = f"{len(overview.states):,} runs: {counts}"
    if overview.is_over:
        return text
    seconds = overview.time_left
    left = "unknown" if seconds is None else about(seconds, is_lower_bound=overview.is_lower_bound)
    return f"{text}; time left: {left}"


def describe_sweep(overview: SweepOverview, lines: int | None = None) -> str:
    """Return a sweep as text: one line about all, a table, and why runs failed.

    Args:
        overview: how far it is.
        lines: at most so many; what is running comes first, then what failed.
    """
    order = ((*RUNNING, "waiting"), ("failed",), ("stopped",), ("finished",), ("to do",))
    rows = [row for phases in order for row in rows_of(overview, phases)]
    reasons = [f"failed: {row.name}: {row.reason}" for row in rows if row.reason]
    if lines is not None:
        reasons = reasons[: max(1, lines // 4)]
        rows = rows[: max(1, lines - len(reasons) - 4)]
    text = [headline(overview), aligned(HEADINGS, [row.cells() for row in rows])]
    hidden = len(overview.states) - len(rows)
    return "\n".join([*text, *([f"and {hidden:,} more"] if hidden else []), *reasons])


class LiveTable:
    """Texts that show a launched sweep while it runs: a table drawn again and again, or lines.

    Args:
        live: for a terminal, on which the table takes the place of the one before.
    """

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._lines, self._written = 0, 0.0

    def __call__(self, event: Event) -> Iterator[str]:
        """Yield what to write after an event."""
        match event:
            case SweepStarted():
                yield (
                    f"sweep folder {event.path}: its sweep.html shows how far it is, and so does\n"
                    f"gmc-bench sweep status {shlex.quote(str(event.path))}"
                )
            case Remark():
                yield self._instead(event.text)
            case SweepRunFinished():
                yield self._instead(f"{event.name} finished: {summary_line(event.record)}")
            case SweepRunFailed():
                yield self._instead(f"{event.name} failed: {event.reason}")
            case SweepMoved() if self._live:
                size = shutil.get_terminal_size()
                lines = describe_sweep(event.overview, max(4, size.lines - 3)).splitlines()
                yield self._instead("\n".join(line[: size.columns - 1] for line in lines))
                self._lines = 0 if event.overview.is_over else len(lines)
            case SweepMoved(overview):
                if overview.is_over or time.monotonic() - self._written > _QUIET_S:
                    self._written = time.monotonic()
                    yield headline(overview)
            case _:
                pass

    def _instead(self, text: str) -> str:
        """Return a text behind what takes the last table away."""
        away = f"\x1b[{self._lines}F\x1b[J" if self._lines else ""
        self._lines = 0
        return away + text
