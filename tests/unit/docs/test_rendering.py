"""Pictures in the docs show what is said of them."""

import re
from pathlib import Path

import pytest

from gmc_bench.core.config import config_digest
from gmc_bench.leaderboard.today import is_replaced
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_record
from gmc_bench.suites import SUITES

ROOT = Path(__file__).parents[3]
BOARD = ROOT / "leaderboards"
PAGE = (ROOT / "docs" / "rendering.md").read_text(encoding="utf-8")


def _record(digest: str) -> RunRecord:
    (path,) = (BOARD / "results").rglob(f"*-{digest}*.json")
    return read_record(path)


DIGESTS = sorted(set(re.findall(r"gmc-bench re\w+ ([0-9a-f]{8,})", PAGE)))


def test_the_page_names_records() -> None:
    assert DIGESTS


@pytest.mark.parametrize("digest", DIGESTS)
def test_records_whose_episodes_are_shown_follow_todays_rules(digest: str) -> None:
    record = _record(digest)
    rules = SUITES.get(record.suite).protocol(record.protocol, record.task)
    assert not is_replaced(record)
    assert record.protocol_digest == config_digest(rules)
    assert (BOARD / "weights" / f"{record.weights_digest}.safetensors").exists()


def test_every_picture_is_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    shown = {name for text in texts for name in re.findall(r"images/([\w.-]+)\)", text)}
    assert shown == {path.name for path in (ROOT / "docs" / "images").iterdir()}


def test_the_picture_at_the_top_shows_what_its_caption_says() -> None:
    caption = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[2]
    told = PAGE.partition("## The picture at the top of the README")[2]
    (digest,) = re.findall(r"gmc-bench render ([0-9a-f]+) --body", told)
    record = _record(digest)
    unseen = [
        item
        for item in record.returns
        if (item.split, item.mode, item.seen_in_train) == ("test", "deterministic", False)
    ]
    unseen.sort(key=lambda item: -item.mean_return)
    names = [item.body for item in unseen]
    (listed,) = re.findall(r"for body in (.+); do", told)
    found = [names.index(body) + 1 for body in listed.split()]
    places = "the {}nd, {}th, {}th and {}th".format(*found)
    assert listed.split() == re.findall(r"-i (\S+)\.mp4", told)
    minutes = f"{record.wall_clock_s.total / 60.0:.0f} minutes on one core"
    assert record.hardware.threads == 1
    for text in (minutes, f"`{record.protocol}`", f"four of {len(unseen)} bodies", places):
        assert text in caption
    assert f"{places} of the {len(unseen)} it was not trained on" in told

    metre = record.metres_per_return or 0.0
    scores = [record.score(split, "deterministic") or 0.0 for split in ("train", "test")]
    assert re.findall(r"\d+ m\b", told) == [f"{score * metre:.0f} m" for score in scores]
