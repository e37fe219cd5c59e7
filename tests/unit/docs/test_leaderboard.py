"""`docs/leaderboard.md` and `leaderboards/README.md` say what the leaderboard does."""

import re
from pathlib import Path

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.build import README_BEGIN, README_END
from gmc_bench.leaderboard.submission import RULES
from gmc_bench.leaderboard.tables import CSV_COLUMNS, to_markdown
from gmc_bench.leaderboard.verification import MOVING_VERSIONS
from gmc_bench.records.schema import SCHEMA_VERSION
from gmc_bench.records.store import StoredRecord
from gmc_bench.records.verification import Verification
from tests.support.leaderboards import synthetic_records

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
FOLDER_PAGE = ROOT / "leaderboards" / "README.md"


def test_every_rule_is_explained_under_its_name() -> None:
    table = PAGE.partition("| rule |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE) == list(RULES)


def test_the_made_up_table_is_what_the_code_makes() -> None:
    shown = [line for line in PAGE.splitlines() if re.match(r"\| \d \|", line)]
    records = synthetic_records(4, 3, 20, reference=True)
    stored = [StoredRecord(str(n), record, f"{n:064x}") for n, record in enumerate(records)]
    (table,), refused = aggregate(stored)
    made = to_markdown(analyse(table)).splitlines()
    assert refused == []
    assert len(shown) == 4
    assert [line for line in made if re.match(r"\| \d \|", line)] == shown
    (heading,) = [line for line in made if line.startswith("| \\# |")]
    assert heading in PAGE


def test_versions_that_make_bits_are_named() -> None:
    (named,) = re.findall(r"`exact` asks for the same (.+?), processor", PAGE)
    assert re.split(r", | and ", named) == list(MOVING_VERSIONS)


def test_the_schema_version_is_the_present_one() -> None:
    assert f"the present one is {SCHEMA_VERSION}," in PAGE
    assert f"record-v{SCHEMA_VERSION}.schema.json" in FOLDER_PAGE.read_text(encoding="utf-8")


def test_columns_and_fields_named_in_metrics_exist() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = metrics.partition("## Over runs and bodies")[2].partition("**Single-robot")[0]
    columns = re.findall(r"\(`([a-z_]+)`\) \|", table)
    assert len(columns) >= 11
    assert set(columns) <= set(CSV_COLUMNS)
    part = Verification.model_json_schema()["$defs"]["VerifiedPart"]["properties"]
    assert {"differing", "mean_difference", "margin"} <= set(part)


def test_the_readme_has_one_place_for_tables() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count(README_BEGIN) == readme.count(README_END) == 1
    assert readme.index(README_BEGIN) < readme.index(README_END) < readme.index("## Add a method")
