"""Growth of cost with tokens and with bodies: measurements, and exponents of power laws."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gmc_bench.studies.straight_line import fit_straight_line

NAME = "scaling"
QUESTION = "How do latency, training and memory grow with tokens and with bodies?"
Axis = Literal["tokens", "bodies"]
AXES: tuple[Axis, ...] = ("tokens", "bodies")
MIN_POINTS = 3
"""Sizes that a fit needs: two always lie on a line."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One measured number of a cell."""

    kind: str
    """Of the measurement that gives it."""
    key: str
    """Its name there."""
    title: str
    unit: str
    axis: Axis
    fitted: bool = True
    """Whether an exponent is asked for."""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})"


QUANTITIES = (
    Quantity("act-time", "act_ms", "Acting", "ms", "tokens"),
    Quantity("train-time", "train_ms", "Gradient step", "ms", "tokens"),
    Quantity("train-time", "samples_per_s", "Training throughput", "samples/s", "tokens", False),
    Quantity("act-memory", "act_mib", "Memory of acting", "MiB", "tokens"),
    Quantity("train-memory", "train_mib", "Memory of a gradient step", "MiB", "tokens"),
    Quantity("simulation", "build_s", "Building the environment", "s", "bodies"),
    Quantity("simulation", "table_s", "of it the token table", "s", "bodies"),
    Quantity("simulation", "build_mib", "Process memory of the models", "MiB", "bodies"),
    Quantity("simulation", "draw_us", "Choosing a body, per reset", "us", "bodies"),
    Quantity("simulation", "record_us", "Noting an episode, per reset", "us", "bodies"),
    Quantity("simulation", "reset_us", "Reset of the simulation", "us", "bodies"),
    Quantity("simulation", "iteration_ms", "Sampling, per iteration", "ms", "bodies"),
    Quantity("simulation", "kept_mib", "Simulation data kept", "MiB", "bodies", False),
    Quantity("table", "table_mib", "Table of tokens", "MiB", "bodies"),
    Quantity("table", "graph_mib", "Limb graphs", "MiB", "bodies"),
    Quantity("table", "graph_peak_mib", "Live tensors while making graphs", "MiB", "bodies"),
    Quantity("table", "graph_s", "Making graphs", "s", "bodies"),
    Quantity("policy", "policy_mib", "Process memory of policy and table", "MiB", "bodies"),
    Quantity("policy", "prepare_s", "First action", "s", "bodies"),
    Quantity("policy", "act_ms", "Later actions", "ms", "bodies"),
    Quantity("compiler", "compile_s", "torch.compile, tracing", "s", "bodies"),
    Quantity("compiler", "recompile_s", "the same for one body more", "s", "bodies"),
)
"""In the order of the tables."""


@dataclass(frozen=True, slots=True)
class ScalingCell:
    """One measurement: numbers, or the reason why there are none."""

    kind: str
    method: str
    """Registered id; empty for what has nothing to do with a method."""
    size: int
    """Tokens per body, or bodies."""
    values: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads."""
        content: dict[str, Any] = {"kind": self.kind, "method": self.method, "size": self.size}
        return content | ({"reason": self.reason} if self.reason else {"values": dict(self.values)})

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "ScalingCell":
        """Return the cell that `to_dict` wrote."""
        values = {name: float(value) for name, value in content.get("values", {}).items()}
        found = {name: content[name] for name in ("kind", "method", "size")}
        return cls(**found, values=values, reason=content.get("reason", ""))


@dataclass(frozen=True, slots=True)
class Exponent:
    """The power of the size that a cost grows with."""

    value: float
    low: float
    high: float
    """Ends of the confidence interval."""
    sizes: tuple[int, ...]
    """What it was fitted to."""

    @property
    def text(self) -> str:
        """Value and interval for a table."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def upper_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes that are at least the geometric mean of the smallest and the largest.

    Below it, costs that do not depend on the size hide the growth.
    """
    ordered = sorted(sizes)
    if not ordered:
        return ()
    middle = math.sqrt(ordered[0] * ordered[-1])
    return tuple(size for size in ordered if size >= middle * (1 - 1e-12))


def fit_exponent(values: Mapping[int, float]) -> Exponent | None:
    """Fit log y = a + b log n by least squares to the upper part of the range.

    A curve that is still bending makes the interval wide: the residuals are then those of the
    bend, not of noise.

    Args:
        values: size -> y, both positive; other values are left out.

    Returns:
        The exponent b, or `None` with fewer than `MIN_POINTS` sizes to fit.
    """
    usable = {size: y for size, y in values.items() if size > 0 and y > 0 and math.isfinite(y)}
    sizes = upper_sizes(usable)
    if len(sizes) < MIN_POINTS:
        return None
    x = np.log(np.array(sizes, np.float64))
    line = fit_straight_line(x, np.log(np.array([usable[size] for size in sizes])))
    interval = line.slope_interval
    return None if interval is None else Exponent(line.slope, *interval, sizes)


class Measurements:
    """All cells of a study.

    Args:
        cells: each kind, method and size once.
    """

    def __init__(self, cells: Iterable[ScalingCell]) -> None:
        self.cells = sorted(cells, key=lambda cell: (cell.kind, cell.method, cell.size))
        self._by_place = {(cell.kind, cell.method, cell.size): cell for cell in self.cells}

    def methods(self, quantity: Quantity) -> list[str]:
        """Return the methods with a number or a reason for none, in alphabetical order."""
        return sorted(
            {
                cell.method
                for cell in self.cells
                if cell.kind == quantity.kind and (cell.reason or quantity.key in cell.values)
            }
        )

    def sizes(self, axis: Axis) -> list[int]:
        """Return the sizes asked for, rising."""
        kinds = {quantity.kind for quantity in QUANTITIES if quantity.axis == axis}
        return sorted({cell.size for cell in self.cells if cell.kind in kinds})

    def cell(self, quantity: Quantity, method: str, size: int) -> ScalingCell | None:
        """Return a cell; `None` if it was not asked for yet."""
        return self._by_place.get((quantity.kind, method, size))

    def series(self, quantity: Quantity, method: str) -> dict[int, float]:
        """Return size -> number, of the sizes that were measured, rising."""
        found = {}
        for size in self.sizes(quantity.axis):
            cell = self.cell(quantity, method, size)
            if cell is not None and quantity.key in cell.values:
                found[size] = cell.values[quantity.key]
        return found

    def exponent(self, quantity: Quantity, method: str) -> Exponent | None:
        """Return the exponent of a quantity; `None` where it is not fitted."""
        return fit_exponent(self.series(quantity, method)) if quantity.fitted else None


def of_axis(axis: Axis) -> Sequence[Quantity]:
    """Return the quantities of an axis."""
    return [quantity for quantity in QUANTITIES if quantity.axis == axis]
