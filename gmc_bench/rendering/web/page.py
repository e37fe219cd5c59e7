"""The page: an HTML file with player, style, library and data in it, which loads nothing else.

Many pages in one folder may share player, style and library as files beside them instead.
"""

import html
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gmc_bench.core.html import policy_hash, script_json

_STYLE, _SCRIPTS = "player.css", ("three.js", "player.js")


def make_page(
    title: str,
    data: Mapping[str, Any],
    *,
    live: bool = False,
    static: str | None = None,
    back: str | None = None,
) -> str:
    """Return a whole page.

    Args:
        title: plain text, from wherever; what is in it is shown, never obeyed.
        data: values for JSON, what the player shows.
        live: let the page talk to the server that it comes from, and to nobody else.
        static: folder with `linked_files`, relative to the page; by default they are in it.
        back: a page that this one links to, relative to it.

    Returns:
        HTML. A policy in it forbids every script and style but its own, and every request.
    """
    parts = {name: _part(name) for name in (_STYLE, *_SCRIPTS)}
    if static is None:
        scripts = " ".join(_hashed(name) for name in _SCRIPTS)
        style, trust = _hashed(_STYLE), ""
        head = f"<style>{parts[_STYLE]}</style>"
        code = "\n".join(f"<script>{parts[name]}</script>" for name in _SCRIPTS)
    else:
        scripts = style = "'self'"
        trust = "; require-trusted-types-for 'script'; trusted-types 'none'"
        head = f'<link rel="stylesheet" href="{static}{_STYLE}">'
        code = "\n".join(f'<script src="{static}{name}"></script>' for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {style}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; "
        f"base-uri 'none'; form-action 'none'{trust}"
    )
    texts = {
        "policy": policy,
        "title": html.escape(title),
        "style": head,
        "back": "" if back is None else f'<p><a href="{html.escape(back)}">The record</a></p>',
        "data": script_json(data),
        "scripts": code,
    }
    page = _part("page.html")
    begin, *rest = page.split("{{ ")
    # One pass: what is put in is not looked through again.
    return begin + "".join(
        texts[name] + tail for name, _, tail in (part.partition(" }}") for part in rest)
    )


def linked_files() -> dict[str, bytes]:
    """Return what a page with `static` loads, by name."""
    return {name: _part(name).encode() for name in (_STYLE, *_SCRIPTS)}


@cache
def _part(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


@cache
def _hashed(name: str) -> str:
    return policy_hash(_part(name))
