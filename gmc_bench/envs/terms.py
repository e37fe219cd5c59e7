"""Values of a task's terms, checked, because whoever writes a task writes its functions."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from gmc_bench.core.errors import GmcBenchError, PluginError
from gmc_bench.core.escape import one_line
from gmc_bench.core.registry import raised_at
from gmc_bench.core.types import Array, BoolArray, DoubleArray

Kind = Literal["reward", "termination", "metric", "observation", "event"]
_TRUTH, _NUMBERS = "b", "fiub"
"""Kinds of numpy's types that count as truth values, and as numbers."""
LARGEST = 1e20
"""Size of a term's number: sums over an episode must stay finite, in single precision too."""

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
        function: of what the environments show.
    """

    def __init__(self, task: str, kind: Kind, name: str, function: Callable[[Any], Any]) -> None:
        self._where = f"the {kind} {name!r} of the task {task!r}"
        self._function = function
        self._kinds = _TRUTH if kind == "termination" else _NUMBERS

    def __call__(self, seen: Any, *shapes: tuple[int, ...]) -> Array:
        """Return the term's value.

        Args:
            seen: what the function gets.
            shapes: that the value may have.

        Raises:
            PluginError: the function fails, or returns something else.
        """
        try:
            value = np.asarray(self._function(seen))
        except GmcBenchError:
            raise
        except (Exception, SystemExit) as error:  # foreign code must not end the command
            why = one_line(f"{type(error).__name__}: {error}")
            raise PluginError(f"{self._where} failed with {why}{raised_at(error)}") from error
        if value.shape not in shapes:
            raise PluginError(
                f"{self._where} returned an array of the shape {value.shape}; it must be "
                f"{' or '.join(map(str, dict.fromkeys(shapes)))}"
            )
        if value.dtype.kind not in self._kinds:
            what = "truth values (dtype bool)" if self._kinds == _TRUTH else "numbers"
            raise PluginError(f"{self._where} returned {value.dtype}; it must return {what}")
        # Weights times integers of few bits would wrap around.
        return value if self._kinds == _TRUTH else value.astype(np.float64, copy=False)

    def require_finite(self, value: DoubleArray, rows: BoolArray | None = None) -> None:
        """Check numbers that came of the term.

        Args:
            value: (B, ...).
            rows: (B,), those that were simulated and did not break; default all.

        Raises:
            PluginError: one is not finite, or larger than `LARGEST`.
        """
        fits = np.abs(value) <= LARGEST
        if fits.all():
            return
        wrong = value[~fits] if rows is None else value[rows][~fits[rows]]
        if wrong.size:
            raise PluginError(
                f"{self._where} returned {wrong.flat[0]}; it must be finite and at most "
                f"{LARGEST:.0e} in size wherever a body can be"
            )
