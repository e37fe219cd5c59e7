"""The untrained policy of the evaluation tests, and what a drawing says under its axes."""

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from gmc_bench.records.drawing import picture_bytes
from gmc_bench.studies import panels
from tests.unit.evaluation.conftest import make_trained, trained

__all__ = ["drawn", "make_trained", "steps_below", "trained"]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Collect the figures that panels are drawn into, which are not turned into pictures."""
    shown: list[Figure] = []
    monkeypatch.setattr(panels, "picture_bytes", lambda figure: shown.append(figure) or b"")
    return shown


@pytest.fixture
def steps_below(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bytes]], list[str]]:
    """Return a function that draws panels and gives the labels that their x axis shows."""
    shown: list[str] = []

    def keep(figure: Figure) -> bytes:
        picture = picture_bytes(figure)
        axis = figure.axes[0].xaxis
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        shown.extend(tick.label1.get_text() for tick in ticks if tick.label1.get_text())
        return picture

    def labels(draw: Callable[[], bytes]) -> list[str]:
        shown.clear()
        draw()
        return list(shown)

    monkeypatch.setattr(panels, "picture_bytes", keep)
    return labels
