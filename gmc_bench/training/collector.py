"""Fills a rollout buffer: policy, environments, normalisation and episode statistics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gmc_bench.core.types import BoolArray, FloatArray, IntArray
from gmc_bench.envs.core import DIVERGED, TIME_LIMIT
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.envs.normalization import RewardNormalizer, TokenNormalizer
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.tokens.serialization import Serialization
from gmc_bench.training.buffer import CutOff, RolloutBuffer
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker


@dataclass
class Timers:
    """Seconds of training by purpose."""

    simulation: float = 0.0
    policy: float = 0.0
    update: float = 0.0
    total: float = 0.0


class Collector:
    """Runs the policy in the environments and writes what happens into a buffer.

    tianshou's own collector copies every step through nested batches; this one writes each
    number once, into its place.

    Args:
        env: the environments.
        model: the policy that acts.
        normalizer: observation statistics, updated while collecting.
        reward_normalizer: reward statistics, updated while collecting.
        sampler: takes note of episode lengths.
        tracker: takes note of returns.
        generator: source of action noise, on the device of the model.
        timers: seconds are added to `simulation` and `policy`.
        serialization: order of the limbs; where a body has several sequences, every episode draws
            one.
        drawing: source of those draws.
    """

    def __init__(
        self,
        env: MorphologyVectorEnv,
        model: ActorCritic,
        normalizer: TokenNormalizer,
        reward_normalizer: RewardNormalizer,
        sampler: BalancedSampler,
        tracker: ReturnTracker,
        generator: torch.Generator,
        timers: Timers,
        serialization: Serialization,
        drawing: torch.Generator,
    ) -> None:
        self.env = env
        self.model = model
        self.normalizer = normalizer
        self.reward_normalizer = reward_normalizer
        self.sampler = sampler
        self.tracker = tracker
        self.generator = generator
        self.timers = timers
        self.serialization = serialization
        self.drawing = drawing
        self.episodes = 0
        self.diverged_episodes = 0
        self.loops_opened: int | None = None if env.table.loops is None else 0
        """How often a closed loop came open, see `StepResult`; `None` without loops."""
        self.state = model.initial_state(env.num_envs)
        """(N, L, S), what the policy remembers of the running episodes."""
        self._raw: FloatArray = env.core.dynamic
        self._index: IntArray = env.core.morphology_index
        self._heights: FloatArray = self._heights_of({})
        self.sequences: IntArray = serialization.first[self._index]
        """(N,) int64, the sequence of tokens that shows each environment's body."""

    def start(self, observation: Mapping[str, Any]) -> None:
        """Take over the first observation of new episodes in all environments."""
        self.observe(observation)
        self._draw_sequences(np.arange(self.env.num_envs))

    def _draw_sequences(self, rows: IntArray) -> None:
        body = self._index[rows]
        if len(self.serialization) == len(self.serialization.count):  # there is no choice
            self.sequences[rows] = body
            return
        drawn = torch.rand(len(rows), generator=self.drawing, dtype=torch.float64).numpy()
        self.sequences[rows] = self.serialization.choose(body, drawn)

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Take over the observation that the next action answers."""
        self._raw = observation["dynamic"]
        self._index = observation["morphology_index"]
        self._heights = self._heights_of(observation)

    def _heights_of(self, observation: Mapping[str, Any]) -> FloatArray:
        """Return (N, G), with G = 0 for tasks without a height map."""
        nothing = np.zeros((self.env.num_envs, 0), np.float32)
        found: FloatArray = observation.get("height_map", nothing)
        return found

    def collect(self, buffer: RolloutBuffer) -> None:
        """Fill the buffer with one rollout."""
        with fixed_weights(self.model):
            self._collect(buffer)

    def _collect(self, buffer: RolloutBuffer) -> None:
        buffer.cut_off.clear()
        device = buffer.dynamic.device
        for t in range(buffer.length):
            if t % buffer.sequence_length == 0:
                buffer.state[t // buffer.sequence_length] = self.state
            padding = self.env.table.limb_padding_mask[self._index]
            self.normalizer.update(self._raw, padding, self._index)
            dynamic = torch.from_numpy(self._arranged()).to(device)
            index = torch.from_numpy(self.sequences.copy()).to(device)
            heights = torch.from_numpy(self._heights).to(device)
            acting = time.perf_counter()
            tokens = buffer.tokens(index, dynamic, heights)
            distribution, state = self.model.step(tokens, self.state)
            actions = self._sample(distribution, t)
            self.state = self.model.remember(state, actions)
            buffer.log_prob[t] = distribution.log_prob(actions)
            chosen = self.serialization.restore(actions.cpu().numpy(), self.sequences)
            acted = time.perf_counter()
            buffer.dynamic[t], buffer.morphology_index[t] = dynamic, index
            buffer.height_map[t] = heights
            buffer.actions[t] = actions
            stepping = time.perf_counter()
            observation, reward, terminated, truncated, info = self.env.step(chosen)
            stepped = time.perf_counter()
            self.observe(observation)
            if self.loops_opened is not None:
                self.loops_opened += int(info["loops_opened"].sum())
            done = terminated | truncated
            scaled = self.reward_normalizer(reward, done)
            buffer.reward[t] = torch.from_numpy(scaled)
            buffer.terminated[t] = torch.from_numpy(terminated)
            buffer.truncated[t] = torch.from_numpy(truncated)
            buffer.diverged[t] = False
            if done.any():
                self._finish(buffer, t, done, info)
            self.timers.policy += acted - acting
            self.timers.simulation += stepped - stepping
        buffer.last_dynamic.copy_(torch.from_numpy(self._arranged()))
        buffer.last_height_map.copy_(torch.from_numpy(self._heights))
        buffer.last_morphology_index.copy_(torch.from_numpy(self.sequences))
        buffer.last_state.copy_(self.state)

    def _sample(self, distribution: MaskedGaussian, t: int) -> torch.Tensor:
        """Return the actions (N, L, J) of step t of the rollout."""
        return distribution.sample(self.generator)

    def _arranged(self) -> FloatArray:
        """Return (N, L, Fd) float32, what the policy sees of the environments' newest state."""
        padding = self.env.table.limb_padding_mask[self._index]
        normal = self.normalizer.normalize(self._raw, padding, self._index)
        return self.serialization.arrange(normal, self.sequences)

    def _finish(
        self, buffer: RolloutBuffer, t: int, done: BoolArray, info: dict[str, object]
    ) -> None:
        final: dict[str, np.ndarray] = info["final_info"]  # type: ignore[assignment]
        rows = np.flatnonzero(done)
        index = final["morphology_index"][rows]
        ended = final["ended"][rows]
        broken = ended == DIVERGED
        buffer.diverged[t, torch.from_numpy(rows)] = torch.from_numpy(broken)
        lengths, returns = final["episode_length"][rows], final["episode_return"][rows]
        self.sampler.record(index.tolist(), lengths.tolist())
        self.tracker.record(index.tolist(), returns.tolist(), lengths.tolist())
        self.episodes += len(rows)
        self.diverged_episodes += int(broken.sum())
        final_obs: np.ndarray = info["final_obs"]  # type: ignore[assignment]
        for row, body in zip(rows[ended == TIME_LIMIT], index[ended == TIME_LIMIT], strict=True):
            padding = self.env.table.limb_padding_mask[body][None]
            shown = final_obs[row]["dynamic"][None]
            normal = self.normalizer.normalize(shown, padding, np.array([body]))
            normal = self.serialization.arrange(normal, self.sequences[row : row + 1])[0]
            heights = final_obs[row].get("height_map", np.zeros(0, np.float32))
            buffer.cut_off.append(
                CutOff(
                    t,
                    int(row),
                    torch.from_numpy(normal).to(buffer.dynamic.device),
                    torch.from_numpy(heights).to(buffer.dynamic.device),
                    self.state[row].clone(),
                )
            )
        self.state[torch.from_numpy(rows)] = 0.0
        self._draw_sequences(rows)
