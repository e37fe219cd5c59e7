"""The guides for bodies and tasks: what they show is the package that the tests install."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.bodies.registry import BODY_SETS, ROBOT_FILES, BodySet, RobotFile
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.suites import SUITES, Suite
from gmc_bench.tasks import TASKS, Task
from gmc_bench.tasks.spec import (
    MetricTerm,
    Moment,
    ObservationTerm,
    RewardTerm,
    TerminationTerm,
    Transition,
)
from tests.fixtures import outside

DOCS = Path(__file__).parents[3] / "docs"
BODIES = (DOCS / "add-your-bodies.md").read_text(encoding="utf-8")
TASK = (DOCS / "add-your-task.md").read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the package for this process, and let the registries look again."""
    outside.leave_metadata(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(outside.FOLDER)
    for registry in (BODY_SETS, ROBOT_FILES, TASKS, SUITES):
        monkeypatch.setattr(registry, "_table", None)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "gmc_outside"]:
        del sys.modules[name]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def column(page, heading):
    """Return the names in code font in the first column of the table below a heading row."""
    table = page.partition(heading)[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize(
    ("page", "files"),
    [(BODIES, ("bodies.py", "crawler.xml")), (TASK, ("task.py", "suite.py"))],
)
def test_the_files_shown_are_those_of_the_package(page, files):
    shown = blocks(page, "python") + blocks(page, "xml")
    for name in files:
        assert outside.FILES[name] in shown


@pytest.mark.parametrize("page", [BODIES, TASK])
def test_the_entry_points_shown_are_those_of_the_package(page):
    (block,) = blocks(page, "toml")
    shown = tomllib.loads(block)
    for group, points in shown["project"]["entry-points"].items():
        assert points == outside.POINTS[group]
    data = shown.get("tool", {}).get("setuptools", {}).get("package-data")
    assert data in (None, outside.PROJECT["tool"]["setuptools"]["package-data"])


@pytest.mark.usefixtures("installed")
def test_what_the_page_offers_has_the_types_it_names():
    assert isinstance(BODY_SETS.get("outside-worms"), BodySet)
    assert isinstance(ROBOT_FILES.get("outside-crawler"), RobotFile)
    assert isinstance(TASKS.get("outside-straight"), Task)
    assert isinstance(SUITES.get("outside"), Suite)


@pytest.mark.usefixtures("installed")
def test_the_bodies_load_as_the_page_says():
    (load,) = [block for block in blocks(BODIES, "python") if "load_morphologies" in block]
    exec(compile(load, "add-your-bodies.md", "exec"), {})
    worms = load_morphologies("outside-worms")
    assert [body.num_limbs for body in worms.split("test")] == [6, 7]
    assert len(load_morphologies("outside-worms+damping").split("test")) == 12
    (crawler,) = load_morphologies("outside-crawler").split("test")
    assert crawler.num_limbs == 4
    assert [motor.kind for motor in crawler.actuators] == ["position"] * 3


@pytest.mark.usefixtures("installed")
def test_the_terms_can_be_tried_by_hand():
    (code,) = [block for block in blocks(TASK, "python") if "np.zeros((2, 3))" in block]
    names = {}
    exec(compile(code, "add-your-task.md", "exec"), names)
    np.testing.assert_allclose(names["rewards"], [1.0, -0.5])


def test_the_fields_named_are_there():
    names = column(TASK, "| of `transition` |")
    assert len(names) >= 7
    known = {*Transition.__dataclass_fields__, *vars(Transition)}
    assert [name for name in names if name not in known] == []
    assert {"torso_position", "action", "command"} <= set(Moment.__dataclass_fields__)
    fields = column(TASK, "| field of a task |")
    assert len(fields) >= 7
    assert [name for name in fields if name not in Task.__dataclass_fields__] == []
    for term in (ObservationTerm, RewardTerm, TerminationTerm, MetricTerm):
        assert f"{term.__name__}({', '.join(term.__dataclass_fields__)})" in TASK
