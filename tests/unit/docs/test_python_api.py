"""The Python shown in the documentation and the examples runs as it stands."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import pandas as pd
import pytest

import gmc_bench as gmc
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.sim import batch

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "compare_two_methods"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty folder, where the suite's bodies are two small ones."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    # A second thread only waits for the first on bodies as small as these.
    monkeypatch.setattr(batch, "available_threads", lambda: 1)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    splits = {"train": (chain(3), star(3)), "test": (biped(), chain(3))}
    bodies = MorphologySet(id="unimals_100", splits=splits, source="made for tests", licence="MIT")
    store_set(bodies)
    return tmp_path / "work"


def test_the_page_runs_from_top_to_bottom(small, capfd):
    page = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, "python-api.md", "exec"), names)
    assert len(blocks) == 9
    assert names["record"].env_steps == 2048
    assert list(names["table"]["path"]) == [
        "a/record.json", "b/record.json", "two_tasks/ft/record.json",
        "two_tasks/obstacles/record.json",
    ]  # fmt: skip
    assert names["result"].failures == {}
    out, err = capfd.readouterr()
    assert "2,048 steps, return" in out
    assert err == ""


def test_the_readme_shows_what_there_is():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"gmc\.(\w+)", readme))
    assert shown == {"Experiment", "load_policy", "load_records"}
    assert shown <= set(gmc.__all__)


@pytest.fixture
def example():
    """The example as a module that draws on no screen."""
    mpl.use("Agg")
    spec = importlib.util.spec_from_file_location("compare_two_methods", f"{EXAMPLE}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module.plt.close("all")


def test_the_example_names_each_method_once_beside_its_colour(example, tmp_path):
    runs = [(method, seed) for method in ("one", "two") for seed in (1, 2)]
    curves = [
        {"method": method, "seed": seed, "env_steps": steps, "mean_return": steps + seed}
        for method, seed in runs
        for steps in (0, 100)
    ]
    unseen = [
        {"method": method, "seed": seed, "body": "a", "episode_return": 1.0}
        for method, seed in runs
    ]
    example.draw(pd.DataFrame(curves), pd.DataFrame(unseen), tmp_path / "comparison.png")
    left = example.plt.gcf().axes[0]
    assert [line.get_color() for line in left.lines] == ["C0", "C0", "C1", "C1"]
    legend = left.get_legend()
    entries = zip(legend.get_texts(), legend.get_lines(), strict=True)
    assert [(text.get_text(), line.get_color()) for text, line in entries] == [
        ("one", "C0"), ("two", "C1")
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["--protocol", "smoke"], []])
def test_the_example_fails_with_a_run_and_keeps_protocols_apart(words, example, monkeypatch):
    folders = []

    class Sweep:
        def __init__(self, specs, out, on_event):
            folders.append(out)

        def resume(self):
            return SimpleNamespace(failures={"recmorph": "no memory"})

    monkeypatch.setattr(gmc, "Sweep", Sweep)
    monkeypatch.setattr(sys, "argv", ["compare_two_methods.py", *words])
    with pytest.raises(SystemExit, match="recmorph"):
        example.main()
    assert folders == [Path(f"runs/two_methods_{words[-1] if words else 'lite'}")]


@pytest.mark.slow
def test_the_example_trains_compares_and_draws(small):
    words = ("--protocol", "smoke", "--env-steps", "1024", "--out", "two")
    command = [sys.executable, f"{EXAMPLE}.py", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    for said in ("training metamorph-star", "metamorph-star is there already"):
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        )
        assert said in done.stdout
        assert done.stderr == ""
    assert (small / "two" / "comparison.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(small, monkeypatch):
    """Its code cells, one after the other, with quick settings for the tagged ones."""
    monkeypatch.setattr(mpl, "get_backend", lambda: "agg")
    mpl.use("Agg")
    notebook = json.loads(EXAMPLE.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            names |= {"PROTOCOL": "smoke", "SETTINGS": {"env_steps": 1024}}
    assert set(names["unseen"]["method"]) == {"recmorph", "metamorph-star"}
    assert set(names["unseen"]["body"]) == {"biped"}
