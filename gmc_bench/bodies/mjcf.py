"""Robot bodies as MJCF: read a file, write a complete model, check that it simulates.

Source:
    Physical settings of the written model: template of agrimgupta92/metamorph (its UNIMAL
    environments), which replaces the settings of the body files.
"""

import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.bodies.mjcf_reader import parse_mjcf
from gmc_bench.bodies.mjcf_writer import (
    ROOT_JOINT,
    SCENERY,
    actuator_text,
    exclusion_text,
    kept_exclusion_texts,
    limb_lines,
    loop_text,
    quoted,
)
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Vec3

__all__ = [
    "ROOT_JOINT",
    "SIM_DT",
    "check_compiles",
    "check_names",
    "compile_body",
    "emit_mjcf",
    "mute_warnings",
    "parse_mjcf",
    "read_mjcf",
]

SIM_DT = 0.005  # s, physics timestep

_NUM_CHECK_STEPS = 10
_FLOOR_NAME = re.compile(r"""<(?:geom|body)\b[^>]*\sname=(["'])(.*?)\1""")
_FRICTION = "0.7 0.1 0.1"  # sliding (1), torsional (m), rolling (m)
_LIMIT_SOFTNESS = "0 0.99 0.01"  # solimplimit: impedance at, and 0.01 m or rad beyond, the limit


def read_mjcf(path: Path) -> Morphology:
    """Read one robot body from a file; its name is the file's stem.

    Args:
        path: a MJCF file in UTF-8.

    Returns:
        The body, see `parse_mjcf`.

    Raises:
        MorphologyError: the file cannot be read, or is not such a robot.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MorphologyError(f"cannot read the body file {path} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise MorphologyError(f"the body file {path} is not UTF-8 text; convert it") from error
    return parse_mjcf(text, path.stem)


def emit_mjcf(
    morphology: Morphology, *, floor: str = "", spawn: Vec3 = (0.0, 0.0, 0.0), assets: str = ""
) -> str:
    """Write a complete model of one body.

    The text depends on the arguments alone, and its numbers read back exactly. Contacts between
    parent and child are filtered, all others count. Sensors are absent and switched off, because
    every observation is computed from the state. A diverged simulation keeps its state instead of
    resetting itself, so that it can be noticed. Loops are equality constraints. The Jacobian is
    dense: it is faster at these sizes, and a sparse one meets an engine bug in some MuJoCo
    releases.

    Args:
        morphology: the body.
        floor: MJCF elements put into the worldbody before the torso, taken as they are.
        spawn: added to the torso's position, world frame, m.
        assets: MJCF elements of the asset section that the floor refers to, taken as they are.

    Returns:
        A MJCF document; bodies and geoms carry the limb names, motors the joint names.

    Raises:
        MorphologyError: a limb or joint has a name that the model or the floor needs itself.

    Source:
        agrimgupta92/metamorph, template and assembly of the UNIMAL environments. Differs: no
        sites, sensors, cameras and materials; `autoreset`, `sensor` and `jacobian` as above.
    """
    check_names(morphology, floor)
    lines = [
        f"<mujoco model={quoted(morphology.name)}>",
        '  <compiler angle="radian"/>',
        f'  <option timestep="{SIM_DT!r}" jacobian="dense">',
        '    <flag filterparent="enable" sensor="disable" autoreset="disable"/>',
        "  </option>",
        "  <default>",
        f'    <geom condim="3" friction="{_FRICTION}"/>',
        f'    <joint type="hinge" limited="true" solimplimit="{_LIMIT_SOFTNESS}"/>',
        '    <motor ctrlrange="-1 1" ctrllimited="true"/>',
        "  </default>",
        *(["  <asset>", assets, "  </asset>"] if assets else []),
        "  <worldbody>",
    ]
    if floor:
        lines.append(floor)
    lines += _bodies(morphology, spawn)
    lines += ["  </worldbody>", "  <actuator>"]
    lines += [f"    {actuator_text(actuator)}" for actuator in morphology.actuators]
    lines += ["  </actuator>", *_closures(morphology), "</mujoco>", ""]
    return "\n".join(lines)


def _closures(morphology: Morphology) -> list[str]:
    """Return what joins limbs outside the tree, and which limbs never touch."""
    names = [limb.name for limb in morphology.limbs]
    closures = [f"    {loop_text(loop, names)}" for loop in morphology.loops]
    exclusions = [
        *(exclusion_text(names[loop.first], names[loop.second]) for loop in morphology.loops),
        *kept_exclusion_texts([(names[i], names[j]) for i, j in morphology.exclusions]),
    ]
    lines = ["  <equality>", *closures, "  </equality>"] if closures else []
    if exclusions:
        lines += ["  <contact>", *(f"    {line}" for line in exclusions), "  </contact>"]
    return lines


def check_names(morphology: Morphology, floor: str = "") -> None:
    """Refuse names that the model, some scene, or this floor needs itself.

    Raises:
        MorphologyError: names the limb or joint.
    """
    if any(limb.name == "world" for limb in morphology.limbs):
        raise MorphologyError(f"body {morphology.name!r} has a limb named 'world'; rename it")
    # Scenes of other packages may use further names.
    taken = {name for _, name in _FLOOR_NAME.findall(floor)}
    for limb in morphology.limbs:
        if limb.name.startswith(SCENERY) or limb.name in taken:
            raise MorphologyError(
                f"body {morphology.name!r} has a limb named {limb.name!r}, as a part of the ground "
                f"is or may be; rename it, e.g. to {f'limb {limb.name}'!r}"
            )
    if any(joint.name == ROOT_JOINT for limb in morphology.limbs for joint in limb.joints):
        raise MorphologyError(
            f"body {morphology.name!r} has a hinge named {ROOT_JOINT!r}, the name of the torso's "
            f"free joint; rename it"
        )


def _bodies(morphology: Morphology, spawn: Vec3) -> list[str]:
    lines: list[str] = []
    path: list[int] = []  # open <body> elements, as limb indices
    for index, limb in enumerate(morphology.limbs):
        while path and path[-1] != limb.parent:
            lines.append(f"{_indent(len(path))}</body>")
            path.pop()
        shift = spawn if limb.parent < 0 else (0.0, 0.0, 0.0)
        lines += limb_lines(limb, shift, _indent(len(path) + 1))
        path.append(index)
    lines += [f"{_indent(level)}</body>" for level in range(len(path), 0, -1)]
    return lines


def _indent(level: int) -> str:
    return "  " * (level + 1)


def compile_body(morphology: Morphology, *, floor: str = "", spawn: Vec3 = (0.0, 0.0, 0.0)) -> Any:
    """Compile a body with MuJoCo's default arena, unlike `compile_mjcf`.

    Args:
        morphology: the body.
        floor: see `emit_mjcf`.
        spawn: likewise.

    Returns:
        `mujoco.MjModel`.

    Raises:
        MorphologyError: the engine refuses the model.
    """
    text = emit_mjcf(morphology, floor=floor, spawn=spawn)
    engine_library()
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(f"body {morphology.name!r} does not compile ({reason})") from error


def check_compiles(morphology: Morphology) -> None:
    """Compile a body alone in free fall and step it a little.

    Args:
        morphology: the body.

    Raises:
        MorphologyError: the engine refuses the model, warns, or its state is not finite.
    """
    model = compile_body(morphology)
    data = mujoco.MjData(model)
    mute_warnings(data)
    data.ctrl[:] = 1.0
    for _ in range(_NUM_CHECK_STEPS):
        mujoco.mj_step(model, data)
        if has_warned(data):  # the solver would only add messages of its own
            break
    finite = bool(np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all())
    if has_warned(data) or not finite:
        names = [mujoco.mjtWarning(i).name for i, w in enumerate(data.warning) if w.number > 1]
        raise MorphologyError(
            f"body {morphology.name!r} does not simulate: within {_NUM_CHECK_STEPS} steps the "
            f"engine reports {', '.join(names) or 'a state that is not finite'}"
        )


def mute_warnings(data: mujoco.MjData) -> None:
    """Keep the engine from printing warnings about one simulation.

    MuJoCo reports a warning only while its counter is zero, so every counter is set to one; real
    warnings raise it further, see `has_warned`. Resetting `data` undoes this.

    Args:
        data: a simulation state; changed in place.
    """
    for warning in data.warning:
        warning.number = 1


def has_warned(data: mujoco.MjData) -> bool:
    """Return whether the engine warned since `mute_warnings`, e.g. of a diverging state."""
    return any(warning.number > 1 for warning in data.warning)
