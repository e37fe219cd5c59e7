"""Tables for terminals."""

from gmc_bench.core.table import aligned, number


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
