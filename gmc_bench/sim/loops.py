"""Closed loops of compiled bodies: where their anchors are, for the loops that watch them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.sim.model import CompiledModel

OPEN = 0.02
"""A loop is open when its two limbs are apart by more than this share of the shorter one."""

# Numbers: `in` does not find what an array of the engine holds among members of its enumerations.
_LONG = (mujoco.mjtGeom.mjGEOM_CAPSULE.value, mujoco.mjtGeom.mjGEOM_CYLINDER.value)


class LoopTables(NamedTuple):
    """What the compiled loops need to know of M bodies with up to E closed loops.

    Shapes:
        `num_loops` (M,) int64; `bodies` (M, E, 2) int64, engine bodies that a loop joins;
        `anchors` (M, E, 2, 3) float64, the loop's anchor in the frame of each, m; `turns`
        (M, E, 4) float64, orientation of the second body in the frame of the first where a weld
        keeps it, zero where it is free; `lengths` (M, E) float64, m, of the shorter limb. E is 0
        if no body has a loop.
    """

    num_loops: IntArray
    bodies: IntArray
    anchors: DoubleArray
    turns: DoubleArray
    lengths: DoubleArray


def tabulate_loops(models: Sequence[CompiledModel]) -> LoopTables:
    """Tabulate the closed loops of compiled bodies.

    Both images of an anchor come from the compiled model, which fixed them in the start pose.

    Args:
        models: M bodies; the equality constraints of their models are their loops, in order.
    """
    num_loops = np.array(
        [0 if found.robot else len(found.morphology.loops) for found in models], np.int64
    )
    shape = (len(models), int(num_loops.max()))
    tables = LoopTables(
        num_loops,
        np.zeros((*shape, 2), np.int64),
        np.zeros((*shape, 2, 3)),
        np.zeros((*shape, 4)),
        np.ones(shape),
    )
    for row, compiled in enumerate(models):
        for place in range(num_loops[row]):
            _fill_loop(tables, row, place, compiled.model)
    return tables


def _fill_loop(tables: LoopTables, row: int, place: int, model: Any) -> None:
    bodies = (int(model.eq_obj1id[place]), int(model.eq_obj2id[place]))
    data = model.eq_data[place]
    anchors = data[:3], data[3:6]
    if model.eq_type[place] == mujoco.mjtEq.mjEQ_WELD:
        # Here the first three numbers belong to the second body.
        anchors = data[3:6], data[:3]
        tables.turns[row, place] = data[6:10]
    tables.bodies[row, place] = bodies
    tables.anchors[row, place] = anchors
    tables.lengths[row, place] = _shorter_length(model, bodies)


def _shorter_length(model: Any, bodies: tuple[int, int]) -> float:
    """Return the length of the shorter limb, m; a sphere counts only if both limbs are spheres."""
    sizes = [_limb_size(model, body) for body in bodies]
    lengths = [length for length, _ in sizes if length > 0] or [width for _, width in sizes]
    return min(lengths)


def _limb_size(model: Any, body: int) -> tuple[float, float]:
    """Return the length of a limb's longest geom, without round ends, and its greatest width, m."""
    first = int(model.body_geomadr[body])
    length = width = 0.0
    for geom in range(first, first + int(model.body_geomnum[body])):
        kind, size = model.geom_type[geom], model.geom_size[geom]
        width = max(width, 2.0 * float(size[0]))
        if kind in _LONG:
            length = max(length, 2.0 * float(size[1]))
        elif kind != mujoco.mjtGeom.mjGEOM_SPHERE:
            length = max(length, 2.0 * float(size.max()))
    return length, width
