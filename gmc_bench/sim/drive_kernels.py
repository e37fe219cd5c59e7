"""Compiled loops over bodies with joint drives: drives, friction of feet, readings.

What belongs to the models stands in `Drives`, what belongs to the rows in `DriveState`.
"""

import math

import numpy as np

from gmc_bench.core.jit import njit
from gmc_bench.sim.columns import (
    CTRL,
    CVEL,
    DATA,
    FRICTION,
    GEOM_XPOS,
    MODEL,
    QPOS,
    QVEL,
    SENSORS,
    SUBTREE_COM,
    has_warned,
)
from gmc_bench.sim.engine import call_model_data, load_double, store_double

NUM_BASE = 13
"""Readings of the base: position (3, world), linear and angular velocity (3 each, base frame),
direction of gravity (3, base frame), heading (rad)."""
SENSOR_WIDTH = 4
"""Numbers of a contact sensor: found, then the force's three components."""


@njit(cache=True)
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


@njit(cache=True)
def _write_friction(address, feet, friction, stribeck_speed):
    """Give every foot the coefficient of its present sliding speed."""
    static, dynamic = friction
    for foot in range(feet.shape[0]):
        body, geom, radius = feet[foot]
        speed = _sliding_speed(address, int(body), int(geom), radius) / stribeck_speed
        value = dynamic + (static - dynamic) * math.exp(-speed * speed)
        store_double(address[FRICTION], 3 * int(geom), value)


@njit(cache=True)
def _drive(address, joints, gains, strength, target, torque):
    """Apply the joint drives: proportional and derivative gain, limited torque."""
    for j in range(joints.shape[0]):
        qpos, dof, actuator = joints[j]
        kp, kd, limit = gains[j]
        error = target[j] - load_double(address[QPOS], qpos)
        wanted = strength * (kp * error - kd * load_double(address[QVEL], dof))
        applied = min(max(wanted, -limit), limit)
        store_double(address[CTRL], actuator, applied)
        torque[j] = applied


@njit(cache=True)
def _read(address, joints, joint_state, base, contacts):
    """Write one row's readings; return whether the simulation diverged."""
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
    for j in range(joints.shape[0]):
        joint_state[j, 0] = load_double(qpos, joints[j, 0])
        joint_state[j, 1] = load_double(qvel, joints[j, 1])
        total += joint_state[j, 0] + joint_state[j, 1]
    for k in range(contacts.shape[0]):
        fx = load_double(address[SENSORS], SENSOR_WIDTH * k + 1)
        fy = load_double(address[SENSORS], SENSOR_WIDTH * k + 2)
        fz = load_double(address[SENSORS], SENSOR_WIDTH * k + 3)
        contacts[k] = math.sqrt(fx * fx + fy * fy + fz * fz)
    return has_warned(address) or not np.isfinite(total)  # a sum is finite only if every part is


@njit(cache=True)
def drive_row(functions, address, model, row, target, num_substeps, drives, state):
    """Advance one row by `num_substeps` engine steps towards its target angles (A,), rad.

    The friction of a foot follows the speed at which it slides at the start of each engine step.
    The engine's own update of positions and velocities comes too late for it: it makes contacts
    in the same call. Updating them before costs 2 % and leaves nothing outside MuJoCo's state
    that the next step depends on.

    Args:
        functions: addresses of the C functions, see `EngineFunctions`.
        address: (NUM_ADDRESSES,) int64.
        model, row: places in the tables.
        target: (A,) float64, rad.
        num_substeps: engine steps.
        drives: `Drives`.
        state: `DriveState`; `torque` and `effort` are written.
    """
    joints, torque, effort = drives.joints[model], state.torque[row], state.effort[row]
    effort[:] = 0.0
    for _ in range(num_substeps):
        if drives.two_state:
            call_model_data(functions.mj_kinematics, address[MODEL], address[DATA])
            call_model_data(functions.mj_com_pos, address[MODEL], address[DATA])
            call_model_data(functions.mj_com_vel, address[MODEL], address[DATA])
            _write_friction(address, drives.feet[model], state.friction[row], drives.stribeck_speed)
        _drive(address, joints, drives.gains[model], state.strength[row], target, torque)
        for j in range(joints.shape[0]):
            effort[j] += torque[j] * torque[j] / num_substeps
        call_model_data(functions.mj_step, address[MODEL], address[DATA])


@njit(cache=True)
def read_driven_row(address, model, row, drives, state):
    """Write the sensor readings of one row to `state`; return whether the simulation diverged."""
    return _read(
        address, drives.joints[model], state.joint_state[row], state.base[row], state.contacts[row]
    )


@njit(cache=True, nogil=True)
def read_driven_rows(addresses, model_index, rows, drives, state, diverged):
    """Write the readings of some rows, e.g. after a reset."""
    for row in rows:
        diverged[row] = read_driven_row(addresses[row], model_index[row], row, drives, state)
