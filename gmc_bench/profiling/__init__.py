"""Measuring: timing in turns, memory, processes with limits, reports, and what they measure."""

from collections.abc import Callable

from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.profiling.methods import profile_methods
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
    "methods": profile_methods,
}
"""What can be measured, by name."""


def usual_methods(measure: str) -> tuple[MethodSpec, ...]:
    """Return what is measured where no method was asked for."""
    recmorph = METHODS.get("recmorph")
    if measure not in ("policy", "padding", "methods"):
        return (recmorph,)
    found = [spec for _, spec in METHODS.items() if isinstance(spec, MethodSpec)]
    if measure == "methods":  # shared policies, after the one that they are compared with
        others = [spec for spec in found if not spec.capabilities.per_body and spec != recmorph]
        return (recmorph, *others)
    # A reference with a budget of its own has the network of another method.
    return tuple(spec for spec in found if spec.env_steps_per_body is None)


__all__ = ["MEASURES", "Report", "Setting", "profile_tasks", "usual_methods"]
