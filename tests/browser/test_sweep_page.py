"""The page of a sweep in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from gmc_bench.experiments import sweep_page
from gmc_bench.experiments.cell_state import CellState, SweepOverview
from tests.support.slow import slow_but

PHONE = {"width": 360, "height": 740}


def _page(folder: Path, *, is_over: bool = False) -> Path:
    """Write the page of a sweep with a run in every group."""
    states = {
        "running": CellState(phase="training", env_steps=5, env_steps_planned=10),
        "failed": CellState(phase="failed", reason="the loss was not finite"),
        "finished": CellState(phase="finished"),
        "stopped": CellState(phase="stopped", env_steps=5, env_steps_planned=10),
        "to do": CellState(),
    }
    path = folder / "sweep.html"
    sweep_page.write_page(path, SweepOverview(folder, states, is_over=is_over))
    return path


@pytest.mark.parametrize(
    ("scheme", "is_over"),
    slow_but(
        [("light", False), ("light", True), ("dark", False), ("dark", True)],
        ("light", False),
        ("dark", True),
    ),
)
def test_axe_finds_nothing(tmp_path: Path, visit: Any, scheme: str, is_over: bool) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = visit(tmp_path, viewport=PHONE, color_scheme=scheme)
    page = tab.open(_page(tmp_path, is_over=is_over))
    found = axe.run(page).response["violations"]
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_it_redraws_itself_until_that_is_switched_off(
    tmp_path: Path, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_page, "REFRESH_S", 1)
    page = visit(tmp_path).open(_page(tmp_path))
    with page.expect_request("**/sweep.html"):  # by itself
        pass
    box = page.get_by_label("redraw every 1 s")
    box.uncheck()
    loaded = page.evaluate("performance.timeOrigin")
    page.wait_for_timeout(1500)
    assert page.evaluate("performance.timeOrigin") == loaded
    page.reload()
    assert not box.is_checked()
    with page.expect_request("**/sweep.html"):
        box.check()
    assert box.is_checked()
