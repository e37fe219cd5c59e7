"""Import a published morphology set from its folders.

The public layout is `train/` and `test/`, each with `xml/NAME.xml` (a body) and
`metadata/NAME.json` (`num_limbs` without the torso, `dof`, and `symmetric_limbs` as pairs of the
numbers N in the limb names `limb/N`).

Source:
    Layout of the data of agrimgupta92/metamorph and MasterXiong/Universal-Morphology-Control.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmc_bench.bodies.clearance import check_clearance
from gmc_bench.bodies.mjcf import check_compiles, read_mjcf
from gmc_bench.bodies.registry import BODY_SETS, ROBOT_FILES
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import check_set_id, store_set
from gmc_bench.bodies.summary import describe_set, render_set
from gmc_bench.core.errors import MorphologyError, MorphologySetError, UnknownNameError

SPLITS = ("train", "test")
_RESERVED_PREFIX = "gmc-"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedSet:
    """What is known of a set before it is imported."""

    source: str
    """Where the bodies come from, one sentence."""
    licence: str
    digest: str
    """The set's hash; another content cannot take the name."""


PUBLISHED = {
    "unimals_100": PublishedSet(
        source=(
            "Unimal-100 benchmark of Gupta et al. 2022 (MetaMorph, arXiv:2203.11931), bodies "
            "evolved with DERL (arXiv:2102.02202); files of MasterXiong/Universal-Morphology-"
            "Control at commit 18c0516."
        ),
        licence="unknown; the public repositories carry no licence file",
        digest="43057a52b75726bdb174721e7a26790ab6faca79c2223594428645f7d01f1c71",
    ),
}
"""Published sets by id."""


class ImportProblemsError(MorphologySetError):
    """A folder is not a valid morphology set; `problems` lists everything that is wrong."""

    def __init__(self, message: str, problems: Iterable[str]) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        """One sentence per problem, in the order of the files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport:
    """A stored set and what is noteworthy about it."""

    bodies: MorphologySet
    folder: Path
    """Where it is stored."""
    text: str
    """What was found, for people."""


def import_set(set_id: str, path: Path) -> ImportReport:
    """Read a set in the public layout, check every body, and store it.

    The lists stay as published: repeated bodies are reported, not removed.

    Args:
        set_id: id to store it under; the ids in `PUBLISHED` accept the published content only.
        path: folder with `train/` and `test/`.

    Returns:
        The stored set.

    Raises:
        ImportProblemsError: anything is wrong; nothing was stored.
        MorphologySetError: the id cannot be used, or is reserved for generated sets.
        StorageError: the set could not be written.
    """
    check_free_id(set_id, published=True)
    bodies = read_public_layout(set_id, path)
    published = PUBLISHED.get(set_id)
    if published is not None and bodies.digest != published.digest:
        reason = (
            f"{path} holds valid bodies, but not those published as {set_id!r} (hash "
            f"{bodies.digest[:12]}, expected {published.digest[:12]}); import them under another id"
        )
        raise ImportProblemsError(reason, [reason])
    folder = store_set(bodies)
    text = f"{render_set(describe_set(bodies))}\n\nkept in  {folder}"
    return ImportReport(bodies=bodies, folder=folder, text=text)


def last_name(path: Path) -> str:
    """Return what a file or folder is called, also where the path is `.` or ends in `..`."""
    return path.name if path.name not in ("", "..") else path.resolve().name


def visible(files: Iterable[Path]) -> list[Path]:
    """Return files by name without hidden ones: macOS puts `._a.xml`, no text, beside `a.xml`."""
    return sorted(file for file in files if not file.name.startswith("."))


def check_free_id(set_id: str, *, published: bool = False) -> None:
    """Refuse ids that users cannot give to a set; `published` says whether those of `PUBLISHED` do.

    Raises:
        MorphologySetError: the id cannot be used, is reserved for generated sets, or taken.
    """
    check_set_id(set_id)
    if set_id.startswith(_RESERVED_PREFIX):
        raise MorphologySetError(
            f"the id {set_id!r} is reserved for generated sets; choose one that does not start "
            f"with {_RESERVED_PREFIX!r}"
        )
    if set_id in PUBLISHED and not published:
        raise MorphologySetError(f"{set_id!r} is the id of a published set; choose another one")
    for registry in (BODY_SETS, ROBOT_FILES):
        try:
            offered = registry.resolve(set_id)
        except UnknownNameError:
            continue
        whole = "" if offered == set_id else f", {offered!r}, without its version"
        raise MorphologySetError(
            f"the id {set_id!r} is that of a set that a package offers{whole}; choose another one"
        )


def read_public_layout(set_id: str, path: Path) -> MorphologySet:
    """Read and check a set in the public layout without storing it.

    Each body must parse, compile and simulate; every hinge must have a motor; and the metadata
    must agree. Bodies are sorted by name, because folder listings have no order of their own.

    Args:
        set_id: the id of the set.
        path: folder with `train/` and `test/`.

    Returns:
        The set.

    Raises:
        ImportProblemsError: anything is wrong; all problems are collected first.
    """
    problems: list[str] = []
    splits = {split: _read_split(path / split, problems) for split in SPLITS}
    if problems:
        extra = len(problems) - 1
        more = f" and {extra} more problem{'s' if extra > 1 else ''}" if extra else ""
        raise ImportProblemsError(f"cannot import {path}: {problems[0]}{more}", problems)
    published = PUBLISHED.get(set_id)
    bodies = MorphologySet(
        id=set_id,
        splits=splits,
        source=published.source
        if published
        else f"Imported from a folder named {last_name(path)!r}.",
        licence=published.licence if published else "unknown",
    )
    return replace(bodies, notes=_notes(bodies))


def _read_split(folder: Path, problems: list[str]) -> tuple[Morphology, ...]:
    xml, metadata = folder / "xml", folder / "metadata"
    missing = [part for part in (xml, metadata) if not part.is_dir()]
    if missing:
        problems += [f"the folder {part} is missing" for part in missing]
        return ()
    bodies = {file.stem: file for file in visible(xml.glob("*.xml"))}
    facts = {file.stem: file for file in visible(metadata.glob("*.json"))}
    if not bodies:
        problems.append(f"{xml} holds no .xml files")
    unpaired = sorted(bodies.keys() - facts.keys())
    problems += [f"{bodies[name]} has no {metadata / name}.json" for name in unpaired]
    unpaired = sorted(facts.keys() - bodies.keys())
    problems += [f"{facts[name]} has no {xml / name}.xml" for name in unpaired]
    found = []
    for name in sorted(bodies.keys() & facts.keys()):
        try:
            found.append(_read_body(bodies[name], facts[name]))
        except MorphologyError as error:
            problems.append(f"{bodies[name]}: {error}")
    return tuple(found)


def _read_body(xml: Path, metadata: Path) -> Morphology:
    for file in (xml, metadata):
        if file.exists() and not file.is_file():  # a named pipe would never answer
            raise MorphologyError(f"{file} is not a regular file; expected a body and its metadata")
    body = read_mjcf(xml)
    check_compiles(body)
    driven = {actuator.joint for actuator in body.actuators}
    idle = [j.name for limb in body.limbs for j in limb.joints if j.name not in driven]
    if idle:
        raise MorphologyError(f"the joint {idle[0]!r} has no motor; every hinge needs one")
    facts = _read_metadata(metadata)
    for key, actual in (("num_limbs", body.num_limbs - 1), ("dof", body.num_joints)):
        if facts.get(key) != actual:
            raise MorphologyError(
                f"its metadata says {key} = {facts.get(key)!r}, but the body has {actual}"
            )
    check_clearance(body)
    return replace(body, symmetric_limbs=_symmetric_limbs(facts, body))


def _read_metadata(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise MorphologyError(f"its metadata cannot be read ({error})") from error
    if not isinstance(facts, dict):
        raise MorphologyError(f"its metadata is a {type(facts).__name__}, expected an object")
    return facts


def _symmetric_limbs(facts: dict[str, Any], body: Morphology) -> tuple[tuple[int, int], ...]:
    places = {limb.name: index for index, limb in enumerate(body.limbs)}
    try:
        return tuple(
            (places[f"limb/{first}"], places[f"limb/{second}"])
            for first, second in facts.get("symmetric_limbs", [])
        )
    except (KeyError, TypeError, ValueError):
        raise MorphologyError(
            f"its metadata has symmetric_limbs = {facts['symmetric_limbs']!r}, expected pairs of "
            f"the numbers N of its limbs limb/N"
        ) from None


def _notes(bodies: MorphologySet) -> tuple[str, ...]:
    notes = [
        f"{split}: {' = '.join(group)}" for split in SPLITS for group in bodies.duplicates(split)
    ]
    if bodies.seen_in_train:
        names = ", ".join(sorted(bodies.seen_in_train))
        notes.append(f"test bodies that are also train bodies: {names}")
    return tuple(notes)
