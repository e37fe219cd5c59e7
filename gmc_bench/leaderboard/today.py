"""Whether tables and rows follow today's rules: those of the installed version."""

from dataclasses import replace

from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.leaderboard.aggregate import ComparisonKey, ComparisonTable, Row
from gmc_bench.records.schema import RunRecord
from gmc_bench.suites import SUITES


def is_earlier(table: ComparisonTable) -> bool:
    """Say whether a table's official runs followed rules that have changed since.

    Its protocol or task is another one here, or its suite or task has a later version. So it is
    where older records do not state their task. A table of runs that changed the protocol
    themselves is not of an earlier one, nor is one whose suite, task or protocol nobody knows here.
    """
    from gmc_bench.tasks import TASKS  # loads the engine

    key = table.key
    if not (table.rows or table.references or table.untrained):
        return False
    if is_replaced(key):
        return True
    try:
        protocol = SUITES.get(key.suite).protocol(key.protocol, key.task)
        task = TASKS.get(key.task)
    except GmcBenchError:
        return False
    here = config_digest(protocol), task.digest
    return here != (key.protocol_digest, key.task_digest)


def latest(key: ComparisonKey) -> ComparisonKey:
    """Return the key of a table with the latest versions of its suite and task that are here."""
    from gmc_bench.tasks import TASKS  # loads the engine

    return replace(key, suite=SUITES.latest(key.suite), task=TASKS.latest(key.task))


def is_replaced(made: ComparisonKey | RunRecord) -> bool:
    """Say whether the suite or the task of a table or record has a later version here."""
    from gmc_bench.tasks import TASKS  # loads the engine

    return SUITES.replaced(made.suite) or TASKS.replaced(made.task)


def is_current(row: Row) -> bool:
    """Say whether a run made now would join a row; of methods that are not installed, nobody knows.

    Settings change with what a method was tuned to, which makes no other table.
    """
    from gmc_bench.leaderboard.rules import installed_rules  # loads what tasks are made of

    rules = installed_rules(row.runs[0].record, tuned=True)
    made = (row.key.method_version, row.key.config_digest)
    return rules is None or made == (rules.method_version, config_digest(dict(rules.config)))
