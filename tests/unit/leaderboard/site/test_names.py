"""File names are safe, stable and never clash."""

import re

from gmc_bench.leaderboard.aggregate import ComparisonKey
from gmc_bench.leaderboard.site.names import (
    board_page,
    method_page,
    record_page,
    safe_name,
    set_page,
)
from tests.support.leaderboards import hostile_texts

KEY = ComparisonKey("unimal-v1", "unimal-ft-v1", "lite", "set-v1", "a" * 64, "b" * 64, "3.17.0")


def test_names_of_hostile_texts_are_safe_and_differ() -> None:
    names = [safe_name(text, text) for text in hostile_texts()]
    assert all(re.fullmatch(r"[a-z0-9_-]{1,100}", name) for name in names)
    assert len(set(names)) == len(names)


def test_no_name_is_reserved_or_hidden() -> None:
    for text in ("con", "nul", "..", ".hidden", "", "/etc/passwd"):
        name = safe_name(text, text)
        assert name not in {"con", "nul"}
        assert not name.startswith((".", "-", "/"))


def test_tables_that_differ_in_one_part_have_different_pages() -> None:
    assert board_page(KEY) == board_page(ComparisonKey(*KEY.__getstate__()))
    for field in KEY.__slots__:
        other = {name: getattr(KEY, name) for name in KEY.__slots__} | {field: "other"}
        assert board_page(ComparisonKey(**other)) != board_page(KEY)


def test_pages_lie_in_their_folders() -> None:
    assert method_page("demo").startswith("methods/demo-")
    assert record_page("demo", "0" * 64).startswith("records/demo-")
    first, second = (set_page("set-v1", digit * 64) for digit in "ab")
    assert first.startswith("bodies/set-v1-")
    assert first != second
