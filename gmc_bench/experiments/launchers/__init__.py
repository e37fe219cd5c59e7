"""Launchers: where the runs of a sweep are run, and the registry of all of them."""

from gmc_bench.core.registry import Registry
from gmc_bench.experiments.launchers.launcher import Cell, Ended, Launcher, LauncherSpec

LAUNCHERS: Registry[LauncherSpec] = Registry(
    "launcher", "gmc_bench.launchers", LauncherSpec, "SPEC"
)
"""All launchers: entry points of the group `gmc_bench.launchers`."""

__all__ = ["LAUNCHERS", "Cell", "Ended", "Launcher", "LauncherSpec"]
