"""Training that the benchmarks have in common: RecMorph on FT, under a protocol."""

from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.config import to_dict
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.group import Group
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.trainer import Trainer, make_trainer
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


def new_trainer(config: RunConfig, bodies: MorphologySet, group: Group | None = None) -> Trainer:
    """Return the trainer of a run from `run_config`, at its start.

    Args:
        config: settings.
        bodies: those that the settings name.
        group: the processes of the run; by default this one alone.
    """
    spec = token_spec(SUITE, bodies, TASK)
    return make_trainer(config, SPEC, TASK, bodies.split("train"), spec, group)
