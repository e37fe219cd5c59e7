"""Tasks: scene, reward terms and terminations."""

from gmc_bench.core.registry import Registry
from gmc_bench.tasks.spec import Task

TASKS: Registry[Task] = Registry("task", "gmc_bench.tasks", Task)
"""All tasks: entry points of the group `gmc_bench.tasks`."""

__all__ = ["TASKS", "Task"]
