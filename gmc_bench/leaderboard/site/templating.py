"""Jinja2 set up so that no text of a record can become markup."""

import functools
from typing import Any

import jinja2
from markupsafe import Markup

from gmc_bench.core.escape import one_line
from gmc_bench.core.html import make_environment, script_json, to_bytes
from gmc_bench.leaderboard.footnotes import marked
from gmc_bench.leaderboard.site import names, numbers


def render(template: str, depth: int, **context: Any) -> bytes:
    """Return a page.

    Args:
        template: file in `templates`.
        depth: folders between the site's root and the page.
        **context: what the template uses; a missing name is an error.
    """
    text = _environment().get_template(template).render(root="../" * depth, **context)
    return to_bytes(text)


def _script_json(value: Any) -> Markup:
    return Markup(script_json(value))  # no character that HTML reads is left


@functools.cache
def _environment() -> jinja2.Environment:
    environment = make_environment("gmc_bench.leaderboard.site")
    shown = (numbers.number, numbers.count, numbers.estimate, numbers.spread)
    pages = (names.board_page, names.compare_page, names.method_page, names.set_page)
    environment.filters |= {function.__name__: function for function in (*shown, *pages)}
    environment.filters |= {"plain": one_line, "script_json": _script_json, "marked": marked}
    return environment
