"""Compiled loops over environments: step, reset and random numbers.

Every loop runs over rows (environments) that share nothing, so that the result does not depend
on the number of threads or on which thread takes which row.
"""

import math

import numba
import numpy as np

from gmc_bench.core.jit import njit
from gmc_bench.sim.columns import (
    CTRL,
    CVEL,
    DATA,
    MODEL,
    QPOS,
    QVEL,
    SUBTREE_COM,
    XPOS,
    XQUAT,
    has_warned,
)
from gmc_bench.sim.drive_kernels import drive_row, read_driven_row
from gmc_bench.sim.engine import call_model_data, call_set_state, load_double, store_double
from gmc_bench.sim.layout import NUM_MOTION


@njit(cache=True)
def _rotl(x, k):
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@njit(cache=True)
def next_uniform(state):
    """Return a float64 in [0, 1) and advance one stream.

    Args:
        state: (4,) uint64, xoshiro256++ state, changed in place.

    Source:
        Blackman and Vigna 2021, Scrambled linear pseudorandom number generators.
    """
    result = _rotl(state[0] + state[3], 23) + state[0]
    t = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = _rotl(state[3], 45)
    return float(result >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def draw_uniform(streams, rows, out):
    """Write numbers in [0, 1) to `out` (K, N), row by row from `streams` (B, 4)."""
    for k in range(rows.shape[0]):
        for n in range(out.shape[1]):
            out[k, n] = next_uniform(streams[rows[k]])


@njit(cache=True)
def find_indices(cumulative, guide, uniform, out):
    """Write the smallest i with uniform < cumulative[i] of each number.

    Args:
        cumulative: (M,) float64, not decreasing, ending with 1.
        guide: (M,) int64, the same i for the numbers 0, 1 / M, 2 / M, ...
        uniform: (K,) float64 in [0, 1).
        out: (K,) int64, written.
    """
    count = guide.shape[0]
    for k in range(uniform.shape[0]):
        u = uniform[k]
        index = guide[min(int(u * count), count - 1)]
        # The product may have been rounded up into the next part.
        while index > 0 and cumulative[index - 1] > u:
            index -= 1
        while cumulative[index] <= u:
            index += 1
        out[k] = index


@njit(cache=True)
def _read_motion(address, body, torso_x, out):
    position, velocity = address[XPOS], address[CVEL]
    x = load_double(position, 3 * body)
    y = load_double(position, 3 * body + 1)
    z = load_double(position, 3 * body + 2)
    wx = load_double(velocity, 6 * body)
    wy = load_double(velocity, 6 * body + 1)
    wz = load_double(velocity, 6 * body + 2)
    # cvel is taken about the centre of mass of the whole tree (that of body 1); move it to the
    # body's origin: v = v_com + w x (x - com).
    rx = x - load_double(address[SUBTREE_COM], 3)
    ry = y - load_double(address[SUBTREE_COM], 4)
    rz = z - load_double(address[SUBTREE_COM], 5)
    out[0] = x - torso_x
    out[1] = y
    out[2] = z
    out[3] = load_double(velocity, 6 * body + 3) + wy * rz - wz * ry
    out[4] = load_double(velocity, 6 * body + 4) + wz * rx - wx * rz
    out[5] = load_double(velocity, 6 * body + 5) + wx * ry - wy * rx
    out[6] = wx
    out[7] = wy
    out[8] = wz
    for part in range(4):
        out[9 + part] = load_double(address[XQUAT], 4 * body + part)


@njit(cache=True)
def _read_row(address, model, layout, torso, out):
    """Write one row's torso position and readings; return whether the simulation diverged.

    Divergence is noticed here, before its numbers can spread: an engine warning, or a reading that
    is not finite.
    """
    num_bodies, joint_qpos, joint_qvel, joint_lower, joint_span = layout
    for axis in range(3):
        torso[axis] = load_double(address[XPOS], 3 + axis)  # body 0 is the world, 1 the torso
    total = torso[0] + torso[1] + torso[2]
    for body in range(out.shape[0]):
        reading = out[body]
        if body >= num_bodies[model]:
            reading[:] = np.float32(0.0)
            continue
        _read_motion(address, body + 1, torso[0], reading)
        for slot in range(joint_qpos.shape[2]):
            place = NUM_MOTION + 2 * slot
            qpos = joint_qpos[model, body, slot]
            if qpos < 0:
                reading[place] = np.float32(0.0)
                reading[place + 1] = np.float32(0.0)
                continue
            angle = load_double(address[QPOS], qpos) - joint_lower[model, body, slot]
            reading[place] = angle / joint_span[model, body, slot]
            reading[place + 1] = load_double(address[QVEL], joint_qvel[model, body, slot])
        for place in range(reading.shape[0]):
            total += reading[place]
    # A sum is finite only if every part is.
    return has_warned(address) or not np.isfinite(total)


@njit(cache=True)
def _multiply(aw, ax, ay, az, bw, bx, by, bz):
    """Return the product of two quaternions."""
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


@njit(cache=True)
def _orientation(address, body):
    return (
        load_double(address[XQUAT], 4 * body),
        load_double(address[XQUAT], 4 * body + 1),
        load_double(address[XQUAT], 4 * body + 2),
        load_double(address[XQUAT], 4 * body + 3),
    )


@njit(cache=True)
def _place(address, body, point):
    """Return where a point in the frame of a body is in the world."""
    w, x, y, z = _orientation(address, body)
    # p + 2 w (q x p) + 2 q x (q x p), with q = (x, y, z)
    tx = 2.0 * (y * point[2] - z * point[1])
    ty = 2.0 * (z * point[0] - x * point[2])
    tz = 2.0 * (x * point[1] - y * point[0])
    return (
        load_double(address[XPOS], 3 * body) + point[0] + w * tx + y * tz - z * ty,
        load_double(address[XPOS], 3 * body + 1) + point[1] + w * ty + z * tx - x * tz,
        load_double(address[XPOS], 3 * body + 2) + point[2] + w * tz + x * ty - y * tx,
    )


@njit(cache=True)
def _turned(address, first, second, expected):
    """Return the angle between a body's orientation and that which a weld keeps, rad."""
    w, x, y, z = _orientation(address, first)
    w, x, y, z = _multiply(w, x, y, z, expected[0], expected[1], expected[2], expected[3])
    bw, bx, by, bz = _orientation(address, second)
    w, x, y, z = _multiply(w, -x, -y, -z, bw, bx, by, bz)
    return 2.0 * math.atan2(math.sqrt(x * x + y * y + z * z), abs(w))


@njit(cache=True)
def _read_loops(address, model, loops, out):
    """Write how far one row's closed loops are open; nothing where no body has any."""
    num_loops, bodies, anchors, turns, lengths = loops
    for place in range(out.shape[0]):
        out[place, 0] = 0.0
        out[place, 1] = 0.0
        if place >= num_loops[model]:
            continue
        first, second = bodies[model, place, 0], bodies[model, place, 1]
        ax, ay, az = _place(address, first, anchors[model, place, 0])
        bx, by, bz = _place(address, second, anchors[model, place, 1])
        gap = math.sqrt((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2)
        out[place, 0] = gap / lengths[model, place]
        expected = turns[model, place]
        # A weld's orientation has length 1, that of a joint which leaves it free has 0.
        if expected[0] ** 2 + expected[1] ** 2 + expected[2] ** 2 + expected[3] ** 2 > 0.5:
            out[place, 1] = _turned(address, first, second, expected)


@njit(cache=True)
def _step_row(
    functions, address, model, row, control, num_ctrl, actuator_slot, num_substeps, layout, torso,
    readings, loops, residual, drives, state
):  # fmt: skip
    """Advance and read one row; return whether the simulation diverged."""
    if drives.joints.shape[1] > 0:
        drive_row(functions, address, model, row, control, num_substeps, drives, state)
        return read_driven_row(address, model, row, drives, state)
    for a in range(num_ctrl[row]):
        store_double(address[CTRL], a, np.float64(control[actuator_slot[model, a]]))
    for _ in range(num_substeps):
        call_model_data(functions.mj_step, address[MODEL], address[DATA])
    call_model_data(functions.mj_com_vel, address[MODEL], address[DATA])
    broke = _read_row(address, model, layout, torso[row], readings[row])
    _read_loops(address, model, loops, residual[row])
    return broke


@njit(cache=True, parallel=True, nogil=True)
def step_rows(
    functions, addresses, model_index, rows, controls, num_ctrl, actuator_slot, num_substeps,
    layout, torso, readings, diverged, loops, residual, drives, state
):  # fmt: skip
    """Advance some environments by `num_substeps` engine steps under one action.

    Bodies whose motors take the actions: after the last engine step the body velocities are
    refreshed with the new joint velocities on the kinematics of that step's start (`mj_comVel`),
    which is what mujoco-py's `body_xvelp` and `body_xvelr` were; positions and orientations stay
    those of that step's start. Bodies with joint drives: see `drive_row`.

    Args:
        functions: addresses of the C functions, see `EngineFunctions`.
        addresses: (B, NUM_ADDRESSES) int64.
        model_index: (B,) int64, row of each environment in the tables.
        rows: (K,) int64, environments to advance, without repeats; of the others, nothing is
            written.
        controls: (B, A), actions, or with drives target angles, rad.
        num_ctrl: (B,) int64, actuators of each row's model.
        actuator_slot: (M, max actuators) int64, which action each actuator takes.
        num_substeps: engine steps.
        layout: tables of `Layout`: `num_bodies`, `joint_qpos`, `joint_qvel`, `joint_lower`,
            `joint_span`.
        torso: (B, 3) float64, world position of the torso frame, written.
        readings: (B, L, 13 + 2 J) float32, written.
        diverged: (B,) bool, written.
        loops: `LoopTables`.
        residual: (B, E, 2) float64, gap of each closed loop as a share of limb length, and angle
            of each weld, rad; zero where a body has fewer loops; written.
        drives: `Drives`; without any joint, motors take the actions.
        state: `DriveState`.
    """
    for k in numba.prange(rows.shape[0]):
        row = rows[k]
        diverged[row] = _step_row(
            functions, addresses[row], model_index[row], row, controls[row], num_ctrl,
            actuator_slot, num_substeps, layout, torso, readings, loops, residual, drives, state
        )  # fmt: skip


@njit(cache=True, nogil=True)
def step_rows_single_threaded(
    functions, addresses, model_index, rows, controls, num_ctrl, actuator_slot, num_substeps,
    layout, torso, readings, diverged, loops, residual, drives, state
):  # fmt: skip
    """Do what `step_rows` does on the calling thread, without touching the thread pool."""
    for row in rows:
        diverged[row] = _step_row(
            functions, addresses[row], model_index[row], row, controls[row], num_ctrl,
            actuator_slot, num_substeps, layout, torso, readings, loops, residual, drives, state
        )  # fmt: skip


@njit(cache=True)
def _reset_row(functions, address, nq, nv, start_state, state_bits, stream, noise):
    if has_warned(address):
        call_model_data(functions.mj_reset_data, address[MODEL], address[DATA])
    call_set_state(functions.mj_set_state, address[MODEL], address[DATA], start_state, state_bits)
    for i in range(nq):
        value = load_double(address[QPOS], i) + noise * (2.0 * next_uniform(stream) - 1.0)
        store_double(address[QPOS], i, value)
    for i in range(nv):
        store_double(address[QVEL], i, noise * (2.0 * next_uniform(stream) - 1.0))
    call_model_data(functions.mj_forward, address[MODEL], address[DATA])


@njit(cache=True, parallel=True, nogil=True)
def reset_rows(
    functions, addresses, model_index, rows, nq, nv, start_states, state_bits, streams, noise,
    layout, torso, readings, diverged
):  # fmt: skip
    """Reset some environments to their model's start pose with uniform noise.

    Only the integration state is written: everything else follows from it. `mj_resetData`, which
    clears all of `mjData`, takes longer than an engine step and is left to diverged simulations.

    Args:
        functions, addresses, model_index: as in `step_rows`.
        rows: (K,) int64, environments to reset, without repeats.
        nq, nv: (B,) int64, sizes of position and velocity.
        start_states: (M,) int64, address of each model's integration state at the start.
        state_bits: MuJoCo's bits of that state.
        streams: (B, 4) uint64, one random stream per environment, advanced by nq + nv draws.
        noise: half width of the uniform noise on every coordinate.
        layout, torso, readings, diverged: as in `step_rows`.
    """
    for k in numba.prange(rows.shape[0]):
        row = rows[k]
        address, model = addresses[row], model_index[row]
        _reset_row(
            functions, address, nq[row], nv[row], start_states[model], state_bits, streams[row],
            noise
        )  # fmt: skip
        diverged[row] = _read_row(address, model, layout, torso[row], readings[row])


@njit(cache=True, nogil=True)
def reset_rows_single_threaded(
    functions, addresses, model_index, rows, nq, nv, start_states, state_bits, streams, noise,
    layout, torso, readings, diverged
):  # fmt: skip
    """Do what `reset_rows` does on one thread: waking others takes as long as several resets."""
    for row in rows:
        address, model = addresses[row], model_index[row]
        _reset_row(
            functions, address, nq[row], nv[row], start_states[model], state_bits, streams[row],
            noise
        )  # fmt: skip
        diverged[row] = _read_row(address, model, layout, torso[row], readings[row])
