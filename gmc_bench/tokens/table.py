"""Constants of bodies, computed once per body: context features, masks, graph, places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmc_bench.bodies.schema import Loop, Morphology
from gmc_bench.core.errors import ConfigError, TokenOverflowError
from gmc_bench.core.types import BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.sim.layout import Layout
from gmc_bench.sim.model import CompiledModel
from gmc_bench.tokens.actuators import ACTUATOR_PARENTS, NUM_ACTUATORS, actuator_features
from gmc_bench.tokens.loops import breadth_first_tree, limbs_in_loops
from gmc_bench.tokens.spec import TokenSpec

PARENT_OF_PADDING = -2
NO_LOOP = -1


@dataclass(frozen=True)
class MorphologyTable:
    """The bodies of an environment as padded arrays; row k belongs to morphology k.

    Shapes:
        `context` (M, L, Fc) float32, raw units (see `TokenSpec.slices`), zero in padding;
        `limb_padding_mask` (M, L) bool; `action_padding_mask` (M, L, J) bool, True where the
        limb has no such actuator; `parents` (M, L) int64, -1 torso, -2 padding, of the spanning
        tree `TokenSpec.tree`; `num_limbs` (M,) int64; `loops` (M, E, 2) int64, limbs that are
        joined outside that tree, -1 where a body has fewer, `None` if no body has a closed loop.
        `layout` says where the simulator finds the flattened (L * J) actions and puts the
        time-varying features; `None` where tokens stand for actuators.
    """

    spec: TokenSpec
    names: tuple[str, ...]
    digests: tuple[str, ...]
    context: FloatArray
    limb_padding_mask: BoolArray
    action_padding_mask: BoolArray
    parents: IntArray
    num_limbs: IntArray
    layout: Layout | None = None
    loops: IntArray | None = None

    def __len__(self) -> int:
        return len(self.names)


def build_table(models: Sequence[CompiledModel], spec: TokenSpec) -> MorphologyTable:
    """Tabulate compiled bodies.

    Args:
        models: M bodies compiled for one scene, at least one.
        spec: token layout; every body must fit.

    Returns:
        The table, in the order of `models`.

    Raises:
        ConfigError: there are no bodies.
        TokenOverflowError: a body has more limbs or joints per limb than the layout, or its tokens
            stand for other parts.
    """
    if not models:
        raise ConfigError("got no bodies for a table of tokens; give at least one compiled body")
    count, limbs, slots = len(models), spec.max_limbs, spec.joints_per_limb
    actuators = max(int(m.model.nu) for m in models)
    loops = max(len(_loops(m)) for m in models)
    num_limbs = np.array([m.body.num_limbs for m in models], np.int64)
    table = MorphologyTable(
        spec=spec,
        names=tuple(m.body.name for m in models),
        digests=tuple(m.body.digest for m in models),
        context=np.zeros((count, limbs, spec.num_context), np.float32),
        limb_padding_mask=np.ones((count, limbs), np.bool_),
        action_padding_mask=np.ones((count, limbs, slots), np.bool_),
        parents=np.full((count, limbs), PARENT_OF_PADDING, np.int64),
        num_limbs=num_limbs,
        layout=None
        if spec.parts == "actuators"
        else Layout(
            num_bodies=num_limbs,
            actuator_slot=np.zeros((count, actuators), np.int64),
            joint_qpos=np.full((count, limbs, slots), -1, np.int64),
            joint_qvel=np.full((count, limbs, slots), -1, np.int64),
            joint_lower=np.zeros((count, limbs, slots)),
            joint_span=np.ones((count, limbs, slots)),
        ),
        loops=np.full((count, loops, 2), NO_LOOP, np.int64) if loops else None,
    )
    for row, compiled in enumerate(models):
        _check_size(compiled, spec)
        if compiled.robot is not None:
            _fill_actuators(table, row, compiled.robot)
            continue
        _fill_limbs(table, row, compiled)
        if _loops(compiled):
            _fill_loops(table, row, compiled.morphology)
    return table


def _loops(compiled: CompiledModel) -> tuple[Loop, ...]:
    return () if compiled.robot else compiled.morphology.loops


def _check_size(compiled: CompiledModel, spec: TokenSpec) -> None:
    body = compiled.body
    if body.parts != spec.parts or (
        spec.parts == "actuators" and (spec.max_limbs < body.num_limbs or spec.joints_per_limb != 1)
    ):
        raise TokenOverflowError(
            f"the body {body.name!r} has {body.num_limbs} {body.parts}, but the token layout has "
            f"{spec.max_limbs} {spec.parts} with {spec.joints_per_limb} joint slots; use "
            f"TokenSpec({body.num_limbs}, 1, parts={body.parts!r}) or more tokens"
        )
    if body.num_limbs > spec.max_limbs or body.joints_per_limb > spec.joints_per_limb:
        raise TokenOverflowError(
            f"the body {body.name!r} has {body.num_limbs} {body.parts} with up to "
            f"{body.joints_per_limb} joints each, but the token layout has {spec.max_limbs} slots "
            f"with {spec.joints_per_limb}; use a layout with at least as many"
        )


def _fill_actuators(table: MorphologyTable, row: int, compiled: CompiledRobot) -> None:
    """Write the tokens of a body whose tokens stand for actuators."""
    spec = table.spec
    tokens = np.zeros((NUM_ACTUATORS, spec.num_features))
    for name, values in actuator_features(compiled).items():
        if name not in spec.without:
            group = spec.slice(name)
            tokens[:, group.start : group.stop] = values
    table.context[row, :NUM_ACTUATORS] = tokens[:, spec.context_indices]
    table.limb_padding_mask[row, :NUM_ACTUATORS] = False
    table.action_padding_mask[row, :NUM_ACTUATORS, 0] = False
    table.parents[row, :NUM_ACTUATORS] = ACTUATOR_PARENTS


def _fill_limbs(table: MorphologyTable, row: int, compiled: CompiledModel) -> None:
    body, model, spec = compiled.morphology, compiled.model, table.spec
    layout = table.layout
    assert layout is not None
    # The gain of a motor is 1; other actuators have it instead of a gear, see `actuator_text`.
    gears = {
        int(model.actuator_trnid[a, 0]): float(
            model.actuator_gear[a, 0] * model.actuator_gainprm[a, 0]
        )
        for a in range(model.nu)
    }
    places: dict[int, int] = {}
    for index, limb in enumerate(body.limbs):
        token = np.zeros(spec.num_features)
        _fill_limb(token, spec, model, index + 1)
        for joint in limb.joints:
            engine_id = int(model.joint(joint.name).id)
            _fill_joint(token, spec, model, engine_id, joint.slot, gears.get(engine_id, 0.0))
            layout.joint_qpos[row, index, joint.slot] = model.jnt_qposadr[engine_id]
            layout.joint_qvel[row, index, joint.slot] = model.jnt_dofadr[engine_id]
            lower, upper = model.jnt_range[engine_id]
            layout.joint_lower[row, index, joint.slot] = lower
            layout.joint_span[row, index, joint.slot] = upper - lower
            if engine_id in gears:
                table.action_padding_mask[row, index, joint.slot] = False
                places[engine_id] = index * spec.joints_per_limb + joint.slot
        table.context[row, index] = token[spec.context_indices]
        table.limb_padding_mask[row, index] = False
        table.parents[row, index] = limb.parent
    for actuator in range(model.nu):
        layout.actuator_slot[row, actuator] = places[int(model.actuator_trnid[actuator, 0])]


def _fill_loops(table: MorphologyTable, row: int, body: Morphology) -> None:
    """Write what a body's closed loops add to its tree."""
    parents, spec = list(body.parents), table.spec
    loops = [(loop.first, loop.second) for loop in body.loops]
    if spec.tree == "breadth-first":
        parents, loops = breadth_first_tree(parents, loops)
        table.parents[row, : len(parents)] = parents
    assert table.loops is not None
    table.loops[row, : len(loops)] = loops
    if spec.loops:
        column = int(np.searchsorted(spec.context_indices, spec.slice("in_loop").start))
        table.context[row, : len(parents), column] = limbs_in_loops(parents, loops)


def _fill_limb(token: DoubleArray, spec: TokenSpec, model: Any, body: int) -> None:
    geom = int(model.body_geomadr[body])
    values = {
        "body_pos": model.body_pos[body],
        "body_ipos": model.body_ipos[body],
        "body_iquat": model.body_iquat[body],
        "geom_quat": model.geom_quat[geom],
        "body_mass": model.body_mass[body],
        "body_shape": model.geom_size[geom, :2],
    }
    _write(token, spec, values)


def _fill_joint(
    token: DoubleArray, spec: TokenSpec, model: Any, joint: int, slot: int, gear: float
) -> None:
    values = {
        "jnt_pos": model.jnt_pos[joint],
        "joint_range": model.jnt_range[joint],
        "joint_axis": model.jnt_axis[joint],
        "gear": gear,
    }
    _write(token, spec, {f"{name}/{slot}": value for name, value in values.items()})


def _write(token: DoubleArray, spec: TokenSpec, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name.partition("/")[0] not in spec.without:
            group = spec.slice(name)
            token[group.start : group.stop] = value
