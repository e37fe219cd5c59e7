"""Trains the policies of separate bodies in one batched run, none knowing of the others."""

from typing import Any

import torch

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import PluginError
from gmc_bench.envs.morphology_vector_env import Observation
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.policies.body_streams import BodyStreams
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.collector import Collector
from gmc_bench.training.independent import independent_protocol
from gmc_bench.training.independent_ppo import IndependentPPO
from gmc_bench.training.ppo import MorphologyPPO, PPOStats
from gmc_bench.training.rewards import RewardNormalizer
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Trainer


def make_trainer(
    config: RunConfig,
    method: MethodSpec,
    task: Task,
    morphologies: tuple[Morphology, ...],
    token_spec: TokenSpec,
    folder: RunFolder,
) -> Trainer:
    """Return the trainer of a method; see `Trainer` for arguments and errors."""
    kind = IndependentTrainer if method.capabilities.per_body else Trainer
    return kind(config, method, task, morphologies, token_spec, folder)


class IndependentTrainer(Trainer):
    """What M runs of `Trainer` with one body each would do, done in one run.

    Row r of the environments hosts body r // E for the whole run. Environments, initial weights,
    action noise and minibatches follow from the run's seed and the body (`BodyStreams`); statistics
    of observations, rewards and advantages, gradient-norm limit, KL stop and Adam's moments are
    each body's own. Bodies share the schedule of the learning rate: their budgets are the same.

    Args and errors are those of `Trainer`; the protocol is read by `independent_protocol`.

    Raises:
        ConfigError: a body would be shown in several orders of its limbs.
        PluginError: the method has a memory, or weights without a first dimension over bodies.
    """

    fixed_bodies = True

    def __init__(
        self,
        config: RunConfig,
        method: MethodSpec,
        task: Task,
        morphologies: tuple[Morphology, ...],
        token_spec: TokenSpec,
        folder: RunFolder,
    ) -> None:
        if method.capabilities.temporal:
            raise PluginError(
                f"the method {method.id!r} claims 'temporal' and 'per_body', but separate bodies "
                f"are trained on single steps only; drop one of the claims"
            )
        self.streams = BodyStreams(config.seed, [body.digest for body in morphologies])
        super().__init__(config, method, task, morphologies, token_spec, folder)

    def _rules(self, num_bodies: int) -> Protocol:
        return independent_protocol(self.config.protocol, num_bodies)

    def _make_rewards(self) -> RewardNormalizer:
        protocol = self.protocol
        return RewardNormalizer(protocol.num_envs, protocol.ppo.gamma, len(self.streams))

    def _make_algorithm(self) -> MorphologyPPO:
        protocol, space = self.protocol, self.env.single_action_space
        return IndependentPPO(
            self.model, space, protocol.ppo, protocol.num_iterations, self.streams
        )

    def _make_collector(self, *parts: Any) -> Collector:
        return IndependentCollector(*parts, streams=self.streams)

    def _reset(self, seed: int) -> Observation:
        envs = self.env.num_envs // len(self.streams)
        index = torch.arange(len(self.streams)).repeat_interleave(envs).numpy()
        self.env.core.simulator.streams[:] = self.streams.environments(envs)
        return self.env.reset(options={"morphology_index": index})[0]

    def iterate(self) -> PPOStats:
        """Collect a rollout and learn from it."""
        self.streams.iteration = self.iteration
        return super().iterate()


class IndependentCollector(Collector):
    """A collector whose action noise comes from each body's own stream.

    Args:
        parts: as for `Collector`.
        streams: source of the noise.
    """

    def __init__(self, *parts: Any, streams: BodyStreams) -> None:
        super().__init__(*parts)
        self.streams = streams
        self._noise = torch.zeros(0)

    def collect(self, buffer: RolloutBuffer) -> None:
        """Fill the buffer with one rollout."""
        shape = tuple(buffer.actions.shape[2:])
        envs = buffer.num_envs // len(self.streams)
        noise = self.streams.action_noise(buffer.length, envs, shape)
        self._noise = torch.from_numpy(noise).to(buffer.actions.device)
        super().collect(buffer)

    def _sample(self, t: int, distribution: MaskedGaussian) -> torch.Tensor:
        return distribution.perturbed(self._noise[t])
