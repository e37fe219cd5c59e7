"""Import of any robot: read it, report what changed, try it out, and keep it as a set."""

import re
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from gmc_bench.bodies.importer import (
    PUBLISHED,
    SPLITS,
    ImportProblemsError,
    ImportReport,
    check_free_id,
    import_set,
    last_name,
    visible,
)
from gmc_bench.bodies.mesh_formats import EXTRA, FORMATS, readable, suffix_of
from gmc_bench.bodies.mjcf import SIM_DT, emit_mjcf
from gmc_bench.bodies.mjcf_writer import FLAT_GROUND, FLAT_HEIGHT
from gmc_bench.bodies.model_files import (
    ROBOT_FOLDERS,
    SUFFIXES,
    UNREADABLE,
    ModelFiles,
    clean_name,
    collect_files,
    package_around,
    robots_among,
    root_tag,
)
from gmc_bench.bodies.robot_builder import build_robot
from gmc_bench.bodies.robot_lint import find_doubts, mass_doubts, speed_doubts, strength_doubts
from gmc_bench.bodies.robot_report import ImportedRobot, render_robot
from gmc_bench.bodies.robot_shapes import merge_inertia, rotation
from gmc_bench.bodies.robot_tree import shorten
from gmc_bench.bodies.sandbox import FlawError, Sandbox
from gmc_bench.bodies.schema import Inertia, Morphology, MorphologySet
from gmc_bench.bodies.store import store_set
from gmc_bench.core.arguments import as_path, require_number
from gmc_bench.core.errors import ConfigError, MorphologyError, MorphologySetError
from gmc_bench.core.types import DoubleArray

_TRIAL = 5.0  # s
_FULL = {"mjWARN_CONTACTFULL", "mjWARN_CNSTRFULL"}
_SAME = 1e-6  # relative, and m
_SHOWN = 3  # last parts of the path of a missing file
_ARMATURES = (0.001, 0.01, 0.1)  # kg m^2 or kg; of the rotors of small to large motors with gears


def import_bodies(
    path: Path | str,
    set_id: str | None = None,
    *,
    keyframe: str | None = None,
    seconds: float | None = None,
    root: Path | str | None = None,
    armature: float | None = None,
) -> ImportReport:
    """Read whatever bodies there are and keep them as a set.

    Args:
        path: a robot's file, a folder of them, or a folder in the public layout, see `import_set`.
        set_id: id to store the set under; None makes one of the path.
        keyframe: see `import_robots`, as the others; only for robots.
        seconds: of simulated time that each robot is tried for; None for the default.
        root: the folder outside of which nothing is read.
        armature: see `read_robot`; None for none.

    Raises:
        ConfigError: there is nothing at `path`, or an option does not apply to what is there.
        ImportProblemsError: a body cannot be used; nothing was stored.
        MorphologySetError: the id cannot be used, or the folder has no robots.
        StorageError: the set could not be written.
    """
    path = as_path(path, "what is imported")
    if not path.exists():
        raise ConfigError(
            f"there is no file or folder {path}; expected [SET] PATH with a robot's file"
        )
    set_id = set_id_of(path) if set_id is None else set_id
    root = None if root is None else as_path(root, "the folder of --root")
    if _has_public_layout(path, set_id):
        given = {
            "--keyframe": keyframe, "--seconds": seconds, "--root": root, "--armature": armature
        }  # fmt: skip
        idle = [option for option, value in given.items() if value is not None]
        if idle:
            raise ConfigError(
                f"got {', '.join(idle)} for {path}, which has the public layout (train/ "
                f"and test/); expected none of these, which are for robot files: leave them out"
            )
        return import_set(set_id, path)
    seconds = _TRIAL if seconds is None else seconds
    return import_robots(
        set_id, path, keyframe=keyframe, seconds=seconds, root=root, armature=armature or 0.0
    )


def _has_public_layout(path: Path, set_id: str) -> bool:
    """Return whether a folder was meant to have the public layout, complete or not.

    What is missing is then reported in the words of that layout. Robots' packages often have a
    folder `test`, with their own tests.
    """
    if not path.is_dir():
        return False
    train, test = (path / split for split in SPLITS)
    return train.exists() or (test / "xml").exists() or (test.exists() and set_id in PUBLISHED)


def import_robots(
    set_id: str,
    path: Path,
    *,
    keyframe: str | None = None,
    seconds: float = _TRIAL,
    root: Path | None = None,
    armature: float = 0.0,
) -> ImportReport:
    """Read one robot, or all robots of a folder, and keep them as a set.

    The same robots are the train and the test bodies of the set.

    Args:
        set_id: id to store the set under.
        path: a MJCF or URDF file, or a folder with such files.
        keyframe: the start pose, see `Sandbox.read`.
        seconds: of simulated time that each robot is tried for.
        root: the folder outside of which nothing is read; None takes that of the package around the
            file or folder, see `package_around`.
        armature: see `read_robot`.

    Returns:
        The stored set.

    Raises:
        ImportProblemsError: a robot cannot be used; nothing was stored.
        MorphologySetError: the id cannot be used, or the folder has no robots.
        StorageError: the set could not be written.
    """
    if set_id in PUBLISHED:
        raise MorphologySetError(
            f"the published set {set_id!r} is imported from a folder with 'train' and 'test' in "
            f"it, which {path} is not; give that folder, or choose another id for your own robots"
        )
    check_free_id(set_id)
    found, robots = read_robots(
        set_id, path, keyframe=keyframe, seconds=seconds, root=root, armature=armature
    )
    folder = store_set(found)
    shown = [f"{render_robot(robot)}\n" for robot in robots]
    shown += [f"note: {note}\n" for note in _repeated(found)]
    text = "\n".join([*shown, f"kept in  {folder}", f"use it with  --morphologies {set_id}"])
    return ImportReport(bodies=found, folder=folder, text=text)


def read_robots(
    set_id: str,
    path: Path,
    *,
    keyframe: str | None = None,
    seconds: float = _TRIAL,
    root: Path | None = None,
    armature: float = 0.0,
) -> tuple[MorphologySet, tuple[ImportedRobot, ...]]:
    """Read robots as `import_robots` does, and store nothing.

    Returns:
        The set, and its robots with what is noteworthy about them.

    Raises:
        ImportProblemsError: a robot cannot be used.
        MorphologySetError: the folder has no robots.
    """
    if root is None and path.is_dir():
        root = package_around(path.resolve())
    problems: list[str] = []
    robots: list[ImportedRobot] = []
    with Sandbox() as sandbox:
        for file in robot_files(path):
            try:
                robots.append(
                    read_robot(
                        file,
                        sandbox,
                        keyframe=keyframe,
                        seconds=seconds,
                        root=root,
                        armature=armature,
                    )
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
        source=f"Imported from {last_name(path)!r}.",
        notes=(
            "Policies are trained and tested on the same robots.",
            *(f"{robot.body.name}: {note}" for robot in robots for note in robot.notes),
        ),
    )
    return replace(found, notes=(*found.notes, *_repeated(found))), tuple(robots)


def _repeated(found: MorphologySet) -> list[str]:
    """Return notes on files of one robot, such as one that another includes with a ground."""
    return [
        f"one robot in several files, of which each counts: {' = '.join(group)}"
        for group in found.duplicates("train")
    ]


def robot_files(path: Path) -> list[Path]:
    """Return the file, or the robot files of a folder by name.

    They lie right inside the folder, or where packages keep them: in `urdf/`, `mjcf/`, `xml/` or
    `robots/`. XML files of other kinds, such as a package's `package.xml`, do not count, nor do
    files without bodies that another of the files includes, nor hidden files.

    Raises:
        MorphologySetError: there are none, or two of one name.
    """
    if not path.is_dir():
        return [path]
    for place in (path, *(path / name for name in ROBOT_FOLDERS)):
        files = visible(place.iterdir()) if place.is_dir() else []
        files = robots_among([file for file in files if file.suffix.lower() in SUFFIXES])
        if files:
            break
    else:
        raise MorphologySetError(
            f"{path} holds no robot files; expected some ({', '.join(SUFFIXES)}) there or in "
            f"{', '.join(ROBOT_FOLDERS)}, or the folders train/ and test/"
        )
    stems = [clean_name(file.stem) for file in files]  # what robots are called
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise MorphologySetError(
            f"{place} holds two robot files called {twice!r} (64 characters of a name count); "
            f"rename one of them"
        )
    return files


def set_id_of(path: Path) -> str:
    """Return an id for a set that is made from this file or folder.

    Raises:
        MorphologySetError: its name has no character that ids have.
    """
    name = last_name(path)
    stem = name if path.is_dir() else Path(name).stem  # what follows a folder's dot is no suffix
    found = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64]
    if not found:
        raise MorphologySetError(
            f"no id for a set can be made of the name {name!r}; choose one with --as SET"
        )
    return found


def read_robot(
    path: Path,
    sandbox: Sandbox,
    *,
    keyframe: str | None = None,
    seconds: float = _TRIAL,
    root: Path | None = None,
    armature: float = 0.0,
) -> ImportedRobot:
    """Read one robot and try it out; nothing is stored.

    Args:
        path: a MJCF or URDF file; what it refers to must be in its package, or in `root`.
        sandbox: where the engine works on it.
        keyframe: the start pose, see `Sandbox.read`.
        seconds: of simulated time that it is tried for; 0 for no trial.
        root: see `collect_files`.
        armature: least armature (reflected rotor inertia) of every joint, in place of a lower one
            in the file, kg m^2; of slides kg.

    Returns:
        The robot, named like the file.

    Raises:
        ConfigError: `seconds` or `armature` is no finite number of at least 0.
        MorphologyError: it cannot be used; one sentence says why.
    """
    require_number(seconds, "the seconds of a robot's trial", low=0.0)
    require_number(armature, "the armature of a robot's joints", low=0.0)
    source = collect_files(path, root)
    try:
        model = _compile(source, sandbox, keyframe)
        body, notes = build_robot(model, source.name, urdf=source.urdf)
        notes += _unused_keyframes(model["keyframes"], keyframe)
        body = _without_implied_inertia(body, sandbox)
        body, raised = _with_armature(body, armature)
        notes += [f"joints got an armature of {armature:g}: {shorten(raised)}"] if raised else []
        trial = _roll_out(body, sandbox, seconds)
        if trial["warnings"]:
            advice = _advice(body, sandbox, seconds)
            finer = f", and its file steps by {1000 * model['timestep']:.3g} ms only"
            known = not source.urdf and model["timestep"] < 0.99 * SIM_DT  # URDF states no step
            full = " (more contacts and joint limits at once than it has memory for)"
            raise FlawError(
                f"does not simulate: after {trial['time']:.2f} s of random control in steps of "
                f"{1000 * SIM_DT:.3g} ms the engine reports {', '.join(trial['warnings'])}"
                f"{full if _FULL & set(trial['warnings']) else ''}; {advice}"
                f"{finer if known else ''}"
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


def _roll_out(body: Morphology, sandbox: Sandbox, seconds: float) -> dict[str, Any]:
    text = emit_mjcf(body, floor=FLAT_GROUND, spawn=(0.0, 0.0, FLAT_HEIGHT))
    return sandbox.roll_out(text, steps=round(seconds / SIM_DT), seed=0)


def _with_armature(body: Morphology, armature: float) -> tuple[Morphology, list[str]]:
    """Return a body whose joints have at least this armature, and those that had less."""
    raised = [
        joint.name for limb in body.limbs for joint in limb.joints if joint.armature < armature
    ]
    limbs = tuple(
        replace(
            limb,
            joints=tuple(
                replace(joint, armature=max(joint.armature, armature)) for joint in limb.joints
            ),
        )
        for limb in body.limbs
    )
    return (replace(body, limbs=limbs) if raised else body), raised


def _advice(body: Morphology, sandbox: Sandbox, seconds: float) -> str:
    """Return what to do about a robot whose trial diverges."""
    enough = None
    for armature in _ARMATURES:
        steadier, raised = _with_armature(body, armature)
        try:
            trial = _roll_out(steadier, sandbox, seconds)
        except FlawError:  # it takes too long, which is no answer to what went wrong before
            continue
        if trial["warnings"] or not raised:
            continue
        enough = armature
        # One whose joints still rush would diverge under other controls.
        if not list(speed_doubts(steadier, trial)):
            break
    else:
        if strong := list(strength_doubts(body, "strong")):
            return f"correct what its file says: {'; '.join(strong)}"
    if enough is not None:
        return (
            f"it simulates with --armature {enough:g}, the inertia that rotors of motors add to "
            f"its joints (kg m^2, of slides kg)"
        )
    if light := list(mass_doubts(body)):
        return f"correct what its file says: {'; '.join(light)}"
    return "check masses, gears, gains and ranges, or add damping and armature"


def _compile(source: ModelFiles, sandbox: Sandbox, keyframe: str | None) -> dict[str, Any]:
    try:
        return sandbox.read(source.text, source.files, keyframe=keyframe, urdf=source.urdf)
    except FlawError as error:
        kind = root_tag(source.text)
        if kind not in ("mujoco", "robot"):
            raise FlawError(
                f"is {f'a file of <{kind}>' if kind else 'no XML'}; expected MJCF, which begins "
                f"with <mujoco>, or URDF, which begins with <robot>"
            ) from error
        for name in source.missing:
            if PurePosixPath(name).name and PurePosixPath(name).name in str(error):
                parts = PurePosixPath(name.partition("://")[2] or name).parts
                shown = clean_name("/".join(parts[-_SHOWN:]))
                if name.lower().endswith(UNREADABLE) and not (source.urdf and readable(name)):
                    turns = source.urdf and suffix_of(name) in FORMATS
                    more = f", or let the import do it: {EXTRA}" if turns else ""
                    raise FlawError(
                        f"needs the file {shown!r}, whose format MuJoCo does not read; convert it "
                        f"(meshes to .obj or .stl) and name the new file in the robot's{more}"
                    ) from error
                raise FlawError(
                    f"needs the file {shown!r}, which is not in {source.root}; put it there, or "
                    f"name the folder that holds all files of the robot with --root"
                ) from error
        raise


def _unused_keyframes(names: list[str], chosen: str | None) -> list[str]:
    """Return a note on start poses that were there to choose from, where nothing was chosen."""
    names = [name for name in names if name]
    if chosen is not None or not names or "home" in names:
        return []
    return [f"the start pose is that of the file, and none of its keyframes: {shorten(names)}"]


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
