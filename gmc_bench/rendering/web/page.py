"""The page: one HTML file with player, style, library and data in it, which loads nothing else."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_TOKENS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def make_page(title: str, data: Mapping[str, Any], *, live: bool = False) -> str:
    """Return a whole page.

    Args:
        title: plain text, from wherever; what is in it is shown, never obeyed.
        data: values for JSON, what the player shows.
        live: let the page talk to the server that it comes from, and to nobody else.

    Returns:
        HTML. A policy in it forbids every script and style but its own, and every request.
    """
    style, three, player = _part("player.css"), _part("three.js"), _part("player.js")
    policy = (
        f"default-src 'none'; script-src {_hashed(three)} {_hashed(player)}; "
        f"style-src {_hashed(style)}; connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; "
        f"base-uri 'none'; form-action 'none'"
    )
    texts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "data": _as_script(data),
        "three": three,
        "player": player,
    }
    page = _part("page.html")
    head, *rest = page.split("{{ ")
    # One pass: what is put in is not looked through again.
    return head + "".join(
        texts[name] + tail for name, _, tail in (part.partition(" }}") for part in rest)
    )


@cache
def _part(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


@cache
def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_script(data: Mapping[str, Any]) -> str:
    """Return JSON that no browser takes for markup, whatever texts are in it."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    return "".join(_TOKENS.get(letter, letter) for letter in text)
