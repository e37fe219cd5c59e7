"""The right core for a task, and what is fixed by the bodies on it."""

from collections.abc import Sequence
from typing import Any

from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.velocity_core import VelocityCore
from gmc_bench.robots.bodies import RobotBody
from gmc_bench.robots.model import compile_robot
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.spec import Task, TaskBase
from gmc_bench.tasks.velocity import VelocityTask
from gmc_bench.tokens.actuators import build_actuator_table
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable, build_table

Core = EnvironmentCore | VelocityCore
"""They share attributes and methods."""


def make_core(
    task: TaskBase,
    morphologies: Sequence[Any],
    num_envs: int,
    *,
    token_spec: TokenSpec | None = None,
    num_threads: int | None = None,
) -> Core:
    """Return B environments of a task over M bodies.

    Args:
        task: what to do.
        morphologies: bodies of the task's kind.
        num_envs: B.
        token_spec: token layout; default the smallest that fits all bodies.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: the task is of an unknown kind, or the bodies are not of its kind.
        GmcBenchError: see the cores.
    """
    require_bodies(task, morphologies)
    options: dict[str, Any] = {"token_spec": token_spec, "num_threads": num_threads}
    if isinstance(task, VelocityTask):
        return VelocityCore(task, morphologies, num_envs, **options)
    if isinstance(task, Task):
        return EnvironmentCore(task, morphologies, num_envs, **options)
    raise ConfigError(f"the task {task.id!r} is a {type(task).__name__}, which no core runs")


def require_bodies(task: TaskBase, morphologies: Sequence[Any]) -> None:
    """Raise unless bodies are of the kind that a task is about.

    Raises:
        ConfigError: they are not.
    """
    wants_robots = task.parts == "actuators"
    for body in morphologies:
        if isinstance(body, RobotBody) != wants_robots:
            kind, usual = (
                ("quadrupeds", "quadrupeds-v1") if wants_robots else ("limbs", "gmc-unimal-mini")
            )
            raise ConfigError(
                f"the task {task.id!r} is for bodies of {kind}, but {body.name!r} is none; use "
                f"another set, e.g. --morphologies {usual}"
            )


def tabulate(task: TaskBase, morphologies: Sequence[Any], spec: TokenSpec) -> MorphologyTable:
    """Return what is fixed by bodies on a task.

    Raises:
        TokenOverflowError: a body does not fit the layout.
    """
    require_bodies(task, morphologies)
    if isinstance(task, Task):
        return build_table(compile_models(morphologies, task.scene), spec)
    return build_actuator_table([compile_robot(body.robot) for body in morphologies], spec)
