"""What learns in training: one policy shared by all bodies, or one for each body."""

import numpy as np
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv, Observation
from gmc_bench.policies.body_streams import BodyStreams
from gmc_bench.policies.policy import Policy, run_seeds
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.suites.protocol import Protocol
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.group import Group
from gmc_bench.training.independent_ppo import IndependentPPO
from gmc_bench.training.ppo import MorphologyPPO
from gmc_bench.training.rewards import RewardNormalizer


class JointLearner:
    """Training of one policy shared by all bodies: PPO, reward statistics and random streams.

    Every process of a group draws what all of them need, and takes its part.

    Args:
        policy: the policy that is trained.
        env: the environments of this process; bodies are drawn at every reset.
        protocol: rules of the run, see `training_rules`.
        seed: of the run.
        group: the processes of the run; by default this one alone.
    """

    def __init__(
        self,
        policy: Policy,
        env: MorphologyVectorEnv,
        protocol: Protocol,
        seed: int,
        group: Group | None = None,
    ) -> None:
        _, shuffling, acting, self._start = run_seeds(seed)
        self.env, self.protocol = env, protocol
        self.group = group or Group()
        self.share = self.group.share(protocol.num_envs)
        self.iteration = 0
        """The one that is under way."""
        self.shuffling = torch.Generator().manual_seed(shuffling)
        self.acting = torch.Generator(policy.device).manual_seed(acting)
        self.rewards = RewardNormalizer(protocol.num_envs, protocol.ppo.gamma, self.num_policies)
        self.algorithm = self._make_algorithm(policy)

    @property
    def num_policies(self) -> int:
        """Policies that are trained side by side."""
        return 1

    def _make_algorithm(self, policy: Policy) -> MorphologyPPO:
        return MorphologyPPO(
            policy.model,
            self.env.single_action_space,
            self.protocol.ppo,
            self.protocol.num_iterations,
            self.shuffling,
            self.group,
        )

    def reset(self) -> Observation:
        """Start an episode in every environment."""
        streams = spawn_streams(self._start, self.share.total)
        self.env.set_streams(streams[self.share.rows])
        return self.env.reset()[0]

    def begin(self, buffer: RolloutBuffer) -> None:
        """Prepare a rollout."""

    def noise(self, t: int) -> torch.Tensor:
        """Return the standard normal numbers (N, L, J) that perturb step t of the rollout."""
        spec = self.env.token_spec
        shape = (self.share.total, spec.max_limbs, spec.actions_per_token)
        noise = torch.randn(shape, generator=self.acting, device=self.acting.device)
        return noise[self.share.rows]


class PerBodyLearner(JointLearner):
    """M policies side by side, each trained as if it were alone.

    Row r of the environments, E per body, hosts body r // E for the whole run. Environments,
    initial weights, action noise and minibatches follow from the run's seed and the body
    (`BodyStreams`); statistics of observations, rewards and advantages, gradient-norm limit, KL
    stop and Adam's moments are each body's own. Bodies share the schedule of the learning rate:
    their budgets are the same.

    Args are those of `JointLearner`.

    Raises:
        ConfigError: there are several processes.
    """

    def __init__(
        self,
        policy: Policy,
        env: MorphologyVectorEnv,
        protocol: Protocol,
        seed: int,
        group: Group | None = None,
    ) -> None:
        if group is not None and group.size > 1:
            raise ConfigError(f"separate weights per body need one process, got {group.size}")
        self.streams = BodyStreams(seed, env.table.digests)
        self._noise = torch.zeros(0)
        super().__init__(policy, env, protocol, seed)

    @property
    def num_policies(self) -> int:
        """M, bodies."""
        return len(self.streams)

    def _make_algorithm(self, policy: Policy) -> MorphologyPPO:
        space, rules = self.env.single_action_space, self.protocol
        return IndependentPPO(policy.model, space, rules.ppo, rules.num_iterations, self.streams)

    def reset(self) -> Observation:
        """Start an episode in every environment."""
        envs, bodies = self.env.num_envs // len(self.streams), np.arange(len(self.streams))
        self.env.fixed = True
        self.env.set_streams(self.streams.environments(envs))
        return self.env.reset(options={"morphology_index": bodies.repeat(envs)})[0]

    def begin(self, buffer: RolloutBuffer) -> None:
        """Draw the action noise of a rollout."""
        self.streams.iteration = self.iteration
        envs, shape = buffer.num_envs // len(self.streams), tuple(buffer.actions.shape[2:])
        noise = self.streams.action_noise(buffer.length, envs, shape)
        self._noise = torch.from_numpy(noise).to(buffer.actions.device)

    def noise(self, t: int) -> torch.Tensor:
        """Return the standard normal numbers (N, L, J) that perturb step t of the rollout."""
        return self._noise[t]
