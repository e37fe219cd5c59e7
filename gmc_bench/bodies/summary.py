"""Describe a morphology set in numbers, without the engine."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from gmc_bench.bodies.schema import Morphology, MorphologySet

_MEASURES: dict[str, Callable[[Morphology], float]] = {
    "limbs": lambda body: body.num_limbs,
    "joints": lambda body: body.num_joints,
    "actuators": lambda body: body.num_actuators,
    "closed loops": lambda body: len(body.loops),
    "depth": lambda body: body.depth,
    # Its sign is only a direction.
    "mean gear, N m": lambda body: _mean([abs(actuator.gear) for actuator in body.actuators]),
    "start height, m": lambda body: body.limbs[0].position[2],
}
_MIN_WIDTH = 24  # characters of a column


def describe_set(bodies: MorphologySet) -> dict[str, Any]:
    """Summarise a set.

    Args:
        bodies: the set.

    Returns:
        Plain dicts, lists, strings and numbers, ready for JSON: `id`, `digest`, `source`,
        `licence`, `notes`, and under `splits` for each split the `count`, the number of
        `distinct` bodies, `min`, `mean` and `max` of each measure (limbs count the torso), the
        `limb_histogram`, the `duplicates`, and for the test split `seen_in_train`.
    """
    splits = {split: _describe_split(bodies, split) for split in bodies.splits}
    if "test" in splits:
        splits["test"]["seen_in_train"] = sorted(bodies.seen_in_train)
    return {
        "id": bodies.id,
        "digest": bodies.digest,
        "source": bodies.source,
        "licence": bodies.licence,
        "notes": list(bodies.notes),
        "splits": splits,
    }


def _describe_split(bodies: MorphologySet, split: str) -> dict[str, Any]:
    members = bodies.split(split)
    histogram = Counter(body.num_limbs for body in members)
    return {
        "count": len(members),
        "distinct": len({body.digest for body in members}),
        "measures": {
            name: _spread([measure(body) for body in members])
            for name, measure in _MEASURES.items()
        },
        "limb_histogram": {str(limbs): histogram[limbs] for limbs in sorted(histogram)},
        "duplicates": bodies.duplicates(split),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "mean": _mean(values), "max": max(values)}


def render_set(description: dict[str, Any]) -> str:
    """Render what `describe_set` returns as a plain-text table.

    Args:
        description: the summary.

    Returns:
        Lines joined by newlines, without one at the end.
    """
    splits: dict[str, Any] = description["splits"]
    parts = splits.values()
    rows = [
        ("", list(splits)),
        ("bodies", [str(part["count"]) for part in parts]),
        ("distinct bodies", [str(part["distinct"]) for part in parts]),
        *((name, [_range_text(part["measures"][name]) for part in parts]) for name in _MEASURES),
    ]
    width = max(_MIN_WIDTH, 2 + max(len(cell) for _, cells in rows for cell in cells))
    lines = [
        f"{description['id']}  (hash {description['digest'][:12]})",
        description["source"],
        "",
        *(f"{label:<18}" + "".join(f"{cell:>{width}}" for cell in cells) for label, cells in rows),
    ]
    for split, part in splits.items():
        counts = "  ".join(f"{limbs}: {n}" for limbs, n in part["limb_histogram"].items())
        lines.append(f"bodies by limbs, {split}  {counts}")
    for split, part in splits.items():
        lines += [f"same body, {split}  {' = '.join(group)}" for group in part["duplicates"]]
        if part.get("seen_in_train"):
            lines.append(f"also in train  {', '.join(part['seen_in_train'])}")
    return "\n".join(lines)


def _range_text(spread: dict[str, float]) -> str:
    return " / ".join(f"{spread[key]:.4g}" for key in ("min", "mean", "max"))
