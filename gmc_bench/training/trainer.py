"""Training of one policy: rollouts, updates, statistics."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import CheckpointError, ConfigError
from gmc_bench.core.types import Array
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.policies.policy import Policy, run_seeds
from gmc_bench.policies.torch_state import TorchState, require_gradients
from gmc_bench.records.environment import stated_origin
from gmc_bench.suites.method_rules import training_rules
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.serialization import make_serialization
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.allocator import keep_freed_memory
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.collector import Collector, Timers
from gmc_bench.training.group import Group
from gmc_bench.training.learner import JointLearner, PerBodyLearner
from gmc_bench.training.ppo import PPOStats
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker

State = dict[str, Any]
"""Nested: arrays and JSON values by name."""
CUDA = "torch_cuda"
"""Name of the state of the generator that a GPU draws from."""


@dataclass(frozen=True)
class Iteration:
    """What is known after an iteration."""

    env_steps: int
    """Control steps so far, over all environments."""
    is_last: bool
    mean_return: float | None
    """Mean over the bodies that have finished an episode."""
    scalars: dict[str, float | None]
    """What training curves show, by tag."""


class Trainer:
    """Training of a policy in environments, from its start or from a state to its end.

    Everything random comes from streams that a state holds, so that a run that was stopped after
    any iteration continues to the same bits as one that was not.

    Several processes can share a run: each has a trainer of its own with a part of the environments
    and follows what the first one does.

    Args:
        env: the environments, as many as the rules say (see `training_rules`) or this process's
            share of them.
        policy: the policy; trained in place.
        protocol: rules of the run.
        seed: of the run.
        order: in which order limbs are shown while training; `siblings` gives bodies several.
        num_threads: of the networks.
        group: the processes of the run; by default this one alone.

    Raises:
        ConfigError: the environments are too few or too many, show other tokens than the policy
            reads, a policy for each body is to be trained on several sequences of a body or by
            several processes, or torch's inference mode is on or was so when the policy was made.
        PluginError: the policy has no trainable parameter.
    """

    def __init__(
        self,
        env: MorphologyVectorEnv,
        policy: Policy,
        protocol: Protocol,
        *,
        seed: int = 0,
        order: Order = "dfs",
        num_threads: int = 1,
        group: Group | None = None,
    ) -> None:
        if policy.acts_only:
            raise ConfigError(
                "the policy was read without its critic and cannot be trained; give one that "
                "'Policy.untrained' or 'Policy.save' made"
            )
        require_gradients(policy.model)
        keep_freed_memory()
        self.env, self.policy, self.model = env, policy, policy.model
        self.num_threads = num_threads
        self.group = group = group or Group()
        per_body = policy.model.per_body
        self.protocol = rules = training_rules(protocol, len(env.table), per_body=per_body)
        share = group.share(rules.num_envs)
        if env.num_envs != share.num_rows or env.token_spec != policy.spec:
            raise ConfigError(
                f"training needs {share.num_rows} environments that show {policy.spec}, got "
                f"{env.num_envs} that show {env.token_spec}; make them with num_envs and token_spec"
            )
        seeds = run_seeds(seed)
        # The threads of a process that are trainers of one group wait for each other.
        alone = group.size == 1
        self.torch_state = TorchState(
            num_threads,
            policy.device,
            seeds[0],
            precision=policy.model.precision,
            takes_turns=alone,
        )
        if policy.random_state is not None:
            self.torch_state.cpu = policy.random_state
        self._seed = seeds[0]
        self._seed_rank()
        self.drawing = torch.Generator().manual_seed(seeds[3])
        kind = PerBodyLearner if per_body else JointLearner
        self.learner = kind(policy, env, rules, seed, group)
        self.algorithm = self.learner.algorithm
        horizon = env.core.task.horizon
        self.sampler = BalancedSampler(
            len(env.table), horizon, rules.sampling_alpha, rules.sampling_warmup_iterations
        )
        self.tracker = ReturnTracker(len(env.table), rules.window_iterations)
        self.timers = Timers()
        bound = policy.on(
            env.table, env.num_envs, serialization=make_serialization(order, env.table)
        )
        self.collector = Collector(
            env, bound, self.learner, self.sampler, self.tracker, self.drawing, self.timers
        )
        self.buffer = RolloutBuffer(
            bound.table, rules.rollout_length, share, policy.model, policy.device
        )
        self.iteration = 0
        self.curve: list[dict[str, Any]] = []
        """One point per iteration, as records hold them."""
        self.processes: list[list[int]] = [[0, group.size]]
        """(iteration, number of processes) from which iteration on there were how many."""
        self.threads: list[list[int]] = [[0, num_threads]]
        """(iteration, threads) likewise, of each process."""
        self.made_with: list[list[Any]] = [[0, stated_origin()]]
        """(iteration, `stated_origin`) likewise."""
        self.collector.start(self.learner.reset())

    @property
    def env_steps(self) -> int:
        """Control steps so far, over all environments."""
        return self.iteration * self.protocol.steps_per_iteration

    @property
    def env_steps_planned(self) -> int:
        """Control steps of the whole run."""
        return self.protocol.num_iterations * self.protocol.steps_per_iteration

    def train(self, on_iteration: Callable[[Iteration], None] | None = None) -> None:
        """Run the remaining iterations.

        Args:
            on_iteration: called after each; what it raises ends training.

        Raises:
            TrainingDivergedError: a weight is no longer finite.
            GmcBenchError: a network or a function of the task fails.
        """
        started, before = time.perf_counter(), self.timers.total
        while self.iteration < self.protocol.num_iterations:
            stats = self.iterate()
            self.timers.total = before + time.perf_counter() - started
            if on_iteration:
                on_iteration(
                    Iteration(
                        self.env_steps,
                        self.iteration == self.protocol.num_iterations,
                        self.tracker.mean_return(complete=False),
                        self._scalars(stats),
                    )
                )
                self.timers.total = before + time.perf_counter() - started

    def follow(self) -> None:
        """Take part in what the first process of the group does, until it has done all."""
        parts = {"iterate": self.iterate, "get_state": self.get_state}
        while (task := self.group.next_task()) is not None:
            parts[task]()

    def iterate(self) -> PPOStats:
        """Run one iteration: a rollout, and the updates on it.

        Raises:
            GmcBenchError: see `train`.
        """
        self.group.announce("iterate")
        with self.torch_state.in_use():
            return self._iterate()

    def _iterate(self) -> PPOStats:
        self.tracker.begin_iteration()
        self.env.set_sampling(self.sampler.probabilities(self.iteration))
        self.model.action_std.fill_(self.protocol.action_std_at(self.iteration))
        # Acting on a few rows is too little work for several threads, and their waiting would
        # take time from the simulation.
        torch.set_num_threads(1)
        self.learner.iteration = self.iteration
        self.collector.collect(self.buffer)
        torch.set_num_threads(self.num_threads)
        ppo = self.protocol.ppo
        updating = time.perf_counter()
        with policy_within_training_step(self.algorithm.policy):
            stats: PPOStats = self.algorithm.update(
                self.buffer, batch_size=ppo.batch_size, repeat=ppo.repeat
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
        for name in PPOStats.__annotations__:  # its own fields, without those of tianshou
            scalars[f"ppo/{name}"] = float(getattr(stats, name))
        return scalars

    def get_state(self) -> State:
        """Return all that training needs to continue bit for bit.

        It holds the environments of all processes; all but the first get an empty state.
        """
        self.group.announce("get_state")
        collector = self.collector.get_state()
        parts = self.group.collect(
            {
                "environment": self.env.get_state(),
                "collector": {name: collector[name] for name in Collector.BY_ROW},
                "random": self._torch_states(),
            }
        )
        if not parts:
            return {}
        collector |= {
            name: np.concatenate([part["collector"][name] for part in parts])
            for name in Collector.BY_ROW
        }
        generators = {name: part.get_state().numpy() for name, part in self._generators().items()}
        for name in parts[0]["random"]:
            generators[name], *others = (part["random"][name] for part in parts)
            if others:
                generators[f"{name}_of_others"] = np.stack(others)
        learnt = {
            "policy": self.policy.tensors(),
            "optimizer": self.algorithm.get_state(),
            "statistics": {
                "random": generators,
                "collector": collector,
                "rewards": self.learner.rewards.get_state(),
                "sampler": self.sampler.get_state(),
                "tracker": self.tracker.get_state(),
            },
        }
        return {
            **copy.deepcopy(learnt),  # training goes on in the memory of these arrays
            "environment": self.env.join_states([part["environment"] for part in parts]),
            "progress": {
                "method_version": self.model.method.version,
                "iteration": self.iteration,
                "curve": list(self.curve),
                "processes": self.processes,
                "threads": self.threads,
                "made_with": self.made_with,
                "timers": asdict(self.timers),
            },
        }

    def set_state(self, state: State) -> None:
        """Continue from a state of `get_state` of a trainer built the same way.

        The numbers of processes and of threads may have changed; with the same, training goes on to
        the same bits.

        Raises:
            CheckpointError: it holds the policy of another method or version, or is of another kind
                of device; then nothing was taken over.
        """
        self._require_same_version(state["progress"])
        self._require_same_kind_of_device(state["statistics"]["random"]["acting"])
        self.policy.set_tensors(state["policy"], "the state to continue from")
        self.algorithm.set_state(state["optimizer"])
        rows = self.learner.share.rows
        self.env.set_state(self.env.part_of_state(state["environment"], rows))
        self.collector.observe(self.env.observe())
        statistics, progress = state["statistics"], state["progress"]
        by_row = {name: statistics["collector"][name][rows] for name in Collector.BY_ROW}
        self.collector.set_state(statistics["collector"] | by_row)
        self.learner.rewards.set_state(statistics["rewards"])
        self.sampler.set_state(statistics["sampler"])
        self.tracker.set_state(statistics["tracker"])
        random = {name: torch.from_numpy(v.copy()) for name, v in statistics["random"].items()}
        for name, generator in self._generators().items():
            generator.set_state(random[name])
        self._set_torch_states(random, progress["iteration"])
        for name, seconds in progress["timers"].items():
            setattr(self.timers, name, seconds)
        self.iteration, self.curve = progress["iteration"], list(progress["curve"])
        # Older states do not say how many there were: one process, and threads that nobody changed.
        processes = progress.get("processes", [[0, 1]])
        self.processes = _with_change(processes, self.iteration, self.group.size)
        threads = progress.get("threads", self.threads)
        self.threads = _with_change(threads, self.iteration, self.num_threads)
        now = stated_origin()  # all that is known where an older state does not say what it was
        self.made_with = _with_change(
            progress.get("made_with", [[self.iteration, now]]), self.iteration, now
        )

    def _require_same_version(self, progress: Mapping[str, Any]) -> None:
        """Raise unless the method's version is that of before, which older states do not say."""
        method = self.model.method
        version = progress.get("method_version", method.version)
        if version != method.version:
            raise CheckpointError(
                f"the method {method.id!r} has version {method.version}, but the state to continue "
                f"from was made with version {version}; install that one, or start a new run"
            )

    def _require_same_kind_of_device(self, acting: Array) -> None:
        """Raise unless a generator's state is of the kind that draws where the networks are."""
        own = self.learner.acting
        if acting.shape != own.get_state().shape:
            raise CheckpointError(
                f"the state to continue from was made on another kind of device than {own.device}, "
                f"which draws other random numbers; set the run's 'device' to what it was"
            )

    def _torch_states(self) -> dict[str, Array]:
        """Return the states of torch's own generators, from which networks with dropout draw."""
        found: dict[str, Array] = {"torch": self.torch_state.cpu.numpy()}
        if self.torch_state.gpu is not None:
            found[CUDA] = self.torch_state.gpu.numpy()
        return found

    def _set_torch_states(self, random: dict[str, torch.Tensor], since: int) -> None:
        """Let torch's own generators go on.

        Args:
            random: states by name; that of a GPU is missing in older ones, and in those of a CPU.
            since: the iteration from which training goes on.
        """
        rank = self.group.rank
        if rank and len(random.get("torch_of_others", ())) != self.group.size - 1:
            self._seed_rank(since)
            return

        def own(name: str) -> torch.Tensor:
            return random[f"{name}_of_others"][rank - 1] if rank else random[name]

        self.torch_state.cpu = own("torch")
        if self.torch_state.gpu is not None and CUDA in random:
            self.torch_state.gpu = own(CUDA)

    def _seed_rank(self, *since: int) -> None:
        """Let networks with dropout draw other numbers in every process but the first.

        Args:
            since: the iteration, where training goes on with another number of processes.
        """
        if self.group.rank:
            sequence = np.random.SeedSequence((self._seed, self.group.rank, *since))
            self.torch_state.seed(int(sequence.generate_state(1)[0]))

    def _generators(self) -> dict[str, torch.Generator]:
        return {
            "shuffling": self.learner.shuffling,
            "acting": self.learner.acting,
            "drawing": self.drawing,
        }


def _with_change(found: list[list[Any]], iteration: int, now: Any) -> list[list[Any]]:
    """Return (iteration, value) since when something has been what it is, as of now."""
    return found if found[-1][1] == now else [*found, [iteration, now]]


def make_trainer(
    config: RunConfig,
    method: MethodSpec,
    task: Task,
    morphologies: tuple[Morphology, ...],
    token_spec: TokenSpec,
    group: Group | None = None,
) -> Trainer:
    """Return the trainer of a run at its start.

    Args:
        config: resolved settings.
        method: the controller.
        task: what to do.
        morphologies: bodies to train on.
        token_spec: token layout.
        group: the processes of the run; by default this one alone.

    Raises:
        GmcBenchError: see `Trainer` and `Policy.of_table`.
    """
    per_body = method.capabilities.per_body
    rules = training_rules(config.protocol, len(morphologies), per_body=per_body)
    group = group or Group()
    num_envs = group.share(rules.num_envs).num_rows
    env = MorphologyVectorEnv(
        task, morphologies, num_envs, token_spec=token_spec, num_threads=config.threads
    )
    policy = Policy.of_table(
        method,
        env.table,
        seed=config.seed,
        config=config.method_config,
        options=config.policy_options,
    )
    policy.method = config.method
    return Trainer(
        env,
        policy,
        config.protocol,
        seed=config.seed,
        order=config.tokens.order,
        num_threads=config.threads,
        group=group,
    )
