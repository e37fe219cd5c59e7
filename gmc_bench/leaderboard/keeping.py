"""Files that a leaderboard keeps beside records: checked against the installed sets, then written.

Studies and scores on other bodies are evidence for findings. Nothing is written before all of it
is known to fit, alone and beside what is there.
"""

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.sets import load_morphologies, loaded_once
from gmc_bench.core.errors import RecordError
from gmc_bench.core.files import read_limited
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.leaderboard.board import read_board
from gmc_bench.leaderboard.findings.evidence import read_kept, require_once
from gmc_bench.leaderboard.findings.speed_claims import LARGEST_SIZE
from gmc_bench.methods import METHODS
from gmc_bench.records.kept import (
    EVALUATIONS,
    SCALING_SETTINGS,
    SCALINGS,
    SPEEDS,
    STUDIES,
    STUDY_FILE,
    BodySetId,
    KeptEvaluation,
    KeptExponent,
    KeptScaling,
    KeptSpeeds,
    KeptStudy,
    TimedRounds,
    policy_of,
    read_study,
    require_file_name,
)
from gmc_bench.records.kinship import mean_return
from gmc_bench.records.parts import BodyReturns, Hardware, require_shallow
from gmc_bench.records.schema import REQUIRED_VERSIONS, RunRecord
from gmc_bench.records.store import first_problem, read_sealed, seal, write_atomic
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import DIVERGED, TIME_LIMIT

_log = logging.getLogger(__name__)

Kind = KeptStudy | KeptEvaluation | KeptScaling | KeptSpeeds


def files_to_keep(paths: Iterable[Path], board: Path) -> tuple[dict[Path, bytes], list[Path]]:
    """Return what a leaderboard keeps of folders of studies and files of evaluations.

    Nothing is written yet, so that all of it can be refused together with what else is added.

    Returns:
        The files with their content, and the other paths.

    Raises:
        RecordError: a path does not exist, or a study or an evaluation cannot be kept: it is not
            one, contradicts itself or an installed set, or is there already.
        GmcBenchError: the bodies of an evaluation are not here.
    """
    found: dict[Path, Kind] = {}
    others = []
    for path in paths:
        if not path.exists():
            raise RecordError(
                f"{path} does not exist; give the folder of a finished run or study, or the file "
                f"with what 'gmc-bench evaluate --json' printed"
            )
        if (path / SCALING_SETTINGS).is_file():
            new: Mapping[Path, Kind] = scaling_file(path, board)
        elif (path / STUDY_FILE).is_file():
            new = study_file(path, board)
        elif path.is_file() and path.suffix == ".json":
            with loaded_once():
                speeds = "measurement" in _json(path)
                new = speeds_file(path, board) if speeds else evaluation_files(path, board)
        else:
            others.append(path)
            continue
        for target, content in new.items():
            _require_new(target, content, found)
            found[target] = content
    if found:
        _require_no_twins(found, board)
    return {path: seal(content) for path, content in found.items()}, others


def require_policies(files: Mapping[Path, bytes], board: Path, added: Iterable[RunRecord]) -> None:
    """Raise for the score of a policy that nobody could compare or verify.

    Args:
        files: what `files_to_keep` returned.
        board: the leaderboard.
        added: records that are added at the same time.

    Raises:
        RecordError: neither the leaderboard nor what is added holds the record of its run, or it
            was scored with another version of the engine than that.
    """
    scores = [files[path] for path in files if path.parent == board / EVALUATIONS]
    if not scores:  # reading a whole leaderboard takes seconds
        return
    there = [stored.record for stored in read_board(board).records] if board.is_dir() else []
    known = {policy_of(item, item.morphologies): item for item in (*there, *added)}
    for content in scores:
        fields = json.loads(content)
        kept = KeptEvaluation.model_validate(
            {name: fields[name] for name in fields if name != "digest"}
        )
        record = known.get(policy_of(kept, kept.trained_on))
        if record is None:
            raise RecordError(
                f"{board} has no record of the policy that was scored ({kept.method}, seed "
                f"{kept.seed}, weights {kept.weights_digest[:12]}), so that nobody could verify "
                f"the score; give the folder of its run, too"
            )
        if kept.versions["mujoco"] != record.versions["mujoco"]:
            raise RecordError(
                f"the policy of {kept.method}, seed {kept.seed}, was scored with MuJoCo "
                f"{kept.versions['mujoco']}, but its run was made with "
                f"{record.versions['mujoco']}; evaluate it again with that"
            )


def keep(files: Mapping[Path, bytes]) -> list[Path]:
    """Write what `files_to_keep` returned; returns the new files.

    Raises:
        StorageError: a file cannot be written.
    """
    for path, content in files.items():
        write_atomic(path, content)
    return list(files)


def _require_new(path: Path, content: Kind, others: Mapping[Path, Kind]) -> None:
    """Raise if a file is there, or is added at the same time, with another content.

    Raises:
        RecordError: it is, so that adding it would replace a score by another one.
    """
    there = path.is_file() and path.read_bytes() != seal(content)
    if there or others.get(path, content) != content:
        raise RecordError(
            f"{path} is there and says something else; scores and studies are added once: "
            f"keep that file, or remove it first and say why"
        )


def _require_no_twins(new: Mapping[Path, Kind], board: Path) -> None:
    """Raise if a new file holds what another file holds: the board could no longer be built.

    Raises:
        RecordError: one does.
    """
    kept = read_kept(board)
    for path, content in new.items():
        name = path.relative_to(board).as_posix()
        if isinstance(content, KeptStudy):
            kept.studies[name] = content
        elif isinstance(content, KeptEvaluation):
            kept.evaluations[name] = content
        elif isinstance(content, KeptSpeeds):
            kept.speeds[name] = content
        else:
            kept.scalings[name] = content
    require_once(kept)


def scaling_file(folder: Path, board: Path) -> dict[Path, KeptScaling]:
    """Return what a leaderboard keeps of a study of scaling: its exponents.

    Raises:
        RecordError: the folder holds no result of such a study, or not from a clean clone, or of
            other versions of the methods than the installed ones, or of smaller sizes than a
            finding is about, or has a name that no file can have.
        UnknownNameError: a method is not registered.
    """
    content, _ = read_sealed(folder / STUDY_FILE)
    fields = tuple(KeptExponent.model_fields)
    largest = dict[tuple[str, str], int]()
    if "git_commit" in content and content.get("git_dirty") is not False:
        raise RecordError(
            f"the study in {folder} was not made from a clean clone, or at several commits; run it "
            f"again from one, in a new folder"
        )
    try:
        kept = KeptScaling(
            preset=content["request"]["preset"],
            cpu=content["setting"]["hardware"]["cpu"],
            git_commit=content["git_commit"],
            git_dirty=content["git_dirty"],
            exponents=tuple(
                KeptExponent(**{name: item[name] for name in fields})
                for item in content["exponents"]
            ),
        )
        for item in content["exponents"]:
            largest[item["kind"], item["method"]] = int(item["sizes"][-1])
    except (KeyError, TypeError, ValidationError) as error:
        raise RecordError(
            f"{folder} holds no result of a study of scaling ({error!r}); continue it with "
            f"'gmc-bench study --resume {folder}'"
        ) from error
    for item in kept.exponents:
        if item.method:
            _require_installed(item.method, item.method_version, folder, "run the study again")
            if (size := largest[item.kind, item.method]) < LARGEST_SIZE:
                raise RecordError(
                    f"{item.kind} of {item.method} in {folder} was measured up to a size of "
                    f"{size:,}, but the claims are about sizes up to {LARGEST_SIZE:,}; measure "
                    f"them all, with larger limits if need be"
                )
    return {require_file_name(board / SCALINGS / f"{folder.resolve().name}.json"): kept}


def study_file(folder: Path, board: Path) -> dict[Path, KeptStudy]:
    """Return what a leaderboard keeps of a finished study: its outcome.

    Logs a warning if runs can count for no finding because of their settings.

    Raises:
        RecordError: the study is not complete, was made with several versions of the engine, does
            not say by which rules it was run, a run was made with uncommitted changes, or the
            folder has a name that no file can have.
    """
    study = read_study(folder / STUDY_FILE)
    again = f"'gmc-bench study --resume {folder}'"
    if study.status != "complete":
        raise RecordError(f"the study in {folder} is not complete; finish it with {again}")
    engine = study.versions.get("mujoco", "none")
    if ", " in engine:
        raise RecordError(
            f"the study in {folder} was made with several versions of MuJoCo ({engine}), so that "
            f"its runs cannot be compared; run it again with one"
        )
    for run in study.runs:
        which = f"the run {run.arm}, seed {run.seed}, in {folder}"
        if run.git_dirty is not False:
            raise RecordError(f"{which} was not made from a clean clone; run the study from one")
        if None in (run.method_version, run.preset, run.protocol_digest, run.changes):
            raise RecordError(
                f"{which} does not say by which rules it was made; write it with {again}"
            )
    path = require_file_name(board / STUDIES / f"{folder.resolve().name}.json")
    reasons = dict.fromkeys(_why_it_does_not_count(study))
    if reasons:
        _log.warning(
            "runs of the study in %s will count for no finding: %s", folder, "; ".join(reasons)
        )
    return {path: study}


def _why_it_does_not_count(study: KeptStudy) -> Iterator[str]:
    """Yield the settings of a study that keep its runs from counting as evidence."""
    if study.suite not in SUITES.names():
        yield f"the suite {study.suite} is not installed"
        return
    suite = SUITES.get(study.suite)
    if study.protocol != suite.default_protocol:
        yield f"its protocol is {study.protocol}, expected {suite.default_protocol}"
    expected = suite.default_morphologies[0]
    for run in study.runs:
        yield from run.changes or ()
        if run.morphologies is not None and run.morphologies.id != expected:
            yield f"its bodies are {run.morphologies.id}, expected {expected}"


def speeds_file(path: Path, board: Path) -> dict[Path, KeptSpeeds]:
    """Return what a leaderboard keeps of what `gmc-bench profile methods --json` printed.

    Raises:
        RecordError: it is not that, or of a clone with changes, of other versions of the methods
            than the installed ones, of several threads or a GPU, or of bodies that are named like
            the installed ones only.
        GmcBenchError: the bodies are not here.
    """
    content = _json(path)
    again = "run 'gmc-bench profile methods --threads 1 --json' again, from a clean clone"
    try:
        setting = content["setting"]
        names = ("suite", "task", "protocol", "steps_per_iteration", "reference")
        bodies = {name: setting["morphologies"][name] for name in ("id", "digest")}
        kept = KeptSpeeds(
            **{name: content[name] for name in (*names, "git_commit", "git_dirty")},
            methods=tuple(TimedRounds(**item) for item in content["methods"]),
            morphologies=BodySetId(**bodies),
            hardware=Hardware(**setting["hardware"]),
            versions=setting["versions"],
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise RecordError(
            f"{path} is not a measurement of methods' speeds ({_problem(error)}); {again}"
        ) from error
    if not kept.of_one_thread:
        where = kept.hardware.gpu or f"{kept.hardware.threads} threads of the CPU"
        raise RecordError(
            f"{path} was measured on {where}, expected one thread of the CPU; {again}"
        )
    for item in (kept.reference, *kept.methods):
        _require_installed(item.method, item.method_version, path, again)
    if load_morphologies(kept.morphologies.id).digest != kept.morphologies.digest:
        raise RecordError(
            f"{path} names the set {kept.morphologies.id}, but here that has other bodies; {again}"
        )
    name = f"{kept.suite}_{kept.task}_{kept.protocol}_{kept.morphologies.id}.json"
    return {board / SPEEDS / name: kept}


def _require_installed(method: str, version: int | None, path: Path, again: str) -> None:
    """Raise unless a method is registered in a version.

    Raises:
        RecordError: it has another one.
        UnknownNameError: it is not registered.
    """
    installed = METHODS.get(method).version
    if version != installed:
        raise RecordError(
            f"{path} has version {version} of {method}, {installed} is installed; {again}"
        )


def evaluation_files(path: Path, board: Path) -> dict[Path, KeptEvaluation]:
    """Return what a leaderboard keeps of what `gmc-bench evaluate --json` printed: one per split.

    Raises:
        RecordError: it is not that, or of an untrained policy, from a clone with changes, or does
            not score each body of the set that it names.
        GmcBenchError: that set is not here.
    """
    content = _json(path)
    if "learning_curve" in content:
        raise RecordError(f"{path} is the record of a run; give the run's folder")
    try:
        returns = [BodyReturns.model_validate(item) for item in content["returns"]]
        silent = content["silent_limbs"]
        found = []
        for split in dict.fromkeys(item.split for item in returns):
            items = [r for r in returns if (r.split, r.mode) == (split, "deterministic")]
            fields = ("method", "suite", "task", "protocol", "seed", "weights_digest", "versions")
            score = mean_return(items)
            kept = KeptEvaluation(
                **{name: content[name] for name in fields},
                hardware=Hardware(**content["hardware"]),
                git_commit=content.get("git_commit"),
                git_dirty=content.get("git_dirty"),
                trained_on=BodySetId(**content["trained_on"]),
                morphologies=BodySetId(**content["morphologies"]),
                split=split,
                sensor_dropout=silent is not None,
                bodies=len(items),
                episodes=content["episodes_per_body"],
                score=math.nan if score is None else score,
            )
            found.append((kept, items))
    except (KeyError, TypeError, ValidationError) as error:
        raise RecordError(
            f"{path} is not the score of a trained policy ({_problem(error)}); give what "
            f"'gmc-bench evaluate RUN_DIR --json' printed"
        ) from error
    if not found:
        raise RecordError(f"{path} holds no episodes; give what 'gmc-bench evaluate' printed")
    files = {}
    for kept, items in found:
        problem = next(_contradictions(kept, items, silent), None)
        if problem is not None:
            raise RecordError(
                f"{path} {problem}; run 'gmc-bench evaluate' again, from a clean clone"
            )
        files[board / EVALUATIONS / _name_of(kept)] = kept
    return files


def _name_of(kept: KeptEvaluation) -> str:
    what = f"{kept.morphologies.id}-{kept.split}{'-dropout' if kept.sensor_dropout else ''}"
    # Two policies of one seed, one of them tuned, are scored side by side.
    policy = f"seed{kept.seed}-{kept.weights_digest[:8]}"
    return f"{kept.suite}_{kept.task}_{kept.method}_{kept.protocol}_{policy}_{what}.json"


def _contradictions(
    kept: KeptEvaluation, items: Sequence[BodyReturns], silent: object
) -> Iterator[str]:
    """Yield what no evaluation of the installed set's bodies would print.

    Raises:
        GmcBenchError: a set or the task is not here.
    """
    if kept.git_dirty is not False or kept.git_commit is None:
        yield "was not made from a clean clone, or by a version that did not say"
    missing = [name for name in REQUIRED_VERSIONS if name not in kept.versions]
    if missing:
        yield f"lacks the version of {', '.join(missing)}"
    counts = {len(item.episodes) for item in items}
    if counts != {kept.episodes}:
        told = " or ".join(map(str, sorted(counts)))
        yield f"says {kept.episodes} episodes per body, but has {told}"
    task = TASKS.get(kept.task)
    reasons = {*task.termination_names, TIME_LIMIT, DIVERGED}
    other = sorted({episode.ended for item in items for episode in item.episodes} - reasons)
    if other:
        known = ", ".join(sorted(reasons))
        yield f"has an episode that ended by {other[0]!r}, expected one of {known}"
    bodies = load_morphologies(kept.morphologies.id)
    for named in (kept.trained_on, kept.morphologies):
        loaded = load_morphologies(named.id)
        if loaded.digest != named.digest:
            yield (
                f"names the set {named.id} with the hash {named.digest[:12]}, but here it has "
                f"{loaded.digest[:12]}"
            )
    expected = [(body.name, body.digest) for body in bodies.split(kept.split)]
    if sorted((item.body, item.body_digest) for item in items) != sorted(expected):
        yield f"does not score each {kept.split} body of {kept.morphologies.id} once"
    if silent is None:
        return
    if any(type(body) is not Morphology for body in bodies.split(kept.split)):
        yield f"has 'silent_limbs', but the bodies of {bodies.id} are quadrupeds, not made of limbs"
    elif _limbs_of(silent, kept.split) != _silent(bodies, kept):
        yield "names other hidden limbs in 'silent_limbs' than those that follow from its seed"


def _limbs_of(silent: object, split: str) -> object:
    return silent.get(split) if isinstance(silent, dict) else silent


def _silent(bodies: MorphologySet, kept: KeptEvaluation) -> dict[str, str]:
    """Return by body the name of the limb that is not seen."""
    chosen = bodies.split(kept.split)
    limbs = draw_silent_limbs(chosen, kept.seed).tolist()
    return {body.name: body.limbs[limb].name for body, limb in zip(chosen, limbs, strict=True)}


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return first_problem(error)
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else "it is something else"


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_limited(path))
        require_shallow(content)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise RecordError(f"{path} must hold a JSON object, got a {type(content).__name__}")
    return content
