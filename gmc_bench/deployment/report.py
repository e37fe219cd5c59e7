"""Report of a deployment: a table like the paper's, and everything else in JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.core.table import Table
from gmc_bench.deployment.loop import COMPLETED_SHARE, TrialOutcome
from gmc_bench.deployment.trials import RAMP_SECONDS, Conditions, Trial
from gmc_bench.robots import get_robot
from gmc_bench.robots.schema import BUILT_IN

DISCLAIMER = (
    "Simulated counterpart of the paper's hardware trials: it is no evidence about hardware."
)
HEADINGS = ("Robot", "Setting", "Trials", "Success", "Published (hardware)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempt:
    """One trial that was run."""

    trial: Trial
    robot: str
    number: int
    """From 0."""
    seed: int
    conditions: Conditions
    result: TrialOutcome
    origin: str = BUILT_IN
    """Where the simulated body comes from."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "trial": self.trial.id,
            "robot": self.robot,
            "robot_origin": self.origin,
            "number": self.number + 1,
            "seed": self.seed,
            "command": list(self.trial.command),
            "conditions": self.conditions.to_dict(),
            **self.result.to_dict(),
        }


def success_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a success rate.

    Source:
        Clopper and Pearson 1934, exact binomial interval.
    """
    from scipy.stats import beta

    low = beta.ppf(0.025, successes, trials - successes + 1) if successes else 0.0
    high = beta.ppf(0.975, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def table_rows(attempts: Sequence[Attempt]) -> list[tuple[str, ...]]:
    """Return one row per robot and kind of trial, as in the paper; see `HEADINGS`.

    What the paper did not run has `-` in the last column.
    """
    rows: list[tuple[str, ...]] = []
    for robot, trial in dict.fromkeys((attempt.robot, attempt.trial) for attempt in attempts):
        mine = [a for a in attempts if (a.robot, a.trial) == (robot, trial)]
        count = sum(attempt.result.succeeded for attempt in mine)
        published = trial.published if robot == trial.robot else "-"
        title = get_robot(robot).title
        title = title.partition(" ")[2] or title  # without its maker
        cells = (title, trial.setting, str(len(mine)), f"{count}/{len(mine)}", published)
        rows.append(cells)
    return rows


def make_table(
    attempts: Sequence[Attempt],
    realtime: bool,
    seconds: float,
    *,
    planned: int,
    hold_heading: bool = True,
) -> Table:
    """Return the table with what it means; `planned` is how many trials were asked for."""
    done = len(attempts)
    notes = (
        DISCLAIMER,
        *([f"Incomplete: stopped after {done} of {planned} trials."] if done < planned else ()),
        f"A trial of {seconds:g} s succeeds without a fall, without an emergency stop, and with a "
        f"mean velocity along the command of at least {COMPLETED_SHARE:.0%} of it. "
        f"{_HEADINGS[hold_heading]}",
        *_bodies(attempts),
        f"Policy: {_worst(attempts, 'policy_ms')}; whole control step, simulation included: "
        f"{_worst(attempts, 'tick_ms')}; deadlines missed: "
        f"{sum(a.result.deadline_misses for a in attempts)} of "
        f"{sum(a.result.steps for a in attempts)}"
        f"{'' if realtime else ' (not run in real time)'}.",
    )
    return Table(HEADINGS, table_rows(attempts), "Virtual deployment", notes)


def to_dict(
    attempts: Sequence[Attempt],
    origin: Mapping[str, Any],
    realtime: bool,
    seconds: float,
    *,
    planned: int,
    hold_heading: bool = True,
) -> dict[str, Any]:
    """Return everything, as plain values for JSON; `planned` as for `make_table`."""
    summary = []
    for row in table_rows(attempts):
        successes, trials = (int(part) for part in row[3].split("/"))
        low, high = success_interval(successes, trials)
        summary.append(
            {
                **dict(zip(("robot", "setting"), row[:2], strict=True)),
                "trials": trials,
                "successes": successes,
                "success_interval_95": [low, high],
                "published_hardware": row[4],
            }
        )
    return {
        "note": DISCLAIMER,
        "policy": dict(origin),
        "realtime": realtime,
        "seconds": seconds,
        "ramp_seconds": RAMP_SECONDS,
        "heading": "held" if hold_heading else "free",
        "planned_trials": planned,
        "summary": summary,
        "trials": [attempt.to_dict() for attempt in attempts],
    }


_HEADINGS = {
    True: "Robots are told to turn against what they believe to have turned.",
    False: "Nothing corrects the heading.",
}


def _bodies(attempts: Sequence[Attempt]) -> list[str]:
    files = {a.robot: a.origin for a in attempts if a.origin != BUILT_IN}
    if not files:
        return []
    found = "; ".join(f"{name}: {file}" for name, file in files.items())
    return [f"Robots are simulated with the bodies of other model files: {found}."]


def _worst(attempts: Sequence[Attempt], name: str) -> str:
    """Return the largest of each statistic over all trials."""
    timings = [getattr(attempt.result, name) for attempt in attempts]
    return ", ".join(
        f"{label} {max(getattr(timing, field) for timing in timings):.2f} ms"
        for field, label in (("median", "median"), ("p95", "95 %"), ("largest", "max"))
    )
