"""No text becomes markup, and a missing name is an error."""

import json

import jinja2
import pytest

from gmc_bench.leaderboard.site.templating import render, script_json
from tests.support.leaderboards import hostile_texts


def test_script_json_reads_back_and_holds_nothing_that_html_reads() -> None:
    texts = [*hostile_texts(), "\u2028\u2029&amp;</script><!--"]
    text = str(script_json({"texts": texts}))
    assert json.loads(text)["texts"] == texts
    assert not set("<>&\u2028\u2029") & set(text)


def test_script_json_refuses_infinities() -> None:
    with pytest.raises(ValueError):
        script_json([float("inf")])


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="fields"):
        render("about.html", 0)


def test_text_that_is_no_unicode_is_shown_as_escapes() -> None:
    page = render("about.html", 0, fields=[("name", "bad \udcff byte")])
    assert b"bad \\udcff byte" in page
