"""The UNIMAL design space: what a limb may look like, and where its parts lie.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202; parameters and limb geometry as in the
    configuration of agrimgupta92/derl.
"""

import math
from typing import Literal

from gmc_bench.core.types import Vec3

JointAxis = Literal["x", "y"]

TORSO_RADIUS = 0.1  # m
LIMB_RADIUS = 0.05  # m
LIMB_HEIGHTS = (0.2, 0.3, 0.4)  # m; the capsule's segment is one radius longer
DENSITIES = (500.0, 600.0, 700.0, 800.0, 900.0, 1000.0)  # kg/m^3
AZIMUTHS = (0, 45, 90, 135, 180, 225, 270, 315)  # deg, from +x in the xy plane
INCLINATIONS = (90, 135, 180)  # deg, from +z: limbs never point upwards
AXIS_SETS: tuple[tuple[JointAxis, ...], ...] = (("x",), ("y",), ("x", "y"))
GEARS = (150.0, 200.0, 250.0, 300.0)  # N m
JOINT_RANGES = (
    (-30, 0), (0, 30), (-30, 30), (-45, 45), (-45, 0), (0, 45), (-60, 0), (0, 60), (-60, 60),
    (-90, 0), (0, 90), (-60, 30), (-30, 60),
)  # deg  # fmt: skip

_DECIMALS = 2  # every length of a published body is a whole number of centimetres
_AXIS_DECIMALS = 4


def unit_direction(azimuth: int, inclination: int) -> Vec3:
    """Return the unit vector of a limb, torso frame.

    Args:
        azimuth: deg, from +x in the xy plane.
        inclination: deg, from +z.

    Returns:
        (x, y, z); components that are zero in exact arithmetic are exactly zero, so that limbs
        in the symmetry plane have no sideways part at all.
    """
    theta, phi = math.radians(azimuth), math.radians(inclination)
    x = _without_noise(math.cos(theta) * math.sin(phi))
    y = _without_noise(math.sin(theta) * math.sin(phi))
    return (x, y, _without_noise(math.cos(phi)))


def _without_noise(value: float) -> float:
    return round(value, 12) + 0.0  # + 0.0 turns -0.0 into 0.0


def along(direction: Vec3, length: float) -> Vec3:
    """Return `length` times `direction`, rounded to centimetres like the published bodies."""
    x, y, z = direction
    return (_centimetres(x * length), _centimetres(y * length), _centimetres(z * length))


def add(first: Vec3, second: Vec3) -> Vec3:
    """Return the sum of two vectors of whole centimetres, free of rounding residue."""
    (a, b, c), (x, y, z) = first, second
    return (_centimetres(a + x), _centimetres(b + y), _centimetres(c + z))


def _centimetres(value: float) -> float:
    return round(value, _DECIMALS) + 0.0


def hinge_axis(axis: JointAxis, segment: Vec3) -> Vec3:
    """Return a hinge's axis in the limb frame.

    It is the x or y axis of the capsule's own frame, which the engine turns by the smallest
    rotation that takes +z to the direction from the far end back to the origin.

    Args:
        axis: which of the two.
        segment: far end of the capsule, limb frame, m; must not point straight up.

    Returns:
        Unit vector, rounded to four decimals like the published bodies.
    """
    length = math.hypot(*segment)
    x, y, z = (-component / length for component in segment)
    lean = 1.0 / (1.0 + z)
    exact = (
        (1.0 - x * x * lean, -x * y * lean, -x)
        if axis == "x"
        else (-x * y * lean, 1.0 - y * y * lean, -y)
    )
    a, b, c = (round(component, _AXIS_DECIMALS) + 0.0 for component in exact)
    return (a, b, c)
