"""Trackers: where the numbers of a run go while it runs, beside its own folder."""

from gmc_bench.core.registry import Registry
from gmc_bench.trackers.tracker import Connection, TrackedRun, Tracker

TRACKERS: Registry[Tracker] = Registry("tracker", "gmc_bench.trackers", Tracker)
"""All trackers: entry points of the group `gmc_bench.trackers`."""

__all__ = ["TRACKERS", "Connection", "TrackedRun", "Tracker"]
