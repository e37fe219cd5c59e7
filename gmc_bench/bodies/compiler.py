"""Compile models whose simulation data take little memory."""

from typing import Any

import mujoco

from gmc_bench.bodies.engine_library import engine_library

_ARENA = 2**20  # bytes
_ARENA_PER_JOINT = 2**15  # bytes
_ARENA_PER_SQUARE = 192  # bytes; more than the above from 199 joints on
_ARENA_PER_SHAPE = (3 * 2**12, 2**9)  # bytes, and bytes per joint, of a limb's further shapes
_ARENA_OF_SHAPES = 2**26  # bytes, at most


def compile_mjcf(text: str) -> Any:
    """Compile a model for simulations of which many are kept.

    Every `MjData` has an arena for contacts and constraints, by default of 14 MiB, of which bodies
    need 0.15 MiB at most. What is not needed is not free: the arena comes out of memory that
    networks have used and given back, and keeps it. Here the arena has 1 MiB and 32 KiB for each
    joint, or 192 bytes times the square of their number where that is more, because a snake on the
    ground has constraints in proportion to its joints, and each constraint a number for every
    joint. Where the shapes of limbs beyond the first ask for more, it has 12 KiB and 512 bytes per
    joint for each of them, up to 64 MiB: a box that lies on the ground has four contacts of four
    constraints. One that overflows nevertheless counts as a divergence, as every warning of the
    engine.

    Args:
        text: MJCF.

    Returns:
        `mujoco.MjModel`, equal to that of other ways of compiling but for `narena`.

    Raises:
        ValueError: MuJoCo refuses the text.
    """
    engine_library()  # before MuJoCo has anything to log
    spec = mujoco.MjSpec.from_string(text)
    joints = len(spec.joints)
    # The world is a body, but the shapes of the ground touch only those of limbs.
    shapes = len(spec.geoms) - len(spec.worldbody.geoms) - (len(spec.bodies) - 1)
    each = _ARENA_PER_SHAPE[0] + _ARENA_PER_SHAPE[1] * joints
    spec.memory = max(
        _ARENA + _ARENA_PER_JOINT * joints,
        _ARENA_PER_SQUARE * joints**2,
        min(each * shapes, _ARENA_OF_SHAPES),
    )
    return spec.compile()
