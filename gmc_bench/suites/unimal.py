"""The UNIMAL suite: locomotion of evolved bodies of up to 12 limbs."""

from gmc_bench.suites.limb_protocols import PROTOCOLS, SPECIALISTS, THREE_SEEDS
from gmc_bench.suites.schema import Suite, TaskRules

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
    default_morphologies=("unimals_100", "gmc-unimal-mini-v2"),
    min_token_slots=12,
    protocols=PROTOCOLS,
    specialists=SPECIALISTS,
    default_protocol="lite",
    # Thresholds of the KL stop: the RecMorph paper's table, which has 0.05 where none is given
    # here. Decoders: the public MetaMorph code, the same for all methods.
    task_rules={
        "unimal-incline-v1": TaskRules(seeds=THREE_SEEDS),
        "unimal-exploration-v1": TaskRules(target_kl=0.03, seeds=THREE_SEEDS),
        "unimal-obstacles-v1": TaskRules(
            target_kl=0.03, decoder_hidden=(64, 64), seeds=THREE_SEEDS
        ),
        "unimal-vt-v1": TaskRules(target_kl=0.03, decoder_hidden=(64,), seeds=THREE_SEEDS),
    },
)
