"""Trains one policy: rollouts, updates, statistics, checkpoints."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tianshou.utils.torch_utils import policy_within_training_step

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.config import config_digest
from gmc_bench.core.types import Array
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv, Observation
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.policies.policy import Policy, PolicyOptions, run_seeds
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.serialization import make_serialization
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.allocator import keep_freed_memory
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.checkpoint import Checkpoint, read_latest, write_checkpoint
from gmc_bench.training.collector import Collector, Timers
from gmc_bench.training.log import EventLog
from gmc_bench.training.ppo import MorphologyPPO, PPOStats
from gmc_bench.training.rewards import RewardNormalizer
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker


@dataclass(frozen=True)
class Progress:
    """What a progress display needs after an iteration."""

    env_steps: int
    mean_return: float | None
    """Mean over the bodies that have finished an episode."""


class Trainer:
    """One training run, from its start or its latest checkpoint to its end.

    Everything random comes from streams that a checkpoint stores, so that a run that was stopped
    at any moment continues to the same bits as one that was not.

    Args:
        config: resolved settings.
        method: the controller.
        task: what to do.
        morphologies: bodies to train on.
        token_spec: token layout.
        folder: where checkpoints and logs go.

    Raises:
        CheckpointError: the folder's latest checkpoint is damaged or of another run.
    """

    fixed_bodies = False
    """Whether every environment hosts the same body for the whole run."""

    def __init__(
        self,
        config: RunConfig,
        method: MethodSpec,
        task: Task,
        morphologies: tuple[Morphology, ...],
        token_spec: TokenSpec,
        folder: RunFolder,
    ) -> None:
        torch.set_num_threads(config.threads)
        keep_freed_memory()
        self.config = config
        self.folder = folder
        self.protocol = protocol = self._rules(len(morphologies))
        seeds = run_seeds(config.seed)
        self.shuffling = torch.Generator().manual_seed(seeds[1])
        self.acting = torch.Generator(config.device).manual_seed(seeds[2])
        self.drawing = torch.Generator().manual_seed(seeds[3])
        self.env = MorphologyVectorEnv(
            task,
            morphologies,
            protocol.num_envs,
            token_spec=token_spec,
            num_threads=config.threads,
            fixed=self.fixed_bodies,
        )
        self.policy = Policy.of_table(
            method,
            self.env.table,
            seed=config.seed,
            config=config.method_config,
            options=PolicyOptions(
                order=config.tokens.test_order,
                normalization=protocol.normalization,
                action_std=protocol.action_std,
                precision=config.precision,
                device=config.device,
            ),
        )
        torch.manual_seed(seeds[0])
        if self.policy.random_state is not None:
            torch.set_rng_state(self.policy.random_state)
        self.model, self.normalizer = self.policy.model, self.policy.normalizer
        self.reward_normalizer = self._make_rewards()
        self.sampler = BalancedSampler(
            len(morphologies),
            task.horizon,
            protocol.sampling_alpha,
            protocol.sampling_warmup_iterations,
        )
        self.tracker = ReturnTracker(len(morphologies))
        self.timers = Timers()
        self.algorithm = self._make_algorithm()
        bound = self.policy.on(
            self.env.table,
            protocol.num_envs,
            serialization=make_serialization(config.tokens.order, self.env.table),
        )
        self.collector = self._make_collector(
            self.env,
            bound,
            self.reward_normalizer,
            self.sampler,
            self.tracker,
            self.acting,
            self.drawing,
            self.timers,
        )
        self.buffer = RolloutBuffer(
            bound.table, protocol.rollout_length, protocol.num_envs, self.model, config.device
        )
        self.iteration = 0
        self.curve: list[dict[str, Any]] = []
        """One point per iteration, as records hold them."""
        self._digest = config_digest({**config.identity(), "seed": config.seed})
        self._start(seeds[3])

    def _rules(self, num_bodies: int) -> Protocol:
        """Return the protocol that training follows."""
        return self.config.protocol

    def _make_rewards(self) -> RewardNormalizer:
        return RewardNormalizer(self.protocol.num_envs, self.protocol.ppo.gamma)

    def _make_algorithm(self) -> MorphologyPPO:
        return MorphologyPPO(
            self.model,
            self.env.single_action_space,
            self.protocol.ppo,
            self.protocol.num_iterations,
            self.shuffling,
        )

    def _make_collector(self, *parts: Any) -> Collector:
        return Collector(*parts)

    def _reset(self, seed: int) -> Observation:
        """Start an episode in every environment."""
        return self.env.reset(seed=seed)[0]

    def _start(self, seed: int) -> None:
        checkpoint = read_latest(self.folder.checkpoints, self._digest)
        self.collector.start(self._reset(seed))
        if checkpoint is not None:
            self._restore(checkpoint)

    @property
    def env_steps(self) -> int:
        """Control steps so far, over all environments."""
        return self.iteration * self.protocol.steps_per_iteration

    @property
    def env_steps_planned(self) -> int:
        """Control steps of the whole run."""
        return self.protocol.num_iterations * self.protocol.steps_per_iteration

    def train(self, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Run the remaining iterations, writing checkpoints on the way and one at the end."""
        with EventLog(self.folder.logs, self.env_steps) as log:
            written = started = time.perf_counter()
            before = self.timers.total
            while self.iteration < self.protocol.num_iterations:
                stats = self.iterate()
                now = time.perf_counter()
                self.timers.total = before + now - started
                log.write(self._scalars(stats), self.env_steps)
                done = self.iteration == self.protocol.num_iterations
                if done or now - written >= self.config.checkpoint_interval_s:
                    self.save()
                    written = time.perf_counter()
                if on_progress:
                    on_progress(Progress(self.env_steps, self.tracker.mean_return(complete=False)))
                self.timers.total = before + time.perf_counter() - started

    def iterate(self) -> PPOStats:
        """Collect a rollout and learn from it."""
        self.env.set_sampling(self.sampler.probabilities(self.iteration))
        self.model.action_std.fill_(self.protocol.action_std_at(self.iteration))
        # Acting on a few rows is too little work for several threads, and their waiting would
        # take time from the simulation.
        torch.set_num_threads(1)
        self.collector.collect(self.buffer)
        torch.set_num_threads(self.config.threads)
        ppo = self.protocol.ppo
        updating = time.perf_counter()
        with policy_within_training_step(self.algorithm.policy):
            stats: PPOStats = self.algorithm.update(
                self.buffer,
                batch_size=ppo.batch_size,
                repeat=ppo.repeat,
            )
        self.timers.update += time.perf_counter() - updating
        self.iteration += 1
        self.curve.append(
            {
                "env_steps": self.env_steps,
                "mean_return": self.tracker.mean_return(complete=True),
                "mean_length": self.tracker.mean_length(complete=True),
                "episodes": self.collector.episodes,
            }
        )
        return stats

    def _scalars(self, stats: PPOStats) -> dict[str, float | None]:
        scalars: dict[str, float | None] = {
            "train/return": self.tracker.mean_return(complete=False),
            "train/episode_length": self.tracker.mean_length(complete=False),
            "train/episodes": self.collector.episodes,
            "train/diverged_episodes": self.collector.diverged_episodes,
            "time/env_steps_per_s": self.env_steps / max(self.timers.total, 1e-9),
            "ppo/learning_rate": self.algorithm.learning_rate,
        }
        if self.collector.loops_opened is not None:
            scalars["train/loops_opened"] = self.collector.loops_opened
        for name in (
            "loss", "actor_loss", "vf_loss", "entropy", "approx_kl", "clip_fraction",
            "explained_variance", "gradient_steps", "stopped_early",
        ):  # fmt: skip
            scalars[f"ppo/{name}"] = float(getattr(stats, name))
        return scalars

    def save(self) -> Path:
        """Write a checkpoint of this moment."""
        adam, adam_scalars = _flatten_adam(self.algorithm.optim.state_dict())
        checkpoint = Checkpoint(
            run=self._digest,
            iteration=self.iteration,
            tensors={
                "policy": self.policy.tensors(),
                "optimizer": adam,
                "environment": self.env.get_state(),
                "statistics": self._statistics(),
            },
            state={
                "adam": adam_scalars,
                "schedule": self.algorithm.lr_schedulers[0].state_dict()["last_epoch"],
                "episodes": self.collector.episodes,
                "diverged_episodes": self.collector.diverged_episodes,
                "timers": asdict(self.timers),
                "curve": self.curve,
                **self._loop_counts(),
            },
        )
        return write_checkpoint(self.folder.checkpoints, checkpoint)

    def _loop_counts(self) -> dict[str, int]:
        opened = self.collector.loops_opened
        return {} if opened is None else {"loops_opened": opened}

    def _statistics(self) -> dict[str, Array]:
        tensors = {
            "random/shuffling": self.shuffling.get_state().numpy(),
            "random/acting": self.acting.get_state().numpy(),
            "random/torch": torch.get_rng_state().numpy(),
            "random/drawing": self.drawing.get_state().numpy(),
            "policy/state": self.collector.bound.state.cpu().numpy(),
            "policy/sequences": self.collector.bound.sequences,
        }
        for prefix, part in self._parts().items():
            tensors |= {f"{prefix}/{name}": value for name, value in part.get_state().items()}
        return tensors

    def _parts(self) -> dict[str, RewardNormalizer | BalancedSampler | ReturnTracker]:
        return {
            "reward": self.reward_normalizer,
            "sampler": self.sampler,
            "tracker": self.tracker,
        }

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors, state = checkpoint.tensors, checkpoint.state
        origin = f"the checkpoint of iteration {checkpoint.iteration}"
        self.policy.set_tensors(tensors["policy"], origin)
        adam = _unflatten_adam(tensors["optimizer"], state["adam"])
        self.algorithm.optim.load_state_dict(adam)
        self._restore_schedule(state["schedule"])
        self.env.set_state(
            {name.removeprefix(_EXTRA): value for name, value in tensors["environment"].items()}
        )
        self.collector.observe(self.env.observe())
        statistics = tensors["statistics"]
        for prefix, part in self._parts().items():
            part.set_state(
                {
                    name.removeprefix(f"{prefix}/"): value
                    for name, value in statistics.items()
                    if name.startswith(f"{prefix}/")
                }
            )
        self.shuffling.set_state(torch.from_numpy(statistics["random/shuffling"].copy()))
        self.acting.set_state(torch.from_numpy(statistics["random/acting"].copy()))
        torch.set_rng_state(torch.from_numpy(statistics["random/torch"].copy()))
        self.drawing.set_state(torch.from_numpy(statistics["random/drawing"].copy()))
        self.collector.bound.state.copy_(torch.from_numpy(statistics["policy/state"]))
        self.collector.bound.sequences = statistics["policy/sequences"].copy()
        self.collector.episodes = state["episodes"]
        self.collector.diverged_episodes = state["diverged_episodes"]
        self.collector.loops_opened = state.get("loops_opened", self.collector.loops_opened)
        for name, value in state["timers"].items():
            setattr(self.timers, name, value)
        self.curve = state["curve"]
        self.iteration = checkpoint.iteration

    def _restore_schedule(self, last_epoch: int) -> None:
        scheduler = self.algorithm.lr_schedulers[0]
        content = scheduler.state_dict()
        rates = [base * scheduler.lr_lambdas[0](last_epoch) for base in scheduler.base_lrs]
        scheduler.load_state_dict({**content, "last_epoch": last_epoch, "_last_lr": rates})
        for group, rate in zip(scheduler.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


_EXTRA = "extra/"
"""Marks the state of closed loops in checkpoints of earlier versions."""


def _flatten_adam(state: dict[str, Any]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    tensors = {
        f"{index}/{name}": value.detach().cpu().numpy()
        for index, moments in state["state"].items()
        for name, value in moments.items()
    }
    return tensors, state["param_groups"]


def _unflatten_adam(tensors: dict[str, Array], groups: list[dict[str, Any]]) -> dict[str, Any]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split("/")
        state.setdefault(int(index), {})[name] = torch.from_numpy(value.copy())
    return {"state": state, "param_groups": groups}
