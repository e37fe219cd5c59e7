"""Names of the files of tables."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple

from gmc_bench.leaderboard.aggregate import ComparisonKey
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.tables.cells import SHORT_DIGEST
from gmc_bench.leaderboard.today import is_earlier

TABLES_FOLDER = "tables"
"""Below a leaderboard's folder."""
EARLIER_FOLDER = "earlier"
"""Below the tables: those of protocols that have changed since."""


def file_names(analyses: Sequence[TableAnalysis]) -> list[str]:
    """Return for each table the path of its files below the tables folder, without a suffix.

    Args:
        analyses: all tables of a leaderboard; those of earlier protocols may be left out, which
            changes no other table's name.
    """
    # Names alone can clash, e.g. for two engine versions; then all of them get a digest.
    keys = [item.table.key for item in analyses]
    short = [f"{key.suite}/{key.task}/{key.protocol}-{key.morphologies}" for key in keys]
    for place, item in enumerate(analyses):
        if is_earlier(item.table):
            digest = item.table.key.protocol_digest[:SHORT_DIGEST]
            short[place] = f"{EARLIER_FOLDER}/{short[place]}-{digest}"
    uses = Counter(short)
    return [
        name if uses[name] == 1 else f"{name}-{_key_digest(key)}"
        for name, key in zip(short, keys, strict=True)
    ]


def _key_digest(key: ComparisonKey) -> str:
    return hashlib.sha256("\n".join(astuple(key)).encode()).hexdigest()[:SHORT_DIGEST]
