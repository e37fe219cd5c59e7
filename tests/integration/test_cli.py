"""The whole way: train, score, write down, read back, score again, make tables."""

import json
import shutil
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmc_bench.records.store import read_record


def test_a_run_leaves_everything_it_promises(finished_run):
    path = finished_run.path
    assert sorted(item.name for item in path.iterdir()) == [
        ".lock", "checkpoints", "config.yaml", "learning_curve.png", "policy.safetensors",
        "record.json", "replay.html", "tensorboard",
    ]  # fmt: skip
    assert f"replay          {path / 'replay.html'}\n" in finished_run.out
    assert (path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert [item.name for item in sorted((path / "checkpoints").iterdir())] == [
        "00000023",
        "00000024",
    ]
    accumulator = EventAccumulator(str(path / "tensorboard"))
    accumulator.Reload()
    steps = [event.step for event in accumulator.Scalars("ppo/loss")]
    assert steps == list(range(128, 3073, 128))


def test_nothing_in_a_run_is_pickled(finished_run):
    kinds = {item.suffix for item in finished_run.path.rglob("*") if item.is_file()}
    kinds = {kind for kind in kinds if not kind[1:].isdigit()}  # event files end in a process id
    assert kinds == {"", ".html", ".json", ".png", ".safetensors", ".yaml"}


def test_the_record_is_valid_and_tells_what_was_run(finished_run):
    record = read_record(finished_run.path / "record.json")
    assert record.status == "complete"
    assert (record.method, record.suite, record.task) == ("recmorph", "unimal-v1", "unimal-ft-v1")
    assert record.env_steps == record.env_steps_planned == 3072
    assert not record.official
    assert "the protocol's env_steps was changed" in record.unofficial_reasons
    assert [point.env_steps for point in record.learning_curve] == list(range(128, 3073, 128))
    assert record.morphologies.num_train == record.morphologies.num_test == 2
    cells = {(item.split, item.mode, item.body, item.seen_in_train) for item in record.returns}
    assert cells == {
        (split, mode, body, seen)
        for mode in ("deterministic",)
        for split, body, seen in (
            ("train", "chain-3", True),
            ("train", "star-3", True),
            ("test", "biped", False),
            ("test", "chain-3", True),
        )
    }


def test_results_go_to_stdout_and_the_rest_to_stderr(finished_run):
    assert "train, deterministic" in finished_run.out
    assert str(finished_run.path / "record.json") in finished_run.out
    assert "run folder" in finished_run.err
    assert "Traceback" not in finished_run.err
    assert "train:" not in finished_run.out


@pytest.mark.slow
def test_scoring_again_gives_the_same_numbers(gmc, finished_run):
    again = gmc("evaluate", finished_run.path, "--json")
    assert json.loads(again.stdout)["returns"] == finished_run.record["returns"]


def test_the_table_of_records_holds_the_run(here, finished_run, tmp_path):
    records, tables = tmp_path / "runs", tmp_path / "tables"
    shutil.copytree(finished_run.path, records / "whole")
    folders = ("--records", records, "--out", tables)
    assert "recmorph" in here("leaderboard", "build", *folders).out
    here("leaderboard", "check", *folders)
    page = next(path for path in tables.rglob("*.md") if "recmorph" in path.read_text())
    page.write_text(page.read_text() + "more\n")
    assert str(page) in here("leaderboard", "check", *folders, code=1).out


def test_bad_input_ends_the_process_with_two(gmc):
    done = gmc("run", "--resume", "absent", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("gmc-bench: absent is not a run folder")
    assert done.stderr.count("\n") == 1


def test_listing_loads_no_networks():
    code = (
        "import sys\nfrom gmc_bench.cli.main import main\n"
        "assert main(['list', 'methods']) == 0\n"
        "assert not {'torch', 'mujoco', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
