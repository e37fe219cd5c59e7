"""The suite of larger bodies: locomotion with up to 30 limbs."""

from gmc_bench.suites.limb_protocols import PROTOCOLS, SPECIALISTS, THREE_SEEDS
from gmc_bench.suites.schema import Suite, TaskRules

SUITE = Suite(
    id="larger-bodies-v1",
    title="Larger bodies",
    description=(
        "One policy for 100 generated bodies of up to 30 limbs, 25 on average, on flat terrain, "
        "scored on bodies it has never seen."
    ),
    tasks=("unimal-ft-v1",),
    default_morphologies=("gmc-large-v1",),
    min_token_slots=30,
    protocols=PROTOCOLS,
    specialists=SPECIALISTS,
    default_protocol="lite",
    task_rules={"unimal-ft-v1": TaskRules(seeds=THREE_SEEDS)},
)
