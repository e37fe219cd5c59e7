"""Run that the benchmarks of training have in common: RecMorph on FT, by a protocol."""

from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.config import to_dict
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.run_config import RunConfig
from recmorph import SPEC


def run_config(bodies: MorphologySet, protocol: Protocol, **others: Any) -> RunConfig:
    """Return the settings of a run of RecMorph on FT.

    Args:
        bodies: it trains on their train split.
        protocol: its rules.
        others: further fields, e.g. `threads`; the seed is 0 unless it is one of them.
    """
    settings: dict[str, Any] = {"seed": 0, **others}
    return RunConfig(
        method=SPEC.id,
        method_config=to_dict(SPEC.make_config(protocol.preset)),
        suite=SUITE.id,
        task=TASK.id,
        morphologies=bodies.id,
        morphologies_digest=bodies.digest,
        protocol=protocol,
        **settings,
    )
