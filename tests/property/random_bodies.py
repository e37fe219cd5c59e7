"""Bodies that nobody wrote down, and their mirror images about the xz plane."""

from dataclasses import replace

import numpy as np

from gmc_bench.bodies.schema import Actuator, Geom, Joint, Limb, Loop, Morphology
from gmc_bench.conformance.tokens import random_loops, random_parents


def random_body(seed: int, num_limbs: int, loops: int = 0) -> Morphology:
    """Return a body with any tree, limbs in any direction, and one or two hinges about any axis.

    Its limbs touch the ground but not each other, or most would start inside others.
    """
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, num_limbs)
    limbs, actuators = [], []
    for index, parent in enumerate(parents):
        end = tuple((0.25 * _direction(rng)).tolist())
        shape = Geom(kind="capsule", radius=0.05, end=end, contype=0)
        joints = []
        for slot in range(int(rng.integers(1, 3)) if index else 0):
            low, high = sorted(rng.uniform(-1.0, 1.0, 2).tolist())
            joint = Joint(
                name=f"joint/{index}/{slot}", axis=tuple(_direction(rng).tolist()),
                position=tuple(rng.uniform(-0.02, 0.02, 3).tolist()), slot=slot,
                range=(min(low, -0.2), max(high, 0.2)),
            )  # fmt: skip
            joints.append(joint)
            actuators.append(Actuator(joint=joint.name, gear=float(rng.uniform(50.0, 200.0))))
        place = limbs[parent].geom.end if index else (0.0, 0.0, 0.0)
        limbs.append(
            Limb(
                name=f"limb/{index}",
                parent=parent,
                position=place,
                geom=shape,
                joints=tuple(joints),
            )
        )
    closed = tuple(
        Loop(first=first, second=second, anchor=limbs[first].geom.end)
        for first, second in random_loops(rng, parents, loops if num_limbs > 3 else 0)
    )
    return Morphology(
        name=f"random-{seed}", limbs=tuple(limbs), actuators=tuple(actuators), loops=closed
    )


def mirrored_body(body: Morphology) -> Morphology:
    """Return the mirror image of a body; with the same joint angles it is that of its pose."""
    limbs = [
        replace(
            limb, position=mirrored(limb.position),
            geom=replace(limb.geom, start=mirrored(limb.geom.start), end=mirrored(limb.geom.end)),
            joints=tuple(
                replace(joint, axis=turned(joint.axis), position=mirrored(joint.position))
                for joint in limb.joints
            ),
        )
        for limb in body.limbs
    ]  # fmt: skip
    loops = tuple(replace(loop, anchor=mirrored(loop.anchor)) for loop in body.loops)
    return replace(body, name=f"{body.name}-mirrored", limbs=tuple(limbs), loops=loops)


def mirrored(vector):
    """Return the image of a place or a velocity."""
    x, y, z = vector
    return x, -y, z


def turned(axis):
    """Return the image of an axis of rotation: angles about it stay as they are."""
    x, y, z = axis
    return -x, y, -z


def _direction(rng: np.random.Generator) -> np.ndarray:
    found = rng.standard_normal(3)
    return found / np.linalg.norm(found)
