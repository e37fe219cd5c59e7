"""Statistics of sets beside each other: what bodies are like, and what they do untrained."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.clearance import CLEARANCE, FALL_RATIO
from gmc_bench.bodies.mjcf import SIM_DT, compile_body, has_warned, mute_warnings
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.generation.judge import PLANE
from gmc_bench.generation.viability import CONTROL_DT, DURATION, assess_viability

MEASURES = {
    "limbs": "limbs, torso included",
    "joints": "joints",
    "loops": "closed loops",
    "mass": "mass, kg",
    "height": "start height of the torso, m",
    "gear": "mean gear, N m",
    "stands": f"stands {DURATION:g} s without control, share",
    "distance": f"best open-loop gait, m in {DURATION:g} s",
    "survives": "gaits that do not fall, share",
}
"""What is measured, by key; the last three are behaviour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyMeasures:
    """Measures of one body, see `MEASURES`; behaviour is `None` where it was not asked for."""

    limbs: int
    joints: int
    loops: int
    mass: float
    height: float
    gear: float
    stands: float | None = None
    distance: float | None = None
    survives: float | None = None


def measure_body(body: Morphology, *, behaviour: bool) -> BodyMeasures:
    """Measure one body.

    Args:
        body: the body.
        behaviour: also simulate it: 4 s without control, and the search over open-loop gaits of
            `assess_viability`, whose gaits follow from the body's hash.

    Raises:
        MorphologyError: the engine refuses the body.
    """
    model = compile_body(body, floor=PLANE)
    stands, distance, survives = None, None, None
    if behaviour:
        viability = assess_viability(body, np.random.default_rng(int(body.digest[:16], 16)))
        stands = float(_stands(body, model))
        distance, survives = viability.best_distance, viability.surviving_share
    return BodyMeasures(
        limbs=body.num_limbs,
        joints=body.num_joints,
        loops=len(body.loops),
        mass=float(model.body_mass.sum()),
        height=body.limbs[0].position[2],
        gear=float(np.mean([abs(actuator.gear) for actuator in body.actuators])),
        stands=stands,
        distance=distance,
        survives=survives,
    )


def _stands(body: Morphology, model: mujoco.MjModel) -> bool:
    """Return whether a body without control stays above the height at which it counts as fallen."""
    data = mujoco.MjData(model)
    mute_warnings(data)
    fall_height = FALL_RATIO * (body.limbs[0].position[2] - CLEARANCE)
    substeps = round(CONTROL_DT / SIM_DT)
    for _ in range(round(DURATION / CONTROL_DT)):
        mujoco.mj_step(model, data, substeps)
        if not data.qpos[2] > fall_height:
            return False
    return not has_warned(data)


def measure_set(
    bodies: MorphologySet,
    *,
    behaviour: bool,
    limit: int | None = None,
    on_body: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Measure the bodies of a set.

    Args:
        bodies: the set.
        behaviour: see `measure_body`.
        limit: most bodies of each split; they are taken evenly over the split.
        on_body: called after each body.

    Returns:
        Ready for JSON: `id`, `digest`, and for each split under `splits` the `count`, how many
        were `measured`, and `measures` with `mean`, `low` (10th percentile) and `high` (90th).
    """
    splits = {}
    for split in bodies.splits:
        measured, members = [], bodies.split(split)
        for body in _spread_over(members, limit):
            measured.append(asdict(measure_body(body, behaviour=behaviour)))
            if on_body:
                on_body()
        measures = {}
        for key in MEASURES:
            values = [row[key] for row in measured if row[key] is not None]
            if values:
                low, high = np.percentile(values, [10, 90])
                measures[key] = {
                    "mean": float(np.mean(values)), "low": float(low), "high": float(high),
                }  # fmt: skip
        splits[split] = {
            "count": len(members), "measured": len(measured), "measures": measures,
        }  # fmt: skip
    return {"id": bodies.id, "digest": bodies.digest, "splits": splits}


def _spread_over(members: Sequence[Morphology], limit: int | None) -> Sequence[Morphology]:
    if limit is None or limit >= len(members):
        return members
    return [members[math.floor(k * len(members) / limit)] for k in range(limit)]


def comparison_table(measured: Sequence[dict[str, Any]]) -> str:
    """Render what `measure_set` returns for several sets as one Markdown table.

    A cell holds the mean and, in brackets, the 10th and the 90th percentile; shares have no
    percentiles where they are 0 or 1 for each body.
    """
    columns = [(p["id"], split, part) for p in measured for split, part in p["splits"].items()]
    lines = [
        "| | " + " | ".join(f"{name} {split}" for name, split, _ in columns) + " |",
        "| --- |" + " --- |" * len(columns),
        "| bodies | " + " | ".join(str(part["count"]) for *_, part in columns) + " |",
    ]
    if any(part["measured"] < part["count"] for *_, part in columns):
        cells = " | ".join(str(part["measured"]) for *_, part in columns)
        lines.append(f"| measured | {cells} |")
    for key, title in MEASURES.items():
        if any(key in part["measures"] for *_, part in columns):
            cells = " | ".join(_cell(key, part["measures"].get(key)) for *_, part in columns)
            lines.append(f"| {title} | {cells} |")
    return "\n".join(lines)


def _cell(key: str, spread: dict[str, float] | None) -> str:
    if spread is None:
        return "-"
    digits = {"mass": 1, "gear": 0}.get(key, 2)
    if key == "stands":  # 0 or 1 for each body
        return f"{spread['mean']:.2f}"
    whole = 0 if key in ("limbs", "joints", "loops", "gear") else digits
    low, high = (f"{spread[side]:.{whole}f}" for side in ("low", "high"))
    mean = f"{spread['mean']:.{1 if key in ('limbs', 'joints') else digits}f}"
    return f"{mean} ({low}-{high})"
