"""Turn what the engine knows of a foreign robot into a body of this package.

The start pose becomes the pose in which all joints have the value 0. Bodies without joints are part
of the limb that carries them; light bodies without shape, which only chain joints, pass their
joints on. What a body cannot express is dropped with a note, or refused where nothing sensible
remains.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gmc_bench.bodies.clearance import CLEARANCE
from gmc_bench.bodies.mjcf_reader import slot_of
from gmc_bench.bodies.mjcf_writer import ROOT_JOINT
from gmc_bench.bodies.robot_actuators import build_actuators
from gmc_bench.bodies.robot_contacts import build_exclusions
from gmc_bench.bodies.robot_repair import (
    forget_endless_limits,
    free_name,
    meet_the_ground,
)
from gmc_bench.bodies.robot_shapes import (
    build_geoms,
    lowest_point,
    merge_inertia,
    quaternion,
    vector,
)
from gmc_bench.bodies.robot_tree import Draft, Part, find_root, group_bodies, shorten
from gmc_bench.bodies.sandbox import FlawError
from gmc_bench.bodies.schema import Joint, Limb, Loop, Morphology

_HUGE = 1e10  # in SI units; contact bits are smaller
_MAX_GAP = 0.02  # m, opening of a loop in the start pose
_MAX_TURN = 0.1  # rad, of a weld in the start pose
_NOMINAL = {"hinge": (-np.pi, np.pi), "slide": (-1.0, 1.0)}  # ranges of joints without limits
_LOW_ORIGIN = 0.3  # share of the height of the torso's centre of mass; a lower frame is moved up
_LOWEST_TORSO = 0.01  # m, height of its frame above the lowest point


def build_robot(model: dict[str, Any], name: str, *, urdf: bool) -> tuple[Morphology, list[str]]:
    """Build a body from what `Sandbox.read` returns.

    Args:
        model: the description, world coordinates in the start pose.
        name: the body's name.
        urdf: missing motors are added, because URDF has none.

    Returns:
        The body, every limb with its inertia stated, and notes on what changed, one sentence each.

    Raises:
        FlawError: it is not one robot, or has parts that cannot be expressed.
        MorphologyError: what comes out is no body.
    """
    notes: list[str] = []
    forget_endless_limits(model, notes)
    if _largest([model["bodies"], model["joints"], model["geoms"], model["actuators"]]) > _HUGE:
        raise FlawError(f"has a number beyond {_HUGE:g}; are its units m, kg and s?")
    for number, joint in enumerate(model["joints"]):
        joint["number"] = number
    draft = Draft(model, notes)
    group_bodies(draft, find_root(draft))
    if model["was_global"]:
        draft.notes.append("its global coordinates, which MuJoCo 2.3.3 read last, are converted")
    if model["locked"]:
        names = shorten([joint or "an unnamed joint" for joint in model["locked"]])
        draft.notes.append(f"joints whose limits are both 0 are fixed now: {names}")
    if model["dense"]:
        draft.notes.append(
            f"links without <inertial> have the mass of their shapes at 1,000 kg/m^3, since no "
            f"link that is fixed to them states one: {shorten(model['dense'])}"
        )
    if model["clamped"]:
        names = shorten([joint or "an unnamed joint" for joint in model["clamped"]])
        draft.notes.append(f"the start pose is moved into the ranges of joints: {names}")
    meet_the_ground(draft)
    joint_names = _joint_names(draft)
    limbs = _limbs(draft, joint_names)
    loops = _loops(draft, limbs)
    for what, count in (("tendons", model["tendons"]), ("contact pairs", model["pairs"])):
        if count:
            draft.notes.append(f"{what} are left out: {count} of them")
    lost: list[str] = []
    mass = sum(model["bodies"][body]["mass"] for body in draft.part_of)
    actuators = build_actuators(model, joint_names, mass, lost, urdf=urdf)
    if not actuators:
        why = f" that can be kept ({'; '.join(_grouped(lost))})" if lost else ""
        raise FlawError(
            f"has no actuators{why}; add a motor to at least one joint between its limbs"
        )
    draft.notes += lost
    robot = Morphology(
        name=name,
        limbs=limbs,
        actuators=actuators,
        loops=loops,
        exclusions=build_exclusions(draft, limbs, loops),
    )
    return robot, _grouped(draft.notes)


def _largest(content: Any) -> float:
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return max(map(_largest, content), default=0.0)
    return abs(content) if isinstance(content, int | float) else 0.0


def _grouped(notes: Sequence[str]) -> list[str]:
    """Join notes that say the same of different parts; what is before a colon is what they say."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        head, _, part = note.partition(": ")
        groups.setdefault(head, []).extend([part] if part else [])
    return [f"{head}: {shorten(parts)}" if parts else head for head, parts in groups.items()]


def _unique(names: Sequence[str], what: str, reserved: str) -> list[str]:
    """Return names that are not empty, not reserved, and different from each other.

    Given names stay as they are; where several are equal, the first does.
    """
    given, used, found = set(names), {reserved}, []
    for index, name in enumerate(names):
        stem = name or f"{what}{index}"
        new, count = stem, 2
        while new in used or (new != name and new in given):
            new, count = f"{stem}_{count}", count + 1
        used.add(new)
        found.append(new)
    return found


def _joint_names(draft: Draft) -> dict[int, str]:
    """Return the final name of every joint that is kept, by its number in the engine."""
    joints = [joint for part in draft.parts for joint in part.joints]
    names = _unique([joint["name"] for joint in joints], "joint", ROOT_JOINT)
    chosen = {joint["number"]: name for joint, name in zip(joints, names, strict=True)}
    for part in draft.parts:
        numbers = [joint["number"] for joint in part.joints]
        slots = {slot_of(chosen[number], place) for place, number in enumerate(numbers)}
        if len(slots) < len(numbers):  # names that stand for slots elsewhere, but not here
            chosen |= {number: f"joint {chosen[number]}" for number in numbers}
    unique = _unique(list(chosen.values()), "joint", ROOT_JOINT)  # a joint may be called so
    return dict(zip(chosen, unique, strict=True))


def _limbs(draft: Draft, joint_names: dict[int, str]) -> tuple[Limb, ...]:
    names = [draft.model["bodies"][part.frame]["name"] for part in draft.parts]
    names = _unique([free_name(name) for name in names], "limb", "world")
    notes: list[str] = []
    limbs, lowest = _draw(draft, names, joint_names, notes)
    if not np.isfinite(lowest):
        raise FlawError("has no shape that could touch the ground; give it collision geoms")
    origin = draft.frame(draft.parts[0])[0][2]
    bodies = [draft.model["bodies"][body] for body in draft.parts[0].members]
    masses = [body["mass"] for body in bodies]
    middle = np.average([body["centre"] for body in bodies], axis=0, weights=masses)
    if origin - lowest < max(_LOW_ORIGIN * (middle[2] - lowest), _LOWEST_TORSO):
        draft.torso_origin, notes = middle, []
        limbs, lowest = _draw(draft, names, joint_names, notes)
        notes.append("the torso's frame is moved up to its centre of mass")
        origin = middle[2]
        if origin - lowest < _LOWEST_TORSO:
            raise FlawError(
                f"has its torso {origin - lowest:.2g} m above its lowest point, so it always "
                f"counts as fallen; expected {_LOWEST_TORSO} m or more (are its units m?)"
            )
    draft.notes += notes
    torso = replace(limbs[0], position=vector([0.0, 0.0, origin - lowest + CLEARANCE]))
    return (torso, *limbs[1:])


def _draw(
    draft: Draft, names: list[str], joint_names: dict[int, str], notes: list[str]
) -> tuple[list[Limb], float]:
    """Return the limbs, and the height of their lowest point, m, world."""
    limbs: list[Limb] = []
    lowest = np.inf
    for name, part in zip(names, draft.parts, strict=True):
        origin, axes = draft.frame(part)
        base, base_axes = (
            draft.frame(draft.parts[part.parent]) if part.parent >= 0 else (origin, np.eye(3))
        )
        inertia = merge_inertia(
            [draft.model["bodies"][b] for b in part.members], origin, axes, name
        )
        own = [geom for geom in draft.model["geoms"] if geom["body"] in part.members]
        geoms = build_geoms(own, origin, axes, inertia, name, notes)
        lowest = min([lowest, *(lowest_point(geom, origin, axes) for geom in geoms)])
        limb = Limb(
            name=name,
            parent=part.parent,
            position=vector(base_axes.T @ (origin - base)),
            orientation=quaternion(base_axes.T @ axes),
            geom=geoms[0],
            more_geoms=tuple(geoms[1:]),
            inertia=inertia,
            joints=_joints(draft, part, joint_names, notes),
        )
        limbs.append(limb)
    return limbs, float(lowest)


def _joints(draft: Draft, part: Part, names: dict[int, str], notes: list[str]) -> tuple[Joint, ...]:
    origin, axes = draft.frame(part)
    joints = []
    for place, joint in enumerate(part.joints):
        kind: Literal["hinge", "slide"] = "slide" if joint["kind"] == "slide" else "hinge"
        name = names[joint["number"]]
        lower, upper = joint["range"] if joint["limited"] else _NOMINAL[kind]
        if joint["limited"]:
            lower, upper = lower - joint["value"], upper - joint["value"]
        else:
            ends = "by half a turn each way" if kind == "hinge" else "by 1 m each way"
            notes.append(f"joints without limits, which tokens scale {ends}: {name}")
        if joint["curved"]:
            notes.append(f"higher powers of damping and stiffness are left out: {name}")
        spring = joint["rest"] - joint["value"] if joint["stiffness"] else 0.0
        low, high, rest = vector([lower, upper, spring])
        joints.append(
            Joint(
                name=name,
                axis=vector(axes.T @ joint["axis"]),
                position=vector(axes.T @ (np.array(joint["anchor"]) - origin)),
                range=(low, high),
                slot=slot_of(name, place),
                damping=joint["damping"],
                stiffness=joint["stiffness"],
                armature=joint["armature"],
                kind=kind,
                limited=joint["limited"],
                spring_reference=rest,
                friction_loss=joint["friction"],
            )
        )
    return tuple(joints)


def _loops(draft: Draft, limbs: tuple[Limb, ...]) -> tuple[Loop, ...]:
    loops: dict[tuple[int, int], Loop] = {}
    for row in draft.model["equalities"]:
        kind = row["kind"]
        if kind not in ("connect", "weld"):
            draft.notes.append(f"constraints of other kinds than loops are left out: {kind}")
            continue
        ends = [draft.part_of.get(body, -1) for body in row["bodies"]]
        if -1 in ends:
            draft.notes.append(f"a {kind} to something that is not part of the robot is left out")
            continue
        first, second = ends
        names = " and ".join(repr(limbs[end].name) for end in ends)
        pair = (min(ends), max(ends))
        if not row["active"]:
            draft.notes.append(f"loops that are switched off are left out: {names}")
        elif first == second or limbs[pair[1]].parent == pair[0]:
            draft.notes.append(f"loops within a limb, or with its parent, are left out: {names}")
        elif pair in loops:
            draft.notes.append(f"of several loops of the same limbs one is kept: {names}")
        else:
            anchors = [np.array(point) for point in row["anchors"]]
            gap = float(np.linalg.norm(anchors[0] - anchors[1]))
            if gap > _MAX_GAP:
                raise FlawError(
                    f"has a loop of {names} that is open by {gap:.3g} m in the start pose; choose "
                    f"a start pose that closes it with --keyframe, or correct the anchors"
                )
            if kind == "weld" and row["turn"] > _MAX_TURN:
                raise FlawError(
                    f"has a weld of {names} that is turned by {row['turn']:.3g} rad in the start "
                    f"pose; choose a start pose that closes it with --keyframe, or correct it"
                )
            origin, axes = draft.frame(draft.parts[first])
            loops[pair] = Loop(
                first=first,
                second=second,
                anchor=vector(axes.T @ (anchors[0] - origin)),
                kind="weld" if kind == "weld" else "connect",
            )
            if row.get("hinge"):
                draft.notes.append(f"hinges that close loops are ball joints now: {names}")
    return tuple(loops.values())
