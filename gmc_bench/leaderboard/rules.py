"""The rules of the installed version, in the form that records can be compared with."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gmc_bench.core.config import definition_digest, to_dict, with_overrides
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.leaderboard.submission import Rules
from gmc_bench.methods import METHODS
from gmc_bench.records.schema import RunRecord
from gmc_bench.suites import SUITES
from gmc_bench.suites.choice import Choice
from gmc_bench.suites.method_rules import (
    planned_steps,
    protocol_digest,
    training_rules,
    tuning_of_run,
)
from gmc_bench.tasks import TASKS
from gmc_bench.training.run_config import RunConfig


def ranked_methods() -> list[str]:
    """Return the ids of this package's methods that can be ranked: one policy for all bodies.

    Those of other packages have rows where they have runs, so that the same records make the same
    tables whatever is installed.
    """
    found = ((name, METHODS.get(name)) for name in METHODS.own_names())
    return [name for name, spec in found if spec.trainable and not spec.capabilities.per_body]


class VariantRules(NamedTuple):
    """The rules that all variants of a study's method have in common."""

    method_version: int
    protocol: str
    """Digest of the protocol."""
    task: str
    """Digest of the task."""


def rules_of_variants(
    suite_id: str,
    task: str,
    protocol: str,
    method_id: str,
    preset: str,
    changes: Mapping[str, Any] | None = None,
) -> VariantRules | None:
    """Return by which rules a variant of a method would be run here, for its whole budget.

    Args:
        suite_id: full id of the suite.
        task: full id.
        protocol: its name.
        method_id: registered id.
        preset: of the variant; part of the protocol's digest.
        changes: what else of the protocol sets the variant apart, nested as the protocol is.

    Returns:
        The rules; `None` where one of the names is not installed.
    """
    try:
        suite, definition = SUITES.get(suite_id), TASKS.get(task)
        method = METHODS.load(method_id)
        rules = with_overrides(
            suite.protocol(protocol, task), {**(changes or {}), "preset": preset}
        )
    except GmcBenchError:
        return None
    return VariantRules(
        method.version,
        protocol_digest(rules, method, suite, task),
        definition_digest(definition),
    )


def installed_rules(record: RunRecord, *, tuned: bool | None = None) -> Rules | None:
    """Return the rules of the installed version for an official run of a record's kind.

    Args:
        record: whose kind it is.
        tuned: whether the run has its method's tuned values, if there are any; by
            default, as the record says, since the protocol's own values are official too.

    Returns:
        The rules for the record's method, suite, task, protocol and bodies; `None` where one of
        the first four is not installed.
    """
    try:
        suite, task = SUITES.get(record.suite), TASKS.get(record.task)
        method = METHODS.load(record.method)
        if tuned is False or (tuned is None and record.tuning is None):
            method = method.before_tuning
        choice = Choice(record.method, method, suite, suite.protocol(record.protocol))
        protocol = choice.rules(record.task, record.morphologies.num_train)
        settings = to_dict(choice.settings(record.task))
        kept = tuning_of_run(method, suite, record.task, protocol, settings)
    except GmcBenchError:
        return None
    official = RunConfig(
        method=record.method,
        method_config=settings,
        suite=record.suite,
        task=record.task,
        morphologies=record.morphologies.id,
        morphologies_digest=record.morphologies.digest,
        protocol=protocol,
        seed=record.seed,
        untrained=bool(record.untrained),
    )
    per_body, bodies = method.capabilities.per_body, record.morphologies.num_train
    return Rules(
        task=task.digest,
        protocol=protocol_digest(protocol, method, suite, record.task),
        suite=definition_digest(suite.only(record.task)),
        method_version=method.version,
        controller="single_robot" if per_body else "shared",
        config=official.identity(),
        seeds=protocol.seeds,
        env_steps=0 if record.untrained else planned_steps(protocol, bodies, per_body=per_body),
        steps_per_iteration=training_rules(protocol, bodies, per_body=per_body).steps_per_iteration,
        episodes=protocol.evaluation.episodes,
        parts=tuple(
            (split, mode)
            for split in (("train",) if per_body else protocol.evaluation.splits)
            for mode in protocol.evaluation.modes
        ),
        friction=suite.measurements.get(record.protocol),
        tuning=kept,
    )
