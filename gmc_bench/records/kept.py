"""Numbers beyond records that a leaderboard keeps: outcomes of studies, and scores on other bodies.

Both are small files, one per study or evaluation, in folders of their own beside the records. They
hold one number per run, so that intervals over seeds can be made of them.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import Split
from gmc_bench.records.parts import (
    Count,
    Digest,
    Flag,
    Hardware,
    Morphologies,
    Name,
    Number,
    Positive,
    RecordPart,
    Text,
    VersionedName,
)
from gmc_bench.records.schema import Commit, RunRecord
from gmc_bench.records.store import read_part

STUDIES, EVALUATIONS, SCALINGS, SPEEDS = "studies", "evaluations", "scaling", "speeds"
"""Folders below a leaderboard's."""
SCALING_SETTINGS = "scaling.json"
"""Marks the folder of a study of scaling, which has no runs."""
STUDY_FILE = "study.json"
"""Name inside the folder of a study."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.json")

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
    git_dirty: Flag | None = Field(description="The checkout had changes; null if none.")
    morphologies: BodySetId | None = Field(description="Bodies; null while not finished.")
    method_version: Positive | None = Field(
        default=None,
        description="Of the controller; as all below but the numbers null while not finished, and "
        "in older files.",
    )
    preset: Text | None = Field(default=None, description="Named settings of the controller.")
    protocol_digest: Digest | None = Field(
        default=None, description="Hash of the run's rules, as its record states it."
    )
    task_digest: Digest | None = Field(default=None, description="Likewise of the task.")
    changes: tuple[Text, ...] | None = Field(
        default=None,
        description="What is unofficial about the run beyond what sets its variant apart.",
    )
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
    versions: dict[str, Text] = Field(
        description="Version of each package that moves numbers, that the runs were made and "
        "measured with; several with a comma between. In older files those installed when the "
        "study was written."
    )


class KeptExponent(RecordPart):
    """Power of the size that a cost grows with."""

    kind: Text = Field(description="Of the measurement.")
    key: Text = Field(description="Name of the cost there, e.g. `act_ms`.")
    method: str = Field(description="Id of the controller; empty for what has none.")
    method_version: Positive | None = Field(
        default=None,
        description="Its version; null without one, and in older files, which are of first ones.",
    )
    value: Number = Field(description="The exponent.")
    low: Number = Field(description="Lower end of its 95 % interval.")
    high: Number = Field(description="Upper end.")


class KeptScaling(RecordPart):
    """Exponents of a study of scaling."""

    schema_version: Literal[1] = Field(default=1, description="Version of this layout.")
    preset: Text = Field(description="Settings of the networks.")
    cpu: Text = Field(description="Processor model.")
    git_commit: Commit | None = Field(
        default=None, description="Commit of the checkout; null in older files."
    )
    git_dirty: Literal[False] | None = Field(
        default=None, description="The checkout had no changes; null likewise."
    )
    exponents: tuple[KeptExponent, ...] = Field(description="All that were fitted.")


class TimedMethod(RecordPart):
    """Whose speed was measured."""

    method: Name = Field(description="Id of the controller.")
    method_version: Positive = Field(description="Its version.")
    preset: Text = Field(description="Settings of its networks.")
    parameters: Count = Field(description="Of actor and critic.")


class TimedRounds(TimedMethod):
    """Iterations of a method in turns with those of the reference, a pair per round."""

    seconds: tuple[Number, ...] = Field(description="Of the iteration, in every round.")
    acting_seconds: tuple[Number, ...] = Field(description="Of choosing actions in it.")
    reference_seconds: tuple[Number, ...] = Field(description="Of the reference's iteration.")
    reference_acting_seconds: tuple[Number, ...] = Field(description="Likewise.")

    @model_validator(mode="after")
    def _rounds_agree(self) -> "TimedRounds":
        columns = (
            *(self.seconds, self.acting_seconds),
            *(self.reference_seconds, self.reference_acting_seconds),
        )
        if len({len(column) for column in columns}) != 1 or not self.seconds:
            raise ValueError("every round needs four times")
        if min(map(min, columns)) <= 0.0:
            raise ValueError("times must be positive")
        if any(
            part > whole
            for part, whole in (
                *zip(columns[1], columns[0], strict=True),
                *zip(columns[3], columns[2], strict=True),
            )
        ):
            raise ValueError("choosing actions cannot take longer than the iteration")
        return self


class KeptSpeeds(RecordPart):
    """Training and acting speed of methods beside one of them, on one machine."""

    schema_version: Literal[1] = Field(default=1, description="Version of this layout.")
    suite: VersionedName = Field(description="Full id of the suite.")
    task: VersionedName = Field(description="Full id of the task.")
    protocol: Name = Field(description="Name of the protocol.")
    morphologies: BodySetId = Field(description="Bodies of the environments.")
    steps_per_iteration: Positive = Field(description="Control steps of an iteration.")
    reference: TimedMethod = Field(description="The method that all others took turns with.")
    methods: tuple[TimedRounds, ...] = Field(min_length=1, description="All others.")
    hardware: Hardware = Field(description="The machine.")
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")
    git_commit: Commit = Field(description="Commit of the checkout.")
    git_dirty: Literal[False] = Field(description="The checkout had no changes.")

    @model_validator(mode="after")
    def _methods_are_told_apart(self) -> "KeptSpeeds":
        names = [self.reference.method, *(item.method for item in self.methods)]
        if len(set(names)) != len(names):
            raise ValueError("a method is listed twice")
        return self

    @property
    def board(self) -> tuple[str, str, str, str]:
        """Suite, task, protocol and body set that they were measured with."""
        return self.suite, self.task, self.protocol, self.morphologies.id

    @property
    def of_one_thread(self) -> bool:
        """Whether they are those of one thread of a processor, as pages and findings say."""
        return self.hardware.threads == 1 and self.hardware.gpu is None


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
    split: Split = Field(description="Which of them.")
    sensor_dropout: bool = Field(description="One limb of every body was not seen.")
    bodies: Count = Field(description="Bodies that were scored, by name.")
    episodes: Count = Field(description="Episodes for each of them.")
    score: Number = Field(description="Mean return of mean actions, each content once.")
    hardware: Hardware | None = Field(
        default=None, description="The machine that scored; null in older files."
    )
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")
    git_commit: Commit | None = Field(
        default=None, description="Commit of the checkout that scored; null in older files."
    )
    git_dirty: Flag | None = Field(default=None, description="It had changes; null likewise.")


def require_file_name(path: Path) -> Path:
    """Return the file that something is kept in, named so that pages can show and link it.

    Raises:
        RecordError: its name has other characters than letters, digits and `._+-`.
    """
    if _FILE_NAME.fullmatch(path.name) is None:
        raise RecordError(
            f"{path} must have a name of letters, digits and '._+-' that begins with a letter or "
            f"digit; rename it, or the folder of the study before it is added"
        )
    return path


def policy_of(
    item: RunRecord | KeptEvaluation, bodies: Morphologies | BodySetId
) -> tuple[Any, ...]:
    """Return what identifies the policy of a record, or of an evaluation.

    Args:
        item: either.
        bodies: that it was trained on.
    """
    return (
        *(item.method, item.suite, item.task, item.protocol, item.seed, item.weights_digest),
        *(bodies.id, bodies.digest),
    )


def plain_numbers(content: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the numbers, and missing ones, of a measurement; lists and texts are left out."""
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
    return read_part(path, KeptStudy, "continue the study with --resume, which writes it again")[0]


def read_evaluation(path: Path) -> KeptEvaluation:
    """Read a score on other bodies.

    Raises:
        RecordError: the file is missing, was changed, or is something else.
    """
    return read_part(path, KeptEvaluation, "make it again with 'gmc-bench leaderboard add'")[0]


def read_scaling(path: Path) -> KeptScaling:
    """Read the exponents of a study of scaling.

    Raises:
        RecordError: the file is missing, was changed, or is something else.
    """
    return read_part(path, KeptScaling, "make it again with 'gmc-bench leaderboard add'")[0]


def read_speeds(path: Path) -> KeptSpeeds:
    """Read a measurement of speeds.

    Raises:
        RecordError: the file is missing, was changed, or is something else.
    """
    return read_part(path, KeptSpeeds, "make it again with 'gmc-bench leaderboard add'")[0]
