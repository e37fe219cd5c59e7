"""What ids and names must look like to stand in records and in names of files."""

import re
from typing import Any

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError

NAME = r"[a-z0-9][a-z0-9._-]*"
"""An id that is also safe as a file name: it has no slash and does not start with a dot."""
VERSIONED_NAME = rf"{NAME}-v[1-9][0-9]*"
"""The id of a suite or a task."""
REASON = r"[a-z][a-z0-9_]*"
"""Why an episode ended."""

_ALPHABETS = {
    NAME: "lower-case letters, digits, '.', '_' and '-', after a letter or digit",
    VERSIONED_NAME: "lower-case letters, digits, '.', '_' and '-', with its version at the end, "
    "like 'mine-v1'",
    REASON: "lower-case letters, digits and '_', after a letter",
}


def require_name(given: Any, pattern: str, what: str) -> None:
    """Check that a name can stand in records.

    Args:
        given: the name.
        pattern: `NAME`, `VERSIONED_NAME` or `REASON`.
        what: name of the argument in messages, e.g. `the id of a task`.

    Raises:
        ConfigError: it is something else.
    """
    if not (isinstance(given, str) and re.fullmatch(pattern, given)):
        raise ConfigError(f"{what} must be {_ALPHABETS[pattern]}, got {shown(given)}")
