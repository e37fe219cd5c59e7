"""Measuring: timing in turns, memory, processes with limits, reports, and what they measure."""

from collections.abc import Callable

from gmc_bench.profiling.padding import profile_padding
from gmc_bench.profiling.policy import profile_policy
from gmc_bench.profiling.report import Report
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.simulation import profile_simulation, profile_tasks
from gmc_bench.profiling.training import profile_training

MEASURES: dict[str, Callable[[Setting], Report]] = {
    "sim": profile_simulation,
    "policy": profile_policy,
    "padding": profile_padding,
    "train": profile_training,
}
"""What can be measured, by name."""

__all__ = ["MEASURES", "Report", "Setting", "profile_tasks"]
