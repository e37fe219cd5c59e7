"""Memory and threads of runs with several processes, as the launcher `local` counts them."""

import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.experiments.launchers import LAUNCHERS, Cell, local, process


def test_a_run_for_which_no_process_can_be_started_ends_the_sweep_with_a_sentence(tmp_path):
    launcher = LAUNCHERS.get("local").make({})
    launcher.open(tmp_path)
    with pytest.raises(StorageError, match=r"for the run 'a/b' \(.*No such file.*resume the sweep"):
        launcher.submit([Cell("a/b", 1)])  # no folder for its log


def test_the_libraries_of_a_worker_have_the_threads_of_its_cell(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda argv, **options: started.append((argv, options))
    )
    (tmp_path / ".states").mkdir()
    launcher = LAUNCHERS.get("local").make({"nice": 7})
    launcher.open(tmp_path)
    launcher.submit([Cell("a", 3)])
    ((argv, options),) = started
    assert argv[-3:] == [str(tmp_path), "a", "7"]
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    assert {options["env"][name] for name in pools} == {"3"}


def test_a_guess_counts_every_process(tmp_path, monkeypatch):
    launcher = LAUNCHERS.get("local").make({"jobs": 8, "spare_gib": 0})
    launcher.open(tmp_path)
    process = type("Process", (), {"pid": 0})()
    launcher._running["first"] = Cell("first", 3, processes=3), process
    need = 2 * 3 * local.GUESSED_MEMORY  # what is to come of the first, and the second
    for free, takes in ((need, True), (need - 1, False)):
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        assert launcher.takes(Cell("second", 3, processes=3), 0) is takes


@pytest.mark.parametrize(("has", "to_come"), [(1, 2), (3, 0), (5, 0)])
def test_what_a_run_has_taken_is_not_to_come_and_what_it_takes_beyond_is_nobodys(
    tmp_path, monkeypatch, has, to_come
):
    launcher = LAUNCHERS.get("local").make({"jobs": 8, "spare_gib": 0})
    launcher.open(tmp_path)
    process = type("Process", (), {"pid": 0})()
    launcher._running["first"] = Cell("first", 1, memory=3), process
    monkeypatch.setattr(local, "memory_of", lambda pid: has)
    for free, takes in ((4 + to_come, True), (3 + to_come, False)):
        monkeypatch.setattr(local, "available_memory", lambda free=free: free)
        assert launcher.takes(Cell("second", 1, memory=4), 0) is takes
    assert not launcher.takes(Cell("second", 1, memory=1), 1)  # memory is read before each


@pytest.mark.parametrize(("threads", "jobs"), [(1, 8), (3, 2), (16, 1)])
def test_by_default_runs_share_the_cores(tmp_path, monkeypatch, threads, jobs):
    monkeypatch.setattr("gmc_bench.sim.batch.available_threads", lambda: 8)
    monkeypatch.setattr(local, "available_memory", lambda: None)
    launcher = LAUNCHERS.get("local").make({})
    process = type("Process", (), {"pid": 0})()
    for i in range(jobs):
        assert launcher.takes(Cell("next", threads), 0)
        launcher._running[f"r{i}"] = Cell(f"r{i}", threads), process
    assert not launcher.takes(Cell("next", threads), 0)
