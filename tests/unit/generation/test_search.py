import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gmc_bench.core.errors import MorphologySetError, StorageError
from gmc_bench.generation import search as search_module
from gmc_bench.generation.journal import Journal, read_line, write_line
from gmc_bench.generation.judge import Verdict, judge
from gmc_bench.generation.recipe import Recipe, candidate_cell
from gmc_bench.generation.search import search

RECIPE = Recipe(seed=1, train=4, test=3, limbs=(3, 5))


def _every_third(body, seed, calls=None):
    """Turn down two of three bodies, as their hashes have it."""
    if calls is not None:
        calls.append(seed[1])
    fault = "" if int(body.digest, 16) % 3 == 0 else "viability"
    return Verdict(fault=fault, best_distance=1.0)


def _indices(found):
    return {split: [judged.index for judged in members] for split, members in found.splits.items()}


def test_quotas_are_filled_in_the_order_of_the_candidates(tmp_path):
    counts = []
    found = search(RECIPE, tmp_path / "j", on_judged=counts.append, judge_body=_every_third)
    for split, quota in RECIPE.quotas.items():
        cells = [candidate_cell(RECIPE, judged.index) for judged in found.splits[split]]
        assert {cell: cells.count(cell) for cell in cells} == quota
        assert _indices(found)[split] == sorted(_indices(found)[split])
    assert found.num_judged == 7 + sum(found.faults.values()) == len(counts)
    assert counts[-1] == 7
    assert found.faults["viability"] > 5
    digests = [judged.digest for members in found.splits.values() for judged in members]
    assert len(set(digests)) == 7


def test_bodies_go_to_the_split_that_lacks_the_larger_share(tmp_path):
    """Of one cell, four for train and two for test; train is first where they are even."""
    recipe = Recipe(seed=1, train=4, test=2, limbs=(5, 5))
    found = search(recipe, tmp_path / "j", judge_body=lambda body, seed: Verdict())
    indices = sorted(index for members in _indices(found).values() for index in members)
    train, test = (_indices(found)[split] for split in ("train", "test"))
    # Lacking of train and test: 4/4 2/2, 3/4 2/2, 3/4 1/2, 2/4 1/2, 1/4 1/2, 1/4 0.
    assert train == [indices[k] for k in (0, 2, 3, 5)]
    assert test == [indices[k] for k in (1, 4)]


def test_a_search_goes_on_where_it_was_interrupted(tmp_path):
    whole = search(RECIPE, tmp_path / "whole", judge_body=_every_third)
    journal, calls = tmp_path / "cut", []

    def stop(found):
        if found == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(RECIPE, journal, on_judged=stop, judge_body=partial(_every_third, calls=calls))
    first = list(calls)
    with journal.open("a") as file:
        file.write('{"index": 3, "dig')  # killed while it was writing
    resumed = search(RECIPE, journal, judge_body=partial(_every_third, calls=calls))
    assert resumed == whole
    assert first
    assert len(calls) == len(set(calls))
    assert journal.read_bytes() == (tmp_path / "whole").read_bytes()
    fresh = []
    assert search(RECIPE, journal, judge_body=partial(_every_third, calls=fresh)) == whole
    assert fresh == []


def test_journals_of_other_recipes_are_refused(tmp_path):
    search(RECIPE, tmp_path / "j", judge_body=_every_third)
    other = Recipe(seed=2, train=1, test=1, limbs=(3, 5))
    with pytest.raises(StorageError, match="not the journal of this search"):
        search(other, tmp_path / "j", judge_body=_every_third)
    with pytest.raises(StorageError, match="cannot keep the search"):
        search(RECIPE, tmp_path, judge_body=_every_third)


def test_repeated_bodies_are_turned_down(tmp_path):
    recipe = Recipe(seed=1, train=1, test=1, limbs=(2, 2))
    found = search(recipe, tmp_path / "j", judge_body=lambda body, seed: Verdict())
    header, *lines = (tmp_path / "j").read_bytes().splitlines()
    judged = [read_line(line) for line in lines]
    assert found.splits["train"][0].digest != found.splits["test"][0].digest
    judged[1] = replace(judged[1], digest=judged[0].digest)
    lines = [header.decode(), *map(write_line, judged)]
    (tmp_path / "j").write_text("\n".join(lines) + "\n")
    found = search(recipe, tmp_path / "j", judge_body=lambda body, seed: Verdict())
    assert found.faults == {"repeated": 1}
    assert found.splits["train"][0].digest != found.splits["test"][0].digest
    # What was turned down as well as repeated counts once, as what it was turned down for.
    lines[2] = write_line(replace(judged[1], verdict=Verdict(fault="mass")))
    (tmp_path / "j").write_text("\n".join(lines) + "\n")
    found = search(recipe, tmp_path / "j", judge_body=lambda body, seed: Verdict())
    assert found.faults == {"mass": 1}


def test_a_candidate_that_does_not_grow_is_turned_down(monkeypatch):
    monkeypatch.setattr(search_module, "grow_candidate", lambda recipe, index: None)
    found = search_module.judge_candidate(RECIPE, 3)
    assert (found.index, found.digest, found.verdict) == (3, "", Verdict(fault="growth"))


def test_candidates_that_are_no_longer_wanted_are_not_judged(tmp_path):
    """While a search waits for bodies of three limbs, the others are complete."""
    judged = []

    def late(body, seed):
        judged.append(body.num_limbs)
        return Verdict(fault="mass" if body.num_limbs == 3 and seed[1] < 40 else "")

    found = search(RECIPE, tmp_path / "j", judge_body=late)
    wanted = sum(sum(quota.values()) for quota in RECIPE.quotas.values())
    missing = sum(quota.get((3, False), 0) for quota in RECIPE.quotas.values())
    assert sum(limbs != 3 for limbs in judged) == wanted - missing
    assert sum(map(len, found.splits.values())) == wanted


def test_a_search_without_success_gives_up(tmp_path, monkeypatch):
    monkeypatch.setattr(search_module, "MAX_BARREN", 10)
    with pytest.raises(MorphologySetError, match=r"10 bodies in a row .*mass 10.*with 0 found"):
        search(RECIPE, tmp_path / "j", judge_body=lambda body, seed: Verdict(fault="mass"))


def test_a_body_that_is_found_lets_a_search_go_on(tmp_path, monkeypatch):
    """As many may be turned down again: it gives up after a row of them, not after a number."""
    monkeypatch.setattr(search_module, "MAX_BARREN", 3)
    judged = []

    def every_third(body, seed):
        judged.append(seed)
        return Verdict(fault="" if len(judged) % 3 == 0 else "mass")

    recipe = Recipe(seed=1, train=2, test=1, limbs=(5, 5))
    found = search(recipe, tmp_path / "j", judge_body=every_third)
    assert found.faults["mass"] == 6


class _Deadly:
    """Kills the process that it is sent to."""

    def __reduce__(self):
        return signal.raise_signal, (signal.SIGKILL,)

    def __call__(self, body, seed):
        raise AssertionError("it was not sent to another process")


def test_a_process_that_dies_ends_the_search_with_one_sentence(tmp_path):
    with pytest.raises(MorphologySetError, match="one of the 2 processes of the search died"):
        search(RECIPE, tmp_path / "j", 2, judge_body=_Deadly())


def test_two_searches_cannot_share_a_journal(tmp_path):
    book = Journal(tmp_path / "j", RECIPE)
    with pytest.raises(StorageError, match="another process searches for these bodies"):
        search(RECIPE, tmp_path / "j", judge_body=_every_third)
    book.close()
    search(RECIPE, tmp_path / "j", judge_body=_every_third)


def test_candidates_that_are_judged_ahead_do_not_change_the_outcome(tmp_path, monkeypatch):
    """By a pool whose tasks end in any order, one at a time."""
    tasks, under_way, order = {}, set(), random.Random(0)

    class Pool(AbstractContextManager):
        def __init__(self, count, **options):
            pass

        def __exit__(self, *error):
            assert all(task.done() for task in tasks)  # or cancelled

        def submit(self, function, *given):
            task = Future()
            tasks[task] = partial(function, *given)
            return task

    def finish_one(waiting, return_when):
        under_way.add(len(waiting))
        task = order.choice(list(waiting))
        task.set_result(tasks[task]())
        return {task}, set()

    monkeypatch.setattr(search_module, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(search_module, "wait", finish_one)
    alone = search(RECIPE, tmp_path / "alone", judge_body=_every_third)
    calls = []
    found = search(RECIPE, tmp_path / "j", 2, judge_body=partial(_every_third, calls=calls))
    assert found == alone
    assert len(calls) == len(set(calls)) > found.num_judged - found.faults.get("growth", 0)
    assert under_way == {6}  # three for each process


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_the_outcome(tmp_path):
    recipe = Recipe(seed=1, train=2, test=2, limbs=(4, 5))
    found = [search(recipe, tmp_path / str(n), n, judge_body=judge) for n in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


def _search_for_ever(recipe, journal):
    search(recipe, journal, 1)


@pytest.mark.slow
def test_a_killed_search_goes_on(tmp_path):
    recipe = Recipe(seed=1, train=2, test=2, limbs=(4, 5))
    whole = search(recipe, tmp_path / "whole")
    journal = tmp_path / "killed"
    process = multiprocessing.get_context("fork").Process(
        target=_search_for_ever, args=(recipe, journal)
    )
    process.start()
    while not journal.exists() or journal.read_bytes().count(b"\n") < 5:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert 5 <= journal.read_bytes().count(b"\n") < (tmp_path / "whole").read_bytes().count(b"\n")
    assert search(recipe, journal) == whole


def _processes_of(session):
    """Return the living processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, *rest = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if state not in "ZX" and int(rest[2]) == session:
            found.append(int(folder.name))
    return found


_SEARCH = """
import sys, pathlib
from gmc_bench.generation.recipe import Recipe
from gmc_bench.generation.search import search
search(Recipe(seed=1, train=9, test=9, limbs=(4, 9)), pathlib.Path(sys.argv[1]), 2)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_processes_of_a_killed_search_end(tmp_path):
    journal = tmp_path / "killed"
    command = [sys.executable, "-c", _SEARCH, str(journal)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        time.sleep(0.05)
    assert len(_processes_of(process.pid)) >= 3
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60.0
    while _processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _processes_of(process.pid) == []
