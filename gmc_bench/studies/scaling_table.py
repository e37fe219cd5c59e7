"""The tables of the scaling study."""

import math
from collections.abc import Sequence

from gmc_bench.core.table import Table
from gmc_bench.leaderboard.statistics import CONFIDENCE
from gmc_bench.studies.scaling import (
    AXES,
    QUANTITIES,
    Axis,
    Measurements,
    Quantity,
    ScalingCell,
    of_axis,
)
from gmc_bench.studies.table import NONE

NO_METHOD = "all methods"


def number_text(value: float) -> str:
    """Return a number with three digits that count."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def cell_text(cell: ScalingCell | None, quantity: Quantity) -> str:
    """Return a number, why there is none, or `-` for what nobody has asked for."""
    if cell is None:
        return NONE
    if cell.reason:
        return f"not measured ({cell.reason})"
    value = cell.values.get(quantity.key)
    return NONE if value is None else number_text(value)


def exponent_table(found: Measurements, axis: Axis) -> Table:
    """Return the exponent of every fitted quantity with its interval.

    Over tokens there is a row per method, over bodies a row per quantity and method; what has
    nothing to do with a method is of `all methods`.
    """
    quantities = [q for q in of_axis(axis) if q.fitted and found.methods(q)]
    title = f"Exponents over {axis}"
    note = (
        f"Exponent b of cost ~ {axis}^b, with its {CONFIDENCE:.0%} interval: least squares on "
        f"logarithms over the sizes from the geometric mean of the smallest and the largest that "
        f"were measured; {NONE} with fewer than three of them."
    )
    if axis == "bodies":
        rows = [
            (quantity.title, method or NO_METHOD, *_exponent_cells(found, quantity, method))
            for quantity in quantities
            for method in found.methods(quantity)
        ]
        headings: tuple[str, ...] = ("Quantity", "Method", "Exponent", "Fitted to")
        return Table(headings, rows, title, (note,))
    methods = sorted({method for quantity in quantities for method in found.methods(quantity)})
    lines = []
    for method in methods:
        cells = [_exponent_cells(found, quantity, method) for quantity in quantities]
        ranges = dict.fromkeys(place for _, place in cells if place != NONE)
        lines.append((method, *(text for text, _ in cells), " / ".join(ranges) or NONE))
    headings = ("Method", *(quantity.title for quantity in quantities), "Fitted to")
    return Table(headings, lines, title, (note,))


def _exponent_cells(found: Measurements, quantity: Quantity, method: str) -> tuple[str, str]:
    exponent = found.exponent(quantity, method)
    if exponent is None:
        return NONE, NONE
    return exponent.text, f"{exponent.sizes[0]:,} to {exponent.sizes[-1]:,}"


def size_table(found: Measurements, quantities: Sequence[Quantity]) -> Table:
    """Return a row per quantity and method, and a column per size; all of one axis."""
    sizes = found.sizes(quantities[0].axis)
    rows = [
        (
            quantity.heading,
            method or NO_METHOD,
            *(cell_text(found.cell(quantity, method, size), quantity) for size in sizes),
        )
        for quantity in quantities
        for method in found.methods(quantity)
    ]
    axis = quantities[0].axis
    headings = ("Quantity", "Method", *(f"{size:,}" for size in sizes))
    return Table(headings, rows, f"Costs over {axis}")


def markdown_page(found: Measurements, notes: tuple[str, ...]) -> str:
    """Return all tables as one page: exponents first, then every quantity."""
    parts = ["# Scaling", *notes]
    for axis in AXES:
        shown = [quantity for quantity in of_axis(axis) if found.methods(quantity)]
        if shown:
            tables = (exponent_table(found, axis), size_table(found, shown))
            parts += [table.to_markdown(level=2).rstrip() for table in tables]
    return "\n\n".join(parts) + "\n"


def csv_page(found: Measurements) -> str:
    """Return a line per number: what, of which method, at which size, or why there is none."""
    rows = []
    for quantity in QUANTITIES:
        name = (quantity.axis, f"{quantity.kind}/{quantity.key}", quantity.unit)
        for method in found.methods(quantity):
            for size in found.sizes(quantity.axis):
                cell = found.cell(quantity, method, size)
                value = cell.values.get(quantity.key) if cell else None
                if cell and (value is not None or cell.reason):
                    shown = "" if value is None else repr(value)
                    rows.append((*name, method, str(size), shown, cell.reason))
    headings = ("axis", "quantity", "unit", "method", "size", "value", "not measured")
    return Table(headings, rows).to_csv()
