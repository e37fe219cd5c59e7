"""Numbers that papers print, for comparison beside a table and never inside its ranks.

A published number was measured on other hardware, with other code and often under other rules.
Each one therefore carries where it stands, what was measured and what is not like for like.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from gmc_bench.core.errors import RecordError
from gmc_bench.records.parts import (
    Controller,
    Flag,
    Name,
    Part,
    Positive,
    Split,
    Text,
    VersionedName,
)

FOLDER = Path(__file__).with_name("published")

Printed = Annotated[str, Field(pattern=r"^[+-]?[0-9]+(\.[0-9]+)?$")]
"""A decimal number with the digits that the paper prints."""


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """One number of a paper."""

    paper_method: str
    """The paper's own name for the method."""
    method: str | None
    """Id of our controller of the same kind; `None` where there is none."""
    preset: str | None
    """Preset with the paper's settings; `None` where there is none."""
    controller: Controller
    suite: str | None
    """Full id of our suite with such bodies; `None` where there is none."""
    task: str | None
    """Full id of our task; `None` where we have no such task or the paper does not name it."""
    paper_task: str
    bodies: str
    split: Split | None
    """Split of the bodies that were measured; `None` when it is neither."""
    condition: str
    """What sets the number apart from others of the same table, e.g. the friction; may be empty."""
    metric: str
    unit: str
    """Unit of `value` and `sd`; empty for a pure number."""
    higher_is_better: bool
    value: float
    sd: float | None
    """Sample standard deviation over seeds, if printed."""
    printed: str
    """Value and deviation with the paper's digits, e.g. `4367.4 ± 71.6`."""
    seeds: int | None
    """Seeds behind the mean; `None` where the paper does not say."""
    protocol: str
    source: str
    """Title of the paper and the place in it."""
    label: str
    """LaTeX label of the table or passage."""
    note: str
    """What is not like for like."""


class _Metric(Part):
    name: Text
    unit: str
    higher_is_better: Flag


class _ResultRow(Part):
    paper_method: Text
    method: Name | None
    preset: Text | None
    controller: Controller
    condition: str
    values: tuple[tuple[Printed, Printed | None], ...]


class _ResultTable(Part):
    source: Text
    label: Text
    suite: VersionedName | None
    task: VersionedName | None
    paper_task: Text
    bodies: Text
    split: Split | None
    seeds: Positive | None
    protocol: Text
    note: Text
    metrics: tuple[_Metric, ...]
    rows: tuple[_ResultRow, ...]

    @model_validator(mode="after")
    def _rows_are_full(self) -> "_ResultTable":
        for row in self.rows:
            if len(row.values) != len(self.metrics):
                raise ValueError(
                    f"{row.paper_method!r} in {self.source} has {len(row.values)} values "
                    f"for {len(self.metrics)} metrics"
                )
            if row.preset is not None and row.method is None:
                raise ValueError(f"{row.paper_method!r} in {self.source} has a preset but no id")
        return self


class _Paper(Part):
    title: Text
    arxiv: Text | None
    tables: tuple[_ResultTable, ...]


def published_for(suite: str, task: str) -> tuple[PublishedScore, ...]:
    """Return what papers report for a task on such bodies, in the order of their tables.

    Args:
        suite: full id of a suite, e.g. `unimal-v1`.
        task: full id of a task, e.g. `unimal-ft-v1`.

    Returns:
        The numbers; empty for what no stored paper has.

    Raises:
        RecordError: a stored file of published numbers is invalid.
    """
    return tuple(s for s in published_scores() if (s.suite, s.task) == (suite, task))


@functools.cache
def published_scores() -> tuple[PublishedScore, ...]:
    """Return every stored number of every paper, by file name, then in the order of the paper.

    Raises:
        RecordError: a stored file of published numbers is invalid.
    """
    return tuple(score for path in sorted(FOLDER.glob("*.json")) for score in read_published(path))


def read_published(path: Path) -> tuple[PublishedScore, ...]:
    """Read the numbers of one paper.

    Args:
        path: JSON file as in the folder `published` beside this module.

    Returns:
        One entry per number, in the order of the file.

    Raises:
        RecordError: the file cannot be read or is not of that form.
    """
    try:
        paper = _Paper.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(
            f"cannot read the published numbers {path}: {error.strerror}; install the package again"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise RecordError(
            f"{path} does not hold published numbers: {where}: {first['msg']}; correct it"
        ) from error
    return tuple(_scores(paper))


def _scores(paper: _Paper) -> Iterator[PublishedScore]:
    title = f"{paper.title}, arXiv:{paper.arxiv}" if paper.arxiv else paper.title
    for table in paper.tables:
        for row in table.rows:
            for metric, (value, sd) in zip(table.metrics, row.values, strict=True):
                yield PublishedScore(
                    paper_method=row.paper_method,
                    method=row.method,
                    preset=row.preset,
                    controller=row.controller,
                    suite=table.suite,
                    task=table.task,
                    paper_task=table.paper_task,
                    bodies=table.bodies,
                    split=table.split,
                    condition=row.condition,
                    metric=metric.name,
                    unit=metric.unit,
                    higher_is_better=metric.higher_is_better,
                    value=float(value),
                    sd=None if sd is None else float(sd),
                    printed=value if sd is None else f"{value} ± {sd}",
                    seeds=table.seeds,
                    protocol=table.protocol,
                    source=f"{title}, {table.source}",
                    label=table.label,
                    note=table.note,
                )
