"""Catalogue of what there is to run, and environments by name."""

from typing import TYPE_CHECKING, Any

from gmc_bench.methods import METHODS
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS

if TYPE_CHECKING:
    from gmc_bench.envs.morphology_env import MorphologyEnv
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv


def list_methods() -> list[str]:
    """Return the ids of all registered methods."""
    return METHODS.names()


def list_suites() -> list[str]:
    """Return the ids of all registered suites."""
    return SUITES.names()


def list_tasks() -> list[str]:
    """Return the ids of all registered tasks."""
    return TASKS.names()


def list_bodies() -> list[str]:
    """Return the ids of all body sets that are at hand."""
    from gmc_bench.bodies.sets import list_sets  # loads the engine

    return [item.id for item in list_sets() if item.status not in ("not imported", "broken")]


def make_env(
    task: str,
    bodies: str | None = None,
    *,
    num_envs: int | None = None,
    split: str = "train",
    **options: Any,
) -> "MorphologyEnv | MorphologyVectorEnv":
    """Return an environment of gymnasium.

    Args:
        task: id, with or without its version.
        bodies: body set; by default that of the command line.
        num_envs: environments in a batch; without it, a single environment.
        split: `train` or `test`.
        options: of `MorphologyEnv` or `MorphologyVectorEnv`, e.g. `token_spec`.

    Raises:
        GmcBenchError: no such task or body set.
    """
    from gmc_bench.envs.registration import make_single, make_vector

    task = TASKS.resolve(task)
    if num_envs is None:
        return make_single(task, bodies, split, **options)
    return make_vector(task, num_envs, bodies, split, **options)
