"""Text from records made harmless in Markdown, CSV and LaTeX, and in names of files."""

import hashlib
import re

_MARKDOWN = re.compile(r"([\\`*_\[\]{}#|~$])")  # braces hold attributes (attr_list)
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")
_MAX_FILE_NAME = 100  # characters
_FORMULA_STARTS = ("=", "+", "-", "@")


def one_line(text: str) -> str:
    """Return a text with every run of white space and control characters as one space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def markdown(text: str) -> str:
    """Return a text that Markdown, in or out of a table, shows as it is."""
    plain = _MARKDOWN.sub(r"\\\1", one_line(text))
    return "".join(_HTML.get(c, c) for c in plain)


def latex(text: str) -> str:
    """Return a text that LaTeX typesets as it is."""
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def csv_text(text: str) -> str:
    """Return a text that a spreadsheet does not run as a formula; the csv module quotes it."""
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(_FORMULA_STARTS) else plain


def file_name(text: str) -> str:
    """Return a text as part of a file's name; what is replaced or cut off leaves a digest."""
    plain = _NO_FILE_NAME.sub("_", text)[:_MAX_FILE_NAME]
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
