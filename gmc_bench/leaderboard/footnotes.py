"""Footnotes of tables: methods that are not quite the published one, and which were tuned."""

from collections import Counter
from collections.abc import Iterable, Sequence

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.leaderboard.aggregate import Row, RowKey, tuning_of
from gmc_bench.methods import METHODS

MARK = "†"
"""Behind the name of a method that has a footnote."""


def footnote(method: str) -> str:
    """Return the footnote of a method; empty if it has none or is not registered here."""
    try:
        return METHODS.get(method).footnote if method in METHODS.names() else ""
    except GmcBenchError:  # a broken package
        return ""


def marked(method: str, text: str | None = None) -> str:
    """Return a text that names a method, by default its id, with the mark of its footnote."""
    text = method if text is None else text
    return f"{text} {MARK}" if footnote(method) else text


def names(rows: Sequence[Row]) -> dict[RowKey, str]:
    """Return names that tell rows apart: the method, and what else is needed where it repeats.

    A method with two presets has two rows, and so has one that was corrected.
    """
    counts = Counter(row.key.method for row in rows)
    return {
        key: key.method
        if counts[key.method] == 1
        else f"{key.method} v{key.method_version}, {key.preset}, {key.config_digest[:8]}"
        for key in (row.key for row in rows)
    }


def footnotes(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what some rows need to be read with.

    That is the footnote of each method (`MethodSpec.footnote`), by name, and if the rows do not
    share the protocol's settings, which of them have others and why.
    """
    found = {name: footnote(name) for name in sorted({row.key.method for row in rows})}
    methods = [f"{MARK} {name}: {text}" for name, text in found.items() if text]
    return (*methods, *_tuning(rows))


def _tuning(rows: Sequence[Row]) -> Iterable[str]:
    """Yield what was tuned, if anything was."""
    tuned, untuned, named = [], [], names(rows)
    for row in sorted(rows, key=lambda row: row.key):
        kept = tuning_of(row)
        if kept is None:
            untuned.append(named[row.key])
            continue
        values = ", ".join(f"{name} {value:g}" for name, value in sorted(kept.settings.items()))
        trials = f"{len(kept.trials)} trials" if kept.trials else "trials that are not recorded"
        tuned.append(f"{named[row.key]} ({values}; {trials})")
    if not tuned:
        return
    rest = f" With the values before tuning: {', '.join(untuned)}."
    yield f"Tuned beforehand: {', '.join(tuned)}.{rest if untuned else ''}"
