"""Height above the ground at which a body starts; tasks derive from it how high it stands."""

import math

import numpy as np

from gmc_bench.bodies.robot_shapes import lowest_point, rotation
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import DoubleArray

CLEARANCE = 0.2
"""m, lowest point above the ground at the start; fall rules depend on it."""
FALL_RATIO = 0.5
"""Share of the standing height at and below which the flat task ends an episode; the standing
height is that of the torso at the start minus `CLEARANCE`."""
_TOLERANCE = 0.1  # m; published bodies have 0.15 to 0.25 m
_ROUNDING = 1e-9  # m


def start_clearance(morphology: Morphology) -> float:
    """Return the height of a body's lowest point in the start pose, m above the floor.

    Returns:
        Infinity where no shape touches anything.
    """
    frames: list[tuple[DoubleArray, DoubleArray]] = []  # origin (3,) and axes (3, 3), world
    lowest = math.inf
    for limb in morphology.limbs:
        base, base_axes = frames[limb.parent] if limb.parent >= 0 else (np.zeros(3), np.eye(3))
        origin = base + base_axes @ np.array(limb.position)
        axes = base_axes @ rotation(limb.orientation)
        frames.append((origin, axes))
        lowest = min(lowest, *(lowest_point(geom, origin, axes) for geom in limb.geoms))
    return lowest


def check_clearance(morphology: Morphology) -> None:
    """Refuse a body that starts too high or too low.

    Raises:
        MorphologyError: names the body, and the height that its torso should have.
    """
    found = start_clearance(morphology)
    if math.isinf(found):
        raise MorphologyError(
            f"body {morphology.name!r} has no shape that could touch the ground; give a limb "
            f"contact bits that are not zero"
        )
    if abs(found - CLEARANCE) <= _TOLERANCE + _ROUNDING:
        return
    height = morphology.limbs[0].position[2]
    raise MorphologyError(
        f"body {morphology.name!r} starts with its lowest point {found:.3g} m above the ground, "
        f"expected {CLEARANCE} m, which tasks subtract from the height of the torso to know when "
        f"it has fallen; start its torso at z = {height - found + CLEARANCE:.4g} instead of "
        f"{height:.4g}"
    )
