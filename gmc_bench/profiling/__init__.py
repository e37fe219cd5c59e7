"""Throughput measurements, each beside a named reference measured in the same run."""

from collections.abc import Callable, Iterator
from typing import Any

from gmc_bench.profiling.padding import padding_tables, profile_padding
from gmc_bench.profiling.policy import policy_tables, profile_policy
from gmc_bench.profiling.setting import Setting, machine, render
from gmc_bench.profiling.simulation import profile_simulation, profile_tasks, task_tables
from gmc_bench.profiling.training import profile_training

MEASURES: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "sim": profile_simulation,
    "policy": profile_policy,
    "padding": profile_padding,
    "train": profile_training,
}
"""What can be measured, by name."""

TABLES: dict[str, Callable[[dict[str, Any]], Iterator[tuple[str, list[str], list[list[str]]]]]] = {
    "policy": policy_tables,
    "padding": padding_tables,
}
"""How the measures of several methods are shown; yields title, headings and rows."""

__all__ = [
    "MEASURES",
    "TABLES",
    "Setting",
    "machine",
    "padding_tables",
    "policy_tables",
    "profile_tasks",
    "render",
    "task_tables",
]
