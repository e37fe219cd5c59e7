"""Replays on the site: one per row of a table, of a verified record whose weights are kept.

Who plays them is given from outside (`rendering.web.records`), because tables need no simulator.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.site import names
from gmc_bench.records.store import StoredRecord

STATIC = "replays/static/"
"""Where the files lie that all replays load."""

_log = logging.getLogger(__name__)


class ReplayedRecord(Protocol):
    """Episodes of a record that came out as recorded."""

    @property
    def episodes(self) -> Sequence[Mapping[str, Any]]:
        """Of each the `title` (the body), `rank` and `total` (the return)."""

    @property
    def remarks(self) -> Sequence[str]:
        """A sentence for each episode that is not shown."""

    def page(self, static: str, back: str) -> bytes:
        """Return the page, which loads what lies at `static` and links to `back`."""


class Replays(Protocol):
    """Plays episodes of records."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """What all pages load, by name."""

    def of(self, stored: StoredRecord) -> ReplayedRecord:
        """Return the replay of a record.

        Raises:
            GmcBenchError: it cannot be played, and why.
        """


@dataclass(frozen=True, kw_only=True)
class RowReplay:
    """What the site shows of a row."""

    seed: int
    """Of the run that is shown."""
    page: str | None = None
    """Where its replay lies in the site; `None` without one."""
    episodes: tuple[Mapping[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()
    """Why something, or everything, is missing."""


class Gallery:
    """The replays of all rows; `files` collects their pages.

    Args:
        replays: who plays; `None` shows nothing.
        weights: digests of the policies whose weights are kept.
        pages: page of every record, by its path.
    """

    def __init__(
        self, replays: Replays | None, weights: Collection[str], pages: Mapping[str, str]
    ) -> None:
        self._replays, self._weights, self._pages = replays, weights, pages
        self.files: dict[str, bytes] = {}
        self.by_record: dict[str, RowReplay] = {}
        """What is shown of each record that was chosen, by its path."""

    @property
    def is_open(self) -> bool:
        """Whether replays are shown at all."""
        return self._replays is not None

    def enter(self, analysis: TableAnalysis) -> None:
        """Play what is shown of every row of a table."""
        if self._replays is None:
            return
        for row in analysis.table.rows:
            stored = self._choose(row)
            self.by_record[stored.path] = self._shown(row, stored)

    def of_row(self, row: Row) -> RowReplay | None:
        """Return what is shown of a row."""
        found = (self.by_record.get(run.path) for run in row.runs)
        return next(filter(None, found), None)

    def _choose(self, row: Row) -> StoredRecord:
        """Return the run in the middle of those that can be played, by score."""
        scores = dict(row.seed_scores)
        kept = [run for run in row.runs if str(run.record.weights_digest) in self._weights]
        found = sorted(kept or row.runs, key=lambda run: scores[run.record.seed] or 0.0)
        return found[(len(found) - 1) // 2]

    def _shown(self, row: Row, stored: StoredRecord) -> RowReplay:
        seed = stored.record.seed
        reason = ""
        if str(stored.record.weights_digest) not in self._weights:
            reason = "No weights of this row are kept here, so nothing can be played."
        elif not row.verified:
            reason = "Only verified records are replayed; not every run of this row is verified."
        if reason:
            return RowReplay(seed=seed, remarks=(reason,))
        assert self._replays is not None
        _log.info("replay of %s", stored.path)
        try:
            found = self._replays.of(stored)
        except GmcBenchError as error:
            return RowReplay(seed=seed, remarks=(f"It cannot be played here: {error}.",))
        if not found.episodes:
            return RowReplay(seed=seed, remarks=tuple(found.remarks))
        page = names.replay_page(stored.record.method, stored.digest)
        self.files[page] = found.page("static/", f"../{self._pages[stored.path]}")
        self.files |= {STATIC + name: data for name, data in self._replays.files.items()}
        return RowReplay(
            seed=seed, page=page, episodes=tuple(found.episodes), remarks=tuple(found.remarks)
        )
