"""Find the robot in what the engine compiled, and which of its bodies move as one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmc_bench.bodies.mjcf_reader import MAX_LIMBS
from gmc_bench.bodies.sandbox import FlawError
from gmc_bench.core.types import DoubleArray

_SHOWN = 20
_LIGHT = 0.02  # share of a child's mass below which a body without shape only chains joints


@dataclass(eq=False)
class Part:
    """Bodies of the engine that move as one."""

    frame: int
    """The body whose frame is the limb's."""
    members: list[int]
    joints: list[dict[str, Any]]
    parent: int
    """Index of another part, -1 for the torso."""


@dataclass
class Draft:
    """A robot under construction."""

    model: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    """In depth-first order, torso first."""
    part_of: dict[int, int] = field(default_factory=dict)
    """Part of every body of the robot."""
    above: list[int] = field(default_factory=list)
    """Bodies between the world and the torso, which hold nothing but joints."""
    torso_origin: DoubleArray | None = None
    """(3,) m, world; where the torso's frame is put, if not where the model has it."""

    def frame(self, part: Part) -> tuple[DoubleArray, DoubleArray]:
        """Return origin (3,) and axes (3, 3) of a part's frame, world."""
        body = self.model["bodies"][part.frame]
        origin = np.array(body["position"])
        if part.parent < 0 and self.torso_origin is not None:
            origin = self.torso_origin
        return origin, np.reshape(body["turn"], (3, 3))


def shorten(names: Sequence[str]) -> str:
    """Return names for a sentence, the first twenty of them."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _children(draft: Draft) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in draft.model["bodies"]]
    for number, body in enumerate(draft.model["bodies"][1:], start=1):
        children[body["parent"]].append(number)
    return children


def _subtree(children: Sequence[Sequence[int]], root: int) -> list[int]:
    found, waiting = [], [root]
    while waiting:
        body = waiting.pop()
        found.append(body)
        waiting += reversed(children[body])
    return found


def find_root(draft: Draft) -> int:
    """Return the number of the body that becomes the torso.

    Raises:
        FlawError: there is not exactly one robot with joints.
    """
    children, bodies = _children(draft), draft.model["bodies"]
    jointed = {joint["body"] for joint in draft.model["joints"]}
    driven = {
        draft.model["joints"][a["joint"]]["body"]
        for a in draft.model["actuators"]
        if a["joint"] >= 0
    }
    trees = {root: set(_subtree(children, root)) for root in children[0]}
    moving = [root for root, tree in trees.items() if tree & jointed]
    robots = [root for root in moving if trees[root] & driven] or moving
    # Files of robots with fewer joints keep the motors of the others on bodies that stand alone.
    chains = [root for root in robots if len(trees[root]) > 1]
    robots = chains if len(chains) == 1 else robots
    if len(robots) != 1:
        found = shorten([repr(bodies[root]["name"]) for root in robots]) or "nothing that moves"
        locked = shorten([joint or "one without a name" for joint in draft.model["locked"]])
        why = f" (joints are fixed whose limits are both 0: {locked})" if locked else ""
        raise FlawError(f"holds {found}{why}; expected one robot with joints")
    dropped = [bodies[root]["name"] for root in trees if root != robots[0]]
    if dropped:
        draft.notes.append(f"objects beside the robot are left out: {shorten(dropped)}")
    root = robots[0]
    shaped = {geom["body"] for geom in draft.model["geoms"]}
    floating = {joint["body"] for joint in draft.model["joints"] if joint["kind"] == "free"}
    while root not in shaped and len(children[root]) == 1:
        child = children[root][0]
        if bodies[root]["mass"] > _LIGHT * bodies[child]["mass"]:
            break
        if child in jointed and floating & {root, *draft.above}:
            break  # the joints below a free one are the robot's own
        draft.above.append(root)
        root = child
    return root


def group_bodies(draft: Draft, root: int) -> None:
    """Collect the bodies into parts, depth first, and fold bodies that only chain joints.

    Raises:
        FlawError: a joint is neither hinge nor slide, or there are too many limbs.
    """
    children, bodies = _children(draft), draft.model["bodies"]
    joints: dict[int, list[dict[str, Any]]] = {}
    for joint in draft.model["joints"]:
        joints.setdefault(joint["body"], []).append(joint)
    own = [joint for body in (*draft.above, root) for joint in joints.get(body, [])]
    if [joint["kind"] for joint in own] != ["free"]:
        what = shorten([joint["name"] or joint["kind"] for joint in own])
        draft.notes.append(
            f"the torso moves freely now, instead of by {what}"
            if own
            else "the torso moves freely now; it was fixed to the world"
        )
    elif own[0]["damping"] or own[0]["friction"] or own[0]["armature"]:
        draft.notes.append("damping, friction and armature of the free joint are left out")
    owner: dict[int, Part] = {}
    parts: list[Part] = []
    for body in _subtree(children, root):
        moved = joints.get(body, [])
        if body != root and not moved:
            owner[body] = owner[bodies[body]["parent"]]
            owner[body].members.append(body)
            continue
        bad = next((j for j in moved if j["kind"] not in ("hinge", "slide") and body != root), None)
        if bad is not None:
            name = repr(bad["name"]) if bad["name"] else f"of {bodies[body]['name']!r}"
            raise FlawError(
                f"has the {bad['kind']} joint {name}; only hinges and slides are supported, so "
                f"replace it by hinges"
            )
        above = -1 if body == root else parts.index(owner[bodies[body]["parent"]])
        heavy = [b for b in draft.above if body == root and bodies[b]["mass"] > 0]
        owner[body] = Part(body, [body, *heavy], [] if body == root else moved, above)
        parts.append(owner[body])
    draft.parts = _fold(draft, parts) if len(parts) <= 4 * MAX_LIMBS else parts
    if len(draft.parts) > MAX_LIMBS:
        raise FlawError(f"has more than {MAX_LIMBS} limbs, the most that is supported")
    draft.part_of = {body: i for i, part in enumerate(draft.parts) for body in part.members}
    merged = [bodies[b]["name"] or str(b) for p in draft.parts for b in p.members if b != p.frame]
    if merged:
        draft.notes.append(f"bodies that are part of another limb: {shorten(merged)}")


def _fold(draft: Draft, parts: list[Part]) -> list[Part]:
    """Give the joints of light parts without shape to their only child."""
    needed = {geom["body"] for geom in draft.model["geoms"]}
    for row in draft.model["equalities"]:  # a loop holds the body that it names, not its child
        needed.update(row.get("bodies", ()) if row["active"] else ())
    masses = [sum(draft.model["bodies"][b]["mass"] for b in part.members) for part in parts]
    gone: set[int] = set()
    for index in reversed(range(len(parts))):
        part = parts[index]
        below = [i for i, other in enumerate(parts) if other.parent == index and i not in gone]
        if (
            part.parent >= 0
            and len(below) == 1
            and not needed & set(part.members)
            and masses[index] <= _LIGHT * masses[below[0]]
        ):
            child = parts[below[0]]
            child.joints = part.joints + child.joints
            child.members += part.members
            child.parent = part.parent
            masses[below[0]] += masses[index]
            gone.add(index)
    kept = [index for index in range(len(parts)) if index not in gone]
    place = {index: new for new, index in enumerate(kept)} | {-1: -1}
    for index in kept:
        parts[index].parent = place[parts[index].parent]
    return [parts[index] for index in kept]
