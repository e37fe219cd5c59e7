"""What goes into a page reads back, and holds nothing that HTML reads."""

import json

import pytest

from gmc_bench.core.html import policy_hash, script_json
from tests.support.leaderboards import hostile_texts


def test_script_json_reads_back_and_holds_nothing_that_html_reads() -> None:
    texts = [*hostile_texts(), "\u2028\u2029&amp;</script><!--"]
    text = script_json({"texts": texts, "more": 1})
    assert json.loads(text) == {"texts": texts, "more": 1}
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.startswith('{"more":1,"texts":[')


def test_script_json_refuses_infinities() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json([float("inf")])


def test_policy_hash_is_that_of_the_standard() -> None:
    # The example of the Content Security Policy specification, level 2.
    expected = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    assert policy_hash("alert('Hello, world.');") == expected
