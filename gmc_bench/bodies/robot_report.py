"""Report of the tokens that a foreign robot maps to, as plain text."""

from dataclasses import dataclass
from typing import Any

from gmc_bench.bodies.parts import JointKind
from gmc_bench.bodies.schema import Actuator, Morphology


@dataclass(frozen=True, kw_only=True)
class ImportedRobot:
    """A robot and what is noteworthy about it."""

    body: Morphology
    notes: tuple[str, ...]
    """What changed on the way, one sentence each."""
    doubts: tuple[str, ...]
    """What may be a mistake in the robot, one sentence each."""
    trial: dict[str, Any]
    """How it did under random control, see `Sandbox.roll_out`."""


def render_robot(robot: ImportedRobot) -> str:
    """Return how a robot maps to tokens, and what was noticed, as plain text."""
    body = robot.body
    motors = {motor.joint: motor for motor in body.actuators}
    lines = [
        f"{body.name}  (hash {body.digest[:12]}): {body.num_limbs} limbs, so tokens, with up to "
        f"{body.joints_per_limb} joint slots; {body.num_joints} joints, {body.num_actuators} "
        f"actuators, {len(body.loops)} loops",
    ]
    depths: list[int] = []
    for index, limb in enumerate(body.limbs):
        depths.append(0 if limb.parent < 0 else depths[limb.parent] + 1)
        shapes = limb.geom.kind + (f" +{len(limb.more_geoms)}" if limb.more_geoms else "")
        stated = "  stated inertia" if limb.inertia is not None else ""
        margin = "  " * depths[-1]
        lines.append(f"  {index:>3}  {margin}{limb.name}  [{shapes}]{stated}")
        for joint in limb.joints:
            low, high = joint.range
            ends = f"{low:.3g} to {high:.3g} {'rad' if joint.kind == 'hinge' else 'm'}"
            limits = ends if joint.limited else f"no limits ({ends})"
            motor = motors.get(joint.name)
            drive = "no actuator" if motor is None else _drive_text(motor, joint.kind)
            lines.append(
                f"       {margin}  slot {joint.slot}: {joint.kind} {joint.name}, {limits}, {drive}"
            )
    for loop in body.loops:
        first, second = body.limbs[loop.first].name, body.limbs[loop.second].name
        lines.append(f"  loop: {loop.kind} of {first} and {second}")
    lines += [f"  note: {note}" for note in robot.notes]
    lines += [f"  warning: {doubt}" for doubt in robot.doubts]
    lines.append(f"  {_trial_text(robot)}")
    return "\n".join(lines)


def _drive_text(motor: Actuator, kind: JointKind) -> str:
    text = f"{motor.kind} {motor.gear:.4g}"
    if motor.torque_range is None:
        return text
    low, high = motor.torque_range
    return f"{text}, at most {low:.4g} to {high:.4g} {'N m' if kind == 'hinge' else 'N'}"


def _trial_text(robot: ImportedRobot) -> str:
    trial = robot.trial
    units = {"hinge": "rad/s", "slide": "m/s"}
    fastest: dict[str, float] = {}
    for joint in (joint for limb in robot.body.limbs for joint in limb.joints):
        unit = units[joint.kind]
        fastest[unit] = max(fastest.get(unit, 0.0), trial["speeds"][joint.name])
    speeds = " and ".join(f"{speed:.0f} {unit}" for unit, speed in fastest.items())
    return (
        f"trial: {trial['time']:.1f} s of random control, torso from {trial['height']:.2f} m down "
        f"to {trial['lowest']:.2f} m, joints up to {speeds}"
    )
