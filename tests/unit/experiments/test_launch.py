"""Who a process of a run is, and how many there are."""

import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments import launch
from gmc_bench.experiments.method import check_shares
from gmc_bench.experiments.resolve import check_threads, resolve
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.methods import METHODS
from gmc_bench.sim.batch import available_threads
from gmc_bench.training.group import Group


@pytest.fixture
def torchrun(monkeypatch):
    """Let this process look like one that torchrun has started."""

    def start(rank, size, here):
        names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        for name, value in zip(names, (rank, size, here, "localhost", 1), strict=True):
            monkeypatch.setenv(name, str(value))

    for name in launch.TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    return start


def test_a_run_has_one_process_unless_more_are_asked_for(torchrun, monkeypatch):
    assert launch.check_processes(None) == 1
    assert launch.check_processes(3) == launch.processes_here(3) == 3
    assert not launch.follows()
    assert not launch.follow()
    launch.require_one_run()
    monkeypatch.setenv("RANK", "3")  # of something else that starts processes
    assert not launch.under_torchrun()
    assert not launch.follows()


def test_torchrun_says_who_a_process_is(torchrun, monkeypatch):
    torchrun(rank=5, size=8, here=4)
    assert launch.follows()
    assert launch.check_processes(None) == launch.check_processes(8) == 8
    assert launch.processes_here(8) == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert launch.processes_here(8) == 8
    with pytest.raises(ConfigError, match="started 8 processes, but --processes is 2"):
        launch.check_processes(2)
    with pytest.raises(ConfigError, match="at least one process, got 0"):
        launch.check_processes(0)
    torchrun(rank=1, size=8, here=4)
    assert launch.follows()
    torchrun(rank=0, size=8, here=4)
    assert not launch.follows()
    with pytest.raises(ConfigError, match="name one --task"):
        launch.require_one_run()


@pytest.mark.parametrize("name", ["WORLD_SIZE", "LOCAL_WORLD_SIZE"])
def test_a_run_of_no_process_is_refused(torchrun, monkeypatch, name):
    torchrun(rank=0, size=2, here=2)
    monkeypatch.setenv(name, "0")
    with pytest.raises(ConfigError, match=f"variable {name}, .* number of at least 1, got '0'"):
        launch.processes_here(launch.check_processes(None))


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_a_variable_that_is_no_number_is_named(torchrun, monkeypatch, name):
    torchrun(rank=1, size=2, here=2)
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match=f"variable {name}, .* a whole number.*, got 'x'; start"):
        launch.follow()


def test_several_runs_are_refused_before_anything_else_is(torchrun):
    torchrun(rank=0, size=2, here=2)
    with pytest.raises(ConfigError, match="but this command is for several; use 'gmc-bench run'"):
        Sweep.grid(methods="recmorph", suites="closed-loop", protocol="smoke", seeds=1)


class Told(Group):
    """The first of two processes, which says what the other one hears."""

    size = 2

    def __init__(self):
        self.heard = []

    def broadcast(self, value):
        self.heard.append(value)


@pytest.mark.slow
def test_what_torchrun_started_hears_of_the_run_and_of_its_end(torchrun, monkeypatch, tmp_path):
    spec = ExperimentSpec(method="recmorph", suite="closed-loop")
    config, group = replace(resolve(spec).config, processes=2), Told()
    monkeypatch.setattr("gmc_bench.training.group.joined", lambda: nullcontext(group))
    torchrun(rank=0, size=2, here=2)
    with launch.shared(config, tmp_path) as shared:
        assert (shared, group.heard) == (group, [config])
    assert group.heard == [config, None]
    launch.dismiss()
    assert group.heard == [config, None, None]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with (
        pytest.raises(ConfigError, match="got 2 processes and 1 GPUs"),
        launch.shared(replace(config, device="cuda"), tmp_path),
    ):
        pass
    assert group.heard == [config, None, None]


def test_what_torchrun_started_takes_the_gpu_of_its_number_on_its_machine(torchrun, monkeypatch):
    class TakenError(Exception):
        """So far the process came."""

    def take(number):
        raise TakenError(number)

    fields = {"suite": "unimal", "task": "ft", "bodies": "tiny", "protocol": "smoke"}
    spec = ExperimentSpec(method="recmorph", **fields)
    config, group = replace(resolve(spec).config, processes=8, device="cuda"), Told()
    group.rank, group.size = 5, 8
    monkeypatch.setattr("gmc_bench.training.group.joined", lambda: nullcontext(group))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.setattr("torch.cuda.set_device", take)
    torchrun(rank=5, size=8, here=4)
    assert launch.follow()  # there is nothing to train
    group.broadcast = lambda value: config
    for local, number in ((None, 5), ("1", 1)):
        if local is not None:
            monkeypatch.setenv("LOCAL_RANK", local)
        with pytest.raises(TakenError, match=f"^{number}$"):
            launch.follow()


def test_other_processes_find_modules_of_the_working_folder_of_a_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert launch.search_path() == f"{tmp_path}:/elsewhere"


@pytest.fixture
def ended(tmp_path):
    """Return processes that have ended, by rank: with a number or by a signal, and last words."""

    def start(**ends):
        found = {}
        for rank, (command, words) in enumerate(ends.values(), start=1):
            launch._output(tmp_path, rank).write_text(words)
            found[rank] = subprocess.Popen(["sh", "-c", command])
            found[rank].wait()
        return found

    return start


LOST = ("exit 2", "Traceback:\nLostProcessError: no answer\n")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"a": LOST, "b": ("exit 1", "Traceback:\nValueError: odd\n")}, "3 ended: ValueError: odd"),
        ({"a": ("exit 1", "ValueError: odd"), "b": LOST}, "2 ended: ValueError: odd"),
        ({"a": LOST, "b": ("kill -9 $$", "")}, "3 was killed by signal 9"),
        ({"a": LOST}, "2 ended: LostProcessError: no answer"),
        ({"a": ("exit 7", "")}, "2 ended: exit code 7"),
    ],
)
def test_of_processes_that_ended_the_one_that_did_not_wait_for_others_is_told(
    ended, tmp_path, ends, said
):
    sentence = launch._what_happened(ended(**ends), tmp_path, tmp_path / "run")
    assert sentence.startswith(f"process {said}; the other processes of the run cannot go on")


def test_a_process_that_ends_before_it_is_ready_is_not_waited_for(ended, tmp_path, monkeypatch):
    others = ended(a=("exit 1", ""))
    assert not launch._await(others, tmp_path)
    launch._ready(tmp_path, 1).touch()
    assert launch._await(others, tmp_path)
    monkeypatch.setattr(launch, "START_S", 0.0)
    monkeypatch.setattr(launch, "END_S", 0.0)
    with subprocess.Popen(["sleep", "60"]) as process:
        waited = launch._await({2: process}, tmp_path)
        said = launch._what_happened({2: process}, tmp_path, tmp_path)
        process.kill()
    assert not waited
    assert said.startswith("a process does not answer; ")


def test_processes_share_the_cores(torchrun):
    assert check_threads(None, processes=available_threads() + 1) == 1
    assert check_threads(None, processes=1) == available_threads()
    torchrun(rank=0, size=2 * available_threads(), here=1)
    assert check_threads(None, processes=2 * available_threads()) == available_threads()


def test_each_process_takes_a_gpu_of_its_own(monkeypatch):
    taken = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    assert launch._take_gpu("cpu", 1, 8) == "cpu"
    assert [launch._take_gpu("cuda", number, 2) for number in (0, 1)] == ["cuda:0", "cuda:1"]
    assert taken == [0, 1]
    with pytest.raises(ConfigError, match="got 3 processes and 2 GPUs"):
        launch._take_gpu("cuda", 0, 3)


def test_one_gpu_is_not_named_for_several_processes():
    spec = ExperimentSpec(method="recmorph", suite="closed-loop")
    config, method = resolve(spec).config, METHODS.load("recmorph")
    for processes, device in ((1, "cuda:1"), (2, "cuda")):
        check_shares(replace(config, processes=processes, device=device), method)
    with pytest.raises(ConfigError, match="--device names 'cuda:1' for 2 processes; use --device"):
        check_shares(replace(config, processes=2, device="cuda:1"), method)


def test_a_process_ends_with_the_one_that_started_it():
    code = "from gmc_bench.experiments.launch import _end_with_parent as e; e(); print('lives on')"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.close()
        assert process.wait(60) == -signal.SIGTERM
        assert process.stdout.read() == b""
