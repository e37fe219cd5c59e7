"""No text becomes markup, and a missing name is an error."""

import jinja2
import pytest

from gmc_bench.leaderboard.site.templating import render


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="fields"):
        render("about.html", 0)


def test_text_with_markup_is_shown_as_it_is() -> None:
    page = render("about.html", 0, fields=[("<b>name</b>", "'a' & \"b\"")])
    assert b"<code>&lt;b&gt;name&lt;/b&gt;</code>" in page
    assert b">&#39;a&#39; &amp; &#34;b&#34;</td>" in page


def test_text_that_is_no_unicode_is_shown_as_escapes() -> None:
    page = render("about.html", 0, fields=[("name", "bad \udcff byte")])
    assert b"bad \\udcff byte" in page
