"""Warnings about robots that can be simulated but look like a mistake."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from gmc_bench.bodies.clearance import CLEARANCE, FALL_RATIO
from gmc_bench.bodies.robot_tree import shorten
from gmc_bench.bodies.schema import Limb, Morphology

_LIGHT, _HEAVY = 0.05, 1000.0  # kg
_SHARE = 1e-4  # of the robot's mass
_TINY_INERTIA = 1e-7  # kg m^2, armature included
_NARROW = 0.05  # rad or m
_STRONG = 100.0  # N m per kg of the robot
_WEAK = 0.02  # N m per kg
_MANY_TURNS = 4 * math.tau  # rad between limits; 25 degrees read as radians
_ENDLESS = 2 * 360.0  # numbers beyond are no degrees, but stand for no limit
_DEEP = 0.005  # m
_FAST = {"hinge": (200.0, "rad/s"), "slide": (20.0, "m/s")}  # faster than motors of robots
_GRAVITY = (0.0, 0.0, -9.81)  # m/s^2


def find_doubts(body: Morphology, model: dict[str, Any], trial: dict[str, Any]) -> list[str]:
    """Look for what users should check, one sentence each.

    Args:
        body: the robot.
        model: what `Sandbox.read` returned for it.
        trial: what `Sandbox.roll_out` returned for it.
    """
    return [
        *mass_doubts(body),
        *_inertia_doubts(model),
        *_joint_doubts(body),
        *_range_doubts(model),
        *_angle_doubts(body, model),
        *_drive_doubts(body),
        *strength_doubts(body, "strong"),
        *strength_doubts(body, "weak"),
        *speed_doubts(body, trial),
        *_contact_doubts(body, trial),
        *_world_doubts(model),
    ]


def _mass(limb: Limb) -> float:
    if limb.inertia is not None:
        return limb.inertia.mass
    return sum(geom.volume * geom.density for geom in limb.geoms)


def mass_doubts(body: Morphology) -> Iterator[str]:
    """Notice robots and limbs that are very light or heavy, one sentence each."""
    mass = sum(map(_mass, body.limbs))
    if not _LIGHT <= mass <= _HEAVY:
        yield f"the whole robot weighs {mass:.3g} kg; are its units kg and m?"
    for limb in body.limbs:
        if _mass(limb) < _SHARE * mass:
            yield f"the limb {limb.name!r} weighs {_mass(limb):.2g} kg, next to nothing"
        armature = max((joint.armature for joint in limb.joints), default=0.0)
        if limb.inertia is not None and max(limb.inertia.moments) + armature < _TINY_INERTIA:
            yield f"the limb {limb.name!r} has nearly no inertia; a little armature steadies it"


def _inertia_doubts(model: dict[str, Any]) -> Iterator[str]:
    if model["mended"]:
        yield (
            f"inertias that no rigid body has are replaced by similar ones: "
            f"{shorten(model['mended'])}; their principal moments must be positive, and none "
            f"greater than the sum of the other two"
        )


def _joint_doubts(body: Morphology) -> Iterator[str]:
    for joint in (joint for limb in body.limbs for joint in limb.joints):
        low, high = joint.range
        if joint.limited and high - low < _NARROW:
            yield f"the joint {joint.name!r} moves by {high - low:.2g} only"


def _range_doubts(model: dict[str, Any]) -> Iterator[str]:
    """Notice ranges that count as none, because their ends are exchanged."""
    rows = [row for kind in ("joints", "actuators") for row in model[kind] if row["backward"]]
    if rows:
        names = shorten(list(dict.fromkeys(row["name"] or "one without a name" for row in rows)))
        yield f"ranges that start above their end count as none: {names}; exchange the two numbers"


def _angle_doubts(body: Morphology, model: dict[str, Any]) -> Iterator[str]:
    """Notice ranges of hinges whose unit was mistaken."""
    # The limits of the file: very wide ones are forgotten in the body.
    many = {
        name or "one without a name": high - low
        for name, low, high in model["stated"]
        if high - low > _MANY_TURNS and max(abs(low), abs(high)) <= _ENDLESS
    }
    if many:
        widest = max(many.values())
        yield (
            f"hinges may turn by up to {widest:.3g} rad, {widest / math.tau:.1f} turns: "
            f"{shorten(list(many))}; were degrees meant in a file of radians?"
        )
    widths = [
        joint.range[1] - joint.range[0]
        for limb in body.limbs
        for joint in limb.joints
        if joint.kind == "hinge" and joint.limited
    ]
    if widths and max(widths) <= math.radians(math.tau):
        yield (
            f"no hinge with limits may turn by more than {math.degrees(max(widths)):.3g} degrees; "
            f"were radians meant in a file of degrees (which MJCF is unless its compiler element "
            f'says angle="radian")?'
        )


def _drive_doubts(body: Morphology) -> Iterator[str]:
    driven = {motor.joint for motor in body.actuators}
    idle = [j.name for limb in body.limbs for j in limb.joints if j.name not in driven]
    if idle:
        yield f"no actuator drives {shorten(idle)}"


def strength_doubts(body: Morphology, word: Literal["strong", "weak"]) -> Iterator[str]:
    """Notice motors that are too strong for the robot, or too weak, in at most one sentence."""
    mass = sum(map(_mass, body.limbs))
    units = {
        j.name: "N m" if j.kind == "hinge" else "N" for limb in body.limbs for j in limb.joints
    }
    torques: dict[str, float] = {}
    for motor in body.actuators:
        limit = max(map(abs, motor.torque_range)) if motor.torque_range else abs(motor.gear)
        torques[motor.joint] = min(limit, abs(motor.gear)) if motor.kind == "motor" else limit
    strong = word == "strong"
    odd = [
        name
        for name, torque in torques.items()
        if (torque > _STRONG * mass if strong else torque < _WEAK * mass)
    ]
    if odd:
        shown = []
        for unit in ("N m", "N"):
            numbers = sorted({f"{torques[name]:.3g}" for name in odd if units[name] == unit})
            shown += [f"{' '.join(numbers)} {unit}"] if numbers else []
        strengths = " and ".join(shown)
        yield f"motors are very {word} for {mass:.3g} kg: {shorten(odd)} ({strengths})"


def speed_doubts(body: Morphology, trial: dict[str, Any]) -> Iterator[str]:
    """Notice joints that moved faster in a trial than motors turn, one sentence for each kind."""
    joints = [joint for limb in body.limbs for joint in limb.joints]
    for kind, (most, unit) in _FAST.items():
        speeds = {joint.name: trial["speeds"][joint.name] for joint in joints if joint.kind == kind}
        fast = [name for name, speed in speeds.items() if speed > most]
        if fast:
            highest = max(speeds[name] for name in fast)
            yield (
                f"joints moved at up to {highest:.0f} {unit} in the trial: {shorten(fast)}; give "
                f"them damping or armature, or weaker motors"
            )


def _contact_doubts(body: Morphology, trial: dict[str, Any]) -> Iterator[str]:
    deepest: dict[tuple[int, int], float] = {}  # two limbs may touch in several points
    for first, second, depth in trial["touching"]:
        pair = (min(first, second), max(first, second))
        deepest[pair] = max(depth, deepest.get(pair, 0.0))
    for (first, second), depth in deepest.items():
        if depth > _DEEP and first:  # body 0 is the floor
            names = [body.limbs[end - 1].name for end in (first, second)]
            yield f"the limbs {names[0]!r} and {names[1]!r} overlap by {depth:.3g} m at the start"
    standing = trial["height"] - CLEARANCE
    if trial["time"] > 1.0 and not trial["landed"]:
        yield "it did not touch the ground in the trial; do its shapes collide with contype 1?"
    if trial["lowest"] < 0.0:
        yield "its torso sank below the ground in the trial; give the torso shapes that collide"
    elif trial["lowest"] <= FALL_RATIO * standing:
        yield (
            f"its torso sank to {trial['lowest']:.2f} m in the trial; tasks that end at half the "
            f"standing height of {standing:.2f} m would have ended"
        )
    if trial["opening"] > _DEEP:
        yield f"a loop opened by {trial['opening']:.3g} m in the trial"
    for limb in body.limbs:
        if any((g.contype or g.conaffinity) and not (g.contype | g.conaffinity) & 1
               for g in limb.geoms):  # fmt: skip
            yield f"shapes of {limb.name!r} never touch the ground (their contact bits differ)"


def _world_doubts(model: dict[str, Any]) -> Iterator[str]:
    if model["fluid"]:
        yield "the model's fluid is left out"
    gravity = model["gravity"]
    if not np.allclose(gravity, _GRAVITY, atol=0.1):
        numbers = " ".join(f"{number:.3g}" for number in gravity)
        yield (
            f"gravity is {numbers} m/s^2 in the file but 0 0 -9.81 here; turn the robot if its "
            f"upward axis is not z"
        )
    if model["disabled"]:
        yield f"the file disables {', '.join(model['disabled'])}, which is enabled here"
    if any(row["floats"] for row in model["bodies"]):
        yield "gravity compensation is left out"
