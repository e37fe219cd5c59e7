"""Values of a task's terms, checked, because whoever writes a task writes its functions."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from gmc_bench.core.errors import GmcBenchError, PluginError
from gmc_bench.core.escape import one_line
from gmc_bench.core.registry import raised_at
from gmc_bench.core.types import Array, DoubleArray

Kind = Literal["reward", "termination", "metric", "observation", "event"]
_TRUTH, _NUMBERS = "b", "fiub"
"""Kinds of numpy's types that count as truth values, and as numbers."""


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
        except Exception as error:
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
        return value

    def require_finite(self, value: DoubleArray) -> None:
        """Check numbers that came of the term, where no simulation has broken.

        Raises:
            PluginError: one is not finite.
        """
        wrong = value[~np.isfinite(value)]
        if wrong.size:
            raise PluginError(
                f"{self._where} returned {wrong.flat[0]}; it must be finite wherever a body can be"
            )
