"""Motors of a foreign robot, with controls in [-1, 1]."""

from typing import Any

from gmc_bench.bodies.robot_shapes import vector
from gmc_bench.bodies.schema import Actuator

_GRAVITY = 9.81  # m/s^2
_ARM = 0.1  # m; a motor of unknown strength holds the robot's weight at this distance, a slide's
# lifts it
_FILTERS = ("mjDYN_FILTER", "mjDYN_FILTEREXACT")


def build_actuators(
    model: dict[str, Any], joint_names: dict[int, str], mass: float, notes: list[str], *, urdf: bool
) -> tuple[Actuator, ...]:
    """Return one actuator per driven joint, in joint order.

    The control range is folded into gear and bias, and the start value of the joint too.

    Args:
        model: what `Sandbox.read` returns.
        joint_names: of the joints that are kept, by number, in the body's order.
        mass: of the robot, kg.
        notes: what changed is added.
        urdf: joints get motors of their stated effort, if the model has none.
    """
    found: dict[int, Actuator] = {}
    for row in model["actuators"]:
        number = row["joint"]
        driven = model["joints"][number]["name"] if number >= 0 else ""
        what = row["name"] or driven or "one without a name"
        if number not in joint_names:
            notes.append(f"actuators that drive no joint of a limb are left out: {what}")
        elif row["disabled"]:
            notes.append(f"actuators of groups that are switched off are left out: {what}")
        elif number in found:
            notes.append(f"further actuators of the same joint are left out: {what}")
        else:
            joint = model["joints"][number]
            actuator = _actuator(row, joint, joint_names[number], what, notes)
            if actuator is not None:
                found[number] = actuator
    if urdf and not model["actuators"]:
        for number, name in joint_names.items():
            joint = model["joints"][number]
            strength = max(map(abs, joint["torque"])) if joint["torque"] else 0.0
            if not strength:
                arm, unit = (1.0, "N") if joint["kind"] == "slide" else (_ARM, "N m")
                strength = float(f"{_GRAVITY * mass * arm:.3g}")
                notes.append(f"joints without effort, whose motors got {strength} {unit}: {name}")
            found[number] = Actuator(joint=name, gear=strength)
        notes.append("URDF has no motors, so every joint got one of its effort")
    return tuple(found[number] for number in joint_names if number in found)


def _actuator(
    row: dict[str, Any], joint: dict[str, Any], name: str, what: str, notes: list[str]
) -> Actuator | None:
    known = row["gain_kind"] == "mjGAIN_FIXED" and row["bias_kind"] in (
        "mjBIAS_NONE",
        "mjBIAS_AFFINE",
    )
    if row["dynamics"] in _FILTERS:
        notes.append(f"filters of actuators are left out: {what}")
    elif row["dynamics"] != "mjDYN_NONE":
        known = False
    if row["delay"]:
        notes.append(f"delays of actuators are left out: {what}")
    gear, gain = row["gear"], row["gain"]
    if known and not gear * gain:
        notes.append(f"actuators without gear or gain are left out: {what}")
        return None
    if not known:
        notes.append(
            f"actuators other than motors, position and velocity servos are left out: {what}"
        )
        return None
    constant, spring, damper = row["bias"] if row["bias_kind"] == "mjBIAS_AFFINE" else (0.0,) * 3
    lower, upper = row["control"] or _control(row, joint, constant, spring, what, notes)
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    if not half > 0:
        notes.append(f"actuators with an empty control range are left out: {what}")
        return None
    bias = (
        gear * (gain * middle + constant) + gear * gear * spring * joint["value"],
        gear * gear * spring,
        gear * gear * damper,
    )
    torque = gear * gain * half
    bounds = [sorted(gear * force for force in row["force"])] if row["force"] else []
    bounds += [joint["torque"]] if joint["torque"] else []
    limits = (max(low for low, _ in bounds), min(high for _, high in bounds)) if bounds else None
    if (
        limits is not None
        and not any(bias)
        and limits[0] <= -abs(torque) <= abs(torque) <= limits[1]
    ):
        limits = None
    if limits is not None and not limits[0] < limits[1]:
        notes.append(f"actuators with an empty force range are left out: {what}")
        return None
    return Actuator(
        joint=name,
        gear=float(f"{torque:.12g}"),
        bias=vector(bias),
        torque_range=None if limits is None else vector(limits),
    )


def _control(
    row: dict[str, Any],
    joint: dict[str, Any],
    constant: float,
    spring: float,
    what: str,
    notes: list[str],
) -> tuple[float, float]:
    """Choose the range of a control that has none."""
    gear, gain = row["gear"], row["gain"]
    offset = constant / gain  # the constant acts like this much control
    if spring and joint["limited"]:
        notes.append(f"servos without control range, which take that of the joint: {what}")
        # The servo's length is gear times the joint's value; its force is zero at the target.
        low, high = sorted(gear * value * -spring / gain - offset for value in joint["range"])
        return low, high
    bounds = row["force"] or (
        [torque / gear for torque in joint["torque"]] if joint["torque"] else None
    )
    if bounds and not spring:
        notes.append(f"actuators without control range, which take that of their force: {what}")
        low, high = sorted(force / gain - offset for force in bounds)
        return low, high
    notes.append(f"actuators without control range, which take -1 to 1: {what}")
    return -1.0, 1.0
