"""Launcher `local`: how many runs memory and cores hold, and how their processes begin."""

from types import SimpleNamespace

import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.experiments.cell import FAILED
from gmc_bench.experiments.launchers import LAUNCHERS, Cell, local, process

GIB = 2**30


def make_launcher(running=(), **options):
    """Return a launcher that cells run with, in processes that are not there."""
    launcher = LAUNCHERS.get("local").make(options)
    for cell in running:
        launcher._running[cell.name] = cell, SimpleNamespace(pid=0)
    return launcher


@pytest.fixture
def set_memory(monkeypatch):
    """Return a function that says what is free on this machine and what each process has."""

    def set_memory(free, each=0):
        monkeypatch.setattr(local, "available_memory", lambda: free)
        monkeypatch.setattr(local, "memory_of", lambda pid: each)

    return set_memory


def test_a_run_for_which_no_process_can_be_started_ends_the_sweep_with_a_sentence(tmp_path):
    launcher = make_launcher()
    launcher.open(tmp_path)
    with pytest.raises(StorageError, match=r"for the run 'a/b' \(.*No such file.*resume the sweep"):
        launcher.submit([Cell("a/b", 1)])  # no folder for its log


def test_the_libraries_of_a_worker_have_the_threads_of_its_cell(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda argv, **options: started.append((argv, options))
    )
    (tmp_path / ".states").mkdir()
    launcher = make_launcher(nice=7)
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 3)])
    ((argv, options),) = started
    assert argv[-3:] == [str(tmp_path), "a", "7"]
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    assert {options["env"][name] for name in pools} == {"3"}


def test_a_worker_executes_nothing_that_lies_in_the_working_folder(tmp_path, monkeypatch):
    folder, sweep = tmp_path / "here", tmp_path / "sweep"
    folder.mkdir()
    sweep.mkdir()
    (folder / "socket.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(folder)
    worker = process.start_worker(sweep, "a", threads=1)
    assert worker.wait(120) == FAILED  # there is no such run
    process.end(worker)
    assert "sweep" in (sweep / ".states" / "a.log").read_text()
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("number", [9, 37])
def test_a_run_whose_process_a_signal_ended_has_ended(number):
    """Also a real-time signal, which has no name."""
    worker = SimpleNamespace(poll=lambda: -number, wait=lambda: -number, stdin=None)
    launcher = make_launcher()
    launcher._running["a"] = Cell("a", 1), worker
    (ended,) = launcher.poll()
    assert ended.why.startswith(f"was ended by signal {number}")
    assert launcher._running == {}


def test_the_first_run_begins_whatever_is_free(set_memory):
    set_memory(3 * GIB)
    assert make_launcher(jobs=8, spare_gib=1).takes(Cell("big", 1, memory=4 * GIB), 0)


def test_no_other_run_begins_that_memory_would_not_hold(set_memory):
    launcher = make_launcher([Cell("first", 1, memory=GIB)], jobs=8, spare_gib=1)
    need = (1 + 1 + 4) * GIB  # what is spared, what is to come of the first, and the second
    for free, takes in ((need, True), (need - 1, False)):
        set_memory(free)
        assert launcher.takes(Cell("second", 1, memory=4 * GIB), 0) is takes


def test_a_guess_counts_every_process(set_memory):
    launcher = make_launcher([Cell("first", 3, processes=3)], jobs=8, spare_gib=0)
    need = 2 * 3 * local.GUESSED_MEMORY  # what is to come of the first, and the second
    for free, takes in ((need, True), (need - 1, False)):
        set_memory(free)
        assert launcher.takes(Cell("second", 3, processes=3), 0) is takes


@pytest.mark.parametrize(("has", "to_come"), [(1, 2), (3, 0), (5, 0)])
def test_what_a_run_has_taken_is_not_to_come_and_what_it_takes_beyond_is_nobodys(
    set_memory, has, to_come
):
    launcher = make_launcher([Cell("first", 1, memory=3)], jobs=8, spare_gib=0)
    for free, takes in ((4 + to_come, True), (3 + to_come, False)):
        set_memory(free, each=has)
        assert launcher.takes(Cell("second", 1, memory=4), 0) is takes
    assert not launcher.takes(Cell("second", 1, memory=1), 1)  # memory is read before each


@pytest.mark.parametrize(("threads", "jobs"), [(1, 8), (3, 2), (16, 1)])
def test_by_default_runs_share_the_cores(monkeypatch, set_memory, threads, jobs):
    monkeypatch.setattr("gmc_bench.sim.batch.available_threads", lambda: 8)
    set_memory(None)
    cells = [Cell(f"r{i}", threads) for i in range(jobs + 1)]
    for running in range(jobs + 1):
        takes = make_launcher(cells[:running]).takes(cells[running], 0)
        assert takes is (running < jobs)
