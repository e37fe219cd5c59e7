"""Numbers that papers print, for comparison beside a table and never inside its ranks.

A published number was measured on other hardware, with other code and often under other rules.
Each one therefore carries where it stands, what was measured and what is not like for like.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import Split
from gmc_bench.records.parts import (
    Controller,
    Flag,
    Name,
    Positive,
    RecordPart,
    Text,
    VersionedName,
)
from gmc_bench.records.store import first_problem

FOLDER = Path(__file__).with_name("published")

Printed = Annotated[str, Field(pattern=r"^[+-]?[0-9]+(\.[0-9]+)?$")]
"""A decimal number with the digits that the paper prints."""


class _Metric(RecordPart):
    """What was measured."""

    name: Text
    unit: str
    """Unit of value and deviation; empty for a pure number."""
    higher_is_better: Flag


class _Subject(RecordPart):
    """The method that was measured."""

    paper_method: Text
    """The paper's own name for the method."""
    method: Name | None
    """Id of our controller of the same kind; `None` where there is none."""
    preset: Text | None
    """Preset with the paper's settings; `None` where there is none."""
    controller: Controller
    condition: str
    """What sets the number apart from others of the same table, e.g. the friction; may be empty."""


class _Setting(RecordPart):
    """Where a table of numbers stands, and under which rules they were measured."""

    source: Text
    """Place in the paper."""
    label: Text
    """LaTeX label of the table or passage."""
    suite: VersionedName | None
    """Full id of our suite with such bodies; `None` where there is none."""
    task: VersionedName | None
    """Full id of our task; `None` where we have no such task or the paper does not name it."""
    paper_task: Text
    bodies: Text
    split: Split | None
    """Split of the bodies that were measured; `None` when it is neither."""
    seeds: Positive | None
    """Seeds behind the mean; `None` where the paper does not say."""
    protocol: Text
    note: Text
    """What is not like for like."""


class PublishedScore(_Setting, _Subject):
    """One number of a paper; `source` begins with the paper's title."""

    metric: str
    unit: str
    higher_is_better: bool
    value: float
    sd: float | None
    """Sample standard deviation over seeds, if printed."""
    printed: str
    """Value and deviation with the paper's digits, e.g. `4367.4 ± 71.6`."""


class _ResultRow(_Subject):
    values: tuple[tuple[Printed, Printed | None], ...]


class _ResultTable(_Setting):
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


class _Paper(RecordPart):
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
        raise RecordError(
            f"{path} does not hold published numbers: {first_problem(error)}; correct it"
        ) from error
    return tuple(_scores(paper))


def _scores(paper: _Paper) -> Iterator[PublishedScore]:
    title = f"{paper.title}, arXiv:{paper.arxiv}" if paper.arxiv else paper.title
    for table in paper.tables:
        setting = table.model_dump(exclude={"metrics", "rows"})
        setting["source"] = f"{title}, {table.source}"
        for row in table.rows:
            subject = row.model_dump(exclude={"values"})
            for metric, (value, sd) in zip(table.metrics, row.values, strict=True):
                yield PublishedScore(
                    **setting,
                    **subject,
                    metric=metric.name,
                    unit=metric.unit,
                    higher_is_better=metric.higher_is_better,
                    value=float(value),
                    sd=None if sd is None else float(sd),
                    printed=value if sd is None else f"{value} ± {sd}",
                )
