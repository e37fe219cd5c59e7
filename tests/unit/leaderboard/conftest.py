"""Figures without their drawing, which would take most of the time of a build."""

from collections.abc import Iterator

import pytest

from gmc_bench.leaderboard import figures


@pytest.fixture(scope="module")
def bare_figures() -> Iterator[None]:
    """Let every figure be a file with nothing in it; `test_figures` looks at real ones."""
    with pytest.MonkeyPatch.context() as patch:
        empty = f"{figures.SVG_MARK}\n<svg xmlns='http://www.w3.org/2000/svg'/>".encode()
        patch.setattr(figures, "_svg", lambda _: empty)
        yield
