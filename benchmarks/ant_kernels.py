"""Compiled loops of Gymnasium's Ant-v5 over environments, in the style of `gmc_bench.sim.kernels`.

Source:
    Gymnasium, `gymnasium/envs/mujoco/ant_v5.py`; constants are its defaults. Differs: an episode
    that ends is reset within the same step.
"""

# mypy: disable-error-code="misc, no-untyped-call, untyped-decorator"
# numba's decorators and the engine's intrinsics have no types.

import math
from typing import NamedTuple

import numba
import numpy as np

from gmc_bench.core.jit import njit
from gmc_bench.core.types import Array, BoolArray, DoubleArray, IntArray
from gmc_bench.sim.columns import CTRL, DATA, MODEL, QPOS, QVEL, XPOS
from gmc_bench.sim.engine import call_model_data, call_set_state, load_double, store_double
from gmc_bench.sim.kernels import next_uniform

# Columns of the address table, one row per environment.
CFRC_EXT = 6  # after those of `gmc_bench.sim.columns`
NUM_ADDRESSES = 7

NQ, NV, NU, NUM_BODIES = 15, 14, 8, 14  # of ant.xml; the world is body 0
HIDDEN_QPOS = 2  # x and y are not observed
NUM_OBSERVED = NQ - HIDDEN_QPOS + NV + 6 * (NUM_BODIES - 1)
NUM_SUBSTEPS = 5
CONTROL_DT = 0.05  # s
HORIZON = 1000  # control steps
RESET_NOISE = 0.1
CTRL_COST, CONTACT_COST, HEALTHY_REWARD = 0.5, 5e-4, 1.0
CONTACT_FORCE_MAX = 1.0  # N and N m
MIN_HEIGHT, MAX_HEIGHT = 0.2, 1.0  # m


class AntFunctions(NamedTuple):
    """Addresses of the C functions that the loops call."""

    mj_step: int
    mj_rne_post_constraint: int
    mj_forward: int
    mj_set_state: int


class AntArrays(NamedTuple):
    """What the loops write.

    Shapes:
        `observation`, `final_observation` (B, 105) float64; `reward` (B,) float64; `terminated`,
        `truncated` (B,) bool; `length` (B,) int64, control steps of the running episode. A row of
        `final_observation` is the last observation of the episode that ended last in that row.
    """

    observation: DoubleArray
    final_observation: DoubleArray
    reward: DoubleArray
    terminated: BoolArray
    truncated: BoolArray
    length: IntArray


@njit(cache=True, inline="always")
def _clip(force: float) -> float:
    # Written so that a NaN stays one, as in numpy.
    if force > CONTACT_FORCE_MAX:
        return CONTACT_FORCE_MAX
    return -CONTACT_FORCE_MAX if force < -CONTACT_FORCE_MAX else force


@njit(cache=True)
def _observe(address: IntArray, out: DoubleArray) -> None:
    place = 0
    for i in range(HIDDEN_QPOS, NQ):
        out[place] = load_double(address[QPOS], i)
        place += 1
    for i in range(NV):
        out[place] = load_double(address[QVEL], i)
        place += 1
    for i in range(6, 6 * NUM_BODIES):
        out[place] = _clip(load_double(address[CFRC_EXT], i))
        place += 1


@njit(cache=True)
def _is_healthy(address: IntArray) -> bool:
    total = 0.0
    for i in range(NQ):
        total += load_double(address[QPOS], i)
    for i in range(NV):
        total += load_double(address[QVEL], i)
    height = load_double(address[QPOS], 2)
    # A sum is finite only if every part is.
    return bool(np.isfinite(total)) and MIN_HEIGHT <= height <= MAX_HEIGHT


@njit(cache=True)
def _normal(stream: Array) -> float:
    """Draw from the standard normal distribution (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - next_uniform(stream)))
    return radius * math.cos(2.0 * math.pi * next_uniform(stream))


# The compiler drops what a parallel loop writes to a field of a tuple: functions of one row write.
@njit(cache=True)
def _reset_row(
    functions: AntFunctions,
    address: IntArray,
    start_state: int,
    state_bits: int,
    stream: Array,
    arrays: AntArrays,
    row: int,
) -> None:
    call_set_state(functions[3], address[MODEL], address[DATA], start_state, state_bits)
    for i in range(NQ):
        noise = RESET_NOISE * (2.0 * next_uniform(stream) - 1.0)
        store_double(address[QPOS], i, load_double(address[QPOS], i) + noise)
    for i in range(NV):
        store_double(address[QVEL], i, RESET_NOISE * _normal(stream))
    # Contact forces are computed after a step only; a new episode starts without any.
    for i in range(6 * NUM_BODIES):
        store_double(address[CFRC_EXT], i, 0.0)
    call_model_data(functions[2], address[MODEL], address[DATA])
    _observe(address, arrays.observation[row])
    arrays.length[row] = 0


@njit(cache=True)
def _step_row(
    functions: AntFunctions, address: IntArray, action: DoubleArray, arrays: AntArrays, row: int
) -> bool:
    """Advance one environment; return whether its episode ended."""
    before = load_double(address[XPOS], 3)  # x of body 1, the torso
    ctrl_cost, contact_cost = 0.0, 0.0
    for a in range(NU):
        store_double(address[CTRL], a, action[a])
        ctrl_cost += action[a] * action[a]
    for _ in range(NUM_SUBSTEPS):
        call_model_data(functions[0], address[MODEL], address[DATA])
    call_model_data(functions[1], address[MODEL], address[DATA])
    _observe(address, arrays.observation[row])
    for i in range(6 * NUM_BODIES):
        force = _clip(load_double(address[CFRC_EXT], i))
        contact_cost += force * force
    healthy = _is_healthy(address)
    speed = (load_double(address[XPOS], 3) - before) / CONTROL_DT
    cost = CTRL_COST * ctrl_cost + CONTACT_COST * contact_cost
    arrays.reward[row] = speed + (HEALTHY_REWARD if healthy else 0.0) - cost
    arrays.length[row] += 1
    arrays.terminated[row] = not healthy
    arrays.truncated[row] = arrays.length[row] >= HORIZON
    ended = bool(not healthy or arrays.truncated[row])
    if ended:
        arrays.final_observation[row] = arrays.observation[row]
    return ended


@njit(cache=True, parallel=True, nogil=True)
def reset_rows(
    functions: AntFunctions,
    addresses: IntArray,
    start_state: int,
    state_bits: int,
    streams: Array,
    arrays: AntArrays,
) -> None:
    """Start a new episode in every environment.

    Args:
        functions: addresses of the C functions.
        addresses: (B, NUM_ADDRESSES) int64.
        start_state: address of the integration state at the start.
        state_bits: MuJoCo's bits of that state.
        streams: (B, 4) uint64, one random stream per environment.
        arrays: written.
    """
    for row in numba.prange(addresses.shape[0]):
        _reset_row(functions, addresses[row], start_state, state_bits, streams[row], arrays, row)


@njit(cache=True, parallel=True, nogil=True)
def step_rows(
    functions: AntFunctions,
    addresses: IntArray,
    actions: DoubleArray,
    start_state: int,
    state_bits: int,
    streams: Array,
    arrays: AntArrays,
) -> None:
    """Advance every environment by one control step; reset those whose episode ends.

    Args:
        functions: as in `reset_rows`, as are all but the actions.
        addresses: (B, NUM_ADDRESSES) int64.
        actions: (B, 8) float64, clamped to [-1, 1] by the engine.
        start_state: address.
        state_bits: bits.
        streams: (B, 4) uint64.
        arrays: written.
    """
    for row in numba.prange(addresses.shape[0]):
        address, stream = addresses[row], streams[row]
        if _step_row(functions, address, actions[row], arrays, row):
            _reset_row(functions, address, start_state, state_bits, stream, arrays, row)
