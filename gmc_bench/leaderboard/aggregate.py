"""Aggregation of records into one row per method, never averaged over what is missing.

Records are comparable only when suite, task, protocol, bodies and engine version are the same;
each such group makes one table.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from gmc_bench.records.parts import TunedSettings
from gmc_bench.records.schema import Controller, Morphologies, RunRecord, Split
from gmc_bench.records.seeds import absent_seeds
from gmc_bench.records.store import RefusedFile, StoredRecord


@dataclass(frozen=True, slots=True, order=True)
class ComparisonKey:
    """What must be equal for two scores to be comparable."""

    suite: str
    task: str
    protocol: str
    morphologies: str
    protocol_digest: str
    morphologies_digest: str
    mujoco: str
    task_digest: str = ""
    """Empty for records that do not state it (schema 1)."""

    @property
    def title(self) -> str:
        """What a table with this key is about, in plain text."""
        return f"{self.suite}, {self.task}: protocol {self.protocol} on {self.morphologies}"


class RowKey(NamedTuple):
    """What the seeds of one row share."""

    method: str
    method_version: int
    preset: str
    config_digest: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation over seeds."""

    mean: float
    sd: float | None
    """Divided by the number of seeds minus one; `None` for a single seed."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return mean and deviation of one value per seed."""
        mean = math.fsum(values) / len(values)
        return cls(mean, statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True, slots=True)
class Row:
    """One method over its seeds; a metric that any seed of the protocol lacks is `None`."""

    key: RowKey
    seeds: tuple[int, ...]
    absent_seeds: tuple[int, ...]
    """Seeds the protocol asks for that nobody has run, and gaps in those that follow; the row is
    incomplete until none is left."""
    test_score: Spread | None
    """Deterministic, over test bodies that were not trained on; of a shared policy whose protocol
    scores none, over train bodies."""
    train_score: Spread | None
    """Deterministic, over train bodies."""
    training_return: Spread | None
    parameters: int | None
    env_steps_per_s: float | None
    """Median over seeds: other load on a machine slows single runs."""
    seed_scores: tuple[tuple[int, float | None], ...]
    """Seed and test score (train score of a single-robot reference) of every run there is, so that
    an incomplete row still shows them."""
    missing: tuple[str, ...]
    """Why the row is incomplete; empty when it is ranked."""
    controller: Controller
    """One policy for all bodies, or separate weights per body."""
    runs: tuple[StoredRecord, ...]
    """The records, by rising seed."""
    verified: bool
    """The episodes of every run have been run again with the same outcome."""
    untrained: bool = False
    """Nothing was trained."""
    split: Split = "test"
    """Bodies that its rank depends on."""


@dataclass(frozen=True, slots=True)
class UnrankedRun:
    """A record that does not follow the protocol."""

    path: str
    key: RowKey
    seed: int
    test_score: float | None
    """Of the split that ranks; a single-robot reference has none."""
    reasons: tuple[str, ...]
    split: Split = "test"
    """Bodies that its place would depend on."""


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """All comparable records: ranked and incomplete rows, references, runs that are not ranked."""

    key: ComparisonKey
    morphologies: Morphologies
    rows: tuple[Row, ...]
    references: tuple[Row, ...]
    """Single-robot controllers: they are scored on train bodies only and never ranked."""
    untrained: tuple[Row, ...]
    """Initial weights of methods, and no action at all: the floor, never ranked."""
    unranked: tuple[UnrankedRun, ...]
    torch_versions: tuple[str, ...]
    before_tuning: tuple[Row, ...] = ()
    """With the values before tuning, of methods whose tuned row is complete. They are not ranked:
    the better of two rows would count."""

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """Rows of every kind, those that rank first."""
        return (*self.rows, *self.references, *self.untrained, *self.before_tuning)

    @property
    def with_protocol_values(self) -> "ComparisonTable":
        """The rows with the values before tuning, those that tuned ones replaced included."""
        rows = (row for row in (*self.rows, *self.before_tuning) if not is_tuned(row))
        return replace(
            self,
            rows=tuple(sorted(rows, key=_rank)),
            references=(),
            untrained=(),
            unranked=(),
            before_tuning=(),
        )

    @property
    def split(self) -> Split:
        """Bodies that ranks depend on: `train` where the protocol scores no others."""
        return "train" if any(row.split == "train" for row in self.rows) else "test"


def comparison_key(record: RunRecord) -> ComparisonKey:
    """Return what another record must share to be in the same table."""
    return ComparisonKey(
        suite=record.suite,
        task=record.task,
        protocol=record.protocol,
        morphologies=record.morphologies.id,
        protocol_digest=record.protocol_digest,
        morphologies_digest=record.morphologies.digest,
        mujoco=record.versions["mujoco"],
        task_digest=record.task_digest or "",
    )


def aggregate(
    stored: Iterable[StoredRecord], verified: Set[str] = frozenset()
) -> tuple[list[ComparisonTable], list[RefusedFile]]:
    """Group records into tables.

    Two official records of one method, settings and seed are a contradiction: none of them is
    used unless they are copies of one record, because choosing would let the better one win.

    Args:
        stored: valid records, in any order.
        verified: digests of the records whose episodes were run again with the same outcome.

    Returns:
        Tables sorted by key, and the records that were refused as duplicates, sorted by path.
    """
    groups: dict[ComparisonKey, list[StoredRecord]] = defaultdict(list)
    for item in sorted(stored, key=lambda item: item.path):
        groups[comparison_key(item.record)].append(item)
    tables: list[ComparisonTable] = []
    refused: list[RefusedFile] = []
    for key in sorted(groups):
        table, duplicates = _make_table(key, groups[key], verified)
        tables.append(table)
        refused.extend(duplicates)
    return tables, sorted(refused)


def _make_table(
    key: ComparisonKey, stored: Sequence[StoredRecord], verified: Set[str]
) -> tuple[ComparisonTable, list[RefusedFile]]:
    runs: dict[tuple[RowKey, int], list[StoredRecord]] = defaultdict(list)
    for item in stored:
        if item.record.official:
            runs[row_key(item.record), item.record.seed].append(item)
    found: dict[RowKey, list[StoredRecord]] = defaultdict(list)
    refused: list[RefusedFile] = []
    for (owner, _), copies in runs.items():
        kept, duplicates = _resolve_duplicates(copies)
        refused.extend(duplicates)
        found[owner].extend(kept)
    rows = sorted((_make_row(k, kept, verified) for k, kept in found.items() if kept), key=_rank)
    trained = [row for row in rows if not row.untrained]
    shared = [row for row in trained if row.controller == "shared"]
    tuned = {_method_of(row) for row in shared if is_tuned(row) and not row.missing}
    replaced = [row for row in shared if _method_of(row) in tuned and not is_tuned(row)]
    table = ComparisonTable(
        key=key,
        morphologies=stored[0].record.morphologies,
        rows=tuple(row for row in shared if row not in replaced),
        references=tuple(row for row in trained if row.controller == "single_robot"),
        untrained=tuple(row for row in rows if row.untrained),
        unranked=tuple(_make_unranked(item) for item in stored if not item.record.official),
        torch_versions=tuple(sorted({item.record.versions["torch"] for item in stored})),
        before_tuning=tuple(replaced),
    )
    return table, refused


def _method_of(row: Row) -> tuple[str, int, str]:
    return row.key.method, row.key.method_version, row.key.preset


def tuning_of(row: Row) -> TunedSettings | None:
    """Return the method's tuned values, with its trials, if a row was run with them."""
    return next((run.record.tuning for run in row.runs if run.record.tuning is not None), None)


def is_tuned(row: Row) -> bool:
    """Say whether a row has other values than those before tuning.

    The first trial has these. If it was the best, runs from before and after tuning are the same.
    """
    kept = tuning_of(row)
    return kept is not None and not (kept.trials and kept.settings == kept.trials[0].settings)


def row_key(record: RunRecord) -> RowKey:
    """Return what another seed must share to be in the same row."""
    return RowKey(record.method, record.method_version, record.preset, record.config_digest)


def _resolve_duplicates(
    copies: Sequence[StoredRecord],
) -> tuple[list[StoredRecord], list[RefusedFile]]:
    first, *others = copies
    if not others:
        return [first], []
    if len({item.digest for item in copies}) == 1:
        return [first], [
            RefusedFile(item.path, f"it is a copy of {first.path}; delete one of them")
            for item in others
        ]
    outcome = _outcome(first.record)
    if all(_outcome(item.record) == outcome for item in others):
        first, *others = sorted(copies, key=lambda item: (item.record.created, item.path))
        reason = f"it repeats {first.path}, with the same weights and scores; delete one of them"
        return [first], [RefusedFile(item.path, reason) for item in others]
    run = f"{first.record.method} ({first.record.preset}), seed {first.record.seed}"
    reason = f"it is one of {len(copies)} different records of {run}; keep the one made first"
    return [], [RefusedFile(item.path, reason) for item in copies]


def _outcome(record: RunRecord) -> tuple[object, ...]:
    """Return what a run comes to again if it is repeated to the same bits."""
    return (
        record.weights_digest, record.parameters, record.training_return, record.returns,
        record.friction,
    )  # fmt: skip


def _make_row(key: RowKey, runs: Sequence[StoredRecord], verified: Set[str]) -> Row:
    runs = sorted(runs, key=lambda item: item.record.seed)
    ordered = [item.record for item in runs]
    controller = ordered[0].controller
    seeds = tuple(record.seed for record in ordered)
    absent = absent_seeds(ordered[0].protocol_seeds, seeds)
    missing = [f"no run for seed {', '.join(map(str, absent))}"] if absent else []

    def spread(name: str, metric: Callable[[RunRecord], float | None]) -> Spread | None:
        values = [metric(record) for record in ordered]
        without = [str(seed) for seed, value in zip(seeds, values, strict=True) if value is None]
        if without:
            missing.append(f"no {name} for seed {', '.join(without)}")
        if absent or without:
            return None  # a mean over the seeds that happen to be there would flatter
        return Spread.of([value for value in values if value is not None])

    sizes = {record.parameters for record in ordered}
    if len(sizes) > 1:
        missing.append("the number of parameters differs between seeds")
    split, test_score = ordered[0].ranked_split, None
    untrained = bool(ordered[0].untrained)
    if controller == "shared":  # the others have no weights for test bodies
        test_score = spread(f"{split} score", lambda record: record.score(split, "deterministic"))
    return Row(
        key=key,
        seeds=seeds,
        absent_seeds=absent,
        test_score=test_score,
        train_score=spread("train score", lambda record: record.score("train", "deterministic")),
        training_return=None
        if untrained
        else spread("training return", lambda record: record.training_return),
        parameters=sizes.pop() if len(sizes) == 1 else None,
        env_steps_per_s=None
        if absent
        else statistics.median(record.env_steps_per_s for record in ordered),
        seed_scores=tuple((r.seed, r.score(split, "deterministic")) for r in ordered),
        missing=tuple(missing),
        controller=controller,
        runs=tuple(runs),
        verified=all(item.digest in verified for item in runs),
        untrained=untrained,
        split=split,
    )


def _rank(row: Row) -> tuple[bool, float, RowKey]:
    score = row.test_score if row.controller == "shared" else row.train_score
    return bool(row.missing), -score.mean if score else math.inf, row.key


def _make_unranked(item: StoredRecord) -> UnrankedRun:
    shared, split = item.record.controller == "shared", item.record.ranked_split
    return UnrankedRun(
        path=item.path,
        key=row_key(item.record),
        seed=item.record.seed,
        test_score=item.record.score(split, "deterministic") if shared else None,
        reasons=item.record.unofficial_reasons,
        split=split,
    )
