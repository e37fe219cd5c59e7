"""Places of the numbers of unlike bodies in arrays that all of them share."""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray

NUM_MOTION = 13
"""Numbers of a body's motion: position 3 (m), velocity 3 (m/s), angular velocity 3 (rad/s),
orientation 4 (quaternion w x y z)."""
CONTROL_LIMIT = 1.0
"""Where the engine clamps the controls of bodies made of limbs."""


@dataclass(frozen=True)
class Layout:
    """Places of controls and readings for M models.

    A reading of a row is (L, 13 + 2 J): for engine body i + 1 its motion in the world frame,
    x relative to engine body 1 (the torso), then for each of J joint slots the position scaled
    to its range, (q - lower) / span, and the velocity; zero where there is nothing.

    Shapes:
        `num_bodies` (M,) int64, bodies without the world; `actuator_slot` (M, A) int64, which
        action each actuator takes; `joint_qpos`, `joint_qvel` (M, L, J) int64, address of each
        joint in the engine's state, -1 for none; `joint_lower`, `joint_span` (M, L, J) float64.
    """

    num_bodies: IntArray
    actuator_slot: IntArray
    joint_qpos: IntArray
    joint_qvel: IntArray
    joint_lower: DoubleArray
    joint_span: DoubleArray

    @classmethod
    def empty(cls, num_models: int) -> "Layout":
        """Return the layout of models of which no limb is read and no action taken."""
        none = np.zeros((num_models, 0, 0))
        places = none.astype(np.int64)
        slots = np.zeros((num_models, 0), np.int64)
        return cls(np.zeros(num_models, np.int64), slots, places, places, none, none)

    @property
    def tables(self) -> tuple[IntArray, IntArray, IntArray, DoubleArray, DoubleArray]:
        """What the compiled loops read limbs with."""
        return (
            self.num_bodies, self.joint_qpos, self.joint_qvel, self.joint_lower, self.joint_span
        )  # fmt: skip

    @property
    def num_readings(self) -> int:
        """Numbers read per body: its motion and two per joint slot."""
        return NUM_MOTION + 2 * int(self.joint_qpos.shape[2])
