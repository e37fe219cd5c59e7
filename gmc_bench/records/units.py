"""Distance in metres that a return stands for."""

from gmc_bench.records.schema import RunRecord

_OLDER = {
    "unimal-ft-v1": 0.02,
    "unimal-incline-v1": 0.02,
    "unimal-obstacles-v1": 0.02,
    "unimal-vt-v1": 0.02,
}
"""Of tasks whose older records do not state it."""


def metres_per_return(record: RunRecord) -> float | None:
    """Return the metres that a body moved per unit of its return; `None` where it is no distance.

    See `gmc_bench.tasks.Task.metres_per_return`.
    """
    return record.metres_per_return or _OLDER.get(record.task)
