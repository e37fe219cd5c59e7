"""The UNIMAL suite: locomotion of evolved bodies of up to 12 limbs."""

from gmc_bench.suites.protocol import EvaluationConfig, PPOConfig, Protocol
from gmc_bench.suites.schema import Suite, TaskRules

_SMOKE = Protocol(
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

# Short rollouts and small minibatches: with a KL stop, the policy moves a bounded distance per
# iteration, so many short iterations learn more from the same steps (docs/protocols.md).
_LITE = Protocol(
    name="lite",
    preset="lite",
    env_steps=600_000,
    num_envs=64,
    rollout_length=32,
    ppo=PPOConfig(repeat=4, batch_size=512, lr=5e-4, warmup_iterations=2),
    evaluation=EvaluationConfig(episodes=4),
    sampling_warmup_iterations=40,
    seeds=(1, 2, 3),
)

_PAPER = Protocol(
    name="paper",
    preset="paper",
    env_steps=100_000_000,
    num_envs=32,
    rollout_length=2560,
    evaluation=EvaluationConfig(episodes=16),
)

SUITE = Suite(
    id="unimal-v1",
    title="UNIMAL",
    description=(
        "One policy for 100 evolved bodies of 5 to 11 limbs (or a generated set where the "
        "published bodies were not imported), scored on bodies it has never seen."
    ),
    tasks=(
        "unimal-ft-v1",
        "unimal-incline-v1",
        "unimal-exploration-v1",
        "unimal-obstacles-v1",
        "unimal-vt-v1",
    ),
    default_morphologies=("unimals_100", "gmc-unimal-mini-v1"),
    min_token_slots=12,
    protocols={protocol.name: protocol for protocol in (_SMOKE, _LITE, _PAPER)},
    default_protocol="lite",
    # Thresholds of the KL stop: the RecMorph paper's table, which has 0.05 where none is given
    # here. Decoders: the public MetaMorph code, the same for all methods.
    task_rules={
        "unimal-exploration-v1": TaskRules(target_kl=0.03),
        "unimal-obstacles-v1": TaskRules(target_kl=0.03, decoder_hidden=(64, 64)),
        "unimal-vt-v1": TaskRules(target_kl=0.03, decoder_hidden=(64,)),
    },
)
