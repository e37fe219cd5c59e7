"""An entry point with another name than what it offers is refused, of every kind."""

import pytest

from gmc_bench.methods import METHODS
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS

KINDS = {
    "methods": (METHODS, "recmorph:SPEC", "recmorph"),
    "suites": (SUITES, "gmc_bench.suites.unimal:SUITE", "unimal-v1"),
    "tasks": (TASKS, "gmc_bench.tasks.unimal_ft:TASK", "unimal-ft-v1"),
}


@pytest.fixture(params=KINDS)
def other_name(request, tmp_path, monkeypatch):
    """Install something of a kind under another name; return the kind."""
    registry, target, _ = KINDS[request.param]
    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gmc_bench.{request.param}]\nodd-v1 = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_table", None)  # look again, and forget it afterwards
    return request.param


def test_another_name_is_listed_as_broken_and_starts_no_run(here, gmc, other_name, tmp_path):
    _, target, own = KINDS[other_name]
    sentence = f"{target} is registered as 'odd-v1', but its id is {own!r}; give the entry point"
    assert sentence in here("list", other_name).out
    words = {"methods": "recmorph", "suites": "unimal", "tasks": "ft"}
    if other_name == "tasks":  # no suite has the name, so no run can ask for it
        return
    options = {**words, other_name: "odd"}
    refused = here(
        "run", *gmc.settings, "--method", options["methods"], "--suite", options["suites"],
        "--out", tmp_path / "run", code=2,
    )  # fmt: skip
    assert sentence in refused.err
    assert not (tmp_path / "run").exists()
