"""Footnotes of tables: methods that are not quite the published one, `MethodSpec.footnote`."""

from collections.abc import Iterable

from gmc_bench.core.errors import GmcBenchError
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


def footnotes(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the footnotes of some methods, each once, by name."""
    found = {name: footnote(name) for name in sorted(set(methods))}
    return tuple(f"{MARK} {name}: {text}" for name, text in found.items() if text)
