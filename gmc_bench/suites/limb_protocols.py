"""Protocols of the suites whose bodies are made of limbs: one set of rules for all of them."""

from dataclasses import replace

from gmc_bench.suites.protocol import EvaluationConfig, PPOConfig, Protocol
from gmc_bench.suites.specialist import SpecialistRules

SMOKE = Protocol(
    name="smoke",
    preset="lite",
    env_steps=8_192,
    num_envs=16,
    rollout_length=64,
    ppo=PPOConfig(repeat=2, batch_size=512, warmup_iterations=1),
    evaluation=EvaluationConfig(episodes=1, modes=("deterministic",)),
    sampling_warmup_iterations=2,
    seeds=(1,),
)

# Simulation and acting are cheap on a CPU and gradient steps expensive, so each transition is used
# once, in many short iterations (docs/protocols.md, "Why `lite` is what it is").
LITE = Protocol(
    name="lite",
    preset="lite",
    env_steps=2_000_000,
    num_envs=256,
    rollout_length=16,
    ppo=PPOConfig(repeat=1, batch_size=512, lr=1e-3, warmup_iterations=2),
    evaluation=EvaluationConfig(episodes=2),
    sampling_warmup_iterations=40,
    seeds=(1, 2, 3, 4, 5),
)

# The rules of `lite` for ten times as long, with twice the environments and minibatches: about an
# hour of two cores, and wide enough for a GPU.
STANDARD = replace(
    LITE,
    name="standard",
    env_steps=10 * LITE.env_steps,
    num_envs=2 * LITE.num_envs,
    ppo=replace(LITE.ppo, batch_size=2 * LITE.ppo.batch_size),
    evaluation=EvaluationConfig(episodes=4),
)

PAPER = Protocol(
    name="paper",
    preset="paper",
    env_steps=100_000_000,
    num_envs=32,
    rollout_length=2560,
    evaluation=EvaluationConfig(episodes=16),
)

PROTOCOLS = {protocol.name: protocol for protocol in (SMOKE, LITE, STANDARD, PAPER)}
"""By name."""

THREE_SEEDS = {"lite": (1, 2, 3), "standard": (1, 2, 3)}
"""For all boards but flat ground of the suite `unimal`: five seeds of every method on all of them
would take a laptop days. Where rows are close, further seeds join (docs/statistics.md)."""

# A network of a whole body learns less from a step than one that all limbs share, so a ceiling
# needs more steps of each body than a shared policy has (docs/protocols.md).
_SPECIALIST = SpecialistRules(
    env_steps=500_000,
    num_envs=64,
    rollout_length=32,
    repeat=4,
    batch_size=512,
    lr=5e-4,
    seeds=(1,),
    episodes=8,
)
SPECIALISTS = {
    "lite": _SPECIALIST,
    "standard": replace(_SPECIALIST, env_steps=2_000_000),
    # The public script for single robots runs its default configuration.
    "paper": SpecialistRules(
        env_steps=1_000_000, num_envs=32, rollout_length=2560, repeat=8, batch_size=5120, lr=3e-4
    ),
}
"""How one policy per body is trained, by name of the protocol."""
