"""Motion of an episode for a page: places of all bodies at 25 moments of each second, packed."""

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.rendering.web.shapes import packed

FRAMES_PER_S = 25
LENGTH_UNIT = 1e-4
"""m, unit to which positions are rounded."""
TURN_UNIT = 1 / 32767
"""Unit to which components of quaternions are rounded."""
_TOUCHING = 1e-3  # m; contacts with a larger gap are not marked
MAX_CONTACTS = 24
"""Most contacts of a body with the ground that are marked at one moment."""


@dataclass(frozen=True, kw_only=True)
class BodyPoses:
    """Where the N bodies of a model are at F moments."""

    steps: IntArray
    """(F,) int64, control steps, rising."""
    places: DoubleArray
    """(F, N, 3) float64, m, world."""
    turns: DoubleArray
    """(F, N, 4) float64, quaternions w x y z, without jumps of sign."""
    num_contacts: IntArray
    """(F,) int64, contacts with the ground."""
    contacts: DoubleArray
    """(sum of `num_contacts`, 3) float64, m, world."""

    def packed(self) -> dict[str, str]:
        """Return text for JSON, see `packed`: differences from moment to moment of whole units.

        Returns:
            `steps` int32 (F,); `places` int32 (3 N, F) and `turns` int16 (4 N, F), which may wrap;
            `contact_counts` uint8 (F,); `contacts` int32 (3, sum), without differences.
        """
        frames = len(self.steps)
        places = np.round(self.places / LENGTH_UNIT).astype(np.int32).reshape(frames, -1).T
        turns = np.round(self.turns / TURN_UNIT).astype(np.int16).reshape(frames, -1).T
        contacts = np.round(self.contacts / LENGTH_UNIT).astype(np.int32).T
        return {
            "steps": packed(_differences(self.steps.astype(np.int32))),
            "places": packed(_differences(places)),
            "turns": packed(_differences(turns)),
            "contact_counts": packed(self.num_contacts.astype(np.uint8)),
            "contacts": packed(contacts),
        }


def _differences(values: Array) -> Array:
    return np.diff(values, axis=-1, prepend=np.zeros_like(values[..., :1]))


def frames_of(length: int, control_dt: float) -> IntArray:
    """Return which control steps of T are shown: every n-th from 0 on, and the last one."""
    stride = max(1, round(1 / (FRAMES_PER_S * control_dt)))
    return np.union1d(np.arange(0, length + 1, stride), [length])


def follow_states(model: Any, states: DoubleArray, steps: IntArray) -> BodyPoses:
    """Return where the bodies of a model are in some of its states.

    Args:
        model: a `mujoco.MjModel` for drawing, with its terrain.
        states: (T + 1, nq) float64, positions.
        steps: (F,) int64, which of them.
    """
    data = mujoco.MjData(model)
    places = np.empty((len(steps), model.nbody - 1, 3))
    turns = np.empty((len(steps), model.nbody - 1, 4))
    touched: list[DoubleArray] = []
    for frame, step in enumerate(steps.tolist()):
        data.qpos[:] = states[step]
        touched.append(place_bodies(model, data))
        places[frame], turns[frame] = data.xpos[1:], data.xquat[1:]
    # q and -q are one turn; the nearer to the one before is taken.
    flips = np.sign(np.sum(turns[1:] * turns[:-1], axis=2, keepdims=True))
    flips[flips == 0] = 1.0
    turns[1:] *= np.cumprod(flips, axis=0)
    return BodyPoses(
        steps=steps,
        places=places,
        turns=turns,
        num_contacts=np.array([len(points) for points in touched], np.int64),
        contacts=np.concatenate(touched),
    )


def place_bodies(model: Any, data: Any) -> DoubleArray:
    """Compute where the bodies of a state are, and return where they touch the ground.

    Args:
        model: a `mujoco.MjModel` for drawing, with its terrain.
        data: its `mujoco.MjData`, with positions set.

    Returns:
        (K, 3) float64, m, world, K at most `MAX_CONTACTS`.
    """
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    contact = data.contact
    geoms = np.asarray(contact.geom).reshape(-1, 2)
    world = (model.geom_bodyid[geoms] == 0).any(axis=1) & (contact.dist < _TOUCHING)
    points: DoubleArray = np.asarray(contact.pos).reshape(-1, 3)[world][:MAX_CONTACTS]
    return points
