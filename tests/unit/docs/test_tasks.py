"""`docs/tasks.md` shows every task, with the numbers of the code."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import Transition

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "tasks.md").read_text(encoding="utf-8")
NAMES = [name for name in TASKS.names() if name.startswith("unimal-")]


def column(name):
    """Return the cells of a task's column by the first cell of their row."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (ids,) = [row for row in rows if row[0] == "id"]
    place = ids.index(f"`{name}`")
    return {row[0]: row[place] for row in rows}


def ends(task, name, height, beside=0.0):
    """Return whether a termination is true at a height in units of h0 above the ground."""
    (term,) = [term for term in task.terminations if term.name == name]
    place = np.array([[0.0, beside, height]])
    step = Transition(
        torso_before=place,
        torso_after=place,
        standing_height=np.ones(1),
        ground_height=0.0,
        control_dt=0.02,
    )
    return bool(term.function(step)[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_table_says_what_the_code_does(name):
    cells, task = column(name), TASKS.get(name)
    assert [cells["reward term"]] == [f"`{term.name}`" for term in task.rewards]
    assert [term.weight for term in task.rewards] == [1.0]
    ratio = float(cells["`fell`: torso at or below"].removesuffix(" h0"))
    assert ends(task, "fell", ratio)
    assert not ends(task, "fell", ratio + 0.002)
    tracked = "left_track" in [term.name for term in task.terminations]
    if tracked:
        distance = float(re.findall(r"([0-9.]+) m beside", cells["`left_track`"])[0])
        assert ends(task, "left_track", 1.0, -distance)
        assert not ends(task, "left_track", 1.0, distance - 0.01)
    else:
        assert cells["`left_track`"] == "no"
    assert ("height map" in cells["observation"]) == bool(task.num_heights)
    assert (cells["drawn anew at each reset"] == "yes") == bool(task.scene.terrain)
    units = {term.name: "" if term.unit == "1" else f" ({term.unit})" for term in task.metrics}
    metrics = ", ".join(f"`{name}`{unit}" for name, unit in units.items())
    assert cells["metric"] == (metrics or "none")
    assert f"after {task.horizon} control steps" in PAGE
    assert f"± {task.reset_noise}" in PAGE


def test_every_task_has_a_picture():
    pictures = re.findall(r"!\[[^]]+\]\((images/task-[a-z]+\.png)\)", PAGE)
    assert sorted(pictures) == sorted(f"images/task-{name.split('-')[1]}.png" for name in NAMES)
    for path in pictures:
        assert (DOCS / path).stat().st_size < 150_000
        with Image.open(DOCS / path) as image:
            assert image.size == (640, 360)
