"""Standard grids: which tasks, on which bodies, under which rules."""

from gmc_bench.core.registry import Registry
from gmc_bench.suites.protocol import EvaluationConfig, PPOConfig, Protocol
from gmc_bench.suites.schema import Suite, TaskRules

SUITES: Registry[Suite] = Registry("suite", "gmc_bench.suites", Suite)
"""All suites: entry points of the group `gmc_bench.suites`."""

__all__ = ["SUITES", "EvaluationConfig", "PPOConfig", "Protocol", "Suite", "TaskRules"]
