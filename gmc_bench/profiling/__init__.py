"""Throughput measurements, each beside a named reference measured in the same run."""

from collections.abc import Callable
from typing import Any

from gmc_bench.profiling.policy import policy_tables, profile_policy
from gmc_bench.profiling.setting import Setting, machine, render
from gmc_bench.profiling.simulation import profile_simulation, profile_tasks, task_tables
from gmc_bench.profiling.training import profile_training

MEASURES: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "sim": profile_simulation,
    "policy": profile_policy,
    "train": profile_training,
}
"""What can be measured, by name."""

__all__ = [
    "MEASURES",
    "Setting",
    "machine",
    "policy_tables",
    "profile_tasks",
    "render",
    "task_tables",
]
