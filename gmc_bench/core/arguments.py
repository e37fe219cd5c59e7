"""Checks of arguments that users give from Python, so that errors name what they wrote."""

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_count
from gmc_bench.core.types import Array

FITTING_STATE = "use one of as many environments of the same task and bodies"
"""Advice in the error about a state that does not fit."""


def as_path(given: Any, what: str) -> Path:
    """Return the path that a user named; `~` stands for the home folder.

    Args:
        given: text or a path.
        what: name of the argument in messages, e.g. `the folder of a run`.

    Raises:
        ConfigError: it is something else, or names nothing.
    """
    named = isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str)
    if not named or not os.fspath(given) or "\0" in os.fspath(given):
        raise ConfigError(f"{what} must be named by text or a path, got {shown(given)}")
    path = Path(given)
    with contextlib.suppress(RuntimeError):  # no user for `~name`, which a folder may be called
        path = path.expanduser()
    return path


def require_instance(given: Any, kind: type[Any], what: str, fix: str) -> None:
    """Raise unless an argument is of a class.

    Args:
        given: the argument.
        kind: its class.
        what: name in messages of what needs it, e.g. `an environment`.
        fix: half a sentence that says where to get one.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(given, kind):
        raise ConfigError(f"{what} needs a {kind.__name__}, got {shown(given)}; {fix}")


def require_count(given: Any, what: str, unit: str) -> None:
    """Check that an argument is an integer of at least 1.

    Args:
        given: the argument.
        what: name of the argument in messages, e.g. `the horizon`.
        unit: what it counts, in the plural.

    Raises:
        ConfigError: it is something else.
    """
    if not is_count(given):
        raise ConfigError(f"{what} must be a number of {unit}, at least 1, got {shown(given)}")


def require_number(
    given: Any, what: str, *, low: float = -math.inf, above: float = -math.inf
) -> None:
    """Check that an argument is a finite number.

    Args:
        given: the argument.
        what: name of the argument in messages, e.g. `the weight of the reward 'speed'`.
        low: lower bound, inclusive.
        above: lower bound, exclusive.

    Raises:
        ConfigError: it is something else.
    """
    is_number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
    if is_number and is_finite(given) and given >= low and given > above:
        return
    limits = [f"at least {low:g}"] * (low > -math.inf) + [f"above {above:g}"] * (above > -math.inf)
    raise ConfigError(
        f"{what} must be a finite number{' '.join(['', *limits])}, got {shown(given)}"
    )


def is_finite(number: float) -> bool:
    """Say whether a number is finite as a float; integers that are too large for one are not."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def require_vector(given: Any, length: int, what: str) -> None:
    """Check that an argument is a tuple of `length` finite numbers.

    Args:
        given: the argument.
        length: of the tuple.
        what: name of the argument in messages, e.g. `the spawn of a scene`.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(given, tuple) or len(given) != length:
        raise ConfigError(f"{what} must be a tuple of {length} numbers, got {shown(given)}")
    for number in given:
        require_number(number, f"each number of {what}")


def require_fitting_state(state: Mapping[str, Any], own: Mapping[str, Array]) -> None:
    """Check that the arrays of a state are there and have the shapes and types of one's own.

    Args:
        state: arrays by name, of which there may be more than `own` has.
        own: arrays of the expected shapes and types by name.

    Raises:
        ConfigError: `state` is no mapping, or one is missing or has another shape or type.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(
            f"this state must map names to arrays, got {shown(state)}; {FITTING_STATE}"
        )
    for name, expected in own.items():
        if name not in state:
            raise ConfigError(f"this state holds no {name!r}; {FITTING_STATE}")
        try:
            found = np.asarray(state[name])
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, of a GPU
            raise ConfigError(
                f"this state holds {name!r}, which is no array ({error}); {FITTING_STATE}"
            ) from None
        if found.shape != expected.shape:
            raise ConfigError(
                f"this state holds {name!r} of the shape {found.shape}, expected {expected.shape}; "
                f"{FITTING_STATE}"
            )
        if found.dtype != expected.dtype:  # a cast could lose digits, or fail half-way
            raise ConfigError(
                f"this state holds {name!r} of the type {found.dtype}, expected {expected.dtype}; "
                f"{FITTING_STATE}"
            )


def require_finite(values: Array, name: Callable[..., str], fix: str) -> None:
    """Check that all numbers of an array are finite.

    Args:
        values: of any shape.
        name: says what stands at an index; it takes one integer per dimension.
        fix: half a sentence that says what to do.

    Raises:
        ConfigError: one is not; the message names the first.
    """
    # A sum of squares takes half the time, and is finite unless a number is not, or is huge.
    if math.isfinite(np.vdot(values, values)) or np.isfinite(values).all():
        return
    index = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
    raise ConfigError(f"{name(*index)} is {values[index]}, expected a finite number; {fix}")
