"""Evidence for claims: the tables of today, and the studies and measurements kept beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gmc_bench.core.errors import GmcBenchError, RecordError
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.tables import TABLES_FOLDER, file_names
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.methods import METHODS
from gmc_bench.records.kept import (
    EVALUATIONS,
    SCALINGS,
    SPEEDS,
    STUDIES,
    BodySetId,
    KeptEvaluation,
    KeptScaling,
    KeptSpeeds,
    KeptStudy,
    read_evaluation,
    read_scaling,
    read_speeds,
    read_study,
    require_file_name,
)
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import StoredRecord
from gmc_bench.suites import SUITES


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a leaderboard's folder holds."""

    analyses: tuple[TableAnalysis, ...]
    """Tables of today's rules."""
    studies: Mapping[str, KeptStudy]
    """By path below the folder."""
    evaluations: Mapping[str, KeptEvaluation]
    """Likewise."""
    scalings: Mapping[str, KeptScaling] = field(default_factory=dict)
    """Likewise."""
    speeds: Mapping[str, KeptSpeeds] = field(default_factory=dict)
    """Likewise."""

    def board(self, suite: str, task: str) -> TableAnalysis | None:
        """Return the table of a suite's task under its default protocol, on its own bodies.

        Of several, for as many engine versions, it is the one with most rows, as on the front.
        """
        found = SUITES.get(suite)
        wanted = (suite, task, found.default_protocol, found.default_morphologies[0])
        tables = [
            item
            for item in self.analyses
            for key in (item.table.key,)
            if (key.suite, key.task, key.protocol, key.morphologies) == wanted
        ]
        return min(tables, key=lambda item: (-len(item.rows), item.table.key), default=None)

    def page(self, board: TableAnalysis) -> str:
        """Return the page of a table, relative to the leaderboard's folder."""
        return f"{TABLES_FOLDER}/{self._file_names[board]}.md"

    @cached_property
    def _file_names(self) -> dict[TableAnalysis, str]:
        return dict(zip(self.analyses, file_names(self.analyses), strict=True))

    def has_engine_of(self, suite: str, task: str, versions: Mapping[str, str]) -> bool:
        """Say whether numbers were made with the engine of a board; without a board, any may be."""
        board = self.board(suite, task)
        return board is None or versions.get("mujoco") == board.table.key.mujoco

    def todays_speeds(self) -> dict[str, KeptSpeeds]:
        """Return by path what speeds say of boards that suites ask for, and of installed methods.

        Networks are those of the protocol, as in the runs. Speeds of several threads or a GPU are
        left out: pages and claims speak of one thread.
        """
        found = {}
        for path, kept in self.speeds.items():
            if kept.suite not in SUITES.names() or not kept.of_one_thread:
                continue
            suite = SUITES.get(kept.suite)
            preset = suite.protocol(None).preset
            default = kept.protocol == suite.default_protocol and kept.task in suite.tasks
            if not default or not is_set(self, kept.morphologies, suite.default_morphologies[0]):
                continue
            reference, *others = (
                is_installed(item.method, item.method_version) and item.preset == preset
                for item in (kept.reference, *kept.methods)
            )
            left = tuple(item for item, good in zip(kept.methods, others, strict=True) if good)
            if reference and left:
                found[path] = kept.model_copy(update={"methods": left})
        return found

    def records(self) -> list[RunRecord]:
        """Return the records of all rows."""
        return [stored.record for stored in self.stored()]

    def stored(self) -> list[StoredRecord]:
        """Return the records of all rows with their digests."""
        return [
            run
            for item in self.analyses
            for row in (*item.table.rows, *item.table.references, *item.table.before_tuning)
            for run in row.runs
        ]


class KeptFiles(NamedTuple):
    """The files beside a leaderboard's records, by path below its folder."""

    studies: dict[str, KeptStudy]
    evaluations: dict[str, KeptEvaluation]
    scalings: dict[str, KeptScaling]
    speeds: dict[str, KeptSpeeds]


def read_evidence(analyses: Sequence[TableAnalysis], folder: Path) -> Evidence:
    """Return what there is: tables of today's rules, and the files beside the records.

    Raises:
        RecordError: a file of a study or an evaluation was changed, or is something else; or
            somebody could choose between files, see `require_once`.
    """
    kept = read_kept(folder)
    require_once(kept)
    return Evidence(tuple(item for item in analyses if not is_earlier(item.table)), *kept)


def read_kept(folder: Path) -> KeptFiles:
    """Read the files beside a leaderboard's records.

    Raises:
        RecordError: one was changed, is something else, or has a name that pages could not show.
    """
    return KeptFiles(
        {f"{STUDIES}/{path.name}": read_study(path) for path in _files(folder / STUDIES)},
        {f"{EVALUATIONS}/{path.name}": read_evaluation(path)
         for path in _files(folder / EVALUATIONS)},
        {f"{SCALINGS}/{path.name}": read_scaling(path) for path in _files(folder / SCALINGS)},
        {f"{SPEEDS}/{path.name}": read_speeds(path) for path in _files(folder / SPEEDS)},
    )  # fmt: skip


def require_once(kept: KeptFiles) -> None:
    """Raise for two files of which somebody could choose one.

    Raises:
        RecordError: two studies hold the same run by the same rules, two evaluations the same
            score, two studies of scaling the same exponent of the same version: which of them
            counted would be a matter of their names. Or two evaluations are on sets of one name
            with different content. Or speeds were measured twice on one board.
    """
    _require_runs_once(kept.studies)
    _require_scores_once(kept.evaluations)
    boards: dict[tuple[str, ...], str] = {}
    for path, speeds in kept.speeds.items():
        if (other := boards.setdefault(speeds.board, path)) != path:
            raise RecordError(
                f"{path} and {other} both hold speeds on {speeds.task} with "
                f"{speeds.morphologies.id}; keep one of them"
            )
    exponents: dict[tuple[str, ...], str] = {}
    for path, item in kept.scalings.items():
        for found in item.exponents:
            version = str(found.method_version)
            key = (item.preset, found.method, version, found.kind, found.key)
            if (other := exponents.setdefault(key, path)) != path:
                raise RecordError(
                    f"{path} and {other} both hold {found.kind}/{found.key} of "
                    f"{found.method or 'no method'}; keep the study that was made first"
                )


def _require_runs_once(studies: Mapping[str, KeptStudy]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for path, study in studies.items():
        for run in study.runs:
            bodies = run.morphologies.id if run.morphologies else ""
            key = (
                *(study.study, study.suite, study.protocol, bodies),
                *(run.method, str(run.method_version), run.protocol_digest or ""),
                *(run.arm, run.task, str(run.seed)),
            )
            if (other := seen.setdefault(key, path)) != path:
                raise RecordError(
                    f"{path} and {other} both hold {run.arm} of {run.method}, seed {run.seed}; "
                    f"keep the study that was made first"
                )


def _require_scores_once(evaluations: Mapping[str, KeptEvaluation]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    digests: dict[str, tuple[str, str]] = {}
    for path, item in evaluations.items():
        key = (
            *(item.suite, item.task, item.protocol, item.method, item.seed, item.weights_digest),
            *(item.morphologies.id, item.split, item.sensor_dropout),
        )
        if (other := seen.setdefault(key, path)) != path:
            unseen = " with a limb unseen" if item.sensor_dropout else ""
            raise RecordError(
                f"{path} and {other} both score {item.method}, seed {item.seed}, on the "
                f"{item.split} bodies of {item.morphologies.id}{unseen}; keep the one that was "
                f"made first"
            )
        for named in (item.trained_on, item.morphologies):
            first, digest = digests.setdefault(named.id, (path, named.digest))
            if digest != named.digest:
                raise RecordError(
                    f"{path} and {first} name sets {named.id} with different content "
                    f"({named.digest[:12]} and {digest[:12]}); keep scores on one of them"
                )


def _files(folder: Path) -> list[Path]:
    return [require_file_name(path) for path in sorted(folder.glob("*.json"))]


def is_installed(method: str, version: int | None) -> bool:
    """Say whether a method is there in a version; files that state none are of first versions."""
    try:
        return METHODS.get(method).version == (version or 1)
    except GmcBenchError:
        return False


def is_set(evidence: Evidence, bodies: BodySetId | None, set_id: str) -> bool:
    """Say whether bodies are those of a set, with the content that it has on the boards."""
    keys = [item.table.key for item in evidence.analyses]
    known = {key.morphologies_digest for key in keys if key.morphologies == set_id}
    return bodies is not None and bodies.id == set_id and (not known or bodies.digest in known)
