"""One run in several processes: killed, continued, and started by torchrun."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.experiments import launch
from gmc_bench.training.trainer import Trainer

SHORT = ("--env-steps", "640", "--evaluation.modes", "")
"""Five iterations, and no scores; of options that are given twice, the last one counts."""


@pytest.fixture
def started(monkeypatch):
    """The processes that a run in this process starts beside it."""
    found, start = [], launch._start

    def starting(*arguments):
        found.append(start(*arguments))
        return found[-1]

    monkeypatch.setattr(launch, "_start", starting)
    return found


def record_of(run):
    return json.loads((run / "record.json").read_bytes())


def weights(run):
    return (Path(run) / "policy.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_that_loses_a_process_ends_with_a_sentence_and_goes_on(
    here, gmc, started, tmp_path, monkeypatch
):
    run, iterate = tmp_path / "run", Trainer.iterate

    def losing(trainer):
        if trainer.iteration == 3:
            started[0].kill()
        return iterate(trainer)

    monkeypatch.setattr(Trainer, "iterate", losing)
    err = here("run", *gmc.small, *SHORT, "--processes", 2, "--out", run, code=2).err
    assert err.splitlines()[-1] == (
        "gmc-bench: process 2 was killed by signal 9; the other processes of the run cannot go on "
        f"without it; continue with: gmc-bench run --resume {run}"
    )
    monkeypatch.setattr(Trainer, "iterate", iterate)
    err = here("run", "--resume", run, "--processes", 1).err
    assert "2 process(es) before, 1 from here on" in err
    record = record_of(run)
    assert record["remarks"] == [
        "the number of processes changed while the run was under way: 2 from iteration 1, 1 from "
        "iteration 4"
    ]
    assert "processes" not in record["hardware"]


def test_processes_that_cannot_share_are_refused_before_a_folder_is_made(here, gmc, tmp_path):
    command = ("run", *gmc.settings, "--out", tmp_path / "run", "--method")
    assert "the method 'mlp' has separate weights per body and is trained by one process" in (
        here(*command, "mlp", "--processes", 2, code=2).err
    )
    assert "each process needs an environment, but the protocol has 4 and --processes is 5" in (
        here(*command, "recmorph", "--processes", 5, code=2).err
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_way_to_the_end_gives_the_same_bits(gmc, tmp_path):
    """In one go, after a kill of the first process, and under torchrun."""
    whole, parts, other = (tmp_path / name for name in ("whole", "parts", "other"))
    command = ("run", *gmc.small, *SHORT)
    gmc(*command, "--processes", 2, "--out", whole)
    assert record_of(whole)["hardware"]["processes"] == 2
    process = gmc.start_and_wait(parts, 2, *command, "--processes", 2, "--out", parts)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gmc("run", "--resume", parts)
    assert weights(parts) == weights(whole)
    assert record_of(parts)["learning_curve"] == record_of(whole)["learning_curve"]
    assert "remarks" not in record_of(parts)
    path = str(Path(__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": path, "GMC_BENCH_DATA": str(gmc.data)}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    done = subprocess.run(
        [*torchrun, "gmc_bench.cli.main", *command, "--out", str(other)],
        cwd=gmc.cwd,
        env=variables,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert weights(other) == weights(whole)
