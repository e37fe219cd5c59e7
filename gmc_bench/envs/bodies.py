"""Bodies that a task is for, and the tables and models made of them."""

from collections.abc import Sequence

from gmc_bench.bodies.body import Body
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable, build_table

_EXAMPLE_SETS = {"limbs": "gmc-unimal-mini", "actuators": "quadrupeds-v1"}
"""A set of bodies by what their tokens stand for."""


def require_bodies(task: Task, bodies: Sequence[Body]) -> None:
    """Raise unless there are bodies, and a task is for all of them.

    Raises:
        ConfigError: `bodies` is no sequence of bodies, is empty, or holds one that the task is not
            for.
    """
    listed = isinstance(bodies, Sequence) and not isinstance(bodies, str)
    if not listed or not all(hasattr(body, "parts") for body in bodies):
        got = shown(bodies) if listed else f"a {type(bodies).__name__}"
        raise ConfigError(
            f"an environment needs a sequence of bodies, got {got}; of a set, take one split, "
            f"e.g. load_morphologies('gmc-unimal-mini').split('train')"
        )
    if not bodies:
        raise ConfigError("an environment needs at least one body, got none")
    for body in bodies:
        if body.parts != task.parts:
            example = _EXAMPLE_SETS[task.parts]
            raise ConfigError(
                f"the task {task.id!r} is for bodies whose tokens stand for {task.parts}, but "
                f"those of {body.name!r} stand for {body.parts}; use another set, e.g. "
                f"--morphologies {example} (in Python, bodies={example!r})"
            )


def default_set(task: Task) -> str | None:
    """Return the id of the bodies that a task gets where none are named.

    `None` stands for the default of `load_morphologies`, which are bodies made of limbs.
    """
    return None if task.parts == "limbs" else _EXAMPLE_SETS[task.parts]


def smallest_layout(task: Task, bodies: Sequence[Body]) -> TokenSpec:
    """Return the smallest token layout that fits bodies on a task."""
    return task.token_spec(
        max(body.num_limbs for body in bodies), max(body.joints_per_limb for body in bodies)
    )


def tabulate(task: Task, bodies: Sequence[Body], spec: TokenSpec) -> MorphologyTable:
    """Return what is fixed by bodies on a task.

    Raises:
        ConfigError: the task is not for them.
        TokenOverflowError: a body does not fit the layout.
    """
    require_bodies(task, bodies)
    return build_table(compile_models(bodies, task.scene)[:: task.scene.num_grounds], spec)
