"""The quadruped suite: one policy for Go1, Go2, ANYmal-B and ANYmal-C, on three frictions."""

from dataclasses import replace

from gmc_bench.suites.measured import FrictionMeasurement
from gmc_bench.suites.protocol import EvaluationConfig, PPOConfig, Protocol
from gmc_bench.suites.schema import Suite

_SMOKE = Protocol(
    name="smoke",
    preset="lite",
    env_steps=4_096,
    num_envs=8,
    rollout_length=32,
    ppo=PPOConfig(repeat=2, batch_size=128, warmup_iterations=1),
    evaluation=EvaluationConfig(episodes=1, modes=("deterministic",), splits=("train",)),
    sampling_alpha=0.0,
    sampling_warmup_iterations=1,
    seeds=(1,),
)

# One pass over short rollouts: a second pass costs as much as new experience. A constant rate of
# 7e-4 meets the KL stop halfway, as the standard deviation of actions shrinks;
# the cosine does not.
_LITE = Protocol(
    name="lite",
    preset="lite",
    env_steps=3_000_000,
    num_envs=128,
    rollout_length=16,
    ppo=PPOConfig(gamma=0.98, repeat=1, batch_size=512, lr=7e-4, vf_coef=0.5),
    evaluation=EvaluationConfig(episodes=4, splits=("train",)),
    action_std=0.6,
    action_std_end=0.25,
    sampling_alpha=0.0,
    seeds=(1, 2, 3),
)

_STANDARD = replace(
    _LITE,
    name="standard",
    env_steps=10_000_000,
    evaluation=EvaluationConfig(episodes=16, splits=("train",)),
)

# The paper states environments, rollouts and iterations, but no PPO setting and no standard
# deviation of actions: that is the one of the other protocols.
_PAPER = Protocol(
    name="paper",
    preset="paper",
    env_steps=163_840_000,
    num_envs=512,
    rollout_length=32,
    ppo=PPOConfig(repeat=4, batch_size=4096, lr=5e-4, vf_coef=0.5),
    evaluation=EvaluationConfig(episodes=16, splits=("train",)),
    action_std=_LITE.action_std,
    action_std_end=_LITE.action_std_end,
    sampling_alpha=0.0,
    seeds=(1, 2, 3, 4),
)

SUITE = Suite(
    id="quadruped-friction-v3",
    title="Quadruped friction",
    description=(
        "One policy for four quadrupeds that follow velocity commands, measured on low, nominal "
        "and high friction."
    ),
    tasks=("quadruped-velocity-v3",),
    default_morphologies=("quadrupeds-v1",),
    min_token_slots=64,
    protocols={protocol.name: protocol for protocol in (_SMOKE, _LITE, _STANDARD, _PAPER)},
    default_protocol="lite",
    measurements={
        "smoke": FrictionMeasurement(num_envs=2, seconds=4.0, forward=0.5),
        "lite": FrictionMeasurement(num_envs=16, seconds=20.0, forward=0.5),
        "standard": FrictionMeasurement(num_envs=32, seconds=20.0, forward=0.5),
        "paper": FrictionMeasurement(num_envs=256, seconds=100.0, forward=1.0),
    },
)
