"""Whether a table's rules are today's: those of the installed version's protocol of that name."""

from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.leaderboard.aggregate import ComparisonTable
from gmc_bench.suites import SUITES


def is_earlier(table: ComparisonTable) -> bool:
    """Say whether a table's official runs followed a protocol that has changed since.

    A table of runs that changed the protocol themselves is not of an earlier one, nor is one whose
    suite or protocol is not installed.
    """
    key = table.key
    if not (table.rows or table.references or table.untrained):
        return False
    try:
        protocol = SUITES.get(key.suite).protocol(key.protocol, key.task)
    except GmcBenchError:
        return False
    return config_digest(protocol) != key.protocol_digest
