"""Normalise what files state in unusual ways, before a body is built from them."""

from typing import Any

from gmc_bench.bodies.mjcf_writer import SCENERY
from gmc_bench.bodies.robot_tree import Draft
from gmc_bench.bodies.sandbox import FlawError

_FAR = 100.0  # rad or m; limits beyond stand for none
_ENDLESS = 1e9  # N m or N; larger limits of a torque stand for none
_GROUND = 1  # contact bit of the ground


def forget_endless_limits(model: dict[str, Any], notes: list[str]) -> None:
    """Drop limits of joints and torques that are so large that they stand for none.

    Args:
        model: what `Sandbox.read` returns; changed. `stated` is added: name, lower and upper limit
            (rad) of the hinges that have limits in the file.
        notes: what changed is added.

    Raises:
        FlawError: the whole range of a joint is that far from 0.
    """
    model["stated"] = []
    for joint in model["joints"]:
        if joint["torque"] and max(map(abs, joint["torque"])) > _ENDLESS:
            joint["torque"] = None
            notes.append(f"endless limits of torques are left out: {joint['name']}")
        if joint["kind"] not in ("hinge", "slide") or not joint["limited"]:
            continue
        low, high = joint["range"]
        if joint["kind"] == "hinge":
            model["stated"].append((joint["name"], low, high))
        if low >= _FAR or high <= -_FAR:  # without either limit, nothing would be left of it
            raise FlawError(
                f"has a joint {joint['name']!r} with the range {low:g} to {high:g}, all of it "
                f"beyond {_FAR:g} rad or m; are its units rad and m?"
            )
        if low < -_FAR and high > _FAR:
            joint["limited"] = False
        # A start value beyond stays inside.
        joint["range"] = [
            max(low, min(-_FAR, joint["value"])),
            min(high, max(_FAR, joint["value"])),
        ]
    for row in model["actuators"]:
        if row["force"] and max(map(abs, row["force"])) > _ENDLESS:
            row["force"] = None


def meet_the_ground(draft: Draft) -> None:
    """Let a robot that collides only with its own file's ground collide with the benchmark's.

    None of its shapes has the ground's contact bit then, so that this bit in `contype` adds no
    contact between them.
    """
    geoms = draft.model["geoms"]
    own = [geom for geom in geoms if geom["body"] in draft.part_of]
    if any((geom["contype"] | geom["conaffinity"]) & _GROUND for geom in own):
        return
    world = [geom for geom in geoms if geom["body"] == 0]
    meeting = [geom for geom in own if any(meet(geom, other) for other in world)]
    for geom in meeting:
        geom["contype"] |= _GROUND
    if meeting:
        draft.notes.append("contact bits are changed, so that the robot touches the ground")


def meet(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the contact bits of two geoms let them touch."""
    return bool(one["contype"] & other["conaffinity"] or other["contype"] & one["conaffinity"])


def free_name(name: str) -> str:
    """Return a limb's name that no geom of a task has."""
    return f"limb {name}" if name.startswith(SCENERY) else name
