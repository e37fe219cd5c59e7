"""Columns of the table of C addresses that the compiled loops follow, one row per environment."""

from gmc_bench.core.jit import njit
from gmc_bench.sim.engine import load_int32

(
    MODEL, DATA, CTRL, QPOS, QVEL, XPOS, XQUAT, CVEL, SUBTREE_COM, WARNINGS, GEOM_XPOS, SENSORS,
    FRICTION,
) = range(13)  # fmt: skip
NUM_ADDRESSES = 13
NUM_WARNINGS = 7
"""mjNWARNING; the counters are every second int32 of mjData.warning."""


@njit(cache=True)
def has_warned(address):
    """Return whether the engine has warned in a row."""
    for kind in range(NUM_WARNINGS):  # noqa: SIM110 - numba knows no any() of a generator
        if load_int32(address[WARNINGS], 2 * kind) != 0:
            return True
    return False
