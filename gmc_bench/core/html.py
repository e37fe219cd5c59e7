"""Pages in which no text can become markup."""

import base64
import hashlib
import json
from typing import Any

import jinja2

_NO_MARKUP = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


def make_environment(package: str) -> jinja2.Environment:
    """Return an environment whose templates escape what they show, and fail on a missing name.

    Args:
        package: dotted name of the package with the folder `templates`.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def script_json(value: Any) -> str:
    """Return a value as JSON that may stand inside a `<script>` element, whatever texts are in it.

    Equal values give equal texts: keys are sorted, and what is not ASCII is escaped.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return text.translate(_NO_MARKUP)


def policy_hash(text: str) -> str:
    """Return the source by which a content security policy lets in this script or style alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def to_bytes(text: str) -> bytes:
    """Return a page as UTF-8; file names may hold bytes that are no Unicode, shown as escapes."""
    return text.encode(errors="backslashreplace")
