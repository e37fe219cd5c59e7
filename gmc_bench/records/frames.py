"""Records as data frames: one row per run, per episode or per point of a learning curve."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from gmc_bench.core.arguments import as_path
from gmc_bench.records.parts import CurvePoint, Episode
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord, read_records, read_stored_record

if TYPE_CHECKING:
    import pandas as pd

_OF_RUN = (
    "method", "method_version", "preset", "controller", "suite", "task", "protocol", "seed",
)  # fmt: skip
_MEASURED = (
    "status", "official", "parameters", "env_steps", "env_steps_per_s", "training_return",
)  # fmt: skip
_PLACE = ("path", *_OF_RUN, "bodies")
_OF_RECORD = (
    "seconds", "train_return", "test_return", "created", "config_digest", "weights_digest",
)  # fmt: skip
_MISSING = ("training_return", "train_return", "test_return", "mean_return", "mean_length")
"""Numbers that may be missing in every row."""
_LIKE = ("method", "preset", "suite", "task", "protocol")
"""Fields that records must share for their settings to be compared."""
_NAMED = (
    "method", "method_source_digest", "suite", "task", "morphologies", "morphologies_digest",
    "protocol.name", "protocol.preset", "protocol.seeds",
)  # fmt: skip
"""Settings that other columns hold already."""
_OF_EPISODE = ("split", "mode", "body", "seen_in_train", "episode", *Episode.model_fields)
_TAKEN = (*_PLACE, *_MEASURED, *_OF_RECORD, *_OF_EPISODE, *CurvePoint.model_fields)


class Records(Sequence[RunRecord]):
    """Records of runs, in the order of their paths.

    Args:
        stored: the records and where they lie.
        refused: files that are no valid records.
    """

    def __init__(self, stored: Iterable[StoredRecord], refused: Iterable[RefusedFile] = ()) -> None:
        self.stored = tuple(stored)
        """The records with their paths and digests."""
        self.refused = tuple(refused)
        """Files that look like records and are not valid, with the reasons."""

    def __len__(self) -> int:
        return len(self.stored)

    @overload
    def __getitem__(self, index: int) -> RunRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "Records": ...
    def __getitem__(self, index: int | slice) -> "RunRecord | Records":
        if isinstance(index, slice):
            return Records(self.stored[index], self.refused)
        return self.stored[index].record

    def __iter__(self) -> Iterator[RunRecord]:
        return (item.record for item in self.stored)

    def __repr__(self) -> str:
        return f"<{len(self)} records, {len(self.refused)} refused files>"

    def to_pandas(self) -> "pd.DataFrame":
        """Return one row per run.

        `train_return` and `test_return` are means over bodies of the deterministic policy's mean
        returns; test bodies that were trained on do not count. What was not measured is missing.
        Settings in which runs of one method on one task differ have columns of their own, here
        and in the other frames, named as in a specification: `model.width`, `ppo.lr`.
        """
        rows = (
            {
                **place,
                **{name: getattr(item.record, name) for name in _MEASURED},
                "seconds": item.record.wall_clock_s.total,
                "train_return": item.record.score("train", "deterministic"),
                "test_return": item.record.score("test", "deterministic"),
                "created": item.record.created,
                "config_digest": item.record.config_digest,
                "weights_digest": item.record.weights_digest,
            }
            for item, place in self._placed()
        )
        return _frame(rows, (*_PLACE, *_MEASURED, *_OF_RECORD))

    def episodes(self) -> "pd.DataFrame":
        """Return one row per scored episode: run, split, mode, body, number, and what it was.

        The episodes of a body are numbered from 0 in each mode.
        """
        rows = (
            {**place, **row}
            for item, place in self._placed()
            for row in _episodes(item.record.returns)
        )
        return _frame(rows, (*_PLACE, *_OF_EPISODE))

    def curves(self) -> "pd.DataFrame":
        """Return one row per point of the learning curves."""
        rows = (
            {**place, **point.model_dump()}
            for item, place in self._placed()
            for point in item.record.learning_curve
        )
        return _frame(rows, (*_PLACE, *CurvePoint.model_fields))

    def _placed(self) -> Iterator[tuple[StoredRecord, dict[str, Any]]]:
        """Yield records with what tells them apart: names, and settings that differ."""
        settings = [_settings(item.record) for item in self.stored]
        alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for item, own in zip(self.stored, settings, strict=True):
            alike.setdefault(tuple(getattr(item.record, name) for name in _LIKE), []).append(own)
        differing = {
            name
            for group in alike.values()
            for name in {name for own in group for name in own}
            if any(own.get(name) != group[0].get(name) for own in group)
        }
        for item, own in zip(self.stored, settings, strict=True):
            yield item, _place(item) | {name: own.get(name) for name in sorted(differing)}


def episodes_frame(returns: Iterable[BodyReturns]) -> "pd.DataFrame":
    """Return one row per episode of an evaluation."""
    return _frame(_episodes(returns), _OF_EPISODE)


def load_records(path: str | Path) -> Records:
    """Read the records of a run, of a folder of runs, or of a leaderboard.

    Args:
        path: a folder, searched with all folders below it, or the file of one record.

    Raises:
        RecordError: there is no such folder, or the file is no valid record.
    """
    path = as_path(path, "a folder or a file of records")
    if path.is_file():
        return Records([read_stored_record(path)])
    return Records(*read_records(path))


def _place(item: StoredRecord) -> dict[str, Any]:
    record = item.record
    return {
        "path": item.path,
        **{name: getattr(record, name) for name in _OF_RUN},
        "bodies": record.morphologies.id,
    }


def _settings(record: RunRecord) -> dict[str, Any]:
    """Return the settings of a run by dotted name, as specifications have them."""
    found: dict[str, Any] = {}
    for name, value in _dotted(record.config):
        if name in _NAMED:
            continue
        short = name.removeprefix("protocol.").replace("method_config.", "model.", 1)
        # What a column of another meaning is called keeps its whole name, e.g. env_steps.
        found[name if short in _TAKEN else short] = value
    return found


def _dotted(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, _hashable(value)


def _hashable(value: Any) -> Any:
    """Return a setting with tuples for lists: frames group and join by what can be hashed."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _episodes(returns: Iterable[BodyReturns]) -> Iterator[dict[str, Any]]:
    for part in returns:
        shared = part.model_dump(exclude={"episodes", "body_digest"}, exclude_none=True)
        for number, episode in enumerate(part.episodes):
            yield {
                **_flat(shared),
                "episode": number,
                **_flat(episode.model_dump(exclude_none=True)),
            }


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the parts of nested ones as fields of their own, e.g. `loops_median`."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= (
            {f"{name}_{part}": item for part, item in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return flat


def _frame(rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> "pd.DataFrame":
    """Return rows as a frame, whose columns without any rows are those that every row has."""
    import pandas as pd

    found = list(rows)
    frame = pd.DataFrame(found) if found else pd.DataFrame(columns=list(columns))
    # Without any number in a column, pandas would take it for one of texts.
    return frame.astype({name: "float64" for name in _MISSING if name in frame.columns})
