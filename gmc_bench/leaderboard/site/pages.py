"""Descriptions of the registered methods, for the site."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.site import MethodPage
from gmc_bench.methods import METHODS, MethodSpec

_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_EQUATION = re.compile(r"^\S[^=\n]{0,24} = ", re.MULTILINE)
"""A line that begins like `y_i = `."""
_SECTIONS = ("Args:", "Shapes:", "Source:", "Returns:", "Raises:")
_DOI = re.compile(r"doi:(10\.\S+[^\s.,;])", re.IGNORECASE)


def method_pages() -> dict[str, MethodPage]:
    """Return the description of every registered method by id, but of those that do not load."""
    found = {name: item for name, item in METHODS.items() if isinstance(item, MethodSpec)}
    return {
        name: _page(item) for name, item in (found | {NO_ACTION: METHODS.get(NO_ACTION)}).items()
    }


def _page(method: MethodSpec) -> MethodPage:
    claims = method.capabilities
    names = [field.name for field in fields(claims) if getattr(claims, field.name)]
    code = f"Checked against {method.reference_code} (licence: {method.licence})."
    code = code if method.reference_code else "No public code to check against."
    return MethodPage(
        title=method.title,
        paper=method.paper,
        url=_url(method.paper),
        description=f"{code} Built here: {method.footnote}" if method.footnote else code,
        parameters=dict(method.parameters),
        deviations=method.deviations,
        capabilities=tuple(name.replace("_", " ") for name in names),
        equations=tuple(_equations(method.builder)),
    )


def _equations(builder: Any) -> Iterator[tuple[str, str]]:
    """Yield what docstrings of a network's source say that its parts compute.

    The source is read, not imported, because networks load torch.
    """
    if not isinstance(builder, str):
        return
    location = builder.rpartition(":")[0]
    try:
        found = None if location.endswith(".py") else find_spec(location)
        path = Path(location if found is None else str(found.origin))
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (ImportError, OSError, SyntaxError, ValueError):
        return  # an own method's source may be anywhere
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            summary, *parts = (ast.get_docstring(node) or "").split("\n\n")
            for part in parts:
                if _EQUATION.search(part) and not part.startswith(_SECTIONS):
                    yield f"{node.name}: {' '.join(summary.split())}", part


def _url(paper: str) -> str | None:
    for pattern, place in ((_ARXIV, "https://arxiv.org/abs/"), (_DOI, "https://doi.org/")):
        found = pattern.search(paper)
        if found:
            return place + found[1]
    return None
