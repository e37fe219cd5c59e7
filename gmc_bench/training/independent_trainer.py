"""Trains the policies of separate bodies in one batched run, none knowing of the others."""

from typing import Any

import torch
from torch import nn

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.envs.morphology_vector_env import Observation
from gmc_bench.envs.normalization import RewardNormalizer, TokenNormalizer
from gmc_bench.envs.separate_normalization import SeparateRewardNormalizer, SeparateTokenNormalizer
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import TaskBase
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.body_streams import BodyStreams
from gmc_bench.training.buffer import RolloutBuffer
from gmc_bench.training.collector import Collector
from gmc_bench.training.independent import independent_protocol
from gmc_bench.training.independent_ppo import IndependentPPO
from gmc_bench.training.ppo import MorphologyPPO, PPOStats
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Trainer


def make_trainer(
    config: RunConfig,
    method: MethodSpec,
    task: TaskBase,
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
        task: TaskBase,
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

    def _initialize(self, method: MethodSpec, settings: Any, token_spec: TokenSpec) -> None:
        """Give every body the weights that it would have alone."""
        for body, seed in enumerate(self.streams.weights()):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                alone = ActorCritic(method, settings, token_spec, self.protocol.action_std)
            _copy_into(self.model, alone, body, len(self.streams), method)

    def _make_statistics(self) -> tuple[TokenNormalizer, RewardNormalizer]:
        protocol = self.protocol
        return (
            SeparateTokenNormalizer(self.env.table, protocol.normalization),
            SeparateRewardNormalizer(len(self.streams), protocol.num_envs, protocol.ppo.gamma),
        )

    def _make_algorithm(self) -> MorphologyPPO:
        protocol, space = self.protocol, self.env.single_action_space
        return IndependentPPO(
            self.model, space, protocol.ppo, protocol.num_iterations, self.streams
        )

    def _make_collector(self, *parts: Any) -> Collector:
        collector = IndependentCollector(*parts, streams=self.streams)
        if len(collector.serialization) != len(self.streams):
            raise ConfigError(
                "separate bodies are trained in one order of their limbs, got several sequences "
                "for a body; choose another token order"
            )
        return collector

    def _reset(self, seed: int) -> Observation:
        envs = self.env.num_envs // len(self.streams)
        index = torch.arange(len(self.streams)).repeat_interleave(envs).numpy()
        self.env.core.simulator.streams[:] = self.streams.environments(envs)
        return self.env.reset(options={"morphology_index": index})[0]

    def _iterate(self) -> PPOStats:
        self.streams.iteration = self.iteration
        return super()._iterate()


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

    def _sample(self, distribution: MaskedGaussian, t: int) -> torch.Tensor:
        actions = distribution.mean + distribution.std * self._noise[t]
        return actions.masked_fill(distribution.action_padding_mask, 0.0)


@torch.no_grad()
def _copy_into(
    bank: nn.Module, alone: nn.Module, body: int, num_bodies: int, method: MethodSpec
) -> None:
    """Copy the weights of a policy of one body into its place among those of all."""
    parts = dict(alone.named_parameters())
    for name, whole in bank.named_parameters():
        part = parts.get(name)
        if part is None or part.shape != (1, *whole.shape[1:]) or len(whole) != num_bodies:
            raise PluginError(
                f"the method {method.id!r} claims 'per_body', but its parameter {name!r} has the "
                f"shape {tuple(whole.shape)} for {num_bodies} bodies; give every parameter a first "
                f"dimension over bodies"
            )
        whole[body] = part[0]
