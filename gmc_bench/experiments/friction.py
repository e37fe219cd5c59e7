"""Friction of a run's robots: what its suite measures on its policy beside returns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction import EPISODE_SECONDS, measure_friction
from gmc_bench.evaluation.friction_metrics import READINGS, macro_average
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments.events import Progress, counter
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.session import Session, torch_state
from gmc_bench.policies.policy import Policy
from gmc_bench.records.parts import AHEAD
from gmc_bench.records.schema import FrictionResult
from gmc_bench.robots.menagerie import bodies_from
from gmc_bench.robots.schema import BUILT_IN, Robot
from gmc_bench.suites import SUITES
from gmc_bench.suites.measured import FrictionMeasurement
from gmc_bench.training.run_config import RunConfig


def friction_measurement(config: RunConfig, options: FrictionOptions) -> FrictionMeasurement:
    """Return what is measured on the policy of a run.

    Raises:
        ConfigError: its suite measures no friction in its protocol.
    """
    found = _of_suite(config)
    if found is None:
        suite = SUITES.get(config.suite)
        protocols = ", ".join(suite.measurements)
        if not protocols:
            raise ConfigError(
                f"the suite {suite.id!r} measures no friction; use --suite quadruped-friction"
            )
        raise ConfigError(
            f"the suite {suite.id!r} measures no friction in the protocol "
            f"{config.protocol.name!r}; use one of {protocols}"
        )
    return replace(found, heading=options.heading, rule=options.rule or found.rule)


def friction_setting(config: RunConfig, options: FrictionOptions) -> dict[str, Any]:
    """Return how the policy of a run is measured: protocol, size, rules and robots.

    Raises:
        ConfigError: see `friction_measurement`; or robots cannot be had from where they are to
            come from.
        MorphologyError: a robot's file does not fit.
    """
    measurement = friction_measurement(config, options)
    bodies = load_morphologies(config.morphologies).split("train")
    return {
        "protocol": config.protocol.name,
        "num_envs": measurement.num_envs,
        "seconds": measurement.seconds,
        "forward": measurement.forward,
        "episode_seconds": EPISODE_SECONDS,
        "rule": measurement.rule,
        "heading": measurement.heading,
        "directions": {name: list(command) for name, command in measurement.directions.items()},
        "robots": _origin(bodies_from(options.robots, bodies)),
    }


def _origin(bodies: Sequence[Robot]) -> str | dict[str, str]:
    """Return where the simulated bodies come from; of files, also their digests."""
    if all(body.simulated_from == BUILT_IN for body in bodies):
        return BUILT_IN
    return {body.name: f"{body.simulated_from}, digest {body.digest[:12]}" for body in bodies}


def suite_friction(
    session: Session, policy: Policy, listener: Callable[[Progress], None]
) -> tuple[FrictionResult, ...] | None:
    """Return what the suite of a run measures on frictions; `None` if nothing is to be scored."""
    if _in_record(session.config) is None:
        return None
    results = measure_run(session, policy, FrictionOptions(), listener)
    return tuple(FrictionResult(**item) for item in results)


def num_friction_results(session: Session) -> int:
    """Return how many results `suite_friction` gives: one per robot, friction and direction."""
    found = _in_record(session.config)
    return len(found.conditions) * len(session.bodies.split("train")) if found else 0


def _in_record(config: RunConfig) -> FrictionMeasurement | None:
    """Return what is measured for the record of a run; `None` if nothing, as where it scores none.

    What is measured after the run, on its policy, is `friction_measurement`.
    """
    return _of_suite(config) if config.protocol.evaluation.modes else None


def _of_suite(config: RunConfig) -> FrictionMeasurement | None:
    """Return what the suite of a run measures in its protocol; `None` if nothing."""
    return SUITES.get(config.suite).measurements.get(config.protocol.name)


def measure_run(
    session: Session,
    policy: Policy,
    options: FrictionOptions,
    listener: Callable[[Progress], None],
) -> list[dict[str, Any]]:
    """Measure a policy on every robot, friction and direction.

    Args:
        session: the run.
        policy: who acts.
        options: what is measured otherwise than the suite says.
        listener: told of the control steps done.

    Returns:
        See `measure_friction`.

    Raises:
        ConfigError: see `friction_setting`.
    """
    config, measurement = session.config, friction_measurement(session.config, options)
    bodies = bodies_from(options.robots, session.bodies.split("train"))
    total = measurement.control_steps(session.task, len(bodies))
    own = torch_state(session)
    with own.in_use():
        return measure_friction(
            policy,
            session.task,
            bodies,
            measurement,
            seed=evaluation_seed(config.seed, "train", "friction"),
            num_threads=config.threads,
            on_progress=counter(own.aside(listener), "frictions", "step", total),
        )


def study_numbers(setting: dict[str, Any], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return measured frictions as studies keep them.

    Returns:
        `setting`, see `friction_setting`; `macro`, by friction and reading, straight ahead;
        `directions`, by direction and reading, on the friction where they are measured; `results`
        per condition and robot, see `friction_metrics.make_result`.
    """
    ahead: dict[str, list[dict[str, Any]]] = {}
    others: dict[str, list[dict[str, Any]]] = {}
    for item in results:
        direction = item.get("direction")
        if direction is None:
            ahead.setdefault(item["friction"], []).append(item)
        else:
            others.setdefault(AHEAD, ahead[item["friction"]])
            others.setdefault(direction, []).append(item)
    return {
        "setting": setting,
        "macro": _macro(ahead),
        "directions": _macro(others),
        "results": list(results),
    }


def _macro(groups: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {
        name: {reading: macro_average(items, reading) for reading in READINGS}
        for name, items in groups.items()
    }
