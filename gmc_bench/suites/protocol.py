"""The rules of a run: how much it trains, with which settings, and how it is evaluated."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from gmc_bench.core.arguments import require_number
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Mode, Split

MAX_ENV_STEPS = 10**11
"""Of one training: years at the highest rates measured. No other number is larger either: records
keep integers up to 2^53 only."""

Normalization = Literal["per_feature", "per_slot"]
"""What observation statistics are kept of: each feature of real limbs, or each token slot."""


def _require_limits(config: Any, prefix: str = "") -> None:
    """Raise unless every float is finite, which comparisons do not see, and integers have a size.

    An integer that no record can hold would cost a training.
    """
    for item in fields(config):
        value = getattr(config, item.name)
        if isinstance(value, float):
            require_number(value, f"'{prefix}{item.name}'")
        elif isinstance(value, int) and value > MAX_ENV_STEPS:
            raise ConfigError(
                f"'{prefix}{item.name}' must be at most {MAX_ENV_STEPS:,}, got {value:,}"
            )


def require_action_std(value: float, name: str = "action_std") -> None:
    """Raise unless actions can have a standard deviation.

    Raises:
        ConfigError: it is not positive, or its density overflows float32.
    """
    if not 1e-6 <= value <= 1e6:
        raise ConfigError(f"{name!r} must be positive, from 1e-06 to 1e+06, got {value}")


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Settings of proximal policy optimisation, named as tianshou names them.

    Raises:
        ConfigError: a number is out of range.

    Source:
        Schulman et al. 2017, arXiv:1707.06347. Defaults: the RecMorph paper's UNIMAL table;
        what it leaves open is taken from the public MetaMorph code.
    """

    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation."""
    eps_clip: float = 0.2
    """Half width of the clipping interval of the probability ratio, and of the value."""
    value_clip: bool = True
    """Clip the change of the value estimate."""
    vf_coef: float = 0.2
    """Weight of the value loss 0.5 (V - R)^2."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Joint gradient-norm limit of actor and critic."""
    repeat: int = 8
    """Epochs over each rollout."""
    batch_size: int = 5120
    """Transitions per gradient step."""
    lr: float = 3e-4
    """Peak learning rate of Adam."""
    adam_eps: float = 1e-5
    """Epsilon of Adam."""
    warmup_iterations: int = 5
    """Iterations over which the learning rate rises linearly to its cosine schedule."""
    warmup_start: float = 0.1
    """Share of the learning rate at the first iteration of the warm-up."""
    decay_start: float = 0.0
    """Share of the iterations after which the cosine begins; before, the rate is constant."""
    target_kl: float | None = 0.05
    """Stop the updates of an iteration once mean(log p_old - log p_new) of a minibatch exceeds
    it; none never stops."""
    time_limit: Literal["bootstrap", "zero_error"] = "bootstrap"
    """At a time limit, bootstrap from the value of the last observation (correct), or set the
    temporal-difference error to zero (the public MetaMorph code)."""

    def __post_init__(self) -> None:
        for name in ("gamma", "gae_lambda", "decay_start"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"'ppo.{name}' must be in [0, 1], got {getattr(self, name)}")
        for name in ("eps_clip", "max_grad_norm", "lr", "adam_eps", "repeat", "batch_size"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"'ppo.{name}' must be positive, got {getattr(self, name)}")
        for name in ("vf_coef", "ent_coef", "warmup_iterations", "warmup_start"):
            if getattr(self, name) < 0:
                raise ConfigError(f"'ppo.{name}' must not be negative, got {getattr(self, name)}")
        if self.target_kl is not None and self.target_kl <= 0:
            raise ConfigError(f"'ppo.target_kl' must be positive or none, got {self.target_kl}")
        _require_limits(self, "ppo.")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How a trained policy is scored, with frozen normalisation.

    Raises:
        ConfigError: there is no episode or no split, or modes or splits repeat.
    """

    episodes: int = 16
    """Episodes per body and mode."""
    modes: tuple[Mode, ...] = ("deterministic", "stochastic")
    """Mean actions, and actions sampled as in training; empty trains and scores nothing."""
    splits: tuple[Split, ...] = ("train", "test")
    """Which bodies."""

    def __post_init__(self) -> None:
        _require_limits(self, "evaluation.")
        if self.episodes < 1 or not self.splits:
            raise ConfigError(
                f"an evaluation needs at least one episode and split, got {self.episodes} and "
                f"{self.splits}; without 'modes' a run scores nothing"
            )
        for name in ("modes", "splits"):
            given = getattr(self, name)
            if len(set(given)) != len(given):
                raise ConfigError(f"'evaluation.{name}' must be different ones, got {given}")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The rules of a run. Changing any of them makes a run unofficial.

    Raises:
        ConfigError: a number is out of range, seeds are missing or repeat, or an iteration is
            longer than the training or shorter than two transitions.
    """

    name: str
    preset: str
    """Preset of the method's settings."""
    env_steps: int
    """Control steps over all environments; rounded down to whole iterations."""
    num_envs: int
    """Parallel environments."""
    rollout_length: int
    """Control steps per environment and iteration."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    normalization: Normalization = "per_feature"
    """Observation statistics: per feature over real limbs, or per token slot (public code)."""
    action_std: float = 0.9
    """Standard deviation of every action; set, not trained."""
    action_std_end: float | None = None
    """Standard deviation in the last iteration, approached in equal steps; none keeps the first."""
    sampling_alpha: float = 1.0
    """How strongly bodies with short episodes are drawn more often; 0 draws uniformly."""
    sampling_warmup_iterations: int = 30
    """Iterations with uniform drawing."""
    return_window: float = 0.05
    """Share of the iterations, the latest ones, whose finished episodes make up the training return
    and each point of the learning curve; one iteration at least."""
    seeds: tuple[int, ...] = (1, 2, 3, 4)
    """Seeds of a complete entry."""

    def __post_init__(self) -> None:
        _require_limits(self)
        for name in ("env_steps", "num_envs", "rollout_length"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name!r} must be positive, got {getattr(self, name)}")
        for name in ("sampling_alpha", "sampling_warmup_iterations"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name!r} must not be negative, got {getattr(self, name)}")
        if not 0.0 < self.return_window <= 1.0:
            raise ConfigError(
                f"'return_window' must be above 0 and at most 1, got {self.return_window}"
            )
        require_action_std(self.action_std)
        if self.action_std_end is not None:
            require_action_std(self.action_std_end, "action_std_end")
        if self.sampling_alpha > 100.0:  # powers that overflow
            raise ConfigError(f"'sampling_alpha' must be at most 100, got {self.sampling_alpha}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(f"'seeds' must be different numbers, at least one, got {self.seeds}")
        if self.num_iterations < 1:
            raise ConfigError(
                f"'env_steps' is {self.env_steps}, less than one iteration of {self.num_envs} "
                f"environments x {self.rollout_length} steps; raise it to at least "
                f"{self.steps_per_iteration}"
            )
        if self.steps_per_iteration < 2:  # one advantage has no spread to divide it by
            raise ConfigError(
                f"an iteration needs at least 2 transitions, got 'num_envs' {self.num_envs} x "
                f"'rollout_length' {self.rollout_length}; raise one of them"
            )

    def action_std_at(self, iteration: int) -> float:
        """Return the standard deviation of actions in an iteration, from 0."""
        if self.action_std_end is None:
            return self.action_std
        share = iteration / max(self.num_iterations - 1, 1)
        return self.action_std + share * (self.action_std_end - self.action_std)

    @property
    def window_iterations(self) -> int:
        """Iterations that `return_window` covers."""
        return max(1, round(self.return_window * self.num_iterations))

    @property
    def steps_per_iteration(self) -> int:
        """Control steps over all environments between two updates."""
        return self.num_envs * self.rollout_length

    @property
    def num_iterations(self) -> int:
        """Number of rollouts and updates."""
        return self.env_steps // self.steps_per_iteration
