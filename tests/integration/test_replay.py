"""Replays from the command line, and the one that a run ends with."""

import json
import shutil

import pytest

from gmc_bench.experiments.experiment import Experiment
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_record
from gmc_bench.rendering.web.replay import RunReplay


def test_the_evaluation_played_again_gives_the_file_of_the_run(here, finished_run, tmp_path):
    path = tmp_path / "again.html"
    # One of the two test bodies was trained on.
    assert "replay of 1 episodes" in here("replay", finished_run.path, "--out", path).out
    # Return and length equal the record, or an episode is left out: so these are its episodes.
    assert path.read_bytes() == (finished_run.path / "replay.html").read_bytes()
    assert path.stat().st_size < 5_000_000


@pytest.mark.parametrize("name", ["record.json", "policy.safetensors", "."])
def test_a_replay_takes_the_place_of_no_other_file(here, finished_run, tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    done = here("replay", run, "--out", run / name, code=2)
    assert f"a replay is an HTML page, got {run / name}; give a file that ends in .html" in done.err
    for path in run.glob("*.*"):
        assert path.read_bytes() == (finished_run.path / path.name).read_bytes()


def test_what_differs_from_the_record_is_left_out(here, finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    content = finished_run.record
    del content["digest"]
    for item in content["returns"]:
        if (item["split"], item["body"]) == ("test", "biped"):
            item["episodes"][0]["episode_return"] += 1e-9
    (run / "record.json").unlink()
    write_record(run / "record.json", RunRecord.model_validate_json(json.dumps(content)))
    done = here("replay", run, "--all")
    assert f"replay of 1 episodes  {run / 'replay_all.html'}" in done.out
    assert "biped is not shown: replayed, its return is" in done.err
    done = here("replay", run, "--body", "biped", code=2)
    assert "nothing can be replayed: biped is not shown" in done.err


def test_bodies_that_are_not_there_are_refused(here, finished_run):
    done = here("replay", finished_run.path, "--body", "bipet", code=2)
    assert "the record has no test body 'bipet'; did you mean 'biped'?" in done.err
    done = here("replay", finished_run.path, "--body", "biped", "--all", code=2)
    assert "leave one of them out" in done.err
    done = here("replay", finished_run.path, "--mode", "stochastic", code=2)
    assert "the record holds no stochastic evaluation episodes" in done.err


@pytest.mark.parametrize(
    ("missing", "advice"),
    [
        (["record.json"], "is not finished (it has no record.json); finish it with"),
        (["record.json", "policy.safetensors"], "is not finished (it has no record.json); finish"),
        (["policy.safetensors"], "cannot be read; delete record.json, then finish the run with"),
    ],
)
def test_a_run_that_lacks_a_file_says_how_to_finish_it(
    here, finished_run, tmp_path, missing, advice
):
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    for name in missing:
        (run / name).unlink()
    done = here("replay", run, code=2)
    assert advice in done.err
    assert done.err.endswith(f": gmc-bench run --resume {run}\n")
    assert done.err.count("\n") == 1


@pytest.mark.usefixtures("here")
def test_what_goes_wrong_while_looking_on_is_a_sentence(finished_run, monkeypatch):
    experiment = Experiment.open(finished_run.path)
    replay = RunReplay(experiment)
    assert replay.write(experiment.record) == (None, "")  # nothing was scored

    class Broken:
        scoring = None
        episodes = property(lambda _: 1 / 0)

    replay._keeper = Broken()
    expected = "no replay was written (ZeroDivisionError: division by zero)"
    assert replay.write(experiment.record) == (None, expected)
    assert replay.write(experiment.record) == (None, expected)
