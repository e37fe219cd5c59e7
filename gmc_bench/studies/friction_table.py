"""The tables of the friction study: over robots, for single lives, per robot and per run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import Table
from gmc_bench.leaderboard.published import PublishedScore, published_scores
from gmc_bench.records.breakdown import DIRECTION_METRICS
from gmc_bench.records.parts import AHEAD
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.robots.schema import BUILT_IN
from gmc_bench.studies.outcome import Number, Outcome
from gmc_bench.studies.schema import Study
from gmc_bench.studies.table import (
    NONE,
    PUBLISHED,
    cell_text,
    count_runs,
    join_printed,
)

METRICS = (
    ("Velocity RMSE (m/s)", "velocity_rmse", "Velocity RMSE", 3),
    ("Progress (m)", "progress", "Progress", 2),
    ("Tilt RMS (degrees)", "tilt_rms", "Tilt RMS", 2),
    ("Fall rate (%)", "fall_rate", "Fall rate", 2),
)
"""Heading, name in what was measured, name among the published numbers, digits."""
_MORE = (
    ("Forward RMSE (m/s)", "forward_rmse", 3),
    ("Feet slid per metre (m)", "slip", 3),
)
_COUNTS = (
    ("Episodes", "episodes", 0),
    ("Falls", "falls", 0),
    ("Broken simulations", "diverged", 0),
)
_LIFE = "Single life"
_RULES = ("Friction rule", "Heading")


def friction_number(
    friction: str, name: str, *, reading: str = "restarts", robot: str | None = None
) -> Number:
    """Return a function that reads a metric of one friction, straight ahead, from a run.

    Args:
        friction: name of the pair.
        name: of the metric.
        reading: `restarts` or `single_life`.
        robot: its name; `None` reads the mean over robots.
    """

    def read(outcome: Outcome) -> float | None:
        if robot is None:
            content = outcome.measured.get("macro", {}).get(friction, {})
        else:
            content = next(
                (
                    item
                    for item in outcome.measured.get("results", ())
                    if (item["friction"], item["robot"]) == (friction, robot)
                    and item.get("direction") is None
                ),
                {},
            )
        value = content.get(reading, {}).get(name)
        return None if value is None else float(value)

    return read


def direction_number(direction: str, name: str, robot: str | None = None) -> Number:
    """Return a function that reads a metric of one direction from a run.

    Args:
        direction: its name.
        name: of the metric.
        robot: its name; `None` reads the mean over robots.
    """

    def read(outcome: Outcome) -> float | None:
        content = outcome.measured.get("directions", {}).get(direction, {})
        if robot is not None:
            content = _in_direction(outcome.measured.get("results", ()), direction, robot)
        value = content.get("restarts", {}).get(name)
        return None if value is None else float(value)

    return read


def _in_direction(
    results: Sequence[Mapping[str, Any]], direction: str, robot: str
) -> Mapping[str, Any]:
    pair = next((item["friction"] for item in results if item.get("direction")), None)
    for item in results:
        place = (item["friction"], item.get("direction") or AHEAD, item["robot"])
        if place == (pair, direction, robot):
            return item
    return {}


def friction_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per method and friction: means over robots, the paper's beside them.

    Raises:
        ConfigError: runs were not measured alike.
    """
    headings = (
        "Method", "Controller", "Friction", *_RULES, "Runs",
        *(heading for heading, *_ in METRICS), *(heading for heading, *_ in _MORE),
        *(f"{PUBLISHED}: {heading}" for heading, *_ in METRICS),
    )  # fmt: skip
    printed = _published(study)
    rows = []
    for method, runs in _by_method(outcomes).items():
        for friction in FRICTION_PAIRS:
            paper = [
                score
                for score in printed
                if (score.method, score.condition) == (method, f"{friction} friction")
            ]
            rows.append(
                (
                    method, _scope(runs), _friction(friction), *_rules(runs), count_runs(runs),
                    *_cells(runs, friction, _OURS), *_cells(runs, friction, _MORE),
                    *(join_printed(paper, name) for _, _, name, _ in METRICS),
                )
            )  # fmt: skip
    return Table(headings, rows, study.title, _notes(study, outcomes, printed))


def single_life_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per method and friction: means over robots if the first fall were the end.

    Raises:
        ConfigError: runs were not measured alike.
    """
    shown = (*_OURS, _MORE[0])
    headings = ("Method", "Controller", "Friction", *_RULES, "Runs", *(item[0] for item in shown))
    rows = [
        (
            method, _scope(runs), _friction(friction), *_rules(runs), count_runs(runs),
            *_cells(runs, friction, shown, reading="single_life"),
        )
        for method, runs in _by_method(outcomes).items()
        for friction in FRICTION_PAIRS
    ]  # fmt: skip
    note = (
        "The first fall is the end: after it the velocity counts as zero, progress stays and tilt "
        "is not counted. The fall rate is the share of environments with a fall."
    )
    return Table(headings, rows, study.title, (*_notes(study, outcomes), note))


def direction_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per method, direction and robot, on one friction; first the mean over robots.

    Raises:
        ConfigError: runs were not measured alike.
    """
    rows = [
        (
            method, robot or "mean of robots", direction, *_rules(runs), count_runs(runs),
            *(
                cell_text(runs, direction_number(direction, name, robot), 3)
                for name in DIRECTION_METRICS.values()
            ),
        )
        for method, runs in _by_method(outcomes).items()
        for robot in (None, *_robots(runs))
        for direction in dict.fromkeys(
            name for run in runs for name in run.measured.get("directions", ())
        )
    ]  # fmt: skip
    headings = ("Method", "Robot", "Direction", *_RULES, "Runs", *DIRECTION_METRICS)
    return Table(headings, rows, study.title, _notes(study, outcomes))


def robot_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per method, robot and friction, over runs.

    Raises:
        ConfigError: runs were not measured alike.
    """
    rows = [
        (
            method, robot, _friction(friction), *_rules(runs), count_runs(runs),
            *_robot_cells(runs, friction, robot),
        )
        for method, runs in _by_method(outcomes).items()
        for robot in _robots(outcomes)
        for friction in FRICTION_PAIRS
    ]  # fmt: skip
    headings = ("Method", "Robot", "Friction", *_RULES, "Runs", *_ROBOT_HEADINGS)
    return Table(headings, rows, study.title, _notes(study, outcomes))


def run_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per run, robot and friction, so that no mean hides a robot.

    Raises:
        ConfigError: runs were not measured alike.
    """
    rows = [
        (
            run.arm.label, str(run.seed), robot, _friction(friction), *_rules([run]),
            *_robot_cells([run], friction, robot),
        )
        for run in outcomes
        for robot in _robots(outcomes)
        for friction in FRICTION_PAIRS
    ]  # fmt: skip
    headings = ("Method", "Seed", "Robot", "Friction", *_RULES, *_ROBOT_HEADINGS)
    return Table(headings, rows, study.title, _notes(study, outcomes))


FRICTION_TABLES: dict[str, Callable[[Study, Sequence[Outcome]], Table]] = {
    "table_directions": direction_table,
    "table_single_life": single_life_table,
    "table_robots": robot_table,
    "table_runs": run_table,
}
"""Tables beside the main one, by name of their files."""

_OURS = tuple((heading, name, digits) for heading, name, _, digits in METRICS)
_HEADING_NOTES = {
    "held": "The command's yaw rate turns robots back to where they headed at the start.",
    "free": "Nothing corrects the heading, so that progress falls behind the distance walked.",
}
_ROBOT_HEADINGS = (
    *(heading for heading, *_ in (*_OURS, *_MORE, *_COUNTS)),
    *(f"{_LIFE}: {heading}" for heading, *_ in _OURS),
)


def _cells(
    runs: Sequence[Outcome],
    friction: str,
    shown: Sequence[tuple[str, str, int]],
    *,
    reading: str = "restarts",
    robot: str | None = None,
) -> list[str]:
    return [
        cell_text(runs, friction_number(friction, name, reading=reading, robot=robot), digits)
        for _, name, digits in shown
    ]


def _robot_cells(runs: Sequence[Outcome], friction: str, robot: str) -> list[str]:
    shown = (*_OURS, *_MORE, *_COUNTS)
    life = _cells(runs, friction, _OURS, reading="single_life", robot=robot)
    return [*_cells(runs, friction, shown, robot=robot), *life]


def _by_method(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.arm.label, []).append(outcome)
    return found


def _robots(outcomes: Sequence[Outcome]) -> list[str]:
    return list(
        dict.fromkeys(item["robot"] for run in outcomes for item in run.measured.get("results", ()))
    )


def _scope(runs: Sequence[Outcome]) -> str:
    return runs[0].arm.parts.get("Controller", NONE)


def _rules(runs: Sequence[Outcome]) -> tuple[str, str]:
    """Return how the runs were measured, see `_RULES`."""
    setting = _setting(runs)
    # In runs older than this choice, nothing held the heading.
    return (setting["rule"], setting.get("heading", "free")) if setting else (NONE, NONE)


def _friction(name: str) -> str:
    pair = FRICTION_PAIRS[name]
    return f"{name} ({pair.static:.1f}, {pair.dynamic:.1f})"


def _published(study: Study) -> list[PublishedScore]:
    """Return the paper's numbers: nominal friction has a table of its own there."""
    labels = (study.published_label, f"{study.published_label}_all")
    return [score for score in published_scores() if score.label in labels]


def _notes(
    study: Study, outcomes: Sequence[Outcome], printed: Sequence[PublishedScore] = ()
) -> tuple[str, ...]:
    notes = [
        f"{study.question} {study.source}",
        "Mean ± sample standard deviation over runs, which differ in their seed; where no robot is "
        "named, the mean over robots first. Mean actions on a plane; a robot that falls starts "
        "again, and every control step counts. Fall rate: falls per finished episode.",
    ]
    setting = _setting(outcomes)
    if setting:
        notes.append(
            f"Measured as the protocol {setting['protocol']} says: {setting['num_envs']} "
            f"environments per robot and friction, {setting['seconds']:g} s each, commanded "
            f"{setting['forward']:g} m/s straight ahead, so that a robot that stands still has a "
            f"velocity RMSE of {setting['forward']:g}. Friction rule: {setting['rule']}. "
            f"{_HEADING_NOTES[setting.get('heading', 'free')]}"
        )
        robots = setting.get("robots", BUILT_IN)
        if robots != BUILT_IN:
            notes.append(
                f"Robots are simulated with the bodies of other model files than the policies were "
                f"trained on: {'; '.join(f'{name}: {file}' for name, file in robots.items())}."
            )
    if printed:
        title = printed[0].source.rpartition(", ")[0]
        places = " and ".join(dict.fromkeys(s.source.rpartition(", ")[2] for s in printed))
        notes.append(
            f"Columns headed '{PUBLISHED}' hold what a paper printed ({title}, {places}; "
            f"{printed[0].protocol}), whose numbers imply 1 m/s over 100 s. Its simulator, "
            f"rewards, commands and what follows a fall are not stated, and its training is far "
            f"longer: they must not be compared with ours number by number."
        )
    return tuple(notes)


def _setting(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    """Return how all runs were measured; empty if none was.

    Raises:
        ConfigError: they were not measured alike.
    """
    found = [run.measured["setting"] for run in outcomes if "setting" in run.measured]
    for other in found[1:]:
        if other != found[0]:
            raise ConfigError(
                f"runs of one table were measured in different ways ({other} and {found[0]}); "
                f"delete the folder 'measured' and continue the study with --resume"
            )
    return found[0] if found else {}
