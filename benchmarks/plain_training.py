"""PPO training of RecMorph as one writes it without gmc-bench's machinery: a baseline for speed.

Everything is what gymnasium and torch offer: single environments in an `AsyncVectorEnv`, padded
slots, complete observations in the rollout, `torch.nn.RNN`, autograd and Adam, all in float32.
The network is the same function as `recmorph`, and sampling, normalisation, losses, schedule and
settings are the protocol's, so that both learn the same curve.

    python -m benchmarks.plain_training --env-steps 600000 --seed 1

Of forms that were tried, the faster one was taken: gmc-bench's single environment (one written on
MuJoCo's Python functions was no faster) and reversal by index (a little faster than
`pack_padded_sequence`). The critic runs once over a whole rollout instead of at every step.
"""

# mypy: allow-untyped-calls
# torch leaves distributions and `backward` without types.

import itertools
import math
import time
from collections import deque
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn

from benchmarks.plain_network import Agent, Batch, total
from benchmarks.script import add_bodies, count, make_parser, run
from gmc_bench.bodies.schema import Morphology
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.spec import Task
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

CLIP = 10.0
PROCESSES = 64
"""Environments at most: each is a process of its own."""


class RunningMoments:
    """Mean and variance of a stream of (N, ...) batches."""

    def __init__(self, *shape: int) -> None:
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, batch: np.ndarray) -> None:
        """Merge a batch."""
        mean, variance, count = batch.mean(axis=0), batch.var(axis=0), len(batch)
        total, delta = self.count + count, mean - self.mean
        spread = self.variance * self.count + variance * count
        self.mean = self.mean + delta * count / total
        self.variance = (spread + delta**2 * self.count * count / total) / total
        self.count = total


class BodyEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws a body at every reset and sums up episodes; `probabilities` is set from outside."""

    def __init__(self, env: MorphologyEnv, num_bodies: int) -> None:
        super().__init__(env)
        self.probabilities = np.full(num_bodies, 1.0 / num_bodies)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode of a drawn body."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._body = int(self._random.choice(len(self.probabilities), p=self.probabilities))
        self._return, self._length = 0.0, 0
        return self.env.reset(seed=seed, options={"morphology": self._body})[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance; `info` says nothing before the episode ends."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._length += 1
        episode = {"body": self._body, "return": self._return, "length": self._length}
        episode["diverged"] = info.get("ended") == "diverged"
        done = terminated or truncated
        return observation, float(reward), terminated, truncated, episode if done else {}


class Episodes:
    """What is known of every body from its finished episodes."""

    def __init__(self, num_bodies: int, horizon: int, window: int) -> None:
        self.horizon = horizon
        self.recent: deque[list[tuple[int, float]]] = deque([[]], maxlen=window)
        self.last: dict[int, float] = {}
        self.lengths = np.zeros(num_bodies)
        self.counts = np.zeros(num_bodies, int)

    def add(self, body: int, episode_return: float, length: int) -> None:
        """Note an episode: a mean over the first ten lengths, then a moving average."""
        weight = 1.0 / (self.counts[body] + 1) if self.counts[body] < 10 else 0.1
        self.lengths[body] += weight * (length - self.lengths[body])
        self.counts[body] += 1
        self.last[body] = episode_return
        self.recent[-1].append((body, episode_return))

    def probabilities(self, alpha: float) -> np.ndarray:
        """Return how often to draw each body so that all get equally many steps."""
        seen = self.counts > 0
        common = self.lengths[seen].mean() if seen.any() else self.horizon
        lengths = np.maximum(np.where(seen, self.lengths, common), 1.0)
        weights = (self.horizon / lengths) ** alpha
        probabilities: np.ndarray = weights / weights.sum()
        return probabilities

    def mean_return(self) -> float:
        """Return the mean over bodies of their mean over the latest iterations, or their last."""
        recent: dict[int, list[float]] = {}
        for body, value in itertools.chain(*self.recent):
            recent.setdefault(body, []).append(value)
        means = [np.mean(recent.get(body, [value])) for body, value in self.last.items()]
        return float(np.mean(means)) if means else math.nan


def add_targets(rollout: Batch, last_value: torch.Tensor, ppo: PPOConfig) -> None:
    """Add returns and normalised generalized advantages, (T, N), to a rollout.

    A step that ends an episode is followed by `rollout["end_value"]`; one at which the simulation
    diverged has a TD error of zero.
    """
    reward, value, done = rollout["reward"], rollout["value"], rollout["done"]
    following = torch.where(done, rollout["end_value"], torch.cat((value[1:], last_value[None])))
    delta = (reward + ppo.gamma * following - value).masked_fill(rollout["diverged"], 0.0)
    advantage, running = torch.zeros_like(delta), torch.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        running = delta[t] + ppo.gamma * ppo.gae_lambda * (~done[t]) * running
        advantage[t] = running
    rollout["returns"] = advantage + value
    rollout["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-5)


def ppo_loss(
    log_ratio: torch.Tensor,
    entropy: torch.Tensor,
    value: torch.Tensor,
    batch: Batch,
    ppo: PPOConfig,
) -> torch.Tensor:
    """Return the clipped loss of policy and value, Schulman et al. 2017."""
    ratio, clip, advantage = log_ratio.exp(), ppo.eps_clip, batch["advantage"]
    clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    near = batch["value"] + (value - batch["value"]).clamp(-clip, clip)
    errors = (value - batch["returns"]).square(), (near - batch["returns"]).square()
    value_loss = 0.5 * torch.max(*errors).mean()
    return policy_loss + ppo.vf_coef * value_loss - ppo.ent_coef * entropy.mean()


class PlainTraining:
    """One training run; `iterate` collects a rollout and learns from it."""

    def __init__(
        self,
        bodies: tuple[Morphology, ...],
        spec: TokenSpec,
        protocol: Protocol,
        *,
        task: Task = TASK,
        seed: int = 1,
        threads: int = 1,
    ) -> None:
        torch.manual_seed(seed)
        self.protocol, self.threads = protocol, threads
        self.envs = make_envs(task, bodies, spec, protocol.num_envs)
        self.agent = Agent(spec, protocol.action_std)
        ppo = protocol.ppo
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=ppo.lr, eps=ppo.adam_eps)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.features, self.scores = RunningMoments(spec.num_features), RunningMoments()
        self.discounted = np.zeros(protocol.num_envs)
        self.episodes = Episodes(len(bodies), task.horizon, protocol.window_iterations)
        self.iteration = 0
        self.seconds = {"simulation": 0.0, "policy": 0.0, "update": 0.0}
        self.raw = self.envs.reset(seed=seed)[0]

    def _rate(self, iteration: int) -> float:
        ppo, total = self.protocol.ppo, self.protocol.num_iterations
        begin = ppo.decay_start * total
        share = max(iteration - begin, 0.0) / max(total - begin, 1.0)
        cosine = 0.5 * (1.0 + math.cos(math.pi * share))
        progress = min(iteration / max(ppo.warmup_iterations, 1), 1.0)
        return cosine * (ppo.warmup_start * (1.0 - progress) + progress)

    @property
    def env_steps(self) -> int:
        """Control steps so far, over all environments."""
        return self.iteration * self.protocol.steps_per_iteration

    def iterate(self) -> None:
        """Collect a rollout and learn from it."""
        torch.set_num_threads(self.threads)
        if self.iteration >= self.protocol.sampling_warmup_iterations:
            drawn = self.episodes.probabilities(self.protocol.sampling_alpha)
            self.envs.set_attr("probabilities", [drawn] * self.protocol.num_envs)
        self.episodes.recent.append([])
        self.agent.std = self.protocol.action_std_at(self.iteration)
        rollout = self.collect()
        started = time.perf_counter()
        self.add_values(rollout)
        self.learn(rollout)
        self.schedule.step()
        self.seconds["update"] += time.perf_counter() - started
        self.iteration += 1

    def normalize(self, raw: dict[str, np.ndarray]) -> Batch:
        """Return observations of some environments as the networks see them."""
        padding = raw["limb_padding_mask"].astype(bool)
        scale = (1.0 / np.sqrt(self.features.variance + 1e-8)).astype(np.float32)
        tokens = (raw["tokens"] - self.features.mean.astype(np.float32)) * scale
        tokens = np.where(padding[..., None], np.float32(0.0), np.clip(tokens, -CLIP, CLIP))
        return {
            "tokens": torch.from_numpy(tokens),
            "limb_padding": torch.from_numpy(padding),
            "action_padding": torch.from_numpy(raw["action_padding_mask"].astype(bool)),
        }

    @torch.no_grad()
    def collect(self) -> Batch:
        """Run the policy for one rollout and return it, (T, N, ...)."""
        steps = []
        for _ in range(self.protocol.rollout_length):
            real = ~self.raw["limb_padding_mask"].astype(bool)
            self.features.update(self.raw["tokens"][real].astype(np.float64))
            step = self.normalize(self.raw)
            started = time.perf_counter()
            normal = self.agent.distribution(step)
            step["action"] = normal.sample().masked_fill(step["action_padding"], 0.0)
            step["log_prob"] = total(normal.log_prob(step["action"]), step)
            acted = time.perf_counter()
            self.raw, reward, terminated, truncated, info = self.envs.step(step["action"].numpy())
            self.seconds["policy"] += acted - started
            self.seconds["simulation"] += time.perf_counter() - acted
            done = terminated | truncated
            step["reward"] = torch.from_numpy(self._scaled(reward, done)).float()
            step["done"] = torch.from_numpy(done)
            step |= self._finish(done, truncated, info)
            steps.append(step)
        return {name: torch.stack([step[name] for step in steps]) for name in steps[0]}

    @torch.no_grad()
    def add_values(self, rollout: Batch) -> None:
        """Add the critic's values and the targets."""
        flat = {name: part.flatten(0, 1) for name, part in rollout.items()}
        rollout["value"] = self.agent.value(flat).view_as(rollout["reward"])
        add_targets(rollout, self.agent.value(self.normalize(self.raw)), self.protocol.ppo)

    def _scaled(self, reward: np.ndarray, done: np.ndarray) -> np.ndarray:
        self.discounted = self.protocol.ppo.gamma * self.discounted + reward
        self.scores.update(self.discounted)
        self.discounted[done] = 0.0
        scaled: np.ndarray = np.clip(reward / np.sqrt(self.scores.variance + 1e-8), -CLIP, CLIP)
        return scaled

    def _finish(self, done: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> Batch:
        """Note episodes that ended; return what follows them (a value after a time limit)."""
        end_value, diverged = torch.zeros(len(done)), torch.zeros(len(done), dtype=torch.bool)
        for row in np.flatnonzero(done):
            final = {name: values[row] for name, values in info["final_info"].items()}
            self.episodes.add(final["body"], final["return"], final["length"])
            diverged[row] = bool(final["diverged"])
            if truncated[row] and not final["diverged"]:
                last = {name: value[None] for name, value in info["final_obs"][row].items()}
                end_value[row] = self.agent.value(self.normalize(last))[0]
        return {"end_value": end_value, "diverged": diverged}

    def learn(self, rollout: Batch) -> int:
        """Update until the epochs are over or the policy has moved too far; return the steps."""
        ppo, steps = self.protocol.ppo, 0
        flat = {name: part.flatten(0, 1) for name, part in rollout.items()}
        size = min(ppo.batch_size, len(flat["reward"]))
        for _ in range(ppo.repeat):
            order = torch.randperm(len(flat["reward"]))
            for rows in order[: len(order) - len(order) % size].split(size):
                batch = {name: part[rows] for name, part in flat.items()}
                normal = self.agent.distribution(batch)
                log_ratio = total(normal.log_prob(batch["action"]), batch) - batch["log_prob"]
                if ppo.target_kl is not None and -log_ratio.mean() > ppo.target_kl:
                    return steps
                entropy, value = total(normal.entropy(), batch), self.agent.value(batch)
                self.optimizer.zero_grad()
                ppo_loss(log_ratio, entropy, value, batch, ppo).backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), ppo.max_grad_norm)
                self.optimizer.step()
                steps += 1
        return steps

    def close(self) -> None:
        """End the worker processes."""
        self.envs.close()


def make_envs(
    task: Task, bodies: tuple[Morphology, ...], spec: TokenSpec, num_envs: int
) -> AsyncVectorEnv:
    """Return environments in processes of their own, each of which can host every body."""
    env = MorphologyEnv(task, bodies, token_spec=spec)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    # Forked processes share the compiled bodies and functions instead of making their own.
    return AsyncVectorEnv(
        [lambda: BodyEnv(env, len(bodies))] * num_envs,
        context="fork",
        copy=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )


def in_few_processes(protocol: Protocol) -> Protocol:
    """Return rules with rollouts of the same size from at most `PROCESSES` environments."""
    envs = min(protocol.num_envs, PROCESSES)
    return replace(protocol, num_envs=envs, rollout_length=protocol.steps_per_iteration // envs)


def main() -> None:
    """Train and print the curve."""
    lite = SUITE.protocol("lite")
    description = "Train RecMorph lite with plain PPO."
    parser = make_parser(description, threads=1, seconds=None, as_json=False)
    text = f"default: {lite.env_steps:,}"
    parser.add_argument("--env-steps", type=count, default=lite.env_steps, help=text)
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    add_bodies(parser)
    options = parser.parse_args()
    protocol = in_few_processes(replace(lite, env_steps=options.env_steps))
    bodies = load_morphologies(options.morphologies)
    spec = token_spec(SUITE, bodies, TASK)
    settings = {"seed": options.seed, "threads": options.threads}
    training = PlainTraining(bodies.split("train"), spec, protocol, **settings)
    started = time.perf_counter()
    for _ in range(protocol.num_iterations):
        training.iterate()
        rate = training.env_steps / (time.perf_counter() - started)
        score = training.episodes.mean_return()
        print(f"{training.env_steps:>9,} env steps {rate:>7,.0f}/s  return {score:.1f}", flush=True)
    training.close()


if __name__ == "__main__":
    run(main)
