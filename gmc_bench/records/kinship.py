"""Which bodies count towards a score, which repeat, and which are kin of train bodies."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from gmc_bench.core.types import IntArray, Mode, Split
from gmc_bench.records.parts import BodyReturns

MAX_RUNS = 8
"""More evolution runs than these are not shown one by one."""
_RUN = re.compile(r"([a-z]+-[0-9]+)[-.].")
_PUBLISHED = Path(__file__).with_name("kinship.json")


def limb_tree(item: BodyReturns) -> str | None:
    """Return a digest of a body's limb tree; `None` where it is unknown."""
    return item.tree or _published().get(item.body_digest, (None, None))[0]


def geometry(item: BodyReturns) -> str | None:
    """Return a digest of a body's geometry; `None` where it is unknown."""
    return item.geometry or _published().get(item.body_digest, (None, None))[1]


def scored(
    returns: Iterable[BodyReturns], split: Split, mode: Mode = "deterministic"
) -> list[BodyReturns]:
    """Return the returns that count towards a split's score: on `test`, of unseen bodies only."""
    return [
        item
        for item in returns
        if (item.split, item.mode) == (split, mode) and (split == "train" or not item.seen_in_train)
    ]


def geometry_clusters(items: Sequence[BodyReturns]) -> IntArray:
    """Return cluster labels (C,) of the C `contents` of bodies, equal where they share a geometry.

    A body of unknown geometry is a cluster of its own.
    """
    labels = [geometry(same[0]) or same[0].body_digest for same in contents(items)]
    found: IntArray = np.unique(np.array(labels), return_inverse=True)[1].astype(np.int64)
    return found


def evolution_run(name: str) -> str | None:
    """Return the run of evolution, or the lineage, that a body's name states.

    `floor-5506-12-14-01-15-22-01` is of the run `floor-5506`, `evolved-00012.31.240` of the lineage
    `evolved-00012`; `None` of a body that did not evolve, e.g. `grown-00001`.
    """
    found = _RUN.match(name)
    return found.group(1) if found else None


def contents(items: Iterable[BodyReturns]) -> list[list[BodyReturns]]:
    """Group bodies by content, so that one that a set lists twice counts once; sorted by name."""
    found: dict[str, list[BodyReturns]] = {}
    for item in sorted(items, key=lambda item: item.body):
        found.setdefault(item.body_digest, []).append(item)
    return list(found.values())


def content_means(items: Iterable[BodyReturns]) -> dict[str, float]:
    """Return the mean return of each of the `contents` of bodies, by the name of its first one."""
    return {same[0].body: _mean([item.mean_return for item in same]) for same in contents(items)}


def mean_return(items: Iterable[BodyReturns]) -> float | None:
    """Return the mean over bodies, each content counted once; `None` without any."""
    means = list(content_means(items).values())
    return _mean(means) if means else None


def by_novelty(
    items: Sequence[BodyReturns], train: Sequence[BodyReturns]
) -> dict[str, list[BodyReturns]]:
    """Group test bodies by what is new about them.

    Args:
        items: test bodies that were not trained on.
        train: the bodies that were.

    Returns:
        By the name of the group: bodies that share their geometry with a train body (only joints,
        motors or masses are new), those that share its limb tree, and those with a new tree;
        nothing where the tree of a body is unknown.
    """
    kin = [(limb_tree(item), geometry(item)) for item in [*items, *train]]
    if not items or not train or any(None in pair for pair in kin):
        return {}
    trees, shapes = ({pair[place] for pair in kin[len(items) :]} for place in (0, 1))
    groups: dict[str, list[BodyReturns]] = {
        "geometry of a train body": [],
        "tree of a train body": [],
        "new tree": [],
    }
    for item, (tree, shape) in zip(items, kin, strict=False):
        kind = "geometry" if shape in shapes else "tree"
        groups["new tree" if tree not in trees else f"{kind} of a train body"].append(item)
    return {name: group for name, group in groups.items() if group}


def by_run(
    items: Sequence[BodyReturns], train: Sequence[BodyReturns]
) -> dict[str, list[BodyReturns]]:
    """Group test bodies by the run of evolution that their names state.

    Returns:
        By run; of more runs than `MAX_RUNS` those with train bodies and those without. Nothing
        where a name states none or all are of one run.
    """
    runs = [evolution_run(item.body) for item in items]
    if None in runs or len(set(runs)) < 2:
        return {}
    trained = {evolution_run(item.body) for item in train}
    groups: dict[str, list[BodyReturns]] = {}
    for item, run in sorted(zip(items, runs, strict=True), key=lambda pair: str(pair[1])):
        name = str(run)
        if len(set(runs)) > MAX_RUNS:
            name = "lineage of a train body" if run in trained else "new lineage"
        groups.setdefault(name, []).append(item)
    return dict(sorted(groups.items())) if len(groups) > 1 else {}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


@cache
def _published() -> dict[str, tuple[str, str]]:
    """Return tree and geometry of published bodies, which older records do not state, by digest."""
    found = json.loads(_PUBLISHED.read_text(encoding="utf-8"))["bodies"]
    return {digest: (tree, shape) for digest, tree, shape in found}
