"""Tables for terminals."""

import csv

import pytest

from gmc_bench.core.table import Table, aligned, number


def test_tables_are_aligned():
    text = aligned(("body", "return"), [["a", "1.0"], ["longer", "-10.25"]])
    assert text.splitlines() == [
        "body    return",
        "------  ------",
        "a          1.0",
        "longer  -10.25",
    ]


def test_numbers():
    assert number(None) == "-"
    assert number(1234.56) == "1,234.6"
    assert number(99.5, 0) == "100"
    assert (number(-0.04), number(-0.3, 0)) == ("0.0", "0")  # no zero has a sign


@pytest.mark.parametrize(
    "cell",
    ["-", "-1.5", "+1,000", "-1.5e-05", "-3.0 %", "-0.20 ± 0.10", "-0.20 to +0.80", "-3 % to -1 %"],
)
def test_numbers_are_no_formulas_in_csv(cell):
    assert list(csv.reader(Table(("a",), [[cell]]).to_csv().splitlines())) == [["a"], [cell]]


@pytest.mark.parametrize("cell", ["-1+1", "--", "=1", "-1 to cmd", "+A1", "-1 % 2"])
def test_formulas_are_quoted_in_csv(cell):
    assert Table(("a",), [[cell]]).to_csv() == f"a\n'{cell}\n"


def test_no_text_of_a_table_is_markup():
    table = Table(("a|b", "x*"), [["c|d", "1"]], "my_set *x*", ["A **note**."])
    assert table.to_markdown(2) == (
        "## my\\_set \\*x\\*\n\n| a\\|b | x\\* |\n| --- | --- |\n| c\\|d | 1 |\n\nA **note**.\n"
    )
