"""Text from records cannot change the document it is put in."""

import re
from pathlib import Path

import pytest
import yaml

from gmc_bench.core.escape import csv_text, file_name, latex, markdown, one_line


def test_one_line() -> None:
    assert one_line("  a\n\tb\r\n\x00c\u2028d\u202ee ") == "a b c d e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unimal-ft-v1", "unimal-ft-v1"),
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("my_set *x*", r"my\_set \*x\*"),
        ("[a](http://b) `c`", r"\[a\](http://b) \`c\`"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("one\n# two", r"one \# two"),
        ("a {: onclick=b }", r"a \{: onclick=b \}"),
    ],
)
def test_markdown(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_no_text_becomes_an_attribute_on_the_site_of_the_documentation() -> None:
    markdown_to_html = pytest.importorskip("markdown").markdown
    settings = (Path(__file__).parents[3] / "mkdocs.yml").read_text(encoding="utf-8")
    listed = yaml.load(settings, yaml.BaseLoader)["markdown_extensions"]
    names = [next(iter(item)) if isinstance(item, dict) else item for item in listed]
    names = [name for name in names if not name.startswith("pymdownx.")]  # for blocks of code
    assert "attr_list" in names
    text = "a {: onmouseover=alert(1) }"
    shown = markdown(text)
    page = (
        f"# {shown}\n\n| {shown} |\n| --- |\n| {shown} |\n| *{shown}* |\n\n- {shown}\n\n{shown}\n"
    )
    found = markdown_to_html(page, extensions=names)
    assert re.findall(r"<[^>]* onmouseover=[^>]*>", found) == []
    assert found.count(text) == 6
    unescaped = markdown_to_html(page.replace("\\", ""), extensions=names)
    assert '<td onmouseover="alert(1)">' in unescaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unimal-ft-v1", "unimal-ft-v1"),
        ("50% & more_", r"50\% \& more\_"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("a^b~c$d#e", r"a\textasciicircum{}b\textasciitilde{}c\$d\#e"),
        ("<a|b>", r"\textless{}a\textbar{}b\textgreater{}"),
        ("one\n%two", r"one \%two"),
    ],
)
def test_latex(text: str, shown: str) -> None:
    assert latex(text) == shown


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\n@"])
def test_csv_never_starts_a_formula(start: str) -> None:
    assert csv_text(f"{start}1+1") == f"'{start.strip()}1+1"


def test_names_of_files_stay_apart_where_something_was_replaced() -> None:
    assert file_name("a_b-1.x") == "a_b-1.x"
    replaced = [file_name(text) for text in ("a b", "a/b")]
    assert all(name.startswith("a_b_") for name in replaced)
    assert len(set(replaced)) == 2
    assert file_name("x" * 101).startswith("x" * 100 + "_")


def test_csv_leaves_other_text_alone() -> None:
    assert csv_text('a, "b"') == 'a, "b"'
