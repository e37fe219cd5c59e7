"""Sweep of a body's joints through their ranges, to find limbs that run into each other.

Poses are found by forward kinematics and shapes by exact distances, so that the answer does not
depend on an engine or on a processor.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.collision import TOUCHING, any_near
from gmc_bench.bodies.parts import Joint, Limb
from gmc_bench.core.types import Array, BoolArray, DoubleArray, IntArray, Vec3

STEP = np.deg2rad(10.0)
"""Largest change of an angle between two poses of a sweep, rad."""
NUM_RANDOM_POSES = 4
"""Poses with all joints anywhere in their ranges."""

_ALL = -1  # mover of the poses in which every joint has its own angle
_NONE = 0  # mover of the start pose: the torso, which nothing moves


@dataclass(frozen=True, slots=True)
class PoseSweep:
    """The limbs of a body in all poses that are looked at.

    Pose 0 is the start pose. Then come random poses. The others move one joint each through its
    range, from end to end in steps of at most 10 degrees, while the others stay at their start.
    """

    rotations: DoubleArray
    """(L, N, 3, 3) float64: limb frames in the torso's, for N poses."""
    origins: DoubleArray
    """(L, N, 3) float64, m, torso frame."""
    starts: DoubleArray
    """(L, N, 3) float64, m: one end of each capsule's axis, torso frame."""
    ends: DoubleArray
    """(L, N, 3) float64, m: the other end."""
    radii: DoubleArray
    """(L,) float64, m."""
    movers: IntArray
    """(N,) int64: the limb whose joint moves."""
    placed: BoolArray
    """(L, N) bool: where a limb's frame counts; not where a joint would tear a loop open."""
    parents: tuple[int, ...]
    """Of each limb; -1 for the torso."""

    @property
    def num_limbs(self) -> int:
        """Number of limbs, the torso included."""
        return len(self.parents)

    def with_limb(
        self,
        limb: Limb,
        rng: np.random.Generator,
        free_of: Collection[int] = (),
        closes: int | None = None,
    ) -> "PoseSweep | None":
        """Add a limb.

        Args:
            limb: the limb; its parent is an index into the limbs that were added before, the
                torso being 0.
            rng: draws the limb's angles in the random poses.
            free_of: limbs that it may touch besides its parent.
            closes: the limb at the other end of the loop that it closes, which it may touch as
                well. It is then looked at only in the start pose and while joints move that leave
                the loop closed; its own joints do not.

        Returns:
            The larger sweep; `None` when the limb touches another in some pose.
        """
        joints = () if closes is not None else limb.joints
        drawn = np.zeros((len(self.movers), len(joints)))
        random = np.flatnonzero(self.movers == _ALL)
        for column, joint in enumerate(joints):
            drawn[random, column] = rng.uniform(*joint.range, size=len(random))
        allowed = {limb.parent, *free_of} | ({closes} if closes is not None else set())
        others = [number for number in range(self.num_limbs) if number not in allowed]

        # First the poses in which nothing but the new limb moves: they are few.
        own = _Placed.of(limb, joints, self._at_start(limb.parent), _own_angles(joints))
        reach = self.radii[others] + limb.geom.radius + TOUCHING
        always = np.ones((len(others), len(own.starts)), bool)
        if own.is_near(self.starts[others, :1], self.ends[others, :1], reach, always):
            return None
        frames = self.rotations[limb.parent], self.origins[limb.parent]
        old = _Placed.of(limb, joints, frames, drawn)
        counts = np.ones(len(self.movers), bool)
        if closes is not None:
            counts = self._leaves_closed(limb.parent, closes)
        both = self.placed[others] & counts
        if old.is_near(self.starts[others], self.ends[others], reach, both):
            return None
        moved = np.full(len(own.starts), self.num_limbs)
        return PoseSweep(
            rotations=_grown(self.rotations, old.rotations, own.rotations),
            origins=_grown(self.origins, old.origins, own.origins),
            starts=_grown(self.starts, old.starts, own.starts),
            ends=_grown(self.ends, old.ends, own.ends),
            radii=np.append(self.radii, limb.geom.radius),
            movers=np.concatenate([self.movers, moved]),
            placed=_grown(self.placed, counts, np.ones(len(moved), bool)),
            parents=(*self.parents, limb.parent),
        )

    def _at_start(self, limb: int) -> tuple[DoubleArray, DoubleArray]:
        return self.rotations[limb, :1], self.origins[limb, :1]

    def _leaves_closed(self, first: int, second: int) -> BoolArray:
        """Return in which poses two limbs keep their start places to each other, (N,) bool."""
        parted = self._path(first) ^ self._path(second)
        moved = [mover != _ALL and int(mover) not in parted for mover in self.movers]
        closed: BoolArray = np.array(moved)
        return closed

    def _path(self, limb: int) -> set[int]:
        path = set()
        while limb > 0:
            path.add(limb)
            limb = self.parents[limb]
        return path


def start_sweep(num_random_poses: int = NUM_RANDOM_POSES) -> PoseSweep:
    """Return the sweep of a torso without limbs."""
    num = 1 + num_random_poses
    return PoseSweep(
        rotations=np.tile(np.eye(3), (1, num, 1, 1)),
        origins=np.zeros((1, num, 3)),
        starts=np.zeros((1, num, 3)),
        ends=np.zeros((1, num, 3)),
        radii=np.array([design.TORSO_RADIUS]),
        movers=np.array([_NONE] + [_ALL] * num_random_poses),
        placed=np.ones((1, num), bool),
        parents=(-1,),
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    """One limb in some poses; fields as in `PoseSweep`, without the first dimension."""

    rotations: DoubleArray
    origins: DoubleArray
    starts: DoubleArray
    ends: DoubleArray

    @classmethod
    def of(
        cls,
        limb: Limb,
        joints: tuple[Joint, ...],
        parent: tuple[DoubleArray, DoubleArray],
        angles: DoubleArray,
    ) -> "_Placed":
        """Place a limb by its joints' angles, (N, J), on its parent's frames in N poses or one."""
        rotations = np.repeat(parent[0], len(angles) // len(parent[0]), axis=0)
        origins = parent[1] + parent[0] @ np.array(limb.position)
        for column, joint in enumerate(joints):
            pivot = np.array(joint.position)
            anchors = origins + rotations @ pivot
            rotations = rotations @ _turns(joint.axis, angles[:, column])
            origins = anchors - rotations @ pivot
        origins = np.broadcast_to(origins, (len(angles), 3))
        start = origins + rotations @ np.array(limb.geom.start)
        end = origins + rotations @ np.array(limb.geom.end)
        return cls(rotations, origins, start, end)

    def is_near(
        self, starts: DoubleArray, ends: DoubleArray, reach: DoubleArray, counts: BoolArray
    ) -> bool:
        """Return whether the limb comes near others, see `any_near`."""
        return any_near(self.starts, self.ends, starts, ends, reach, counts)


def _own_angles(joints: tuple[Joint, ...]) -> DoubleArray:
    """Return the angles of the sweeps of a limb's own joints, (n, J), rad."""
    blocks = [np.zeros((0, len(joints)))]
    for column, joint in enumerate(joints):
        low, high = joint.range
        sweep = np.linspace(low, high, int(np.ceil((high - low) / STEP - 1e-9)) + 1)
        block = np.zeros((len(sweep), len(joints)))
        block[:, column] = sweep
        blocks.append(block)
    return np.concatenate(blocks)


def _grown(arrays: Array, old: Array, own: Array) -> Array:
    """Add a limb, and to the others the poses in which only it moves."""
    longer = np.concatenate([arrays, np.repeat(arrays[:, :1], len(own), axis=1)], axis=1)
    return np.concatenate([longer, np.concatenate([old, own])[None]])


def _turns(axis: Vec3, angles: DoubleArray) -> DoubleArray:
    """Return rotations about an axis, (N, 3, 3) (Rodrigues' formula)."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    turns: DoubleArray = np.eye(3) + sine * cross + (1.0 - cosine) * (cross @ cross)
    return turns
