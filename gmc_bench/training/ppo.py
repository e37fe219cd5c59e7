"""Proximal policy optimisation over token rollouts, on top of tianshou's PPO."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.algorithm_base import TrainingStats
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import LRSchedulerFactory, OptimizerFactory
from torch.optim.lr_scheduler import LambdaLR

from gmc_bench.core.errors import GmcBenchError, TrainingDivergedError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.captured import CapturedCall
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.training.buffer import Minibatch, RolloutBuffer
from gmc_bench.training.gae import generalized_advantages
from gmc_bench.training.group import Group

VALUE_CHUNK = 1024
"""Transitions per forward pass of the critic over a rollout; more leave the cache of a core."""
GPU_VALUE_CHUNK = 2**14
"""The same on a GPU, which would wait for the launches of smaller passes."""
ADVANTAGE_EPSILON = 1e-5
LOSSES = ("loss", "actor_loss", "vf_loss", "entropy", "clip_fraction")
"""Fields of `PPOStats` that are means over gradient steps, in the order of a step's numbers."""


class WarmupCosine(LRSchedulerFactory):  # type: ignore[misc]
    """Linear warm-up, a constant rate, and a cosine that reaches zero at the end of training.

    Formula:
        lr_k = lr 0.5 (1 + cos(pi p_k)) w_k, with p_k = max(0, (k - d K) / (K - d K)) and
        w_k = s (1 - k/W) + k/W for k < W, else 1

    Args:
        num_iterations: K.
        warmup_iterations: W.
        warmup_start: s.
        decay_start: d in [0, 1]; 0 gives a cosine over the whole training, 1 a constant rate.
    """

    def __init__(
        self,
        num_iterations: int,
        warmup_iterations: int,
        warmup_start: float,
        decay_start: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_iterations = num_iterations
        self.warmup_iterations = warmup_iterations
        self.warmup_start = warmup_start
        self.decay_start = decay_start

    def factor(self, iteration: int) -> float:
        """Return lr_k / lr."""
        begin = self.decay_start * self.num_iterations
        cosine = 1.0
        if iteration > begin:
            share = math.pi * (iteration - begin) / (self.num_iterations - begin)
            cosine = 0.5 * (1.0 + math.cos(share))
        if iteration >= self.warmup_iterations:
            return cosine
        progress = iteration / self.warmup_iterations
        return cosine * (self.warmup_start * (1.0 - progress) + progress)

    def create_scheduler(self, optim: torch.optim.Optimizer) -> LambdaLR:
        """Return the torch scheduler, stepped once per iteration."""
        return LambdaLR(optim, self.factor)


class FusedAdamFactory(OptimizerFactory):  # type: ignore[misc]
    """Makes torch's Adam that moves all parameters in one call.

    The default takes ten calls for every parameter: at a minibatch of 512 these were a fortieth of
    a gradient step of small networks, now less than a hundredth.
    """

    def __init__(self, lr: float, eps: float) -> None:
        super().__init__()
        self.lr = lr
        self.eps = eps

    def _create_optimizer_for_params(self, params: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(params, lr=self.lr, eps=self.eps, fused=True)


class TianshouPolicy(ProbabilisticActorPolicy):  # type: ignore[misc]
    """tianshou's view of the actor."""

    def __init__(self, model: ActorCritic, action_space: gymnasium.Space[Any]) -> None:
        super().__init__(
            actor=model.actor,
            dist_fn=lambda distribution: distribution,
            action_space=action_space,
            action_scaling=False,  # the engine clamps; a bounded policy would be another method
            action_bound_method=None,
        )

    @staticmethod
    def _compile() -> None:
        """Skip tianshou's warm-up: it compiles advantage code not used here, 4 s per start."""


@dataclass(kw_only=True)
class PPOStats(TrainingStats):  # type: ignore[misc]
    """What one iteration's updates did; means over its gradient steps."""

    loss: float
    actor_loss: float
    vf_loss: float
    entropy: float
    approx_kl: float
    """mean(log p_old - log p_new) of the last minibatch looked at."""
    clip_fraction: float
    """Share of ratios outside the clipping interval."""
    explained_variance: float
    """1 - Var(R - V) / Var(R) of the rollout, before the updates."""
    gradient_steps: float
    stopped_early: float
    """Whether the KL stop ended the updates; of separate bodies, the share that it stopped."""


class ActorLosses(NamedTuple):
    """Losses of the actor on a minibatch, each () or, of P policies trained, (P,)."""

    loss: torch.Tensor
    """Surrogate less the weighted entropy."""
    surrogate: torch.Tensor
    entropy: torch.Tensor
    clip_fraction: torch.Tensor
    """Share of ratios outside the clipping interval."""


class MorphologyPPO(PPO):  # type: ignore[misc]
    """PPO with masked actions, exact time-limit handling and a KL stop.

    Differs from tianshou's PPO: rollouts come from a preallocated buffer of tokens; advantages
    are normalised once per rollout; the value loss carries the factor 0.5 of its formula; an
    iteration's updates end at the first minibatch whose KL estimate exceeds `target_kl`.

    Args:
        model: actor and critic.
        action_space: one environment's action space.
        config: settings.
        num_iterations: length of the learning-rate schedule.
        generator: source of the minibatch order (CPU).
        group: processes with a part of every minibatch each; by default this one alone.

    Source:
        Schulman et al. 2017, arXiv:1707.06347; loss and stop as in agrimgupta92/metamorph.
    """

    optimizer_factory: type[OptimizerFactory] = FusedAdamFactory

    def __init__(
        self,
        model: ActorCritic,
        action_space: gymnasium.Space[Any],
        config: PPOConfig,
        num_iterations: int,
        generator: torch.Generator,
        group: Group | None = None,
    ) -> None:
        optim = self.optimizer_factory(lr=config.lr, eps=config.adam_eps)
        optim.with_lr_scheduler_factory(
            WarmupCosine(
                num_iterations, config.warmup_iterations, config.warmup_start, config.decay_start
            )
        )
        super().__init__(
            policy=TianshouPolicy(model, action_space),
            critic=model.critic,
            optim=optim,
            eps_clip=config.eps_clip,
            value_clip=config.value_clip,
            advantage_normalization=False,  # done once per rollout in _preprocess_batch
            vf_coef=config.vf_coef,
            ent_coef=config.ent_coef,
            max_grad_norm=config.max_grad_norm,
            gae_lambda=config.gae_lambda,
            gamma=config.gamma,
        )
        # Not an attribute that torch registers: the parameters are the policy's and critic's.
        self._model = (model,)
        self._optimizer: torch.optim.Optimizer = self.optim._optim
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="critic")
        self._critic_in_thread = False
        self._captured: CapturedCall[tuple[torch.Tensor, torch.Tensor]] | None = None
        self._captured_gradients: list[torch.Tensor | None] = []
        self.captures = (
            model.may_be_captured and model.padded_rows and (group is None or group.size == 1)
        )
        """Whether gradient steps are captured as CUDA graphs; false once a capture has failed."""
        self.config = config
        self.generator = generator
        self.group = group or Group()
        self.active = torch.ones(1, dtype=torch.bool, device=model.action_std.device)
        """(P,) bool, those of the P trained policies whose updates of this iteration go on."""

    @property
    def model(self) -> ActorCritic:
        """Actor and critic."""
        return self._model[0]

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update."""
        return float(self.lr_schedulers[0].get_last_lr()[0])

    def get_state(self) -> dict[str, Any]:
        """Return Adam's moments and the place in the schedule of the learning rate."""
        state = self.optim.state_dict()
        moments = {
            f"{index}-{name}": value.detach().cpu().numpy()
            for index, values in state["state"].items()
            for name, value in values.items()
        }
        last_epoch = self.lr_schedulers[0].state_dict()["last_epoch"]
        return {"moments": moments, "groups": state["param_groups"], "last_epoch": last_epoch}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in state["moments"].items():
            index, name = key.split("-")
            moments.setdefault(int(index), {})[name] = torch.from_numpy(value.copy())
        self.optim.load_state_dict({"state": moments, "param_groups": state["groups"]})
        scheduler, last = self.lr_schedulers[0], state["last_epoch"]
        rates = [base * scheduler.lr_lambdas[0](last) for base in scheduler.base_lrs]
        content = {**scheduler.state_dict(), "last_epoch": last, "_last_lr": rates}
        scheduler.load_state_dict(content)
        for group, rate in zip(scheduler.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _values(self, buffer: RolloutBuffer) -> torch.Tensor:
        chunk = GPU_VALUE_CHUNK if buffer.value.is_cuda else VALUE_CHUNK
        values = [self.model.value(*block) for block in buffer.blocks(chunk)]
        return torch.cat(values).view(buffer.length, buffer.num_envs)

    def _next_values(self, buffer: RolloutBuffer) -> torch.Tensor:
        last = buffer.tokens(
            buffer.last_morphology_index, buffer.last_dynamic, buffer.last_height_map
        )
        final = self.model.value(last, self.model.one_step(buffer.last_state))
        following = torch.cat([buffer.value[1:], final[None]])
        following[buffer.terminated | buffer.truncated] = 0.0
        if buffer.truncations and self.config.time_limit == "bootstrap":
            t, n, dynamic, heights, state = zip(*buffer.truncations, strict=True)
            index = buffer.morphology_index[list(t), list(n)]
            ends = buffer.tokens(index, torch.stack(dynamic), torch.stack(heights))
            history = self.model.one_step(torch.stack(state))
            following[list(t), list(n)] = self.model.value(ends, history)
        return following

    def _preprocess_batch(
        self, batch: RolloutBuffer, buffer: RolloutBuffer, indices: torch.Tensor
    ) -> RolloutBuffer:
        """Add values, returns and advantages, normalised over the whole rollout."""
        with self._threads_shared_out(batch.dynamic.device), fixed_weights(self.model):
            batch.value.copy_(self._values(batch))
            batch.next_value.copy_(self._next_values(batch))
        no_error = batch.diverged
        if self.config.time_limit == "zero_error":
            no_error = batch.truncated
        advantage = generalized_advantages(
            batch.reward,
            batch.value,
            batch.next_value,
            batch.terminated | batch.truncated,
            no_error,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )
        batch.returns.copy_(advantage + batch.value)
        batch.advantage.copy_(self._standardize(advantage))
        return batch

    def _standardize(self, advantage: torch.Tensor) -> torch.Tensor:
        """Return the advantages (T, N) of a rollout with mean 0 and standard deviation 1."""
        everyone = self.group.gather(advantage, dim=1)
        spread = everyone.std() + ADVANTAGE_EPSILON
        return (advantage - everyone.mean()) / spread

    def _update_with_batch(
        self, batch: RolloutBuffer, batch_size: int | None, repeat: int
    ) -> PPOStats:
        """Update until all epochs are done or every policy that is trained has stopped."""
        device = batch.dynamic.device
        self.active = torch.ones(len(self._by_policy(batch.value)), dtype=torch.bool, device=device)
        totals, steps = torch.zeros(len(LOSSES), len(self.active), device=device), self.active * 0.0
        latest_kl = torch.zeros_like(steps)
        with self._threads_shared_out(device):
            for epoch in self._epochs(batch, batch_size or len(batch), repeat):
                for minibatch in epoch:
                    before = self.active
                    parts, kl = self._gradients(minibatch)
                    latest_kl = torch.where(before, kl, latest_kl)
                    if parts is None:
                        break
                    self._step()
                    totals += torch.where(self.active, parts.view(totals.shape), 0.0)
                    steps += self.active
                if not self.active.any():
                    break
        self._require_finite()
        # Policies that took no step at all have no loss to be averaged.
        means = self.group.sum(totals) / steps.clamp(min=1.0)
        mean = (means.sum(dim=1) / (steps > 0.0).sum().clamp(min=1)).tolist()
        residual, returns = (
            self._by_policy(self.group.gather(values, dim=1))
            for values in (batch.returns - batch.value, batch.returns)
        )
        explained = 1.0 - residual.var(dim=1) / (returns.var(dim=1) + 1e-8)
        return PPOStats(
            **dict(zip(LOSSES, mean, strict=True)),
            approx_kl=float(latest_kl.mean()),
            explained_variance=float(explained.mean()),
            gradient_steps=float(steps.mean()),
            stopped_early=float((~self.active).float().mean()),
        )

    def _epochs(
        self, buffer: RolloutBuffer, batch_size: int, repeat: int
    ) -> Iterator[Iterator[Minibatch]]:
        return (buffer.minibatches(batch_size, self.generator) for _ in range(repeat))

    def _by_policy(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (T, N, ...) of a rollout as (P, T * N / P, ...), P policies trained."""
        return values.flatten(0, 1).unsqueeze(0)

    def _require_finite(self) -> None:
        if not all(parameter.isfinite().all() for parameter in self.parameters()):
            raise TrainingDivergedError(
                f"training diverged: a weight is no longer finite; start a new run with a lower "
                f"--ppo.lr than {self.config.lr:g}, or with other settings of the method"
            )

    def _gradients(self, minibatch: Minibatch) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Leave the gradients of a minibatch in the parameters.

        Several processes learn of the KL estimate with the sums of their gradients: one exchange
        per step, for which all wait, costs less than gradients that are not used at the stop.

        Returns:
            The `LOSSES` of this process's part, (5,) or (5, P), or `None` if the KL estimate
            forbids this step; and that estimate.
        """
        if self.captures and minibatch.history is None:
            found = self._replayed_gradients(minibatch)
            if found is not None:
                parts, kl = found
                self.active = self.active & self._allowed(kl)
                return (parts if self.active.any() else None), kl
        self._optimizer.zero_grad()
        if self._critic_in_thread:
            critic = self._thread.submit(self._critic_gradient, minibatch, torch.get_num_threads())
            try:
                actor, kl = self._actor_gradient(minibatch, stops=self.group.size == 1)
            finally:
                value_loss = critic.result()
        else:
            actor, kl = self._actor_gradient(minibatch, stops=self.group.size == 1)
            if actor is not None:
                value_loss = self._critic_gradient(minibatch)
        if actor is not None and self.group.size > 1:
            kl = self.group.sum_gradients(self.model.parameters(), kl)
            self.active = self.active & self._allowed(kl)
        if actor is None or not self.active.any():
            return None, kl
        return self._parts(actor, value_loss), kl

    def _parts(self, actor: ActorLosses, value_loss: torch.Tensor) -> torch.Tensor:
        """Return the losses of a minibatch in the order of `LOSSES`."""
        total = actor.loss + self.vf_coef * value_loss
        return torch.stack([total, actor.surrogate, value_loss, actor.entropy, actor.clip_fraction])

    def _replayed_gradients(self, minibatch: Minibatch) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Leave the gradients in the parameters, from a captured graph.

        Launched one by one, the operations of a gradient step take a process longer than a GPU.

        Returns:
            The `LOSSES` (5,) and the KL estimate, which the next call overwrites; `None` if the
            networks cannot be captured.
        """
        obs, table = minibatch.obs, minibatch.obs.table
        inputs = (
            obs.morphology_index, obs.dynamic, obs.height_map, minibatch.act, minibatch.logp_old,
            minibatch.adv, minibatch.returns, minibatch.v_s,
        )  # fmt: skip

        def gradients(
            index: torch.Tensor,
            dynamic: torch.Tensor,
            heights: torch.Tensor | None,
            act: torch.Tensor,
            *others: torch.Tensor,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            self._optimizer.zero_grad()
            seen = TokenBatch(table, index, dynamic, heights, padded=True)
            logp_old, adv, returns, v_s = others
            same = Minibatch(seen, None, act, logp_old, adv, returns, v_s)
            actor, kl = self._actor_gradient(same, stops=False)
            assert actor is not None
            return self._parts(actor, self._critic_gradient(same)), kl

        parameters = list(self.model.parameters())
        if self._captured is None:  # all minibatches have the same shapes
            try:
                self._captured = CapturedCall(gradients, inputs)
            except (RuntimeError, GmcBenchError):  # too little memory, for one
                self.captures = False
                return None
            self._captured_gradients = [parameter.grad for parameter in parameters]
        found = self._captured(*inputs)
        for parameter, gradient in zip(parameters, self._captured_gradients, strict=True):
            parameter.grad = gradient
        return found

    @contextmanager
    def _threads_shared_out(self, device: torch.device) -> Iterator[None]:
        """Give actor and critic half of the threads each.

        They share nothing but the minibatch, so each can run from input to gradient in a thread of
        its own: two networks side by side use two cores better than every product split in two,
        and with two threads the numbers are those of one. Networks that draw random numbers must
        do so in a fixed order, and keep all threads for one after the other.
        """
        total = torch.get_num_threads()
        self._critic_in_thread = (
            device.type == "cpu" and total > 1 and not self.model.draws_random_numbers
        )
        if self._critic_in_thread:
            torch.set_num_threads(total // 2)
        try:
            yield
        finally:
            torch.set_num_threads(total)
            self._critic_in_thread = False

    def _step(self) -> None:
        torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.config.max_grad_norm, foreach=True
        )
        self._optimizer.step()

    def _actor_gradient(
        self, minibatch: Minibatch, *, stops: bool
    ) -> tuple[ActorLosses | None, torch.Tensor]:
        """Return the losses and the KL estimate, of this process.

        If it `stops` and the estimate forbids the step, there are no gradients, and no losses.
        """
        distribution = self.model.distribution(minibatch.obs, minibatch.history)
        log_ratio = distribution.log_prob(minibatch.act) - minibatch.logp_old
        kl = -self._mean(log_ratio.detach(), minibatch)
        if stops:
            self.active = self.active & self._allowed(kl)
            if not self.active.any():
                return None, kl
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - self.eps_clip, 1.0 + self.eps_clip)
        gain = torch.min(ratio * minibatch.adv, clipped * minibatch.adv)
        surrogate = -self._mean(gain, minibatch)
        entropy = self._mean(distribution.entropy(), minibatch)
        loss = surrogate - self.ent_coef * entropy
        self.model.backward(loss.sum())
        outside = (ratio.detach() - 1.0).abs() > self.eps_clip
        clip_fraction = self._mean(outside.float(), minibatch)
        losses = ActorLosses(loss.detach(), surrogate.detach(), entropy.detach(), clip_fraction)
        return losses, kl

    def _allowed(self, kl: torch.Tensor) -> torch.Tensor:
        """Return (P,) bool, whether the KL estimate of a minibatch allows a step."""
        over = self.config.target_kl is not None and float(kl) > self.config.target_kl
        return torch.full_like(self.active, not over)

    def _mean(self, values: torch.Tensor, minibatch: Minibatch) -> torch.Tensor:
        """Return the mean of (B,) numbers of a minibatch, for each policy that is trained.

        Where other processes have parts of the minibatch, the sum of all of these is the mean.
        """
        return values.mean() * minibatch.part

    def _critic_gradient(
        self, minibatch: Minibatch, num_threads: int | None = None
    ) -> torch.Tensor:
        """Return the value loss 0.5 (V - R)^2, the larger of clipped and not."""
        if num_threads:  # torch keeps the number per thread
            torch.set_num_threads(num_threads)
        value = self.model.value(minibatch.obs, minibatch.history)
        error = (value - minibatch.returns).square()
        if self.value_clip:
            change = (value - minibatch.v_s).clamp(-self.eps_clip, self.eps_clip)
            error = torch.max(error, (minibatch.v_s + change - minibatch.returns).square())
        loss = 0.5 * self._mean(error, minibatch)
        self.model.backward((self.vf_coef * loss).sum())
        return loss.detach()
