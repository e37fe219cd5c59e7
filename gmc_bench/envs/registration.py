"""Gymnasium ids: `gymnasium.make("gmc_bench/unimal-ft-v1")` and `gymnasium.make_vec(...)`.

Importing `gmc_bench.envs` registers every task under the namespace `gmc_bench`, which is how
gymnasium expects packages to do it; no task is loaded until an environment is made.
"""

import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium

from gmc_bench.core.errors import ConfigError

if TYPE_CHECKING:
    from gmc_bench.bodies.body import Body
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.envs.morphology_env import MorphologyEnv
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
    from gmc_bench.tasks.spec import Task

_LOGGER = logging.getLogger(__name__)


def register() -> None:
    """Register every task under its versioned id."""
    from gmc_bench.tasks import TASKS

    for task in TASKS.names():
        try:
            gymnasium.register(
                id=f"gmc_bench/{task}",
                entry_point="gmc_bench.envs.registration:make_single",
                vector_entry_point="gmc_bench.envs.registration:make_vector",
                kwargs={"task": task},
                order_enforce=False,
                disable_env_checker=True,
            )
        except gymnasium.error.Error as error:
            # A third-party task with an impossible name must not take the others with it.
            _LOGGER.warning("the task %r cannot be registered with gymnasium: %s", task, error)


def make_single(
    task: str,
    morphologies: "str | MorphologySet | None" = None,
    split: str = "train",
    **options: Any,
) -> "MorphologyEnv":
    """Return a single environment.

    Args:
        task: full task id.
        morphologies: a body set, or its id; default as on the command line, for tasks of bodies
            with joint drives the quadrupeds.
        split: `train` or `test`.
        options: arguments of `MorphologyEnv`.

    Raises:
        UnknownNameError: no such task or body set.
        ConfigError: no such option, or a render mode.
    """
    from gmc_bench.envs.morphology_env import MorphologyEnv
    from gmc_bench.tasks import TASKS

    require_known(MorphologyEnv, options, ("morphologies", "split"))
    chosen = TASKS.get(task)
    return MorphologyEnv(chosen, _bodies(chosen, morphologies, split), **options)


def make_vector(
    task: str,
    num_envs: int = 1,
    morphologies: "str | MorphologySet | None" = None,
    split: str = "train",
    **options: Any,
) -> "MorphologyVectorEnv":
    """Return a batched environment; arguments as in `make_single` and `MorphologyVectorEnv`.

    Raises:
        GmcBenchError: see `make_single`.
    """
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
    from gmc_bench.tasks import TASKS

    require_known(MorphologyVectorEnv, options, ("morphologies", "num_envs", "split"))
    chosen = TASKS.get(task)
    return MorphologyVectorEnv(chosen, _bodies(chosen, morphologies, split), num_envs, **options)


def _bodies(
    task: "Task", morphologies: "str | MorphologySet | None", split: str
) -> Sequence["Body"]:
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.bodies.sets import check_bodies, load_morphologies
    from gmc_bench.envs.bodies import default_set

    if isinstance(morphologies, MorphologySet):
        check_bodies(morphologies)
        return morphologies.split(split)
    set_id = default_set(task) if morphologies is None else morphologies
    return load_morphologies(set_id).split(split)


def require_known(environment: type[Any], options: dict[str, Any], others: tuple[str, ...]) -> None:
    """Check that an environment takes all options; a `render_mode` of `None` is removed.

    Args:
        environment: class whose arguments by name are known.
        options: to be checked.
        others: options that the caller has beside them, for the message.

    Raises:
        ConfigError: no such option, or a render mode.
    """
    from gmc_bench.envs.morphology_vector_env import WHERE_SHOWN

    render_mode = options.pop("render_mode", None)  # gymnasium may hand over a None
    if render_mode is not None:
        raise ConfigError(f"environments have no render modes, got {render_mode!r}; {WHERE_SHOWN}")
    parameters = inspect.signature(environment).parameters.values()
    known = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            names = sorted({*known, *others})
            raise ConfigError(
                f"a {environment.__name__} has no option {name!r}; known: {', '.join(names)}"
            )
