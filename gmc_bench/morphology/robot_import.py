"""Bring any robot along: read it, say what became of it, try it out, and keep it as a set."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gmc_bench.errors import MorphologyError, MorphologySetError
from gmc_bench.morphology.importer import ImportProblemsError, check_free_id
from gmc_bench.morphology.mjcf import SIM_DT, emit_mjcf
from gmc_bench.morphology.model_files import SUFFIXES, collect_files
from gmc_bench.morphology.robot_builder import build_robot
from gmc_bench.morphology.robot_lint import find_doubts
from gmc_bench.morphology.robot_shapes import merge_inertia, rotation
from gmc_bench.morphology.sandbox import FlawError, Sandbox
from gmc_bench.morphology.schema import Inertia, Morphology, MorphologySet
from gmc_bench.morphology.store import save_set
from gmc_bench.types import DoubleArray

FLOOR_HEIGHT = 1.0
"""m, of the ground in trials, as in the flat task."""
_FLOOR = '<geom name="floor/0" type="box" size="100 100 1" pos="0 0 0"/>'
_SAME = 1e-6  # relative, and m


@dataclass(frozen=True, kw_only=True)
class ImportedRobot:
    """A robot and what is noteworthy about it."""

    body: Morphology
    notes: tuple[str, ...]
    """What changed on the way, one sentence each."""
    doubts: tuple[str, ...]
    """What may be a mistake in the robot, one sentence each."""
    trial: dict[str, Any]
    """How it did under random control, see `Sandbox.roll_out`."""


@dataclass(frozen=True, kw_only=True)
class RobotsReport:
    """A stored set of robots."""

    bodies: MorphologySet
    folder: Path
    """Where it is stored."""
    robots: tuple[ImportedRobot, ...]


def import_robots(
    set_id: str,
    path: Path,
    *,
    keyframe: str | None = None,
    seconds: float = 5.0,
    seed: int = 0,
) -> RobotsReport:
    """Read one robot, or all robots of a folder, and keep them as a set.

    The same robots are the train and the test bodies of the set.

    Args:
        set_id: id to store the set under.
        path: a MJCF or URDF file, or a folder with such files.
        keyframe: the start pose, see `Sandbox.read`.
        seconds: of simulated time that each robot is tried for.
        seed: of the controls in that trial.

    Returns:
        The set and what is noteworthy about its robots.

    Raises:
        ImportProblemsError: a robot cannot be used; nothing was stored.
        MorphologySetError: the id cannot be used, or the folder has no robots.
        StorageError: the set could not be written.
    """
    check_free_id(set_id)
    problems: list[str] = []
    robots: list[ImportedRobot] = []
    with Sandbox() as sandbox:
        for file in robot_files(path):
            try:
                robots.append(
                    read_robot(file, sandbox, keyframe=keyframe, seconds=seconds, seed=seed)
                )
            except MorphologyError as error:
                problems.append(str(error))
    if problems:
        extra = len(problems) - 1
        more = f" (and {extra} more problem{'s' if extra > 1 else ''})" if extra else ""
        raise ImportProblemsError(f"{problems[0]}{more}", problems)
    bodies = tuple(robot.body for robot in robots)
    found = MorphologySet(
        id=set_id,
        splits={"train": bodies, "test": bodies},
        source=f"Imported from {path.name!r}.",
        notes=(
            "Policies are trained and tested on the same robots.",
            *(f"{robot.body.name}: {note}" for robot in robots for note in robot.notes),
        ),
    )
    return RobotsReport(bodies=found, folder=save_set(found), robots=tuple(robots))


def robot_files(path: Path) -> list[Path]:
    """Return the file, or the robot files right inside a folder by name.

    Raises:
        MorphologySetError: there are none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    stems = [file.stem for file in files]
    if not files or len(set(stems)) < len(stems):
        raise MorphologySetError(
            f"{path} holds {len(files)} robot files with {len(set(stems))} names; expected some "
            f"({', '.join(SUFFIXES)}) with different names, or the folders train/ and test/"
        )
    return files


def set_id_of(path: Path) -> str:
    """Return an id for a set that is made from this file or folder."""
    return re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower()).strip("-_")[:64] or "robot"


def read_robot(
    path: Path,
    sandbox: Sandbox,
    *,
    keyframe: str | None = None,
    seconds: float = 5.0,
    seed: int = 0,
) -> ImportedRobot:
    """Read one robot and try it out; nothing is stored.

    Args:
        path: a MJCF or URDF file; what it refers to must be in its folder.
        sandbox: where the engine works on it.
        keyframe: the start pose, see `Sandbox.read`.
        seconds: of simulated time that it is tried for; 0 for no trial.
        seed: of the controls in that trial.

    Returns:
        The robot, named like the file.

    Raises:
        MorphologyError: it cannot be used; one sentence says why.
    """
    source = collect_files(path)
    try:
        model = sandbox.read(source.text, source.files, keyframe=keyframe, urdf=source.urdf)
        body, notes = build_robot(model, source.name, urdf=source.urdf)
        body = _without_implied_inertia(body, sandbox)
        text = emit_mjcf(body, floor=_FLOOR, spawn=(0.0, 0.0, FLOOR_HEIGHT))
        trial = sandbox.roll_out(text, steps=round(seconds / SIM_DT), seed=seed)
        if trial["warnings"]:
            raise FlawError(
                f"does not simulate: after {trial['time']:.2f} s of random control the engine "
                f"reports {', '.join(trial['warnings'])}; check masses, gears, gains and ranges"
            )
    except FlawError as error:
        raise MorphologyError(f"robot {source.name!r} {error}") from error
    except (ArithmeticError, RecursionError, np.linalg.LinAlgError) as error:
        raise MorphologyError(
            f"robot {source.name!r} has numbers that no robot has ({error}); check sizes, masses "
            f"and inertias"
        ) from error
    return ImportedRobot(
        body=body,
        notes=tuple(notes),
        doubts=tuple(find_doubts(body, model, trial)),
        trial=trial,
    )


def _without_implied_inertia(body: Morphology, sandbox: Sandbox) -> Morphology:
    """Drop the inertias that follow from shapes and densities."""
    bare = replace(body, limbs=tuple(replace(limb, inertia=None) for limb in body.limbs))
    try:
        rows = sandbox.read(emit_mjcf(bare), {})["bodies"][1:]
    except FlawError:
        return body
    limbs = []
    for limb, row in zip(body.limbs, rows, strict=True):
        origin, axes = np.array(row["position"]), np.reshape(row["turn"], (3, 3))
        implied = merge_inertia([row], origin, axes, limb.name)
        assert limb.inertia is not None
        limbs.append(replace(limb, inertia=None) if _same(implied, limb.inertia) else limb)
    return replace(body, limbs=tuple(limbs))


def _same(one: Inertia, other: Inertia) -> bool:
    tensors = [_tensor(inertia) for inertia in (one, other)]
    scale = float(np.abs(tensors[1]).max())
    return (
        abs(one.mass - other.mass) <= _SAME * other.mass
        and float(np.abs(np.subtract(one.centre, other.centre)).max()) <= _SAME
        and float(np.abs(tensors[0] - tensors[1]).max()) <= 10 * _SAME * scale
    )


def _tensor(inertia: Inertia) -> DoubleArray:
    turn = rotation(inertia.orientation)
    tensor: DoubleArray = turn @ np.diag(inertia.moments) @ turn.T
    return tensor
