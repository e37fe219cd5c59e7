"""Whether frictions were measured by one rule: unlike measurements share no table and no claim."""

import math
from collections.abc import Sequence

from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.records.parts import FrictionResult
from gmc_bench.records.schema import RunRecord
from gmc_bench.robots.schema import BUILT_IN
from gmc_bench.suites import SUITES
from gmc_bench.suites.measured import FrictionMeasurement

_NUMBERS = {"robot", "robot_digest", "restarts", "single_life"}
"""Fields of a result that do not say how it was measured."""


def is_measured_by(item: FrictionResult, rule: FrictionMeasurement) -> bool:
    """Say whether a result on friction was measured as a rule asks for."""
    commands = {(pair, direction): command for pair, direction, command in rule.conditions}
    command = commands.get((item.friction, item.direction))
    if command is None:
        return False
    pair = rule.pairs[item.friction]
    stated = (
        *(item.robot_origin, item.command, item.heading, item.rule),
        *(item.num_envs, item.static, item.dynamic),
    )
    asked = (
        *(BUILT_IN, command, rule.heading_of(command), rule.rule),
        *(rule.num_envs, pair.static, pair.dynamic),
    )
    # In whole control steps.
    return stated == asked and math.isclose(item.seconds, rule.seconds, rel_tol=0.05)


def is_measured_as_today(record: RunRecord) -> bool:
    """Say whether a record's frictions are what its suite measures today, as far as it has any.

    Of a suite that is not here, nobody knows.
    """
    if record.suite not in SUITES.names():
        return True
    rule = SUITES.get(record.suite).measurements.get(record.protocol)
    return all(rule is not None and is_measured_by(item, rule) for item in record.friction or ())


def measured_alike(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table whose frictions were all measured by today's rule.

    Of a suite that is not here, it is the rule of the newest run. Rows without frictions stay.
    """
    records = [run.record for row in rows for run in row.runs if run.record.friction]
    if not records:
        return list(rows)
    newest = max(records, key=lambda record: record.created)
    known = [_way(item) for item in newest.friction or ()]

    def fits(record: RunRecord) -> bool:
        if record.suite in SUITES.names():
            return is_measured_as_today(record)
        return all(_way(item) in known for item in record.friction or ())

    return [row for row in rows if all(fits(run.record) for run in row.runs)]


def _way(item: FrictionResult) -> dict[str, object]:
    """Return how a result was measured."""
    return item.model_dump(exclude=_NUMBERS)
