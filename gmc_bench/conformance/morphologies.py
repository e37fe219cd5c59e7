"""Small bodies for tests and examples: a chain, a star, a biped and legs that are closed loops.

Sizes, densities and gears are those of UNIMAL bodies, so that the simulator treats them like
the bodies of the benchmark. All of them start with their lowest point 0.2 m above the floor and
without self-contact.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202: geometry of limbs and joints. Differs: lengths are
    not rounded to two decimals.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from gmc_bench.bodies.clearance import CLEARANCE
from gmc_bench.bodies.schema import Actuator, Geom, Joint, Limb, Loop, Morphology
from gmc_bench.bodies.vectors import plus, times
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Vec3

GEAR = 200.0  # N m
TORSO_RADIUS = 0.1  # m
TORSO_DENSITY = 1000.0  # kg/m^3
LIMB_RADIUS = 0.05  # m
LIMB_DENSITY = 900.0  # kg/m^3

_LENGTHS = (0.25, 0.35, 0.45)  # m, the three segment lengths of UNIMAL
_HINGES = ("xy", "y", "x")  # every pattern of occupied joint slots
_RANGES = {"x": (-30.0, 30.0), "y": (-60.0, 30.0)}  # degrees
_SLOTS = {"x": 0, "y": 1}


@dataclass(frozen=True, kw_only=True)
class _Segment:
    """One capsule limb; it grows from its parent's centre (torso) or far end (limb)."""

    parent: int
    azimuth: float
    """Angle from +x in the horizontal plane, degrees."""
    polar: float
    """Angle from +z, degrees; 90 is horizontal, 180 straight down."""
    length: float
    """Of the capsule's axis, m."""
    hinges: str
    """Letters of the driven hinges: `x`, `y` or `xy`."""
    gap: float = 0.0
    """Extra distance from the parent, m."""

    @property
    def direction(self) -> Vec3:
        """Unit vector from the near to the far end, body frame."""
        azimuth, polar = math.radians(self.azimuth), math.radians(self.polar)
        return (
            math.cos(azimuth) * math.sin(polar),
            math.sin(azimuth) * math.sin(polar),
            math.cos(polar),
        )


def chain(num_limbs: int = 3) -> Morphology:
    """Return a torso with one unbranched arm of alternately level and descending limbs.

    The limbs cycle through the lengths 0.25, 0.35, 0.45 m and through the hinge patterns
    xy, y, x, so that both joint slots are used and both are missing somewhere.

    Args:
        num_limbs: limbs, the torso included; at least 2.

    Raises:
        MorphologyError: fewer than 2 limbs.
    """
    if num_limbs < 2:
        raise MorphologyError(
            f"a chain needs a torso and one driven limb, got {num_limbs}; ask for at least 2 limbs"
        )
    segments = [
        _Segment(
            parent=index,
            azimuth=0.0,
            polar=90.0 if index % 2 == 0 else 135.0,
            length=_LENGTHS[index % 3],
            hinges=_HINGES[index % 3],
        )
        for index in range(num_limbs - 1)
    ]
    return _assemble(f"chain-{num_limbs}", segments)


def star(num_legs: int = 4) -> Morphology:
    """Return a torso with equal single-limb legs, evenly spread and 30 degrees below level.

    Args:
        num_legs: legs, each with an x and a y hinge; at least 1.

    Raises:
        MorphologyError: no legs.
    """
    if num_legs < 1:
        raise MorphologyError(f"a star needs at least one leg, got {num_legs}")
    # Crowded legs start farther out, where neighbours are more than a leg's diameter apart.
    spread = math.sin(math.radians(120.0)) * math.sin(math.pi / max(num_legs, 2))
    gap = max(0.0, 1.05 * LIMB_RADIUS / spread - TORSO_RADIUS)
    segments = [
        _Segment(
            parent=0, azimuth=360.0 * leg / num_legs, polar=120.0, length=0.35, hinges="xy", gap=gap
        )
        for leg in range(num_legs)
    ]
    return _assemble(f"star-{num_legs}", segments)


def biped() -> Morphology:
    """Return a torso with two mirrored legs of two limbs (thigh xy, shin y): 5 limbs, 6 motors."""
    segments: list[_Segment] = []
    for azimuth in (90.0, -90.0):
        thigh = len(segments) + 1
        segments += [
            _Segment(parent=0, azimuth=azimuth, polar=135.0, length=0.35, hinges="xy"),
            _Segment(parent=thigh, azimuth=azimuth, polar=180.0, length=0.25, hinges="y"),
        ]
    return _assemble("biped", segments, symmetric_limbs=((1, 3), (2, 4)))


def linkage(num_legs: int = 1, kind: Literal["connect", "weld"] = "connect") -> Morphology:
    """Return a torso with legs that are closed loops: two chains of two limbs that meet in a foot.

    A leg has four limbs, thigh xy and shin y twice; the loop joins the tips of the shins. The
    torso is on every loop.

    Args:
        num_legs: legs, evenly spread; 1 to 3.
        kind: of the joint between the two shins.

    Raises:
        MorphologyError: another number of legs.
    """
    if not 1 <= num_legs <= 3:
        raise MorphologyError(f"a linkage has 1 to 3 legs, got {num_legs}")
    thigh, shin = _LENGTHS[0], _LENGTHS[1]
    polar, spread, gap = 110.0, 30.0, 0.03  # thighs do not touch each other
    reach = TORSO_RADIUS + gap + thigh  # from the torso's centre to the end of a thigh
    apart = reach * math.sin(math.radians(polar)) * math.sin(math.radians(spread))
    # The foot is below the middle between the ends of the thighs.
    lean = math.degrees(math.asin(apart / (LIMB_RADIUS + shin)))
    segments: list[_Segment] = []
    loops: list[tuple[int, int]] = []
    for leg in range(num_legs):
        azimuth = 360.0 * leg / num_legs
        for side in (1.0, -1.0):
            segments += [
                _Segment(
                    parent=0,
                    azimuth=azimuth + side * spread,
                    polar=polar,
                    length=thigh,
                    hinges="xy",
                    gap=gap,
                ),
                _Segment(
                    parent=len(segments) + 1,
                    azimuth=azimuth - side * 90.0,
                    polar=180.0 - lean,
                    length=shin,
                    hinges="y",
                ),
            ]
        loops.append((len(segments) - 2, len(segments)))
    tree = _assemble(f"linkage-{num_legs}", segments)
    closures = tuple(
        Loop(first=first, second=second, anchor=tree.limbs[first].geom.end, kind=kind)
        for first, second in loops
    )
    return replace(tree, loops=closures)


def lowest_point(morphology: Morphology) -> float:
    """Return the height of a body's lowest point at the start, m above the floor.

    Only for bodies without limb orientations, such as those of this module.
    """
    origins: list[float] = []
    lowest = math.inf
    for limb in morphology.limbs:
        origin = limb.position[2] + (origins[limb.parent] if limb.parent >= 0 else 0.0)
        origins.append(origin)
        lowest = min(lowest, origin + min(limb.geom.start[2], limb.geom.end[2]) - limb.geom.radius)
    return lowest


def _assemble(
    name: str, segments: list[_Segment], symmetric_limbs: tuple[tuple[int, int], ...] = ()
) -> Morphology:
    limbs = [_torso(0.0)]
    for number, segment in enumerate(segments, start=1):
        limbs.append(_limb(number, segment, limbs[segment.parent]))
    joints = [joint for limb in limbs for joint in limb.joints]
    actuators = tuple(Actuator(joint=joint.name, gear=GEAR) for joint in joints)
    draft = Morphology(name=name, limbs=tuple(limbs), actuators=actuators)
    limbs[0] = _torso(CLEARANCE - lowest_point(draft))
    return Morphology(
        name=name, limbs=tuple(limbs), actuators=actuators, symmetric_limbs=symmetric_limbs
    )


def _torso(height: float) -> Limb:
    geom = Geom(kind="sphere", radius=TORSO_RADIUS, density=TORSO_DENSITY)
    return Limb(name="torso/0", parent=-1, position=(0.0, 0.0, height), geom=geom)


def _limb(number: int, segment: _Segment, parent: Limb) -> Limb:
    direction = segment.direction
    reach = parent.geom.radius + segment.gap
    near = times(direction, reach)
    return Limb(
        name=f"limb/{number}",
        parent=segment.parent,
        position=plus(parent.geom.end, near),
        geom=Geom(
            kind="capsule",
            radius=LIMB_RADIUS,
            end=times(direction, segment.length),
            density=LIMB_DENSITY,
        ),
        joints=tuple(_hinge(letter, number, direction) for letter in segment.hinges),
    )


def _hinge(letter: str, number: int, direction: Vec3) -> Joint:
    # The axes are x and y of the frame whose z points back along the limb, turned minimally.
    x, y, z = (-part for part in direction)
    axes: dict[str, Vec3] = {
        "x": (1.0 - x * x / (1.0 + z), -x * y / (1.0 + z), -x),
        "y": (-x * y / (1.0 + z), 1.0 - y * y / (1.0 + z), -y),
    }
    lower, upper = _RANGES[letter]
    return Joint(
        name=f"limb{letter}/{number}",
        axis=axes[letter],
        position=times(direction, -LIMB_RADIUS),
        range=(math.radians(lower), math.radians(upper)),
        slot=_SLOTS[letter],
    )
