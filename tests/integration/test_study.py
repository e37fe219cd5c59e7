"""Every study from the command line, on runs of a few seconds."""

import csv
import json
import shutil
import signal
import time

import pytest

from gmc_bench import studies
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.driver import Driver
from gmc_bench.records.store import read_record, read_sealed, record_digest, sealed
from gmc_bench.studies.catalogue import STUDIES
from gmc_bench.studies.study_run import StudyRun
from tests.support.slow import slow_but

TINY = (
    "--protocol", "smoke", "--morphologies", "tiny", "--threads", "1", "--num-envs", "4",
    "--rollout-length", "32", "--env-steps", "256", "--ppo.batch-size", "64",
    "--checkpoint-interval", "0",
)  # fmt: skip


SIBLINGS = ("study", "siblings", "--method", "recmorph", *TINY)


@pytest.fixture(scope="module")
def siblings(gmc, tmp_path_factory):
    """The folder of a finished study, which tests must not change."""
    folder = tmp_path_factory.mktemp("siblings") / "whole"
    gmc(*SIBLINGS, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def killed(gmc, tmp_path_factory):
    """The folder of the same study, killed in its second run."""
    folder = tmp_path_factory.mktemp("siblings") / "killed"
    process = gmc.start(*SIBLINGS, "--out", folder)
    second = folder / "permuted_ft_seed1" / "config.yaml"
    while process.poll() is None and not second.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return folder


def rows_of(folder):
    with (folder / "table.csv").open() as file:
        return list(csv.DictReader(file))


def test_without_a_name_the_questions_are_listed(here):
    out = here("study").out
    assert all(study.id in out and study.question in out for study in STUDIES.values())


@pytest.mark.slow
def test_components_gives_the_papers_rows_from_our_records(here, tmp_path):
    out = here("study", "components", *TINY, "--seeds", 1, "--out", tmp_path / "s").out
    rows = rows_of(tmp_path / "s")
    assert [row["Variant"].removeprefix("'") for row in rows] == [  # no formula for spreadsheets
        "Plain BiRNN", "Param.-matched", "+ Residual", "+ RMSNorm", "Full RecMorph",
    ]  # fmt: skip
    assert [row["Runs"] for row in rows] == ["1"] * 5
    record = read_record(tmp_path / "s" / "full_ft_seed1" / "record.json")
    assert rows[4]["Train score"].startswith(f"{record.score('train', 'deterministic'):,.1f}")
    assert rows[4]["Published: training return"] == "4367.4 ± 71.6"
    assert (tmp_path / "s" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert "Component ablation" in out
    result, _ = read_sealed(tmp_path / "s" / "study.json")
    assert result["status"] == "complete"
    assert record_digest(record) in [run["record_digest"] for run in result["runs"]]
    plain = read_record(tmp_path / "s" / "plain_ft_seed1" / "record.json")
    assert plain.preset == "lite-plain"
    # What all variants have otherwise than the protocol is told apart from what each is about.
    assert "the method's preset is 'lite-plain', not the protocol's 'lite'" in (
        plain.unofficial_reasons
    )
    (changes,) = {tuple(run["changes"]) for run in result["runs"]}
    assert changes == record.unofficial_reasons
    by_arm = {run["arm"]: run for run in result["runs"]}
    for arm, made in (("plain", plain), ("full", record)):
        for name in ("preset", "method_version", "protocol_digest", "task_digest"):
            assert by_arm[arm][name] == getattr(made, name)
    assert record.preset == "lite"


@pytest.mark.slow
def test_ordering_trains_each_order(here, tmp_path):
    here("study", "ordering", "--method", "metamorph-star", *TINY, "--out", tmp_path / "s")
    orders = {}
    for name in ("dfs", "bfs", "random"):
        config = read_record(tmp_path / "s" / f"{name}_ft_seed1" / "record.json").config
        orders[name] = config.get("tokens", {"order": "dfs"})["order"]
    assert orders == {"dfs": "dfs", "bfs": "bfs", "random": "random"}
    assert [row["Variant"] for row in rows_of(tmp_path / "s")] == [
        "Depth first", "Breadth first", "Random",
    ]  # fmt: skip


@pytest.mark.slow
def test_bodies_trains_on_ever_more_of_a_set(here, tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    splits = {"train": (chain(3), star(3)), "test": (biped(),)}  # none of them twice
    store_set(MorphologySet(id="tiny", splits=splits, source="made for tests", licence="MIT"))
    argv = ("--method", "recmorph", "nervenet", "--counts", 1, 2, "--seeds", 1, 2)
    out = here("study", "bodies", *argv, *TINY, "--out", tmp_path / "s").out
    assert "Generalisation and the number of train bodies" in out
    rows = rows_of(tmp_path / "s")
    assert [(row["Method"], row["Runs"]) for row in rows] == [("recmorph", "4"), ("nervenet", "4")]
    assert all(row["95 % interval"] not in ("-", "incomplete") for row in rows)
    named = {
        path.parent.name: read_record(path).morphologies
        for path in (tmp_path / "s").glob("*/record.json")
    }
    assert len(named) == 8
    assert named["recmorph-1_ft_seed1"].id == "tiny.first1"
    assert named["recmorph-1_ft_seed2"].id == "tiny.first1from2"  # another body
    assert named["nervenet-2_ft_seed2"].id == "tiny.first2"  # the set has no more
    assert len({item.num_test for item in named.values()}) == 1
    assert (tmp_path / "s" / "crossings.md").exists()
    kept = json.loads((tmp_path / "s" / "study.json").read_bytes())
    assert {run["numbers"]["env_steps"] for run in kept["runs"]} == {256.0}


@pytest.mark.slow
def test_siblings_measures_every_order(siblings):
    rows = rows_of(siblings)
    assert [row["Train / seed"] for row in rows] == ["C / 1", "P / 1"]
    # The chain has one order, the star of three limbs six.
    assert [(row["Bodies"], row["Unseen orders"], row["All orders"]) for row in rows] == [
        ("1", "3", "5")
    ] * 2
    content, _ = read_sealed(siblings / "measured" / "canonical_ft_seed1.json")
    star = next(body for body in content["measured"]["bodies"] if body["total_orders"] == 6)
    mean = sum(order["return"] for order in star["orders"] if order["unseen"]) / 3
    assert rows[0]["P test"] == f"{mean:,.1f}"


@pytest.mark.slow
def test_attributes_removes_twenty_features(here, tmp_path):
    here("study", "attributes", *TINY, "--task", "obstacles", "--out", tmp_path / "s")
    rows = rows_of(tmp_path / "s")
    assert [row["Task"] for row in rows] == ["unimal-obstacles-v1"] * 2
    sizes = [int(row["Parameters"].replace(",", "")) for row in rows]
    assert sizes[0] - sizes[1] == 2 * 20 * 64  # embeddings of actor and critic, width 64


SETTINGS = {
    "num_envs": 4, "rollout_length": 32, "env_steps": 256, "ppo": {"batch_size": 64},
}  # fmt: skip
RULES = {"protocol": "smoke", "bodies": "tiny", "threads": 1, "settings": SETTINGS}
"""What the options `TINY` say, but for the interval of checkpoints."""


@pytest.mark.slow
def test_a_study_from_python_is_that_of_the_command_line(here, siblings, tmp_path, capfd):
    told = []
    result = studies.run(
        "siblings", "recmorph", **RULES, checkpoint_interval=0.0, out=tmp_path / "python",
        on_event=told.append,
    )  # fmt: skip
    assert capfd.readouterr() == ("", "")
    for name in ("table.csv", "table.md", "figure.png"):
        assert (tmp_path / "python" / name).read_bytes() == (siblings / name).read_bytes()
    assert [row[1] for row in result.tables["table"].rows] == ["C / 1", "P / 1"]
    measured = [event for event in told if getattr(event, "what", "").startswith("sibling orders")]
    assert measured[-1].done == measured[-1].total
    assert studies.resume(tmp_path / "python").tables == result.tables
    assert studies.resume(tmp_path / "python", launcher="local").tables == result.tables


def test_a_study_from_python_takes_a_launch(here, tmp_path, monkeypatch):
    """That launched runs end alike is seen where a killed study continues."""
    driven = []

    def run(driver):
        driven.append(driver)
        return {}, {}

    monkeypatch.setattr(Driver, "run", run)
    launch = {"launcher": "local", "jobs": 1, "nice": 0}
    fields = {name: value for name, value in RULES.items() if name != "threads"}
    studies.run("siblings", **fields, out=tmp_path / "s", launch=launch)
    (driver,) = driven
    assert (driver.launcher.options.jobs, driver.launcher.options.nice) == (1, 0)
    assert "jobs: 1" in (tmp_path / "s" / "launch.yaml").read_text()
    assert {run.threads for run in StudyRun.open(tmp_path / "s").sweep.runs.values()} == {1}


def test_what_a_study_decides_is_not_given_from_python():
    for name, value in (("seed", 3), ("preset", "lite"), ("settings", {"model.width": 8})):
        with pytest.raises(ConfigError, match="a study decides '--"):
            studies.run("siblings", **{**RULES, name: value})
    with pytest.raises(ConfigError, match="'launch' must hold options, got 'local'"):
        studies.run("siblings", **RULES, launch="local")


@pytest.mark.slow
def test_representation_probes_before_and_after(here, tmp_path):
    here("study", "representation", "--method", "modumorph", *TINY, "--out", tmp_path / "s")
    rows = {row["Probe"]: row for row in rows_of(tmp_path / "s")}
    assert list(rows) == [
        "Robot-ID acc. (%)", "Limb-ID acc. (%)", "Action R2", "Action NRMSE",
        "Calinski-Harabasz index",
    ]  # fmt: skip
    before, after = (float(rows["Limb-ID acc. (%)"][stage]) for stage in ("Pre", "Post"))
    assert 0.0 <= before <= 100.0
    assert 0.0 <= after <= 100.0
    assert rows["Robot-ID acc. (%)"]["Published: pre"] == "84.28 ± 1.26"
    assert (tmp_path / "s" / "measured" / "trained_ft_seed1.png").exists()
    content, _ = read_sealed(tmp_path / "s" / "measured" / "trained_ft_seed1.json")
    # Of the train bodies, a chain of three limbs and a star of four: the steps 200 to 499.
    assert content["measured"]["num_rows"] == 300 * (3 + 4)


def test_a_method_without_limb_representations_is_refused_in_one_sentence(here, tmp_path):
    found = here(
        "study", "representation", "--method", "mlp", *TINY, "--out", tmp_path / "s", code=2
    )
    reason = "the method 'mlp' shows no representations of limbs"
    assert reason in found.err.splitlines()[-1]
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_gait_compares_two_methods_on_one_body(here, tmp_path):
    here(
        "study", "gait", "--method", "recmorph", "--against", "nervenet", *TINY,
        "--out", tmp_path / "s",
    )  # fmt: skip
    rows = rows_of(tmp_path / "s")
    assert [row["Method"] for row in rows] == ["recmorph", "nervenet"]
    assert len({row["Body"] for row in rows}) == 1
    record = read_record(tmp_path / "s" / "method_ft_seed1" / "record.json")
    returns = next(item for item in record.returns if item.body == rows[0]["Body"])
    assert rows[0]["Return"].strip("'") == f"{returns.episodes[0].episode_return:,.2f}"
    assert (tmp_path / "s" / "gait_ft_seed1.png").exists()


@pytest.mark.slow
def test_cells_trains_eight_variants(here, tmp_path):
    here("study", "cells", *TINY, "--task", "ft", "--out", tmp_path / "s")
    rows = rows_of(tmp_path / "s")
    assert [(row["Cell"], row["Blocks"]) for row in rows] == [
        (cell, blocks) for blocks in ("2", "4") for cell in ("BiRNN", "BiGRU", "BiLSTM", "BiMamba2")
    ]
    assert all(row["Runs"] == "1" for row in rows)


@pytest.mark.parametrize("launcher_of", slow_but([None, "sweep", "study"], None))
def test_a_killed_study_continues_and_measures_only_what_is_left(
    killed, siblings, here, tmp_path, launcher_of
):
    """Also where a launcher has finished its runs, as those of a sweep or of the study."""
    folder = shutil.copytree(killed, tmp_path / "s")
    finished = (folder / "canonical_ft_seed1" / "record.json").read_bytes()
    launch = ("--launcher", "local", "--jobs", 1, "--launch.nice", 0)
    if launcher_of == "sweep":
        here("sweep", "--resume", folder, *launch)
        assert len(list(folder.glob("*/record.json"))) == 2
    assert not (folder / "table.md").exists()
    here("study", "--resume", folder, *(launch if launcher_of == "study" else ()))
    assert (folder / "launch.yaml").exists() == (launcher_of is not None)
    assert (folder / "canonical_ft_seed1" / "record.json").read_bytes() == finished
    assert rows_of(folder) == rows_of(siblings)
    before = (folder / "measured" / "canonical_ft_seed1.json").stat().st_mtime_ns
    here("study", "--resume", folder)
    assert (folder / "measured" / "canonical_ft_seed1.json").stat().st_mtime_ns == before
    assert json.loads((folder / "study.json").read_bytes())["status"] == "complete"


@pytest.mark.parametrize("other", ["record_digest", "versions"])
def test_what_another_run_or_other_software_measured_does_not_count(
    siblings, here, tmp_path, other
):
    folder = shutil.copytree(siblings, tmp_path / "s")
    path = folder / "measured" / "canonical_ft_seed1.json"
    content, _ = read_sealed(path)
    changed = {"record_digest": "0" * 64, "versions": {**content["versions"], "mujoco": "0.0.1"}}
    path.write_bytes(sealed({**content, other: changed[other], "measured": {}}))
    here("study", "--resume", folder)
    again, _ = read_sealed(path)
    assert (again["measured"], again[other]) == (content["measured"], content[other])


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("componnets",), "unknown study 'componnets'; did you mean 'components'?"),
        (("components", "--method", "swat"), "is about recmorph, got --method 'swat'"),
        (("ordering", "--seed", "3"), "a study decides '--seed' itself"),
        (("ordering", "--model.width", "3"), "a study decides '--model.width' itself"),
        (
            ("bodies", "--counts", "1", "2", "--evaluation.modes", "stochastic"),
            "a study decides '--evaluation.modes' itself",
        ),
        (("ordering", "--ppo.lrr", "3"), "unknown option '--ppo.lrr'"),
        (("ordering", "--body", "x"), "--body is for the study 'gait'"),
        (("ordering", "--task", "hill"), "has no task 'hill'"),
        (("--resume", "nowhere"), "nowhere is not a study folder"),
        (("ordering", "--resume", "nowhere"), "options of the launch only, got 'ordering'"),
        (("gait", "--body", "nobody"), "have none named 'nobody'"),
    ],
)
def test_bad_input(here, tmp_path, argv, reason):
    options = () if "--resume" in argv else (*TINY, "--out", tmp_path / "s")
    found = here("study", *argv, *options, code=2)
    assert reason in found.err.splitlines()[-1]
