"""Parameters of which the default tests take some and `make test-all` takes all."""

import pytest


def slow_but(values, *kept):
    """Mark all parameters as slow but those that the default tests take.

    Args:
        values: parameters, as tuples where there are several arguments.
        kept: those of them that are not slow.

    Raises:
        ValueError: one of `kept` is none of the parameters.
    """
    values = list(values)
    if unknown := [value for value in kept if value not in values]:
        raise ValueError(f"{unknown} are no parameters")
    return [
        pytest.param(*_row(value), marks=() if value in kept else pytest.mark.slow)
        for value in values
    ]


def _row(value):
    return value if isinstance(value, tuple) else (value,)
