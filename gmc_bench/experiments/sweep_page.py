"""Page of a sweep that redraws itself while it runs: one file that needs nothing else."""

import functools
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from gmc_bench.core.escape import one_line
from gmc_bench.core.html import make_environment, policy_hash, to_bytes
from gmc_bench.experiments.cell_state import RUNNING, SweepOverview
from gmc_bench.experiments.sweep_texts import RunTexts, headline, rows_of
from gmc_bench.records.store import write_atomic

REFRESH_S = 5
MOST = 2000
"""Rows that a browser draws again and again without effort."""


def write_page(path: Path, overview: SweepOverview) -> None:
    """Write the page of a sweep as it stands.

    Raises:
        StorageError: it could not be written.
    """
    write_atomic(path, make_page(overview))


def make_page(overview: SweepOverview) -> bytes:
    """Return the page of a sweep as it stands; no text in it can become markup."""
    counts = overview.counts()
    groups, hidden = _groups(overview)
    text = _template().render(
        headline=headline(overview),
        share=f"{counts.get('finished', 0) / len(overview.states):.4f}",
        folder=one_line(str(overview.path)),
        moment=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        over=overview.is_over,
        refresh=REFRESH_S,
        script=Markup(_script()),
        script_hash=policy_hash(_script()),
        groups=groups,
        hidden=hidden,
    )
    return to_bytes(text)


def _groups(overview: SweepOverview) -> tuple[list[tuple[str, list[RunTexts]]], int]:
    """Return the tables by title, what needs attention first, and how many rows are left out."""
    phases = (
        ("Running", (*RUNNING, "waiting")),
        ("Failed", ("failed",)),
        ("Finished", ("finished",)),
        ("Not finished", ("stopped",)),
        ("To do", ("to do",)),
    )
    found, room, hidden = [], MOST, 0
    for title, wanted in phases:
        rows = rows_of(overview, wanted)
        hidden += max(0, len(rows) - room)
        if rows[:room]:
            found.append((f"{title} ({len(rows):,})", rows[:room]))
        room -= len(rows[:room])
    return found, hidden


@functools.cache
def _script() -> str:
    """Return what redraws the page, unless the reader switches that off."""
    return files(__package__).joinpath("templates", "sweep.js").read_text(encoding="utf-8")


@functools.cache
def _template() -> jinja2.Template:
    return make_environment("gmc_bench.experiments").get_template("sweep.html")
