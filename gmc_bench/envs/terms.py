"""Checks of what a task's functions return, which may be anybody's: terms and commands."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from gmc_bench.core.errors import ConfigError, GmcBenchError, PluginError
from gmc_bench.core.registry import failure_text
from gmc_bench.core.types import Array, BoolArray, DoubleArray
from gmc_bench.tasks.spec import Command, Task

Kind = Literal["reward", "termination", "metric", "observation", "event"]
_TRUTH, NUMBERS = "b", "fiub"
"""Kinds of numpy's types that count as truth values, and as numbers."""
_PROBED = 1000  # commands that are drawn to see what they hold
LARGEST = 1e20
"""Largest absolute value that a term may return: sums over an episode must stay finite, in single
precision too."""

T = TypeVar("T")


def read_only(seen: T) -> T:
    """Return what terms look at with arrays that share their memory and cannot be written to.

    Terms look at the simulator's own arrays: one that wrote there would move bodies.

    Args:
        seen: a dataclass; those inside it are protected, too.
    """
    changes: dict[str, Any] = {}
    for item in fields(seen):  # type: ignore[arg-type]
        value = getattr(seen, item.name)
        if isinstance(value, np.ndarray):
            changes[item.name] = value.view()
            changes[item.name].flags.writeable = False
        elif is_dataclass(value):
            changes[item.name] = read_only(value)
    return replace(seen, **changes)  # type: ignore[type-var]


class Term:
    """The function of one term.

    Args:
        task: id of its task, for messages.
        kind: what the term is.
        name: of the term.
        function: of a `Transition`, or a `Moment` for observations and a `Draw` for events.
    """

    def __init__(self, task: str, kind: Kind, name: str, function: Callable[[Any], Any]) -> None:
        self._where = f"the {kind} {name!r} of the task {task!r}"
        self._function = function
        self._kinds = _TRUTH if kind == "termination" else NUMBERS

    def __call__(self, seen: Any, *shapes: tuple[int, ...]) -> Array:
        """Return the term's value.

        Args:
            seen: argument of the function.
            shapes: that the value may have.

        Raises:
            PluginError: the function fails, or returns something else.
        """
        value = _called(self._where, lambda: np.asarray(self._function(seen)))
        return _checked(self._where, value, shapes, self._kinds)

    def require_finite(self, value: DoubleArray, rows: BoolArray | None = None) -> None:
        """Check numbers that the term returned.

        Args:
            value: (B, ...).
            rows: (B,), those that were simulated and did not break; default all.

        Raises:
            PluginError: one is not finite, or larger than `LARGEST`.
        """
        _require_finite(self._where, value, rows)


class CheckedCommand:
    """The command of a task, whose functions are checked as those of terms are.

    Args:
        task: id of the task, for messages.
        command: what draws and steers.
        has_headings: whether the bodies have a heading that a command can hold.
    """

    def __init__(self, task: str, command: Command, *, has_headings: bool) -> None:
        self.num_draws = command.num_draws
        self._where = f"the command of the task {task!r}"
        self._command = command
        self._has_headings = has_headings
        if not has_headings:  # a command that rarely holds one would be refused late
            rng = np.random.default_rng(0)
            self.draw(rng.random((_PROBED, self.num_draws)), np.zeros(_PROBED))

    def draw(self, uniform: DoubleArray, heading: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Return new commands, see `gmc_bench.tasks.spec.Command`.

        Raises:
            PluginError: the command fails, or returns something else.
            ConfigError: it holds a heading, which the bodies lack.
        """

        def drawn() -> tuple[Array, Array]:
            command, kept = self._command.draw(uniform, heading)
            return np.asarray(command), np.asarray(kept)

        command, kept = _called(f"{self._where}, in draw,", drawn)
        command = self._require(command, "draw", heading)
        kept = _checked(f"{self._where}, in draw,", kept, [heading.shape], NUMBERS)
        if not self._has_headings and not np.isnan(kept).all():
            raise ConfigError(
                f"{self._where} holds headings, which only bodies with joint drives have; use one "
                f"that holds none, e.g. VelocityCommand.fixed(0.5) or one without the shares "
                f"'straight', 'backward', 'sideways' and 'held'"
            )
        return command, kept

    def steer(self, command: DoubleArray, kept: DoubleArray, heading: DoubleArray) -> DoubleArray:
        """Return commands that hold their headings.

        Raises:
            PluginError: as for `draw`.
        """
        steered = _called(
            f"{self._where}, in steer,",
            lambda: np.asarray(self._command.steer(command, kept, heading)),
        )
        return self._require(steered, "steer", heading)

    def _require(self, command: Array, method: str, heading: DoubleArray) -> DoubleArray:
        where = f"{self._where}, in {method},"
        found = _checked(where, command, [(len(heading), self._command.num_values)], NUMBERS)
        # A body whose simulation broke has no heading: what is made of it says nothing.
        _require_finite(where, found, np.isfinite(heading))
        return found


def checked_command(task: Task, *, has_headings: bool) -> CheckedCommand | None:
    """Return the command of a task, see `CheckedCommand`; `None` if it has none."""
    if task.command is None:
        return None
    return CheckedCommand(task.id, task.command, has_headings=has_headings)


def _called(where: str, function: Callable[[], T]) -> T:
    """Return what a function of a task returns; whatever it raises names it."""
    try:
        return function()
    except GmcBenchError:
        raise
    except (Exception, SystemExit) as error:  # foreign code must not end the command
        raise PluginError(f"{where} failed with {failure_text(error)}") from error


def _checked(where: str, value: Array, shapes: Sequence[tuple[int, ...]], kinds: str) -> Array:
    """Return a value of a task's function if it has one of the shapes and kinds."""
    if value.shape not in shapes:
        raise PluginError(
            f"{where} returned an array of the shape {value.shape}; it must be "
            f"{' or '.join(map(str, dict.fromkeys(shapes)))}"
        )
    if value.dtype.kind not in kinds:
        what = "truth values (dtype bool)" if kinds == _TRUTH else "numbers"
        raise PluginError(f"{where} returned {value.dtype}; it must return {what}")
    # Weights times integers of few bits would wrap around.
    return value if kinds == _TRUTH else value.astype(np.float64, copy=False)


def _require_finite(where: str, value: DoubleArray, rows: BoolArray | None = None) -> None:
    fits = np.abs(value) <= LARGEST
    if fits.all():
        return
    wrong = value[~fits] if rows is None else value[rows][~fits[rows]]
    if wrong.size:
        raise PluginError(
            f"{where} returned {wrong.flat[0]}; it must be finite and at most "
            f"{LARGEST:.0e} in size wherever a body can be"
        )
