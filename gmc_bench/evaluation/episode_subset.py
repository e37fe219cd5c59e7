"""Replays selected episodes of an evaluation, bit-identical to the full evaluation.

The last bits of a network's output for a row depend on the size of the batch, on the row's place in
it and on the bodies in it, but not on the features of the other rows; and simulations do not depend
on each other. So the policy is given a batch with the rows of the whole evaluation, of which only
those of the wanted episodes are simulated; the others stay empty. With more than `MAX_ROWS`
episodes, the row of a later one, and the bodies beside it, depend on how long others took: with
their recorded lengths it can be played alone, too; without them, all episodes are played.

Much smaller batches give the same bits in most cases, but not always. `play_subset` can try them,
for callers that compare the outcome with a record anyway and can ask again for all rows.
"""

import heapq
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.evaluate import MAX_ROWS, Observer, Scoring, noise_of
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.policies.policy import Policy

FEWER_ROWS = (4, 8, 16, 32, 64, 96, 128)
"""Batch sizes to try; the smallest that gives the same bits in a trial is taken."""
_TRIALS = 3
"""Steps of a trial, on made-up observations."""


class EnoughError(Exception):
    """Raised by an observer that has seen enough of the episodes that began together."""


def play_subset(
    scoring: Scoring,
    policy: Policy,
    wanted: Collection[int],
    observers: Sequence[Observer],
    *,
    lengths: Sequence[int] | None = None,
    try_fewer_rows: bool = False,
) -> bool:
    """Play some episodes of an evaluation, each to its end, as the whole evaluation plays them.

    With the policy, machine, library versions and threads of the evaluation, they are the same to
    the last bit.

    Args:
        scoring: the evaluation.
        policy: who acts; not changed.
        wanted: numbers of the episodes, see `Observer`.
        observers: see every step. Their rows are those that are simulated, so only the wanted
            episodes, unless there are more than `MAX_ROWS` and no lengths. With an `EnoughError`
            they end what is played together, in that case everything.
        lengths: control steps of every episode, as recorded; wrong ones give other last bits.
        try_fewer_rows: show the policy only so many rows as gave the same bits in a short trial;
            the whole episode may have others all the same.

    Returns:
        Whether the policy was shown fewer rows than in the evaluation.
    """
    if not wanted:
        return False
    sequences = len(scoring.serialization or scoring.bodies)
    count = sequences * scoring.episodes
    if count <= MAX_ROWS:
        schedule = Schedule(np.arange(count), np.zeros(count, np.int64))
    elif lengths is not None and len(lengths) == count:
        schedule = schedule_of(lengths, MAX_ROWS)
    else:
        with suppress(EnoughError):
            scoring.run(policy, observers)
        return False
    fewer = False
    for group in schedule.groups(sorted(wanted)):
        player = _SubsetPlayer(scoring, policy, group, schedule, observers)
        if try_fewer_rows and count <= MAX_ROWS:
            fewer = player.use_fewer_rows(policy)
        with suppress(EnoughError):
            player.play(policy)
    return fewer


@dataclass(frozen=True)
class Schedule:
    """When and in which row the K episodes of an evaluation are played."""

    row: IntArray
    """(K,) int64."""
    start: IntArray
    """(K,) int64, control steps of the evaluation before each begins."""

    def groups(self, wanted: Sequence[int]) -> Iterator[IntArray]:
        """Yield episodes that begin together, so that they can be played together."""
        chosen = np.array(wanted, np.int64)
        for start in np.unique(self.start[chosen]).tolist():
            yield chosen[self.start[chosen] == start]


def schedule_of(lengths: Sequence[int], rows: int) -> Schedule:
    """Return an evaluation's schedule: a row whose episode has ended takes the next that waits.

    Args:
        lengths: control steps of each of K episodes.
        rows: at most K.
    """
    row, start = np.arange(len(lengths)), np.zeros(len(lengths), np.int64)
    ends = [(lengths[place], place) for place in range(rows)]
    heapq.heapify(ends)
    for number in range(rows, len(lengths)):
        start[number], row[number] = ends[0]
        heapq.heapreplace(ends, (ends[0][0] + lengths[number], ends[0][1]))
    return Schedule(row, start)


@dataclass(frozen=True)
class _Stage:
    """What all rows show, though only some are simulated; see `bound.Shown`."""

    dynamic: FloatArray
    morphology_index: IntArray
    height_map: FloatArray | None


class _SubsetPlayer:
    """Plays K episodes that begin together, and shows the policy all B rows of the evaluation."""

    def __init__(
        self, scoring: Scoring, policy: Policy, numbers: IntArray, schedule: Schedule,
        observers: Sequence[Observer],
    ) -> None:  # fmt: skip
        self.scoring, self.numbers, self.observers = scoring, numbers, observers
        self.core = EnvironmentCore(
            scoring.task, scoring.bodies, len(numbers), token_spec=policy.spec,
            num_threads=scoring.num_threads,
        )  # fmt: skip
        shown = np.repeat(np.arange(len(schedule.row) // scoring.episodes), scoring.episodes)
        first = int(schedule.start[numbers[0]])
        begun = np.flatnonzero(schedule.start <= first)
        hosted = np.zeros(int(schedule.row.max()) + 1, np.int64)
        hosted[schedule.row[begun]] = begun  # the last of a row has the highest number
        later = np.flatnonzero(schedule.start > first)
        later = later[np.argsort(schedule.start[later], kind="stable")]
        self.coming = [
            (int(schedule.start[k]) - first, int(schedule.row[k]), int(shown[k]))
            for k in later.tolist()
        ][::-1]
        """Of other episodes: when they begin, their row and what it shows; the next one last."""
        self.places = schedule.row[numbers]
        self._show(policy, shown[hosted])
        core = self.core
        core.simulator.streams[:] = scoring.streams(int(numbers.max()) + 1)[numbers]
        self.rows = np.arange(len(numbers))
        core.reset(self.rows, self.stage.morphology_index[self.places])
        self.noise: FloatArray | None = None
        if scoring.mode == "stochastic":
            shape = (scoring.task.horizon, *core.table.action_padding_mask.shape[1:])
            self.noise = np.stack([noise_of(scoring.seed, k, shape) for k in numbers.tolist()])

    def _show(self, policy: Policy, shown: IntArray) -> None:
        """Let the policy see rows of these sequences, none of which has begun."""
        scoring, core, rows = self.scoring, self.core, len(shown)
        self.bound: BoundPolicy = policy.on(
            core.table, rows, serialization=scoring.serialization, silent_limbs=scoring.silent_limbs
        )
        self.bound.start(np.arange(rows), shown)
        dynamic = np.zeros((rows, *core.dynamic.shape[1:]), np.float32)
        heights = core.height_map
        empty = None if heights is None else np.zeros((rows, heights.shape[1]), np.float32)
        bodies: IntArray = self.bound.serialization.body[shown].copy()
        self.stage = _Stage(dynamic, bodies, empty)

    def use_fewer_rows(self, policy: Policy) -> bool:
        """Show the wanted rows and a few others, if they give the bits of all rows.

        Returns:
            Whether they do.
        """
        whole, stage, places = self.bound, self.stage, self.places
        shown = whole.sequences.copy()
        others = np.setdiff1d(np.arange(len(shown)), places)
        rng = np.random.default_rng(0)
        tried = [rng.normal(size=stage.dynamic.shape).astype(np.float32) for _ in range(_TRIALS)]

        def actions(kept: IntArray) -> FloatArray:
            self._show(policy, shown[kept])
            found = []
            with policy.acting():
                for dynamic in tried:
                    self.stage.dynamic[:] = dynamic[kept]
                    found.append(self.bound.act(self.stage)[: len(places)])
            return np.stack(found)

        everything = np.concatenate([places, others])
        expected = self._expected(policy, whole, tried)
        for count in FEWER_ROWS:
            if len(places) <= count < len(shown) and np.array_equal(
                actions(everything[:count]), expected
            ):
                self._show(policy, shown[everything[:count]])
                self.places = np.arange(len(places))
                return True
        self._show(policy, shown)
        return False

    def _expected(
        self, policy: Policy, whole: BoundPolicy, tried: Sequence[FloatArray]
    ) -> FloatArray:
        found = []
        with policy.acting():
            for dynamic in tried:
                self.stage.dynamic[:] = dynamic
                found.append(whole.act(self.stage)[self.places])
        return np.stack(found)

    def play(self, policy: Policy) -> None:
        core = self.core
        running = np.ones(len(self.rows), np.bool_)
        for observer in self.observers:
            observer.started(core, self.rows, self.numbers)
        steps = 0
        with policy.acting():
            while running.any():
                self._begin_others(steps)
                actions = self._act()
                step = core.step(actions, np.flatnonzero(running))
                steps += 1
                self._tell(np.where(running, self.numbers, -1), actions, step)
                done = (step.terminated | step.truncated) & running
                running &= ~done
                if done.any():
                    for observer in self.observers:
                        observer.finished(int(done.sum()))

    def _begin_others(self, steps: int) -> None:
        """Let rows show the bodies of the episodes that begin in them."""
        while self.coming and self.coming[-1][0] <= steps:
            _, row, shown = self.coming.pop()
            self.stage.morphology_index[row] = self.bound.serialization.body[shown]
            self.bound.start(np.array([row]), np.array([shown]))

    def _act(self) -> FloatArray:
        core, stage = self.core, self.stage
        stage.dynamic[self.places] = core.dynamic
        if stage.height_map is not None:
            assert core.height_map is not None
            stage.height_map[self.places] = core.height_map
        return self.bound.act(stage, None if self.noise is None else self._noisy)[self.places]

    def _tell(self, numbers: IntArray, actions: FloatArray, step: StepResult) -> None:
        for observer in self.observers:
            observer.stepped(self.core, numbers, actions, step)

    def _noisy(self, distribution: MaskedGaussian) -> torch.Tensor:
        assert self.noise is not None
        step = np.minimum(self.core.episode_length, self.scoring.task.horizon - 1)
        drawn = np.zeros((len(self.stage.dynamic), *self.noise.shape[2:]), np.float32)
        drawn[self.places] = self.noise[self.rows, step]
        return distribution.perturbed(torch.from_numpy(drawn).to(distribution.mean.device))
