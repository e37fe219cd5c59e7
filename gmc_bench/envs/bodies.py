"""Bodies that a task is for, and the tables and models made of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from gmc_bench.bodies.body import Body
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable, build_table

_USUAL = {"limbs": "gmc-unimal-mini", "actuators": "quadrupeds-v1"}
"""A set of bodies whose tokens stand for what is named."""


def require_bodies(task: Task, bodies: Sequence[Body]) -> None:
    """Raise unless there are bodies, and a task is for all of them.

    Raises:
        ConfigError: it is not.
    """
    given: object = bodies
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(
            f"an environment needs a sequence of bodies, got a {type(given).__name__}; of a set, "
            f"take one split, e.g. load_morphologies('gmc-unimal-mini').split('train')"
        )
    if not bodies:
        raise ConfigError("an environment needs at least one body, got none")
    for body in bodies:
        if body.parts != task.parts:
            raise ConfigError(
                f"the task {task.id!r} is for bodies whose tokens stand for {task.parts}, but "
                f"those of {body.name!r} stand for {body.parts}; use another set, e.g. "
                f"--morphologies {_USUAL[task.parts]}"
            )


def choose_body(options: Mapping[str, Any] | None, name: str) -> Any:
    """Return what the options of a reset say under the only name they may have, or `None`.

    Raises:
        ConfigError: they have another one, which would be passed over in silence.
    """
    for given in options or {}:
        if given != name:
            raise ConfigError(f"a reset has no option {given!r}{did_you_mean(str(given), [name])}")
    return (options or {}).get(name)


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
