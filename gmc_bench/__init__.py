"""gmc-bench: a benchmark suite for morphology controllers.

The names below are the public interface, for `import gmc_bench as gmc`; each is loaded when it is
first used, so that importing the package costs nothing. `docs/python-api.md` shows them.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gmc_bench.experiments.catalogue import (
        list_bodies,
        list_methods,
        list_suites,
        list_tasks,
        make_env,
    )
    from gmc_bench.experiments.experiment import Experiment, evaluate, load_policy
    from gmc_bench.experiments.spec import ExperimentSpec
    from gmc_bench.experiments.sweep import Sweep
    from gmc_bench.experiments.tuning import Tuning
    from gmc_bench.policies.policy import Policy
    from gmc_bench.records.frames import load_records

_FACE = {
    "Experiment": "experiments.experiment",
    "ExperimentSpec": "experiments.spec",
    "Sweep": "experiments.sweep",
    "Tuning": "experiments.tuning",
    "Policy": "policies.policy",
    "evaluate": "experiments.experiment",
    "list_bodies": "experiments.catalogue",
    "list_methods": "experiments.catalogue",
    "list_suites": "experiments.catalogue",
    "list_tasks": "experiments.catalogue",
    "load_policy": "experiments.experiment",
    "load_records": "records.frames",
    "make_env": "experiments.catalogue",
}
"""Where each public name is defined."""

__all__ = [
    "Experiment",
    "ExperimentSpec",
    "Policy",
    "Sweep",
    "Tuning",
    "__version__",
    "evaluate",
    "list_bodies",
    "list_methods",
    "list_suites",
    "list_tasks",
    "load_policy",
    "load_records",
    "make_env",
]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_FACE[name]}"), name)
    globals()[name] = value  # later uses do not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
