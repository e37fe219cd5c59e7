"""Some episodes of an evaluation, played without the others, to the same bits.

The last bits of a network's output depend on how many rows it is shown and on which of them is
which, not on what the other rows hold; and every simulation depends on itself alone. So the policy
is shown as many rows as in the whole evaluation, of which only those of the wanted episodes are
simulated; the others stay empty. That holds for episodes that begin together: where there are more
than `MAX_ROWS`, the row of a later one depends on how long others take, and everything is played.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.evaluate import MAX_ROWS, Observer, Scoring, noise_of
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.policies.policy import Policy


def play_chosen(
    scoring: Scoring, policy: Policy, wanted: Collection[int], observers: Sequence[Observer]
) -> None:
    """Play some episodes of an evaluation, each to its end, as the whole evaluation plays them.

    With the policy, machine, library versions and threads of the evaluation, they are the same to
    the last bit.

    Args:
        scoring: the evaluation.
        policy: who acts; not changed.
        wanted: numbers of the episodes, see `Observer`.
        observers: see every step. Their rows are those that are simulated, so only the wanted
            episodes, unless one of them does not begin with the evaluation.
    """
    if not wanted:
        return
    if max(wanted) >= MAX_ROWS:
        scoring.run(policy, observers)
        return
    _Chosen(scoring, policy, np.array(sorted(wanted)), observers).play(policy)


@dataclass(frozen=True)
class _Stage:
    """What all rows show, though only some are simulated; see `bound.Shown`."""

    dynamic: FloatArray
    morphology_index: IntArray
    height_map: FloatArray | None


class _Chosen:
    """Plays K episodes in K rows, and shows the policy all B rows of the evaluation."""

    def __init__(
        self, rules: Scoring, policy: Policy, numbers: IntArray, observers: Sequence[Observer]
    ) -> None:
        self.rules, self.numbers, self.observers = rules, numbers, observers
        sequences = len(rules.serialization or rules.bodies)
        rows = min(MAX_ROWS, rules.episodes * sequences)
        self.core = EnvironmentCore(
            rules.task, rules.bodies, len(numbers), token_spec=policy.spec,
            num_threads=rules.num_threads,
        )  # fmt: skip
        self.bound = policy.on(
            self.core.table, rows, serialization=rules.serialization,
            silent_limbs=rules.silent_limbs,
        )  # fmt: skip
        shown = np.repeat(np.arange(sequences), rules.episodes)[:rows]
        bodies: IntArray = self.bound.serialization.body[shown]
        self.stage = _Stage(*self._empty(rows, bodies))
        core = self.core
        core.simulator.streams[:] = rules.streams(rows)[numbers]
        self.rows = np.arange(len(numbers))
        self.bodies = bodies[numbers]
        core.reset(self.rows, self.bodies)
        self.bound.start(np.arange(rows), shown)
        self.noise: FloatArray | None = None
        if rules.mode == "stochastic":
            shape = (rules.task.horizon, *core.table.action_padding_mask.shape[1:])
            self.noise = np.stack([noise_of(rules.seed, k, shape) for k in numbers.tolist()])

    def _empty(self, rows: int, bodies: IntArray) -> tuple[FloatArray, IntArray, FloatArray | None]:
        core = self.core
        dynamic = np.zeros((rows, *core.dynamic.shape[1:]), np.float32)
        heights = core.height_map
        empty = None if heights is None else np.zeros((rows, heights.shape[1]), np.float32)
        return dynamic, bodies, empty

    def play(self, policy: Policy) -> None:
        core = self.core
        running = np.ones(len(self.rows), np.bool_)
        for observer in self.observers:
            observer.started(core, self.rows, self.numbers)
        with policy.acting():
            while running.any():
                actions = self._act()
                step = core.step(actions)
                self._tell(np.where(running, self.numbers, -1), actions, step)
                done = (step.terminated | step.truncated) & running
                running &= ~done
                broken = np.flatnonzero(step.diverged & ~running)
                if len(broken):  # a broken state must not be stepped on
                    core.reset(broken, self.bodies[broken])
                if done.any():
                    for observer in self.observers:
                        observer.finished(int(done.sum()))

    def _act(self) -> FloatArray:
        core, stage = self.core, self.stage
        stage.dynamic[self.numbers] = core.dynamic
        if stage.height_map is not None:
            assert core.height_map is not None
            stage.height_map[self.numbers] = core.height_map
        return self.bound.act(stage, None if self.noise is None else self._noisy)[self.numbers]

    def _tell(self, numbers: IntArray, actions: FloatArray, step: StepResult) -> None:
        for observer in self.observers:
            observer.stepped(self.core, numbers, actions, step)

    def _noisy(self, distribution: MaskedGaussian) -> torch.Tensor:
        assert self.noise is not None
        step = np.minimum(self.core.episode_length, self.rules.task.horizon - 1)
        drawn = np.zeros((len(self.stage.dynamic), *self.noise.shape[2:]), np.float32)
        drawn[self.numbers] = self.noise[self.rows, step]
        return distribution.perturbed(torch.from_numpy(drawn).to(distribution.mean.device))
