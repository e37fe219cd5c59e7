"""Cells as text: a number, or why there is none; never something made up."""

import csv
import io

import pytest

from gmc_bench.studies.scaling import QUANTITIES, Measurements, ScalingCell
from gmc_bench.studies.scaling_table import (
    cell_text,
    csv_page,
    exponent_table,
    markdown_page,
    number_text,
    size_table,
)

ACTING = QUANTITIES[0]
REASON = "more than 4 GiB of process memory"


@pytest.fixture
def found():
    """A method that is linear, one that stops, and one measurement over bodies."""
    cells = [ScalingCell("act-time", "line", 2**k, {"act_ms": 2.0**k}) for k in range(3, 9)]
    cells += [ScalingCell("act-time", "stops", 2**k, {"act_ms": 4.0**k}) for k in range(3, 5)]
    cells += [ScalingCell("act-time", "stops", 2**k, reason=REASON) for k in range(5, 9)]
    cells += [
        ScalingCell("table", "", m, {"table_mib": m / 100}) for m in (1, 10, 100, 1000, 10000)
    ]
    return Measurements(cells)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (1.0, "1.00"), (98.76, "98.8"), (1234.5, "1,234"), (0.0, "0")],
)
def test_three_digits_count(value, text):
    assert number_text(value) == text


def test_a_cell_without_a_number_says_why(found):
    assert cell_text(found.cell(ACTING, "stops", 32), ACTING) == f"not measured ({REASON})"
    assert cell_text(found.cell(ACTING, "line", 32), ACTING) == "32.0"
    assert cell_text(found.cell(ACTING, "line", 7), ACTING) == "-"


def test_a_method_that_stops_has_no_exponent_and_no_made_up_cell(found):
    rows = {row[0]: row for row in exponent_table(found, "tokens").rows}
    assert rows["line"][1:] == ("1.00 (1.00 to 1.00)", "64 to 256")
    assert rows["stops"][1:] == ("-", "-")
    cells = {row[1]: row[2:] for row in size_table(found, [ACTING]).rows}
    assert cells["stops"] == ("64.0", "256", *(f"not measured ({REASON})",) * 4)


def test_over_bodies_there_is_a_row_per_quantity(found):
    (row,) = exponent_table(found, "bodies").rows
    assert row[:2] == ("Table of tokens", "all methods")
    assert row[3] == "100 to 10,000"
    assert row[2].startswith("1.00 (")


def test_the_page_holds_all_tables_and_notes(found):
    page = markdown_page(found, ("One thread.",))
    assert page.startswith("# Scaling\n\nOne thread.\n\n## Exponents over tokens\n")
    for part in ("## Costs over tokens", "## Exponents over bodies", "## Costs over bodies"):
        assert f"\n{part}\n" in page
    assert f"not measured ({REASON})" in page
    assert "Gradient step" not in page  # nobody asked for it


def test_the_file_has_a_line_per_number_and_per_reason(found):
    rows = list(csv.DictReader(io.StringIO(csv_page(found))))
    assert len(rows) == 17
    stopped = [row for row in rows if row["method"] == "stops" and row["size"] == "64"]
    assert [(row["value"], row["not measured"]) for row in stopped] == [("", REASON)]
    line = next(row for row in rows if row["method"] == "line" and row["size"] == "64")
    assert (float(line["value"]), line["quantity"], line["unit"]) == (64.0, "act-time/act_ms", "ms")
