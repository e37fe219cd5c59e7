"""Numbers beyond records that a leaderboard keeps: outcomes of studies, and scores on other bodies.

Both are small files, one per study or evaluation, in folders of their own beside the records. They
hold one number per run, so that intervals over seeds can be made of them.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from gmc_bench.core.errors import RecordError
from gmc_bench.records.kinship import mean_return
from gmc_bench.records.parts import (
    BodyReturns,
    Count,
    Digest,
    Name,
    Number,
    RecordPart,
    Text,
    VersionedName,
)
from gmc_bench.records.store import first_problem, read_sealed, sealed, write_atomic

STUDIES, EVALUATIONS, SCALINGS = "studies", "evaluations", "scaling"
"""Folders below a leaderboard's."""
SCALING_SETTINGS = "scaling.json"
"""Marks the folder of a study of scaling, which has no runs."""
STUDY_FILE = "study.json"
"""Name inside the folder of a study."""

P = TypeVar("P", bound=RecordPart)

SetName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]*$")]
"""As `Name`, with `+` before a variation: files are named after it, so it has no slash."""


class BodySetId(RecordPart):
    """A body set by name and content."""

    id: SetName = Field(description="Id of the set.")
    digest: Digest = Field(description="Content hash of the set.")


class StudyNumbers(RecordPart):
    """One run of a study."""

    arm: Text = Field(description="Name of the variant.")
    task: VersionedName = Field(description="Full id of the task.")
    seed: Count = Field(description="Seed of the run.")
    method: Name = Field(description="Id of the controller.")
    record_digest: Digest | None = Field(description="Of the record; null while not finished.")
    git_commit: Text | None = Field(description="Commit of the run's checkout; null if none.")
    git_dirty: bool | None = Field(description="The checkout had changes; null if none.")
    morphologies: BodySetId | None = Field(description="Bodies; null while not finished.")
    numbers: dict[Text, Number | None] = Field(
        description="training_return, train_score, test_score (mean actions, unseen bodies), area "
        "(mean training return over training), parameters, env_steps, core_seconds, and every "
        "plain number that the study measures; null where a run has none."
    )


class KeptStudy(RecordPart):
    """Everything behind a study's table, a number per run."""

    schema_version: Literal[2] = Field(default=2, description="Version of this layout.")
    study: Name = Field(description="Id of the study.")
    suite: VersionedName = Field(description="Full id of the suite.")
    protocol: Name = Field(description="Name of the protocol that variants differ from.")
    status: Literal["complete", "incomplete"] = Field(description="Whether all runs are finished.")
    runs: tuple[StudyNumbers, ...] = Field(description="All runs, in the order of the study.")
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")


class KeptExponent(RecordPart):
    """Power of the size that a cost grows with."""

    kind: Text = Field(description="Of the measurement.")
    key: Text = Field(description="Name of the cost there, e.g. `act_ms`.")
    method: str = Field(description="Id of the controller; empty for what has none.")
    value: Number = Field(description="The exponent.")
    low: Number = Field(description="Lower end of its 95 % interval.")
    high: Number = Field(description="Upper end.")


class KeptScaling(RecordPart):
    """Exponents of a study of scaling."""

    schema_version: Literal[1] = Field(default=1, description="Version of this layout.")
    preset: Text = Field(description="Settings of the networks.")
    cpu: Text = Field(description="Processor model.")
    exponents: tuple[KeptExponent, ...] = Field(description="All that were fitted.")


class KeptEvaluation(RecordPart):
    """Score of a trained policy on other bodies, or with a limb unseen."""

    schema_version: Literal[1] = Field(default=1, description="Version of this layout.")
    method: Name = Field(description="Id of the controller.")
    suite: VersionedName = Field(description="Full id of the suite.")
    task: VersionedName = Field(description="Full id of the task.")
    protocol: Name = Field(description="Name of the protocol of the training.")
    seed: Count = Field(description="Seed of the training.")
    weights_digest: Digest = Field(description="SHA-256 of the policy, as its record states.")
    trained_on: BodySetId = Field(description="Bodies of the training.")
    morphologies: BodySetId = Field(description="Bodies that were scored.")
    split: Literal["train", "test"] = Field(description="Which of them.")
    sensor_dropout: bool = Field(description="One limb of every body was not seen.")
    bodies: Count = Field(description="Bodies that were scored, by name.")
    episodes: Count = Field(description="Episodes for each of them.")
    score: Number = Field(description="Mean return of mean actions, each content once.")
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")


def plain_numbers(content: Mapping[str, Any]) -> dict[str, float | None]:
    """Return what is a number, or missing, of what was measured; lists and texts are left out."""
    found: dict[str, float | None] = {}
    for name, value in content.items():
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            found[name] = None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found


def read_study(path: Path) -> KeptStudy:
    """Read the outcome of a study.

    Raises:
        RecordError: the file is missing, was changed, or is of an earlier layout.
    """
    return _read(path, KeptStudy, "continue the study with --resume, which writes it again")


def read_evaluation(path: Path) -> KeptEvaluation:
    """Read a score on other bodies.

    Raises:
        RecordError: the file is missing, was changed, or is something else.
    """
    return _read(path, KeptEvaluation, "make it again with 'gmc-bench leaderboard add'")


def read_scaling(path: Path) -> KeptScaling:
    """Read the exponents of a study of scaling.

    Raises:
        RecordError: the file is missing, was changed, or is something else.
    """
    return _read(path, KeptScaling, "make it again with 'gmc-bench leaderboard add'")


def scaling_file(folder: Path, board: Path) -> dict[Path, bytes]:
    """Return what a leaderboard keeps of a study of scaling: its exponents.

    Raises:
        RecordError: the folder holds no result of such a study.
    """
    content, _ = read_sealed(folder / STUDY_FILE)
    fields = tuple(KeptExponent.model_fields)
    try:
        kept = KeptScaling(
            preset=content["request"]["preset"],
            cpu=content["setting"]["hardware"]["cpu"],
            exponents=tuple(
                KeptExponent(**{name: item[name] for name in fields})
                for item in content["exponents"]
            ),
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise RecordError(
            f"{folder} holds no result of a study of scaling ({error!r}); continue it with "
            f"'gmc-bench study --resume {folder}'"
        ) from error
    return {board / SCALINGS / f"{folder.resolve().name}.json": seal(kept)}


def _read(path: Path, kind: type[P], hint: str) -> P:
    content, _ = read_sealed(path)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise RecordError(f"{path} does not fit: {first_problem(error)}; {hint}") from error


def seal(part: RecordPart) -> bytes:
    """Return the bytes of a file that `read_study` or `read_evaluation` reads."""
    return sealed(part.model_dump(mode="json"))


def files_to_keep(paths: Iterable[Path], board: Path) -> tuple[dict[Path, bytes], list[Path]]:
    """Return what a leaderboard keeps of folders of studies and files of evaluations.

    Nothing is written yet, so that all of it can be refused together with what else is added.

    Returns:
        The files with their content, and the other paths.

    Raises:
        RecordError: a study or an evaluation cannot be kept.
    """
    files: dict[Path, bytes] = {}
    others = []
    for path in paths:
        if (path / SCALING_SETTINGS).is_file():
            files |= scaling_file(path, board)
        elif (path / STUDY_FILE).is_file():
            files |= _require_new(study_file(path, board))
        elif path.is_file() and path.suffix == ".json":
            files |= _require_new(evaluation_files(path, board))
        else:
            others.append(path)
    return files, others


def keep(files: Mapping[Path, bytes]) -> list[Path]:
    """Write what `files_to_keep` returned; returns the new files.

    Raises:
        StorageError: a file cannot be written.
    """
    for path, content in files.items():
        write_atomic(path, content)
    return list(files)


def _require_new(files: dict[Path, bytes]) -> dict[Path, bytes]:
    """Return files, none of which may be there with another content.

    Raises:
        RecordError: one is, so that adding it would replace a score by another one.
    """
    for path, content in files.items():
        if path.is_file() and path.read_bytes() != content:
            raise RecordError(
                f"{path} is there and says something else; scores and studies are added once: "
                f"keep that file, or remove it first and say why"
            )
    return files


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise RecordError(f"{path} must hold a JSON object, got a {type(content).__name__}")
    return content


def study_file(folder: Path, board: Path) -> dict[Path, bytes]:
    """Return what a leaderboard keeps of a finished study: its outcome.

    Raises:
        RecordError: the study is not complete, or a run was made with uncommitted changes.
    """
    study = read_study(folder / STUDY_FILE)
    if study.status != "complete":
        raise RecordError(
            f"the study in {folder} is not complete; finish it with 'gmc-bench study --resume "
            f"{folder}'"
        )
    dirty = [run for run in study.runs if run.git_dirty is not False]
    if dirty:
        raise RecordError(
            f"the run {dirty[0].arm}, seed {dirty[0].seed}, in {folder} was not made from a clean "
            f"clone; run the study from one"
        )
    return {board / STUDIES / f"{folder.resolve().name}.json": seal(study)}


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return first_problem(error)
    return f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else "it is something else"


def evaluation_files(path: Path, board: Path) -> dict[Path, bytes]:
    """Return what a leaderboard keeps of what `gmc-bench evaluate --json` printed: one per split.

    Raises:
        RecordError: it is not that, or of an untrained policy.
    """
    content = _json(path)
    if "learning_curve" in content:
        raise RecordError(f"{path} is the record of a run; give the run's folder")
    try:
        returns = [BodyReturns.model_validate(item) for item in content["returns"]]
        found = []
        for split in dict.fromkeys(item.split for item in returns):
            items = [r for r in returns if (r.split, r.mode) == (split, "deterministic")]
            silent = content["silent_limbs"] is not None
            fields = ("method", "suite", "task", "protocol", "seed", "weights_digest", "versions")
            kept = KeptEvaluation(
                **{name: content[name] for name in fields},
                trained_on=BodySetId(**content["trained_on"]),
                morphologies=BodySetId(**content["morphologies"]),
                split=split,
                sensor_dropout=silent,
                bodies=len(items),
                episodes=content["episodes_per_body"],
                score=math.nan if (found_score := mean_return(items)) is None else found_score,
            )
            found.append(kept)
    except (KeyError, TypeError, ValidationError) as error:
        raise RecordError(
            f"{path} is not the score of a trained policy ({_problem(error)}); give what "
            f"'gmc-bench evaluate RUN_DIR --json' printed"
        ) from error
    if not found:
        raise RecordError(f"{path} holds no episodes; give what 'gmc-bench evaluate' printed")
    files = {}
    for kept in found:
        what = f"{kept.morphologies.id}-{kept.split}{'-dropout' if kept.sensor_dropout else ''}"
        # Two policies of one seed, one of them tuned, are scored side by side.
        policy = f"seed{kept.seed}-{kept.weights_digest[:8]}"
        name = f"{kept.suite}_{kept.task}_{kept.method}_{kept.protocol}_{policy}_{what}.json"
        files[board / EVALUATIONS / name] = seal(kept)
    return files
