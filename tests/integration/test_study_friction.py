"""The friction study from the command line, on runs of a few seconds."""

import csv
import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
import yaml

from gmc_bench.records.store import read_record, read_sealed, write_record
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS

TINY = (
    "--protocol", "smoke", "--threads", "1", "--num-envs", "4", "--rollout-length", "32",
    "--env-steps", "256", "--ppo.batch-size", "64", "--checkpoint-interval", "0",
)  # fmt: skip


@pytest.fixture
def short_episodes(monkeypatch):
    """Let scored episodes end after 2 s in place of 20, and those on each friction after 1 s."""
    task = TASKS.get("quadruped-velocity-v3")
    short = replace(task, horizon=task.control_steps(2.0))
    monkeypatch.setitem(TASKS._scan(), task.id, short)
    suite = SUITES.get("quadruped-friction-v3")
    brief = replace(suite.measurements["smoke"], seconds=1.0)
    short = replace(suite, measurements={**suite.measurements, "smoke": brief})
    monkeypatch.setitem(SUITES._scan(), suite.id, short)


def require_honest_frictions(here, folder):
    """Verify a run, and another one in which a result was changed: all else of it is equal."""

    def verified(run, code=0):
        return here("leaderboard", "verify", run, "--records", folder / "board", code=code)

    honest, forged = (folder / f"{method}_velocity_seed1" for method in ("mlp", "recmorph"))
    assert "episodes and 32 results on friction equal" in verified(honest).out
    record = read_record(honest / "record.json")
    lacking = record.model_copy(update={"friction": record.friction[1:]})
    write_record(honest / "record.json", lacking)
    expected = "has 31 results on friction, which are not the 32 that its suite measures"
    assert expected in verified(honest, code=2).err
    record = read_record(forged / "record.json")
    one = record.friction[5]
    better = one.model_copy(update={"restarts": {**one.restarts, "velocity_rmse": 0.001}})
    results = (*record.friction[:5], better, *record.friction[6:])
    write_record(forged / "record.json", record.model_copy(update={"friction": results}))
    assert (
        "1 of 32 results on friction differ; the first is restarts.velocity_rmse of go2 on nominal "
        "friction, forward: recorded 0.001, found "
    ) in verified(forged, code=1).out


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.usefixtures("short_episodes")
def test_a_shared_policy_and_one_per_robot_on_three_frictions(here, tmp_path):
    folder = tmp_path / "s"
    out = here("study", "friction", "--method", "recmorph", *TINY, "--out", folder).out
    rows = rows_of(folder / "table.csv")
    assert [(row["Method"], row["Controller"]) for row in rows] == [
        ("recmorph", "shared")] * 3 + [("mlp", "one per robot")] * 3  # fmt: skip
    assert "2 environments per robot and friction, 1 s each, commanded 0.5 m/s" in out
    record = read_record(folder / "recmorph_velocity_seed1" / "record.json")
    assert (record.suite, record.task) == ("quadruped-friction-v3", "quadruped-velocity-v3")
    content, _ = read_sealed(folder / "measured" / "recmorph_velocity_seed1.json")
    results = content["measured"]["results"]
    assert [(item["friction"], item["robot"]) for item in results[:5]] == [
        ("low", "go1"), ("low", "go2"), ("low", "anymal-b"), ("low", "anymal-c"),
        ("nominal", "go1"),
    ]  # fmt: skip
    progress = sum(item["restarts"]["progress"] for item in results[:4]) / 4
    assert float(rows[0]["Progress (m)"].strip("'")) == pytest.approx(progress, abs=0.006)
    robots = rows_of(folder / "table_robots.csv")
    assert len(robots) == len(rows_of(folder / "table_runs.csv")) == 2 * 4 * 3
    assert len(rows_of(folder / "table_single_life.csv")) == 6
    assert (folder / "figure.png").read_bytes()[:4] == b"\x89PNG"
    # A second time nothing is measured, and everything comes out the same.
    before = (folder / "table.md").read_bytes()
    assert "measuring" not in here("study", "--resume", folder).err
    assert (folder / "table.md").read_bytes() == before
    assert json.loads((folder / "study.json").read_bytes())["status"] == "complete"
    require_honest_frictions(here, folder)


def test_several_methods_are_planned_side_by_side(here):
    out = here(
        "study", "friction", "--method", "recmorph", "modumorph", "mlp", *TINY, "--seeds", 1, 2,
        "--dry-run",
    ).out  # fmt: skip
    names = [run["name"] for run in yaml.safe_load(out)["runs"]]
    assert names == [
        f"{method}_velocity_seed{seed}"
        for seed in (1, 2)
        for method in ("recmorph", "modumorph", "mlp")
    ]


@pytest.mark.slow
def test_another_rule_and_heading_are_in_every_row(here, tmp_path):
    folder = tmp_path / "s"
    options = ("--heading", "free", "--friction-rule", "static", "--out", folder)
    out = here("study", "friction", "--method", "mlp", *TINY, *options).out
    assert "Friction rule: static. Nothing corrects the heading" in out
    for name in ("table", "table_single_life", "table_robots", "table_runs"):
        rows = rows_of(folder / f"{name}.csv")
        assert {(row["Friction rule"], row["Heading"]) for row in rows} == {("static", "free")}
    content, _ = read_sealed(folder / "measured" / "mlp_velocity_seed1.json")
    assert content["setting"]["robots"] == "built-in"
    results = content["measured"]["results"]
    assert {(item["rule"], item["heading"]) for item in results} == {("static", "free")}
    # A resumed study keeps its rules.
    assert "measuring" not in here("study", "--resume", folder).err


@pytest.mark.skipif(find_spec("mujoco_menagerie") is not None, reason="the package is installed")
def test_robots_of_a_missing_package_are_refused_before_anything_is_trained(here, tmp_path):
    options = ("--robot-source", "menagerie", "--out", tmp_path / "s")
    found = here("study", "friction", *TINY, *options, code=2)
    assert "run: pip install 'gmc-bench[menagerie]'" in found.err.splitlines()[-1]
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (
            ("friction", "--suite", "unimal"),
            "the suite 'unimal-v1' measures no friction",
        ),
        (("gait", "--method", "recmorph", "mlp"), "is about one method, got --method recmorph mlp"),
        (("--method", "recmorph", "friction"), "a study was expected before its options"),
        (("friction", "--against", "mlp"), "--against is for the study 'gait'"),
        (("gait", "--heading", "free"), "--heading is for the study 'friction'"),
        (("gait", "--friction-rule", "mean"), "--friction-rule is for the study 'friction'"),
        (("friction", "--heading", "hold"), "unknown heading 'hold'; did you mean 'held'"),
        (("friction", "--friction-rule", "kinetic"), "unknown friction rule 'kinetic'"),
        (("friction", "--method", "recmorph", "swatt"), "unknown method 'swatt'"),
    ],
)
def test_bad_input(here, tmp_path, argv, reason):
    options = () if argv[0].startswith("-") else (*TINY, "--out", tmp_path / "s")
    found = here("study", *argv, *options, code=2)
    assert reason in found.err.splitlines()[-1]
