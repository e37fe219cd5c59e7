"""`gmc-bench list`: what there is to run."""

import argparse
from collections.abc import Callable
from typing import Any

from gmc_bench.cli.output import say, say_json, table
from gmc_bench.cli.parser import add_verb
from gmc_bench.errors import PluginError

EXAMPLES = ("gmc-bench list methods", "gmc-bench list morphologies --json")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "list", "List methods, suites, tasks or morphologies.", EXAMPLES)
    parser.add_argument("what", choices=tuple(_LISTS))
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    rows, columns = _LISTS[parsed.what]()
    if parsed.json:
        say_json(rows)
    elif rows:
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        say(table(columns, cells))
    return 0


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item:,}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


Rows = list[dict[str, Any]]


def _methods() -> tuple[Rows, tuple[str, ...]]:
    from gmc_bench.methods import METHODS

    rows: Rows = []
    for name, spec in METHODS.items():
        if isinstance(spec, PluginError):
            rows.append({"id": name, "title": f"broken: {spec}", "error": str(spec)})
            continue
        rows.append(
            {
                "id": spec.id,
                "version": spec.version,
                "title": spec.title,
                "paper": spec.paper,
                "reference_code": spec.reference_code,
                "licence": spec.licence,
                "presets": sorted(spec.presets),
                "parameters": dict(spec.parameters),
                "deviations": list(spec.deviations),
                "capabilities": {
                    "permutation_equivariant": spec.capabilities.permutation_equivariant,
                    "uses_graph": spec.capabilities.uses_graph,
                },
            }
        )
    return rows, ("id", "version", "parameters", "title")


def _suites() -> tuple[Rows, tuple[str, ...]]:
    from gmc_bench.suites import SUITES

    rows: Rows = []
    for name, suite in SUITES.items():
        if isinstance(suite, PluginError):
            rows.append({"id": name, "title": f"broken: {suite}", "error": str(suite)})
            continue
        rows.append(
            {
                "id": suite.id,
                "title": suite.title,
                "description": suite.description,
                "tasks": list(suite.tasks),
                "protocols": {name: p.env_steps for name, p in suite.protocols.items()},
                "default_protocol": suite.default_protocol,
                "default_morphologies": list(suite.default_morphologies),
            }
        )
    return rows, ("id", "tasks", "protocols", "title")


def _tasks() -> tuple[Rows, tuple[str, ...]]:
    from gmc_bench.tasks import TASKS

    rows: Rows = []
    for name, task in TASKS.items():
        if isinstance(task, PluginError):
            rows.append({"id": name, "title": f"broken: {task}", "error": str(task)})
            continue
        rows.append(
            {
                "id": task.id,
                "title": task.title,
                "description": task.description,
                "rewards": {term.name: term.weight for term in task.rewards},
                "terminations": [term.name for term in task.terminations],
                "horizon": task.horizon,
                "source": task.source,
            }
        )
    return rows, ("id", "horizon", "rewards", "terminations", "title")


def _morphologies() -> tuple[Rows, tuple[str, ...]]:
    from gmc_bench.library import list_sets

    rows = [{"id": item.id, "status": item.status, "hint": item.hint} for item in list_sets()]
    return rows, ("id", "status", "hint")


_LISTS: dict[str, Callable[[], tuple[Rows, tuple[str, ...]]]] = {
    "methods": _methods,
    "suites": _suites,
    "tasks": _tasks,
    "morphologies": _morphologies,
}
