"""Runs that are killed, interrupted, starved of disk or damaged, and continued."""

import json
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.training.checkpoint import list_checkpoints, read_checkpoint
from gmc_bench.training.trainer import Trainer
from tests.support.sealed import without_seal

POLICY = "policy.safetensors"


def stop(process, number):
    """Send a signal; return exit code and stderr."""
    process.send_signal(number)
    _, err = process.communicate()
    return process.returncode, err


def fill_disk(process):
    """Let no file of a process grow any more, as on a full disk; return exit code and stderr."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, 100))
    _, err = process.communicate()
    return process.returncode, err


def same_policy(run, other):
    return (Path(run) / POLICY).read_bytes() == (Path(other) / POLICY).read_bytes()


def check_intact(folder):
    """Check that a folder of checkpoints holds complete ones only."""
    kept = list_checkpoints(folder)
    assert sorted(folder.iterdir()) == kept
    digest = json.loads((kept[-1] / "checkpoint.json").read_bytes())["run"]
    for path in kept:
        assert read_checkpoint(path, digest).iteration == int(path.name)


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process can be set on Linux only"
)
def test_a_run_that_is_stopped_again_and_again_ends_in_the_same_bits(gmc, finished_run, tmp_path):
    """A kill at a random moment, a termination and a full disk, each followed by a resume."""
    random = np.random.default_rng(1)
    moments = sorted(random.choice(np.arange(1, 20), 3, replace=False).tolist())
    run = tmp_path / "run"
    command = ("run", *gmc.small, "--out", run)
    for iteration, way in zip(moments, ("kill", "term", "disk"), strict=True):
        # A process may come further than it was waited for; the next one must come further still.
        there = [int(path.name) for path in list_checkpoints(run / "checkpoints")]
        process = gmc.start_and_wait(run, max([iteration, *(n + 1 for n in there)]), *command)
        time.sleep(random.uniform(0.0, 0.1))
        if way == "kill":
            code, err = stop(process, signal.SIGKILL)
            assert code == -signal.SIGKILL
        elif way == "term":
            code, err = stop(process, signal.SIGTERM)
            assert code == 130
            assert f"Continue with: gmc-bench run --resume {run}" in err
            assert err.splitlines()[-1] == "gmc-bench: interrupted"
        else:
            code, err = fill_disk(process)
            assert code == 2
            sentence = err.splitlines()[-1]
            assert sentence.startswith("gmc-bench: cannot write ")
            assert "File too large; free some space, then continue with --resume" in sentence
            check_intact(run / "checkpoints")
        assert "Traceback" not in err
        assert not (run / "record.json").exists()
        command = ("run", "--resume", run)
    done = gmc(*command)
    assert "Continuing at " in done.stderr
    assert same_policy(run, finished_run.path)
    check_intact(run / "checkpoints")
    record = json.loads((run / "record.json").read_bytes())
    for name in ("returns", "learning_curve", "training_return", "weights_digest", "config_digest"):
        assert record[name] == finished_run.record[name], name


def test_an_interruption_says_how_to_go_on(here, gmc, finished_run, tmp_path, monkeypatch):
    run, iterate = tmp_path / "run", Trainer.iterate
    numbers = [signal.SIGINT, signal.SIGHUP]

    def interrupted(trainer):
        if trainer.iteration == 2:
            signal.raise_signal(numbers.pop())
        return iterate(trainer)

    monkeypatch.setattr(Trainer, "iterate", interrupted)
    for command in (("run", *gmc.small, "--out", run), ("run", "--resume", run)):
        captured = here(*command, code=130)
        assert captured.out == ""
        assert captured.err.endswith(
            f"Stopped. Continue with: gmc-bench run --resume {run}\ngmc-bench: interrupted\n"
        )
    monkeypatch.undo()
    check_intact(run / "checkpoints")


def test_a_finished_run_shows_its_result_again(here, finished_run):
    before = {
        path: path.stat().st_mtime_ns
        for path in finished_run.path.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
    shown = finished_run.out.partition("replay  ")[0]  # which stays as it was
    assert here("run", "--resume", finished_run.path).out == shown
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.fixture
def trained_run(finished_run, tmp_path):
    """A copy of a run whose training is done but whose scores are not written yet."""
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    (run / "record.json").unlink()
    (run / POLICY).unlink()
    return run


FILES = (
    "checkpoint.json", "environment.safetensors", "optimizer.safetensors", "policy.safetensors",
    "statistics.safetensors",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_damage_is_named_together_with_the_way_out(here, trained_run, name):
    newest = trained_run / "checkpoints" / "00000024"
    assert sorted(path.name for path in newest.iterdir()) == list(FILES)
    data = bytearray((newest / name).read_bytes())
    data[np.random.default_rng(len(data)).integers(len(data))] ^= 4
    (newest / name).write_bytes(data)
    captured = here("run", "--resume", trained_run, code=2)
    assert captured.out == ""
    assert captured.err.startswith(f"gmc-bench: the checkpoint {newest} is damaged: {name} ")
    assert captured.err.endswith(f"; delete the folder {newest} to resume from 00000023\n")
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_the_older_checkpoint_goes_on_where_the_newest_was_deleted(here, finished_run, trained_run):
    shutil.rmtree(trained_run / "checkpoints" / "00000024")
    assert "Continuing at 2,944 of 3,072" in here("run", "--resume", trained_run).err
    assert same_policy(trained_run, finished_run.path)


def test_a_run_whose_table_nobody_reads_is_complete(here, finished_run, trained_run, monkeypatch):
    (trained_run / "replay.html").unlink()
    monkeypatch.setattr(sys, "stdout", None)
    assert "stdout is closed" in here("run", "--resume", trained_run, code=2).err
    found, expected = (
        {path.name for path in run.iterdir()} for run in (trained_run, finished_run.path)
    )
    assert found == expected


def test_the_checkpoint_of_other_settings_is_refused(here, trained_run):
    config = trained_run / "config.yaml"
    changed = config.read_text().replace("gamma: 0.99", "gamma: 0.9")
    config.write_text(changed)
    captured = here("run", "--resume", trained_run, code=2)
    assert "config.yaml was changed after it was written" in captured.err
    config.write_text(without_seal(changed))
    captured = here("run", "--resume", trained_run, code=2)
    assert captured.out == ""
    assert "belongs to a run with other settings; put back the configuration" in captured.err


def test_a_damaged_policy_is_not_scored(here, finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    data = bytearray((run / POLICY).read_bytes())
    data[-1] ^= 1
    (run / POLICY).write_bytes(data)
    captured = here("evaluate", run, "--json", code=2)
    assert captured.out == ""
    assert f"{run / POLICY} is damaged (its digest is not the one in the record)" in captured.err


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_of_the_smoke_protocol(gmc, tmp_path):
    """Five runs of the real command, each killed four times at random moments of training."""
    options = (
        "--method", "recmorph", "--suite", "unimal", "--task", "ft", "--protocol", "smoke",
        "--seed", "1",
        "--morphologies", "gmc-unimal-mini", "--threads", "1", "--checkpoint-interval", "0",
    )  # fmt: skip
    gmc("run", *options, "--out", tmp_path / "whole")
    random = np.random.default_rng(2)
    for number in range(5):
        run = tmp_path / f"run{number}"
        command = ("run", *options, "--out", run)
        for iteration in sorted(random.choice(np.arange(0, 8), 4, replace=False).tolist()):
            process = gmc.start(*command)
            while process.poll() is None and not (run / "config.yaml").exists():
                time.sleep(0.01)
            while process.poll() is None and not (
                iteration == 0 or (run / f"checkpoints/{iteration:08d}").exists()
            ):
                time.sleep(0.01)
            time.sleep(random.uniform(0.0, 1.0))
            assert stop(process, signal.SIGKILL)[0] == -signal.SIGKILL
            command = ("run", "--resume", run)
        gmc(*command)
        assert same_policy(run, tmp_path / "whole")


@pytest.mark.slow
def test_a_run_over_two_commits_is_not_of_either(gmc, finished_run, tmp_path):
    """The record's commit is the one at the end; another one at the start makes it dirty."""
    if finished_run.record["git_commit"] is None:
        pytest.skip("the tests do not run in a git checkout")
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    config = (run / "config.yaml").read_text(encoding="utf-8")
    commit = finished_run.record["git_commit"]
    assert f"git_commit: {commit}" in config
    config = without_seal(config).replace(commit, "a" * 40)
    (run / "config.yaml").write_text(config, encoding="utf-8")
    (run / "record.json").unlink()
    told = gmc("run", "--resume", run).stderr
    assert f"Begun at commit {12 * 'a'}, but the checkout is at {commit[:12]}: " in told
    record = json.loads((run / "record.json").read_bytes())
    assert record["git_commit"] == commit
    assert record["git_dirty"] is True
    assert record["config_digest"] == finished_run.record["config_digest"]
