"""Compiled loops over quadrupeds: joint drives, friction of feet, physics, readings.

Rows share nothing, so that the result does not depend on the number of threads.
"""

import math

import numba
import numpy as np

from gmc_bench.sim.engine import (
    call_model_data,
    load_double,
    load_int32,
    store_double,
)
from gmc_bench.sim.kernels import NUM_WARNINGS, next_uniform

# Columns of the address table, one row per environment.
MODEL, DATA, CTRL, QPOS, QVEL, CVEL, SUBTREE_COM, GEOM_XPOS, SENSORS, WARNINGS, FRICTION = range(11)
NUM_ADDRESSES = 11

NUM_JOINTS, NUM_FEET = 12, 4
NUM_BASE = 13
"""Readings of the base: position (3, world), linear and angular velocity (3 each, base frame),
direction of gravity (3, base frame), heading (rad)."""
NUM_CONTACTS = 5
"""Four feet and the base: size of the ground's force, N."""
_SENSOR_WIDTH = 4  # found, then the force's three components


@numba.njit(cache=True, nogil=True)
def draw_uniforms(streams, rows, out):
    """Write numbers in [0, 1) to `out` (K, N), row by row from `streams` (B, 4)."""
    for k in range(rows.shape[0]):
        for n in range(out.shape[1]):
            out[k, n] = next_uniform(streams[rows[k]])


@numba.njit(cache=True, inline="always")
def _sliding_speed(address, body, geom, radius):
    """Return the horizontal speed of a foot's lowest point, m/s."""
    velocity, com, place = address[CVEL], address[SUBTREE_COM], address[GEOM_XPOS]
    wx = load_double(velocity, 6 * body)
    wy = load_double(velocity, 6 * body + 1)
    wz = load_double(velocity, 6 * body + 2)
    # cvel is taken about the centre of mass of the whole robot, whose root is body 1.
    rx = load_double(place, 3 * geom) - load_double(com, 3)
    ry = load_double(place, 3 * geom + 1) - load_double(com, 4)
    rz = load_double(place, 3 * geom + 2) - radius - load_double(com, 5)
    vx = load_double(velocity, 6 * body + 3) + wy * rz - wz * ry
    vy = load_double(velocity, 6 * body + 4) + wz * rx - wx * rz
    return math.sqrt(vx * vx + vy * vy)


@numba.njit(cache=True, inline="always")
def _write_friction(address, feet, friction, stribeck_speed):
    """Give every foot the coefficient of its present sliding speed."""
    static, dynamic = friction
    for foot in range(NUM_FEET):
        body, geom, radius = feet[foot]
        speed = _sliding_speed(address, int(body), int(geom), radius) / stribeck_speed
        value = dynamic + (static - dynamic) * math.exp(-speed * speed)
        store_double(address[FRICTION], 3 * int(geom), value)


@numba.njit(cache=True, inline="always")
def _drive(address, joints, drives, strength, target, torque):
    """Apply the joint drives: proportional and derivative gain, limited torque."""
    for j in range(NUM_JOINTS):
        qpos, dof, actuator = joints[j]
        kp, kd, limit = drives[j]
        error = target[j] - load_double(address[QPOS], qpos)
        wanted = strength * (kp * error - kd * load_double(address[QVEL], dof))
        applied = min(max(wanted, -limit), limit)
        store_double(address[CTRL], actuator, applied)
        torque[j] = applied


@numba.njit(cache=True, inline="always")
def _read(address, joints, joint_state, base, contacts):
    """Write one row's readings; return whether the simulation broke."""
    qpos, qvel = address[QPOS], address[QVEL]
    w, x = load_double(qpos, 3), load_double(qpos, 4)
    y, z = load_double(qpos, 5), load_double(qpos, 6)
    scale = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w * scale, x * scale, y * scale, z * scale
    # Columns of the rotation: the base's axes in the world.
    ax, ay, az = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)
    bx, by, bz = 2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)
    cx, cy, cz = 2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)
    vx, vy, vz = load_double(qvel, 0), load_double(qvel, 1), load_double(qvel, 2)
    for axis in range(3):
        base[axis] = load_double(qpos, axis)
        base[6 + axis] = load_double(qvel, 3 + axis)  # a free joint turns in its own frame
    base[3] = ax * vx + ay * vy + az * vz
    base[4] = bx * vx + by * vy + bz * vz
    base[5] = cx * vx + cy * vy + cz * vz
    base[9], base[10], base[11] = -az, -bz, -cz
    # Heading of the base's x axis, for velocities in the yaw frame.
    base[12] = math.atan2(ay, ax)
    total = 0.0
    for place in range(NUM_BASE):
        total += base[place]
    for j in range(NUM_JOINTS):
        joint_state[j, 0] = load_double(qpos, joints[j, 0])
        joint_state[j, 1] = load_double(qvel, joints[j, 1])
        total += joint_state[j, 0] + joint_state[j, 1]
    for k in range(NUM_CONTACTS):
        fx = load_double(address[SENSORS], _SENSOR_WIDTH * k + 1)
        fy = load_double(address[SENSORS], _SENSOR_WIDTH * k + 2)
        fz = load_double(address[SENSORS], _SENSOR_WIDTH * k + 3)
        contacts[k] = math.sqrt(fx * fx + fy * fy + fz * fz)
    for kind in range(NUM_WARNINGS):
        if load_int32(address[WARNINGS], 2 * kind) != 0:
            return True
    return not np.isfinite(total)  # a sum is finite only if every part is


@numba.njit(cache=True, inline="always")
def _step_row(
    functions, address, joints, drives, feet, friction, two_state, stribeck_speed, strength,
    target, num_substeps, torque, effort
):  # fmt: skip
    effort[:] = 0.0
    for _ in range(num_substeps):
        if two_state:
            call_model_data(functions.mj_kinematics, address[MODEL], address[DATA])
            call_model_data(functions.mj_com_pos, address[MODEL], address[DATA])
            call_model_data(functions.mj_com_vel, address[MODEL], address[DATA])
            _write_friction(address, feet, friction, stribeck_speed)
        _drive(address, joints, drives, strength, target, torque)
        for j in range(NUM_JOINTS):
            effort[j] += torque[j] * torque[j] / num_substeps
        call_model_data(functions.mj_step, address[MODEL], address[DATA])


@numba.njit(cache=True, parallel=True, nogil=True)
def step_rows(
    functions, addresses, robot_index, joints, drives, feet, friction, two_state, stribeck_speed,
    strength, targets, num_substeps, joint_state, base, contacts, torque, effort, diverged
):  # fmt: skip
    """Advance every robot by one control step towards its target angles.

    The friction of a foot follows the speed at which it slides at the start of each physics step.
    The engine's own update of positions and velocities comes too late for it: it makes contacts
    in the same call. Updating them before costs 2 % and leaves nothing outside MuJoCo's state
    that the next step depends on.

    Args:
        functions: addresses of the C functions, see `LeggedFunctions`.
        addresses: (B, NUM_ADDRESSES) int64.
        robot_index: (B,) int64, row of each environment in the tables.
        joints: (M, 12, 3) int64, places in qpos, qvel and ctrl, in the shared order.
        drives: (M, 12, 3) float64, kp, kd and torque limit.
        feet: (M, 4, 3) float64, body, geom and radius.
        friction: (B, 2) float64, static and dynamic coefficient.
        two_state: write a coefficient before every physics step; otherwise it stays as it is.
        stribeck_speed: m/s.
        strength: (B,) float64, factor on torques before they are limited.
        targets: (B, 12) float64, rad.
        num_substeps: physics steps.
        joint_state: (B, 12, 2) float64, rad and rad/s, written.
        base: (B, NUM_BASE) float64, written.
        contacts: (B, NUM_CONTACTS) float64, N, written.
        torque: (B, 12) float64, of the last physics step, N m, written.
        effort: (B, 12) float64, mean square of the torque, written.
        diverged: (B,) bool, written.
    """
    for row in numba.prange(addresses.shape[0]):
        address, robot = addresses[row], robot_index[row]
        _step_row(
            functions, address, joints[robot], drives[robot], feet[robot], friction[row],
            two_state, stribeck_speed, strength[row], targets[row], num_substeps, torque[row],
            effort[row]
        )  # fmt: skip
        diverged[row] = _read(address, joints[robot], joint_state[row], base[row], contacts[row])


@numba.njit(cache=True, nogil=True)
def step_rows_alone(
    functions, addresses, robot_index, joints, drives, feet, friction, two_state, stribeck_speed,
    strength, targets, num_substeps, joint_state, base, contacts, torque, effort, diverged
):  # fmt: skip
    """Do the same on the calling thread, without touching the thread pool."""
    for row in range(addresses.shape[0]):
        address, robot = addresses[row], robot_index[row]
        _step_row(
            functions, address, joints[robot], drives[robot], feet[robot], friction[row],
            two_state, stribeck_speed, strength[row], targets[row], num_substeps, torque[row],
            effort[row]
        )  # fmt: skip
        diverged[row] = _read(address, joints[robot], joint_state[row], base[row], contacts[row])


@numba.njit(cache=True, nogil=True)
def read_rows(addresses, rows, robot_index, joints, joint_state, base, contacts, diverged):
    """Write the readings of some robots, e.g. after a reset."""
    for row in rows:
        diverged[row] = _read(
            addresses[row], joints[robot_index[row]], joint_state[row], base[row], contacts[row]
        )
