"""The rules of the installed version, as digests that records can be compared with."""

from dataclasses import replace

from gmc_bench.cli.plan import protocol_digest, with_method_training
from gmc_bench.config import definition_digest
from gmc_bench.errors import GmcBenchError
from gmc_bench.leaderboard.submission import Rules
from gmc_bench.methods import METHODS
from gmc_bench.results.schema import RunRecord
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS


def installed_rules(record: RunRecord) -> Rules | None:
    """Return what task and protocol of a record are here; `None` if one is not."""
    try:
        suite, task = SUITES.get(record.suite), TASKS.get(record.task)
        method = METHODS.load(record.method)
        protocol = with_method_training(suite.protocol(record.protocol), method)
    except GmcBenchError:
        return None
    if method.env_steps_per_body is not None:
        steps = method.env_steps_per_body * record.morphologies.num_train
        protocol = replace(protocol, env_steps=steps)
    return Rules(
        task=definition_digest(task),
        protocol=protocol_digest(protocol, method, suite),
    )
