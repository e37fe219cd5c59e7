"""Descriptions of the registered methods, for the site."""

import re
from dataclasses import fields

from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.site import MethodPage
from gmc_bench.methods import METHODS, MethodSpec

_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_DOI = re.compile(r"doi:(10\.\S+[^\s.,;])", re.IGNORECASE)


def method_pages() -> dict[str, MethodPage]:
    """Return the description of every registered method by id."""
    return {name: _page(METHODS.get(name)) for name in (*METHODS.names(), NO_ACTION)}


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
    )


def _url(paper: str) -> str | None:
    for pattern, place in ((_ARXIV, "https://arxiv.org/abs/"), (_DOI, "https://doi.org/")):
        found = pattern.search(paper)
        if found:
            return place + found[1]
    return None
