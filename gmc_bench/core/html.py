"""Jinja2 set up so that no text can become markup."""

import jinja2


def make_environment(package: str) -> jinja2.Environment:
    """Return an environment whose templates escape what they show, and miss no name silently.

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


def to_bytes(text: str) -> bytes:
    """Return a page as UTF-8; file names may hold bytes that are no Unicode, shown as escapes."""
    return text.encode(errors="backslashreplace")
