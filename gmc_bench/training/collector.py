"""Fills a rollout buffer: policy, environments, normalisation and episode statistics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gmc_bench.core.types import BoolArray, DoubleArray, IntArray
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.policies.bound import BoundPolicy, Observed
from gmc_bench.tasks.spec import DIVERGED, TIME_LIMIT
from gmc_bench.training.buffer import RolloutBuffer, Truncation
from gmc_bench.training.learner import JointLearner
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker


@dataclass
class Timers:
    """Seconds of training by purpose."""

    simulation: float = 0.0
    policy: float = 0.0
    update: float = 0.0
    total: float = 0.0


class Collector:
    """Runs a policy in environments and writes what happens into a buffer.

    tianshou's own collector copies every step through nested batches; this one writes each
    number once, into its place.

    Args:
        env: the environments.
        bound: the policy that acts in them; its observation statistics are updated meanwhile.
        learner: draws the action noise, and holds reward statistics that are updated meanwhile.
        sampler: takes note of episode lengths.
        tracker: takes note of returns.
        drawing: source of draws, where a body has several sequences of tokens: every episode shows
            one of them.
        timers: seconds are added to `simulation` and `policy`.
    """

    BY_ROW = ("state", "sequences")
    """Entries of a state whose first dimension is over environments."""

    def __init__(
        self,
        env: MorphologyVectorEnv,
        bound: BoundPolicy,
        learner: JointLearner,
        sampler: BalancedSampler,
        tracker: ReturnTracker,
        drawing: torch.Generator,
        timers: Timers,
    ) -> None:
        self.env = env
        self.bound = bound
        self.learner = learner
        self.sampler = sampler
        self.tracker = tracker
        self.drawing = drawing
        self.timers = timers
        self.episodes = 0
        self.diverged_episodes = 0
        self.loops_opened: int | None = None if env.table.loops is None else 0
        """How often a closed loop came open, see `StepResult`; `None` without loops."""
        self._ended: list[DoubleArray] = []
        """Of the rollout, (K, 6) each: step, environment, body, return, length, diverged."""
        self._opened = 0
        self._seen = Observed(env.core.dynamic, env.core.morphology_index, env.core.height_map)
        bound.sequences = bound.serialization.first[self._seen.morphology_index]

    def start(self, observation: Mapping[str, Any]) -> None:
        """Take over the first observation of new episodes in all environments."""
        self.observe(observation)
        self._begin(np.arange(self.env.num_envs))

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Take over the observation that the next action answers."""
        self._seen = Observed(
            observation["dynamic"], observation["morphology_index"], observation.get("height_map")
        )

    def _begin(self, rows: IntArray) -> None:
        """Forget what happened in some environments, and draw what is shown of their bodies."""
        serialization, body = self.bound.serialization, self._seen.morphology_index[rows]
        if len(serialization) == len(serialization.count):  # there is no choice
            if len(rows):
                self.bound.start(rows, body)
            return
        counts = self.learner.group.gather(torch.tensor([len(rows)])).tolist()
        if not any(counts):
            return
        first = sum(counts[: self.learner.group.rank])
        drawn = torch.rand(sum(counts), generator=self.drawing, dtype=torch.float64).numpy()
        self.bound.start(rows, serialization.choose(body, drawn[first : first + len(rows)]))

    def collect(self, buffer: RolloutBuffer) -> None:
        """Fill the buffer with one rollout."""
        self.learner.begin(buffer)
        self.bound.explorer.forget()
        with fixed_weights(self.bound.model):
            self._collect(buffer)

    def _collect(self, buffer: RolloutBuffer) -> None:
        bound, normalizer, group = self.bound, self.bound.normalizer, self.learner.group
        buffer.truncations.clear()
        self._ended.clear()
        self._opened = 0
        rewards = np.zeros((buffer.length, buffer.num_envs))
        ends = np.zeros((3, buffer.length, buffer.num_envs), np.bool_)
        for t in range(buffer.length):
            if t % buffer.sequence_length == 0:
                buffer.state[t // buffer.sequence_length] = bound.state
            index = self._seen.morphology_index
            measured = normalizer.measure(self._seen.dynamic, bound.padding[index], index)
            normalizer.dynamic.merge(*group.moments(*measured))
            tokens = bound.see(self._seen)
            acting = time.perf_counter()
            actions, buffer.log_prob[t] = bound.explore(tokens, self.learner.noise(t))
            chosen = bound.restore(actions)
            acted = time.perf_counter()
            buffer.keep(t, tokens)
            buffer.actions[t] = actions
            stepping = time.perf_counter()
            observation, reward, terminated, truncated, info = self.env.step(chosen)
            stepped = time.perf_counter()
            self.observe(observation)
            if self.loops_opened is not None:
                self._opened += int(info["loops_opened"].sum())
            done = terminated | truncated
            rewards[t] = reward
            ends[:2, t] = terminated, truncated
            if done.any():
                ends[2, t, done] = self._finish(buffer, t, done, info)
            self._begin(np.flatnonzero(done))
            self.timers.policy += acted - acting
            self.timers.simulation += stepped - stepping
        buffer.keep_last(bound.see(self._seen), bound.state)
        buffer.terminated.copy_(torch.from_numpy(ends[0]))
        buffer.truncated.copy_(torch.from_numpy(ends[1]))
        buffer.diverged.copy_(torch.from_numpy(ends[2]))
        self._scale(buffer, np.stack((rewards, ends[:2].any(axis=0))))
        self._count()

    def _scale(self, buffer: RolloutBuffer, rewards: DoubleArray) -> None:
        """Write the rewards of the rollout, divided by statistics of all environments.

        Args:
            buffer: where to.
            rewards: (2, T, N) float64, raw, and 1 where an episode ended.
        """
        learner = self.learner
        everyone, ended = learner.group.gather(torch.from_numpy(rewards), dim=2).numpy()
        scaled = [learner.rewards(*step) for step in zip(everyone, ended > 0.0, strict=True)]
        buffer.reward.copy_(torch.from_numpy(np.stack(scaled)[:, learner.share.rows]))

    def _count(self) -> None:
        """Take note of the episodes of the rollout, in the order of steps and environments."""
        own = np.concatenate([np.zeros((0, 6)), *self._ended])
        found = self.learner.group.gather(torch.from_numpy(own)).numpy()
        found = found[np.lexsort((found[:, 1], found[:, 0]))]
        _, _, index, returns, lengths, broken = found.T
        bodies, steps = index.astype(np.int64).tolist(), lengths.astype(np.int64).tolist()
        self.sampler.record(bodies, steps)
        self.tracker.record(bodies, returns.tolist(), steps)
        self.episodes += len(found)
        self.diverged_episodes += int(broken.sum())
        if self.loops_opened is not None:
            self.loops_opened += int(self.learner.group.sum(torch.tensor(self._opened)))

    def _finish(
        self, buffer: RolloutBuffer, t: int, done: BoolArray, info: dict[str, object]
    ) -> BoolArray:
        """Take note of the K episodes that end at step t; return which of them diverged, (K,)."""
        final: dict[str, np.ndarray] = info["final_info"]  # type: ignore[assignment]
        rows = np.flatnonzero(done)
        index = final["morphology_index"][rows]
        ended = final["ended"][rows]
        broken: BoolArray = ended == DIVERGED
        lengths, returns = final["episode_length"][rows], final["episode_return"][rows]
        places = self.learner.share.first + rows
        columns = (np.full(len(rows), t), places, index, returns, lengths, broken)
        self._ended.append(np.stack(columns, axis=1).astype(np.float64))
        final_obs: np.ndarray = info["final_obs"]  # type: ignore[assignment]
        bound, device = self.bound, buffer.dynamic.device
        for row, body in zip(rows[ended == TIME_LIMIT], index[ended == TIME_LIMIT], strict=True):
            sequence = bound.sequences[row : row + 1]
            dynamic = final_obs[row]["dynamic"][None]
            (features,) = bound.arranged(dynamic, np.array([body]), sequence)
            heights = final_obs[row].get("height_map", np.zeros(0, np.float32))
            buffer.truncations.append(
                Truncation(
                    t,
                    int(row),
                    torch.from_numpy(features).to(device),
                    torch.from_numpy(heights).to(device),
                    bound.state[row].clone(),
                )
            )
        return broken

    def get_state(self) -> dict[str, Any]:
        """Return what is remembered and shown of this process's episodes, and what was counted."""
        return {
            "state": self.bound.state.cpu().numpy(),
            "sequences": self.bound.sequences,
            **{name: getattr(self, name) for name in _COUNTED},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self.bound.state.copy_(torch.from_numpy(state["state"]))
        self.bound.sequences = state["sequences"].copy()
        for name in _COUNTED:
            setattr(self, name, state[name])


_COUNTED = ("episodes", "diverged_episodes", "loops_opened")
