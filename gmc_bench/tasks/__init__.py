"""What a body has to do: scene, reward terms, terminations."""

from gmc_bench.core.registry import Registry
from gmc_bench.tasks.spec import Task, TaskBase

TASKS: Registry[TaskBase] = Registry("task", "gmc_bench.tasks", TaskBase)
"""All tasks: entry points of the group `gmc_bench.tasks`."""

__all__ = ["TASKS", "Task", "TaskBase"]
