"""The suite of closed loops: locomotion of trees and of bodies whose limbs form rings."""

from gmc_bench.suites.limb_protocols import PROTOCOLS, SPECIALISTS, THREE_SEEDS
from gmc_bench.suites.schema import Suite, TaskRules

SUITE = Suite(
    id="closed-loop-v1",
    title="Closed loops",
    description=(
        "One policy for 10 bodies with closed loops and 40 without, on flat terrain, scored on as "
        "many that it has never seen."
    ),
    tasks=("unimal-ft-v1",),
    default_morphologies=("gmc-loops-v1",),
    min_token_slots=12,
    protocols=PROTOCOLS,
    specialists=SPECIALISTS,
    default_protocol="lite",
    task_rules={"unimal-ft-v1": TaskRules(seeds=THREE_SEEDS)},
    marks_loops=True,
)
