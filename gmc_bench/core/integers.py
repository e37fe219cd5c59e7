"""Whole numbers that users give."""

from typing import Any

import numpy as np

from gmc_bench.core.errors import ConfigError


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, Python's or numpy's; booleans are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Return whether a value is an integer of at least 1, Python's or numpy's."""
    return is_integer(value) and int(value) >= 1


def require_recorded_seed(seed: int) -> None:
    """Raise unless a record can hold a seed: 32 bits are what every generator takes.

    Raises:
        ConfigError: it is negative or too large.
    """
    if not 0 <= seed < 2**32:
        raise ConfigError(f"'seed' must be between 0 and {2**32 - 1}, got {seed}")


def require_seed(seed: Any) -> int:
    """Return the seed of random streams as Python's integer.

    Raises:
        ConfigError: it is no integer, or negative; without a seed nothing could be reproduced.
    """
    if not is_integer(seed) or int(seed) < 0:
        raise ConfigError(f"a seed must be an integer that is not negative, got {seed!r}")
    return int(seed)
