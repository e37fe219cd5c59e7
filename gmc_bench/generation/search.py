"""Searching for the bodies of a recipe, on many processes and over many sessions.

Candidates are numbered, judged in any order, and accepted in the order of their numbers, so that
the outcome does not depend on the number of processes. Every verdict is appended to a journal
before it counts; a search that was killed goes on from there.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologySetError, StorageError
from gmc_bench.generation.journal import Journal, Judged
from gmc_bench.generation.judge import Verdict, judge
from gmc_bench.generation.recipe import Recipe, Stratum, candidate_cell, grow_candidate
from gmc_bench.generation.worker import start_worker

MAX_BARREN = 5_000
"""Candidates judged in a row without finding a body before a search gives up."""

_AHEAD = 3  # candidates under way for each process

Judge = Callable[[Morphology, tuple[int, int]], Verdict]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The outcome of a search."""

    splits: dict[str, tuple[Judged, ...]]
    """Accepted candidates by split, in ascending order."""
    num_judged: int
    """Candidates that had to be judged."""
    faults: dict[str, int]
    """Why candidates were turned down, by fault; `growth` where none grew, `repeated` bodies."""


def search(
    recipe: Recipe,
    journal: Path,
    workers: int = 1,
    *,
    on_judged: Callable[[int], None] | None = None,
    judge_body: Judge = judge,
) -> Found:
    """Judge candidates until every cell of the recipe is full.

    Args:
        recipe: the set.
        journal: file of verdicts; made if missing, continued if it belongs to the recipe.
        workers: processes; with 1 the search runs in this one.
        on_judged: called after each candidate that counts, with the number of bodies found.
        judge_body: accepts or rejects a body; a function of body and seed alone.

    Returns:
        The accepted candidates: a function of the recipe alone, on one kind of processor.

    Raises:
        MorphologySetError: thousands of candidates in a row were turned down, or a process died.
        StorageError: the journal cannot be written, is in use, or belongs to another recipe.
    """
    tally = _Tally(recipe)
    try:
        with ExitStack() as stack:
            book = Journal(journal, recipe)
            stack.callback(book.close)
            bench = _Bench(recipe, book, judge_body)
            if workers > 1:
                context = get_context("forkserver")
                bench.pool = stack.enter_context(
                    ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker)
                )
                stack.callback(bench.abandon)  # before the pool waits for what it still has
            index = 0
            while not tally.is_full:
                if tally.wants(candidate_cell(recipe, index)):
                    upcoming = tally.upcoming(index)
                    tally.take(bench.verdict(index, upcoming, workers * _AHEAD))
                    if on_judged:
                        on_judged(tally.num_found)
                index += 1
    except BrokenProcessPool as error:
        raise MorphologySetError(
            f"one of the {workers} processes of the search died, perhaps for lack of memory; ask "
            f"for the same set with fewer, and the search goes on"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot keep the search in {journal} ({error.strerror or error}); free space or "
            f"permissions there"
        ) from error
    return tally.found()


def judge_candidate(recipe: Recipe, index: int, judge_body: Judge = judge) -> Judged:
    """Grow and judge one candidate."""
    body = grow_candidate(recipe, index)
    if body is None:
        return Judged(index=index, digest="", verdict=Verdict(fault="growth"))
    verdict = judge_body(body, (recipe.seed, index))
    return Judged(index=index, digest=body.digest, verdict=verdict)


class _Tally:
    """What has been accepted, in the order of the candidates."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._quotas = recipe.quotas
        self._open = {split: Counter(quota) for split, quota in self._quotas.items()}
        self._splits: dict[str, list[Judged]] = {split: [] for split in self._quotas}
        self._digests: set[str] = set()
        self._faults: Counter[str] = Counter()
        self._barren = 0

    @property
    def num_found(self) -> int:
        return sum(map(len, self._splits.values()))

    @property
    def is_full(self) -> bool:
        return not any(counter.total() for counter in self._open.values())

    def wants(self, cell: Stratum) -> bool:
        return any(counter[cell] > 0 for counter in self._open.values())

    def upcoming(self, index: int) -> Iterator[int]:
        """Yield the candidates after one that would be wanted if nothing else were found."""
        while True:
            index += 1
            if self.wants(candidate_cell(self._recipe, index)):
                yield index

    def take(self, judged: Judged) -> None:
        fault = judged.verdict.fault
        if not fault and judged.digest in self._digests:
            fault = "repeated"
        if fault:
            self._faults[fault] += 1
            self._barren += 1
            if self._barren >= MAX_BARREN:
                raise MorphologySetError(
                    f"{MAX_BARREN} bodies in a row were turned down (in all: {self._reasons()}) "
                    f"with {self.num_found} found; ask for other limbs, sizes or loops"
                )
            return
        self._barren = 0
        self._digests.add(judged.digest)
        cell = candidate_cell(self._recipe, judged.index)
        # To the split that lacks the larger share of what it wants; to train if they are even.
        split = max(
            self._open, key=lambda name: self._open[name][cell] / max(1, self._quotas[name][cell])
            if cell in self._quotas[name] else -1.0,
        )  # fmt: skip
        self._open[split][cell] -= 1
        self._splits[split].append(judged)

    def _reasons(self) -> str:
        return ", ".join(f"{fault} {number}" for fault, number in sorted(self._faults.items()))

    def found(self) -> Found:
        return Found(
            splits={split: tuple(members) for split, members in self._splits.items()},
            num_judged=self.num_found + self._faults.total(),
            faults=dict(sorted(self._faults.items())),
        )


class _Bench:
    """Judges candidates, ahead of time where there are processes for it."""

    def __init__(self, recipe: Recipe, book: Journal, judge_body: Judge) -> None:
        self.pool: ProcessPoolExecutor | None = None
        self._book = book
        self._judge = partial(judge_candidate, recipe, judge_body=judge_body)
        self._tasks: dict[Future[Judged], int] = {}

    def verdict(self, index: int, upcoming: Iterator[int], ahead: int) -> Judged:
        """Return the verdict of a candidate, and keep others under way."""
        if index not in self._book.judged and self.pool is None:
            self._book.add(self._judge(index))
        while index not in self._book.judged:
            self._submit(index)
            while len(self._tasks) < ahead:
                self._submit(next(upcoming))
            done, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
            for task in done:
                del self._tasks[task]
                self._book.add(task.result())
        return self._book.judged[index]

    def _submit(self, index: int) -> None:
        if self.pool and index not in self._book.judged and index not in self._tasks.values():
            self._tasks[self.pool.submit(self._judge, index)] = index

    def abandon(self) -> None:
        """Drop what is not needed any more."""
        for task in self._tasks:
            task.cancel()
