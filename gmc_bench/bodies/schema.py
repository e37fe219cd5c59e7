"""The static description of a robot: a tree of limbs with joints and actuators.

The description is complete: the simulator's model is built from it alone, and its content hash
covers everything that moves the physics, and nothing else (names do not count).
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gmc_bench.bodies.body import Body, Parts
from gmc_bench.bodies.digest import digest_parts
from gmc_bench.bodies.parts import IDENTITY, Actuator, Geom, Inertia, Joint, Limb, Loop
from gmc_bench.bodies.validation import find_flaw, find_name_flaw
from gmc_bench.core.config import shown
from gmc_bench.core.errors import MorphologyError, MorphologySetError, did_you_mean
from gmc_bench.core.frozen import frozen

__all__ = [
    "IDENTITY",
    "Actuator",
    "Geom",
    "Inertia",
    "Joint",
    "Limb",
    "Loop",
    "Morphology",
    "MorphologySet",
]


_SET_ID = re.compile(r"[a-z0-9][a-z0-9._+:@-]*")


@dataclass(frozen=True, kw_only=True)
class Morphology:
    """One robot body.

    Raises:
        MorphologyError: the limbs are not a depth-first tree rooted in one torso, names repeat,
            an actuator has no joint, nothing is actuated, a number is not finite or not
            physical, an orientation is no unit quaternion, or a symmetric pair, a loop or an
            exclusion names a limb that does not exist.
    """

    name: str
    limbs: tuple[Limb, ...]
    """Depth-first preorder, torso first, siblings in file order."""
    actuators: tuple[Actuator, ...]
    """In joint order."""
    symmetric_limbs: tuple[tuple[int, int], ...] = ()
    """Pairs of mirrored limbs, as indices into `limbs`; informative, not part of the hash."""
    loops: tuple[Loop, ...] = ()
    """What closes loops; `limbs` is the spanning tree of the body's graph."""
    exclusions: tuple[tuple[int, int], ...] = ()
    """Pairs of limbs that never touch, as indices into `limbs`, each pair ascending. Parents and
    their children do not touch anyway, nor do the two limbs of a loop."""

    def __post_init__(self) -> None:
        flaw = find_name_flaw(self.name)
        if flaw is not None:
            raise MorphologyError(f"{shown(self.name)} {flaw}")
        flaw = find_flaw(
            self.limbs, self.actuators, self.symmetric_limbs, self.loops, self.exclusions
        )
        if flaw is not None:
            raise MorphologyError(f"body {self.name!r} {flaw}")

    @property
    def parts(self) -> Parts:
        """What tokens stand for."""
        return "limbs"

    @property
    def num_limbs(self) -> int:
        """Number of limbs, the torso included."""
        return len(self.limbs)

    @property
    def num_joints(self) -> int:
        """Number of hinges and slides."""
        return sum(len(limb.joints) for limb in self.limbs)

    @property
    def num_actuators(self) -> int:
        """Number of motors."""
        return len(self.actuators)

    @property
    def joints_per_limb(self) -> int:
        """Joint slots that a token of this body needs."""
        return max((joint.slot + 1 for limb in self.limbs for joint in limb.joints), default=0)

    @property
    def parents(self) -> tuple[int, ...]:
        """Parent index of every limb, -1 for the torso."""
        return tuple(limb.parent for limb in self.limbs)

    @property
    def depth(self) -> int:
        """Longest path from the torso, in limbs (the torso alone has depth 0)."""
        depths: list[int] = []
        for limb in self.limbs:
            depths.append(0 if limb.parent < 0 else depths[limb.parent] + 1)
        return max(depths)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that moves the physics, 64 hex digits; names do not count."""
        return digest_parts(self.limbs, self.actuators, self.loops, self.exclusions)


@dataclass(frozen=True, kw_only=True)
class MorphologySet:
    """A named, versioned list of bodies in a train and a test split.

    Raises:
        MorphologySetError: the splits are no mapping to tuples of bodies, one is empty, names
            repeat inside one, or source, licence or a note is no text.
    """

    id: str
    """Lower-case id with a version where the set is released, e.g. `gmc-unimal-mini-v1`."""
    splits: Mapping[str, tuple[Body, ...]]
    """`train` and `test`, each in published order. What is kept is a copy, which cannot be changed
    in place."""
    source: str
    """Where the bodies come from, one sentence."""
    licence: str = "unknown"
    notes: tuple[str, ...] = field(default=())
    """What a reader of results should know, e.g. repeated bodies."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _SET_ID.fullmatch(self.id):
            raise MorphologySetError(
                f"{shown(self.id)} cannot be the id of a set; expected lower-case letters, digits "
                f"and, after the first, any of . _ - + : @"
            )
        for name in ("source", "licence"):
            if not isinstance(getattr(self, name), str):
                raise MorphologySetError(
                    f"the set {self.id!r} has {shown(getattr(self, name))} as its {name}; expected "
                    f"text"
                )
        notes: Any = self.notes
        if not isinstance(notes, tuple | list) or not all(isinstance(note, str) for note in notes):
            raise MorphologySetError(
                f"the set {self.id!r} has {shown(notes)} as its notes; expected a tuple of "
                f"sentences, also of a single one: (note,)"
            )
        object.__setattr__(self, "notes", tuple(notes))
        if not isinstance(self.splits, Mapping):
            raise MorphologySetError(
                f"the set {self.id!r} has {shown(self.splits)} as its splits; expected a mapping "
                f"of 'train' and 'test' to tuples of bodies"
            )
        for split in ("train", "test"):
            bodies: Any = self.splits.get(split, ())
            if not isinstance(bodies, Sequence) or isinstance(bodies, str):
                raise MorphologySetError(
                    f"the set {self.id!r} has {shown(bodies)} as its {split} split; expected a "
                    f"tuple of bodies, also of a single one: (body,)"
                )
            foreign = [body for body in bodies if not hasattr(body, "digest")]
            if foreign:
                raise MorphologySetError(
                    f"the set {self.id!r} has {shown(foreign[0])} in its {split} split; expected "
                    f"bodies, such as Morphology(...)"
                )
            names = [body.name for body in bodies]
            if not names:
                raise MorphologySetError(
                    f"the set {self.id!r} has no {split} bodies; both splits need at least one"
                )
            if len(set(names)) != len(names):
                raise MorphologySetError(
                    f"the set {self.id!r} repeats a body name in its {split} split"
                )
        # Else a digest that was taken before would be that of other bodies.
        kept = frozen({split: tuple(bodies) for split, bodies in self.splits.items()})
        object.__setattr__(self, "splits", kept)

    def split(self, name: str) -> tuple[Any, ...]:
        """Return the bodies of one split, limbs or others as the set says.

        Raises:
            MorphologySetError: no such split.
        """
        if not isinstance(name, str) or name not in self.splits:
            raise MorphologySetError(
                f"the set {self.id!r} has no split {name!r}{did_you_mean(name, self.splits)}"
            )
        return self.splits[name]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over split, name and content hash of every body in order, 64 hex digits."""
        rows = [
            [split, body.name, body.digest]
            for split in sorted(self.splits)
            for body in self.splits[split]
        ]
        return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()

    @cached_property
    def seen_in_train(self) -> frozenset[str]:
        """Names of test bodies that are also train bodies; zero-shot scores leave them out."""
        trained = {body.digest for body in self.splits["train"]}
        return frozenset(body.name for body in self.splits["test"] if body.digest in trained)

    def duplicates(self, split: str) -> list[list[str]]:
        """Return the groups of names in one split that are the same body."""
        groups: dict[str, list[str]] = {}
        for body in self.split(split):
            groups.setdefault(body.digest, []).append(body.name)
        return [names for names in groups.values() if len(names) > 1]

    @property
    def max_limbs(self) -> int:
        """Largest number of limbs (torso included) in any split."""
        return max(body.num_limbs for bodies in self.splits.values() for body in bodies)

    @property
    def joints_per_limb(self) -> int:
        """Largest number of joint slots per limb in any split."""
        return max(body.joints_per_limb for bodies in self.splits.values() for body in bodies)
