"""The whole site: complete, escaped, the same bytes every time, and closed to the network."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.site import MethodPage, build, build_site
from gmc_bench.leaderboard.site.drawing import DrawnSet
from gmc_bench.leaderboard.site.names import body_page, record_page
from gmc_bench.records.drawing import COLOURS, DASHES
from gmc_bench.records.schema import FrictionResult, RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord, record_digest
from gmc_bench.records.weights import weights_name
from tests.support.leaderboards import hostile_texts, synthetic_records
from tests.support.records import AFTER_TUNING, digest_of, make_friction, make_record, make_returns

Build = Callable[..., Path]


def _store(records: Sequence[RunRecord]) -> list[StoredRecord]:
    return [
        StoredRecord(f"results/{place:03d}.json", record, record_digest(record))
        for place, record in enumerate(records)
    ]


def _build(
    stored: Sequence[StoredRecord],
    out: Path,
    refused: Sequence[RefusedFile] = (),
    verified: Sequence[str] = (),
    media: Path | None = None,
    methods: dict[str, MethodPage] | None = None,
    replays: Any = None,
) -> Path:
    tables, duplicates = aggregate(stored, set(verified))
    analyses = [analyse(table) for table in tables]
    kept = {str(item.record.weights_digest) for item in stored if item.path == "results/000.json"}
    problems = [*refused, *duplicates]
    options: dict[str, Any] = {"media": media, "methods": methods, "replays": replays}
    build_site(analyses, stored, problems, out, weights=kept, **options)
    return out


def _records() -> list[RunRecord]:
    *records, last = synthetic_records(3, 2, 6, reference=True)
    # One method lacks a seed, and one run is not official.
    unofficial = records.pop(3)
    changes = {"official": False, "unofficial_reasons": ("env_steps was changed",)}
    return [*records, last, unofficial.model_copy(update=changes)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(_store(_records()), tmp_path_factory.mktemp("site"))


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _page(site: Path, folder: str, start: str = "") -> str:
    (path,) = (site / folder).glob(f"{start}*.html")
    return path.read_text()


class _Page(HTMLParser):
    """What a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _parsed(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_kind_of_page_is_there(site: Path) -> None:
    names = _contents(site)
    counts = {
        folder: sum(name.startswith(f"{folder}/") for name in names)
        for folder in ("boards", "compare", "methods", "records", "bodies", "body")
    }
    assert counts == {
        "boards": 1,
        "compare": 1,
        "methods": 4,
        "records": 8,
        "bodies": 1,
        "body": 12,
    }
    assert {"index.html", "about.html", "static/site.css", "static/site.js"} <= set(names)


def test_building_twice_gives_the_same_bytes(tmp_path: Path, site: Path) -> None:
    shuffled = _store(_records())[::-1]
    assert _contents(_build(shuffled, tmp_path)) == _contents(site)


def test_pages_that_are_gone_are_removed(tmp_path: Path) -> None:
    _build(_store(_records()), tmp_path)
    (tmp_path / "records" / "notes.html").write_text("mine")
    _build(_store([make_record()]), tmp_path)
    records = [path.name for path in (tmp_path / "records").iterdir()]
    assert len(records) == 2
    assert "notes.html" in records
    assert len(list((tmp_path / "methods").iterdir())) == 1


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    for path, page in _parsed(site).items():
        for tag, attributes in page.tags:
            for name in ("href", "src"):
                target = urlsplit(attributes.get(name) or "")
                assert not target.scheme, (path, tag, attributes)
                if target.path:
                    assert (path.parent / unquote(target.path)).is_file(), (path, attributes)


def test_every_page_forbids_everything_but_its_own_files(site: Path) -> None:
    for page in _parsed(site).values():
        (policy,) = (
            attributes["content"] or ""
            for tag, attributes in page.tags
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        )
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == "'self'"
        assert "unsafe" not in policy


def _assert_inert(page: _Page) -> None:
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], attributes
        assert "style" not in attributes
        assert tag not in {"iframe", "object", "embed", "base", "form", "style", "template"}
        if tag == "script":
            own = re.fullmatch(
                r"(\.\./)*static/(site|uplot|charts)\.js", attributes.get("src") or ""
            )
            assert own or attributes.get("type") == "application/json"


def test_pages_have_no_inline_code_or_style(site: Path) -> None:
    for page in _parsed(site).values():
        _assert_inert(page)


def test_tags_balance(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        for tag in ("table", "tr", "td", "div", "section", "figure", "svg", "ul", "dl", "bdi"):
            opened = len(re.findall(rf"<{tag}[ >]", text))
            assert opened == text.count(f"</{tag}>"), (path.name, tag)


def test_board_shows_ranks_groups_and_what_is_incomplete(site: Path) -> None:
    board = _page(site, "boards")
    shown = r"<tr[^>]*>\s*<td [^>]*>(.*?)</td>\s*<td>(.*?)</td>\s*<th [^>]*><a [^>]*>(.*?)</a>"
    assert re.findall(shown, board) == [
        ("1", "a", "method-01"), ("2", "b", "method-03"), ("—", "", "method-02"),
    ]  # fmt: skip
    assert board.count("data-incomplete") == 1
    assert "no run for seed 1" in board
    assert "Single-robot references" in board
    assert "env_steps was changed" in board
    assert "Reported by the paper" in board
    assert re.search(r"<svg class=\"bar\"", board)
    (row,) = re.findall(r"<tr class=\"incomplete\".*?</tr>", board, re.DOTALL)
    # Without scores and budget; the number of parameters is that of every run.
    numbers = re.findall(r"<td class=\"num\" data-sort=\"(.*?)\">", row)
    assert [bool(number) for number in numbers[1:]].count(True) == 1


def test_what_has_no_place_is_counted_and_the_floor_shown(tmp_path: Path) -> None:
    records = _records()
    idle = records[0].model_copy(
        update={"untrained": True, "method": "zero-action", "seed": 0, "protocol_seeds": (0,)}
    )
    site = _build(_store([*records, idle]), tmp_path)
    front = (site / "index.html").read_text()
    assert "2 ranked, 1 incomplete; not ranked: 1 single-robot, 1 untrained, 1 unofficial<" in front
    floor = analyse(aggregate(_store([idle]))[0][0]).table.untrained[0].test_score
    assert floor is not None
    (line,) = re.findall(r"<em>no action</em></th>(.*?)</tr>", front)
    assert f'<td class="num">{floor.mean:,.1f}</td>' in line
    identity = (idle.morphologies.id, idle.morphologies.digest)
    entry = next(item for item in idle.returns if item.split == "train")
    page = (site / body_page(identity, entry.split, entry.body)).read_text()
    for label, tag in (("zero-action", "floor"), ("mlp", "reference")):
        assert re.search(rf"{label} v1[^<]*</bdi></a> <span class=\"tag\">{tag}</span>", page)
    assert "<em>no action</em>" not in _front(tmp_path / "without", records)


def _front(folder: Path, records: Sequence[RunRecord]) -> str:
    return (_build(_store(records), folder) / "index.html").read_text()


def test_verified_is_marked_only_when_all_runs_are(tmp_path: Path) -> None:
    stored = _store(synthetic_records(2, 2, 3))
    both = [item.digest for item in stored if item.record.method == "method-01"]
    one = [item.digest for item in stored if item.record.method == "method-02"][:1]
    site = _build(stored, tmp_path, verified=[*both, *one])
    board = _page(site, "boards")
    assert board.count("✓ verified") == 1
    texts = [path.read_text() for path in (site / "records").rglob("*.html")]
    name = weights_name(str(stored[0].record.weights_digest))
    assert [name in text for text in texts].count(True) == 1
    assert ["<dd>not kept</dd>" in text for text in texts].count(True) == 3
    marked = {
        path.name for path in (site / "records").iterdir() if "✓ Verified" in path.read_text()
    }
    assert marked == {Path(record_page("method-01", digest)).name for digest in both}


def test_compare_holds_all_pairs_without_a_script(tmp_path: Path) -> None:
    page = _page(_build(_store(synthetic_records(4, 2, 3)), tmp_path), "compare")
    assert page.count("method-01 v1, lite</bdi></td><td") == 3
    body = page.split('<table id="pairs"')[1]
    assert body.count("<tr>") == 1 + 6


def test_one_run_per_method_has_no_interval(tmp_path: Path) -> None:
    one = _page(_build(_store(synthetic_records(2, 1, 3)), tmp_path / "one"), "boards")
    two = _page(_build(_store(synthetic_records(2, 2, 3)), tmp_path / "two"), "boards")
    for board, has_intervals in ((one, False), (two, True)):
        details = re.findall(r'<span class="detail">([^<]*)</span>', board)
        assert any(" to " in text for text in details) == has_intervals
        assert ('class="reach"' in board) == has_intervals


def test_bodies_that_were_trained_on_stand_for_no_others(tmp_path: Path) -> None:
    rules = {"protocol": {"evaluation": {"splits": ["train"]}}}
    records = [
        item.model_copy(
            update={
                "suite": "quadruped-friction-v3",
                "protocol": "smoke",
                "config": {**item.config, **rules},
                "friction": tuple(map(FrictionResult.model_validate, make_friction())),
                "returns": tuple(part for part in item.returns if part.split == "train"),
            }
        )
        for item in synthetic_records(2, 3, 6)
    ]
    untrained = {"untrained": True, "config_digest": digest_of("untrained")}
    floor = records[0].model_copy(update=untrained)
    site = _build(_store([*records, floor]), tmp_path, replays=object())  # none is verified
    board = _page(site, "boards")
    assert "Other bodies" not in board
    assert "test bodies" not in board
    assert "Test score" not in board
    assert "<h2>Untrained</h2>" in board
    assert "the worst body, played again" in board
    method = _page(site, "methods", "method-01")
    assert "<h4>Train bodies, against" in method
    assert "per train body" in method
    frictions = board.split("<h2>Friction</h2>")[1].split("</table>")[0]
    assert '<th scope="col" class="num text">Velocity RMSE (m/s)</th>' in frictions
    assert frictions.count("<tr>") == 1 + 2 * 2  # two methods on two frictions
    assert "other bodies and both" not in _page(site, "compare")
    (table,), _ = aggregate(_store(records))
    (best, _) = (row.mean for row in analyse(table).rows)
    interval = f"{best.low:,.1f} to {best.high:,.1f}"  # over seeds
    front = (site / "index.html").read_text()
    assert board.count(interval) == 1
    assert front.count(f"95 %: {interval}</span>") == 1
    assert front.count(f"{0.02 * best.value:.2f} m</span>") == 1


def test_method_page_shows_what_is_given(tmp_path: Path) -> None:
    pages = {
        "method-01": MethodPage(
            title="A title",
            paper="Doe 2024",
            url="https://example.org/a?b=1&c=2",
            deviations=("First difference.",),
            parameters={"paper": 1_234_567},
            capabilities=("reads the graph",),
        ),
        "method-02": MethodPage(url="javascript:window.hit=1"),
    }
    site = _build(_store(synthetic_records(2, 2, 3)), tmp_path, methods=pages)
    first = _page(site, "methods", "method-01")
    for text in ("A title", "Doe 2024", "First difference.", "1,234,567", "reads the graph"):
        assert text in first
    assert 'href="https://example.org/a?b=1&amp;c=2"' in first
    assert "javascript:" not in _page(site, "methods", "method-02")


def test_record_page_says_why_a_record_is_not_used(tmp_path: Path) -> None:
    trials = [{"settings": {"ppo.lr": 0.002}, "returns": {"1001": 5.25}}]
    tuning = {
        "settings": {"ppo.lr": 0.002}, "morphologies": "search-v1", "morphologies_digest": None,
        "env_steps": 100, "trials": trials,
    }  # fmt: skip
    first, second = make_record(tuning=tuning), make_record(tuning=tuning, parameters=2000)
    site = _build(_store([first, second]), tmp_path)
    for path in (site / "records").iterdir():
        text = path.read_text()
        assert "one of 2 different records" in text
        assert "the best of its trials on" in text
        assert "search-v1" in text


def test_rows_of_before_tuning_stand_below_the_ranking(tmp_path: Path) -> None:
    after = make_record(**AFTER_TUNING)
    before = make_record()
    site = _build(_store([before, after]), tmp_path)
    ranking, heading, below = _page(site, "boards").partition("<h2>Before tuning</h2>")
    assert heading
    assert ranking.count('href="../methods/') == 1
    assert below.count('href="../methods/') == 1
    assert f">{before.config_digest[:8]}</code>" in below
    assert f">{after.config_digest[:8]}</code>" not in below
    page = _page(site, "methods", "demo")
    assert page.count("only in its second one, before tuning") == 1
    rows = page.split('<section class="row">')[1:]
    for row in rows:  # both with all that was measured
        assert "<dt>Mean</dt>" in row
        assert "Learning curve of demo" in row
        assert "<summary>Score per body</summary>" in row
    assert ["on each before tuning</h4>" in row for row in rows] == [False, True]


def test_incomplete_rows_of_before_tuning_are_in_no_ranking(tmp_path: Path) -> None:
    after = make_record(**AFTER_TUNING)
    page = _page(_build(_store([make_record(protocol_seeds=(0, 1)), after]), tmp_path), "methods")
    assert "not in the ranking of the table." in page
    assert "second one" not in page


def test_every_body_shows_what_was_measured_on_its_content(tmp_path: Path) -> None:
    record = make_record()
    first, *others = record.returns  # `a`, which the set now lists twice, as `c` of the test bodies
    repeats = [
        entry.model_copy(update={"body": f"{entry.body}-again", "episodes": first.episodes})
        for entry in (first, others[-2])
    ]
    bodies = record.morphologies.model_copy(update={"num_train": 3, "num_test": 4})
    changes = {"returns": (first, *others, *repeats), "morphologies": bodies}
    site = _build(_store([record.model_copy(update=changes)]), tmp_path)

    def shown(split: str, body: str) -> str:
        identity = (record.morphologies.id, record.morphologies.digest)
        return (site / body_page(identity, split, body)).read_text()

    for split, body, mean in (("train", "a", "100.0"), ("test", "c", "60.0")):
        for name, other in ((body, f"{body}-again"), (f"{body}-again", body)):
            page = shown(split, name)
            assert f'share s8">{mean}</td>' in page
            assert f'also as <bdi class="free">{other}</bdi>. Returns are means over all' in page
    assert "more than once" not in shown("test", "d")
    seen = shown("test", "b")
    assert 'share s8">180.0</td>' in seen
    assert "does not count towards the score" in seen
    assert "does not count" not in shown("train", "b")
    gallery = _page(site, "bodies")
    assert gallery.count("test, seen</td>") == 1
    assert "Bodies of equal content share their numbers" in gallery


def test_sets_of_one_id_list_their_own_bodies(tmp_path: Path) -> None:
    first = make_record()
    bodies = first.morphologies.model_copy(update={"digest": digest_of("another set")})
    returns = make_returns("train", {"a": [1.0], "z": [1.0]}) + make_returns("test", {"c": [1.0]})
    second = make_record(morphologies=bodies, returns=returns)
    site = _build(_store([first, second]), tmp_path)
    for found, others in ((first, second), (second, first)):
        identity = (found.morphologies.id, found.morphologies.digest)
        for entry in (*found.returns, *others.returns):
            listed = (entry.split, entry.body) in {(own.split, own.body) for own in found.returns}
            assert (site / body_page(identity, entry.split, entry.body)).exists() is listed


def test_the_front_shows_bodies_from_all_over_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours are alike, because sets list their bodies kind by kind."""
    grown = {f"{n:064x}": replace(chain(3), name=f"body-{n:02d}") for n in range(27)}
    monkeypatch.setattr(build, "bodies_at_hand", lambda *_: DrawnSet(grown))
    front = _front(tmp_path, [make_record()])
    shown = sorted({int(number) for number in re.findall(r"body-(\d\d)", front)})
    assert shown == list(range(0, 27, 3))


def test_tables_of_todays_rules_come_before_earlier_ones(tmp_path: Path) -> None:
    today = make_record()
    before, after = "0" * 64, "f" * 64
    assert before < today.protocol_digest < after
    earlier = [make_record(protocol_digest=digest) for digest in (before, after)]
    site = _build(_store([earlier[0], today, earlier[1]]), tmp_path)
    identity = (today.morphologies.id, today.morphologies.digest)
    pages = [_page(site, "methods"), _page(site, "bodies")]
    pages.append((site / body_page(identity, "test", "c")).read_text())
    for page in pages:
        titles = re.findall(r"<h2[^>]*>\s*<a[^>]*>([^<]+)</a>", page)
        assert ["earlier rules" in title for title in titles] == [False, True, True]


def test_copies_of_a_record_share_a_page(tmp_path: Path) -> None:
    site = _build(_store([make_record(), make_record()]), tmp_path)
    assert len(list((site / "records").iterdir())) == 1
    assert "it is a copy of results/000.json" in (site / "index.html").read_text()
    assert "No table uses" not in _page(site, "records")


def test_pictures_of_bodies_are_shown(tmp_path: Path) -> None:
    media = tmp_path / "media"
    (media / "demo-set-v1").mkdir(parents=True)
    (media / "demo-set-v1" / f"{digest_of('c')}.png").write_bytes(b"picture")
    site = _build(_store([make_record()]), tmp_path / "site", media=media)
    page = _page(site, "bodies")
    (source,) = re.findall(r'<img src="\.\./([^"]+)"', page)
    assert (site / source).read_bytes() == b"picture"


def test_a_table_without_complete_rows_has_a_page(tmp_path: Path) -> None:
    records = [make_record(protocol_seeds=(0, 1, 2))]
    site = _build(_store(records), tmp_path)
    assert "No complete row yet" in (site / "index.html").read_text()
    assert "no run for seed 1, 2" in _page(site, "boards")
    assert "fewer than two complete rows" in _page(site, "compare")


def test_a_run_that_was_stopped_has_a_page(tmp_path: Path) -> None:
    record = make_record(
        status="incomplete",
        env_steps=0,
        env_steps_per_s=0.0,
        returns=(),
        learning_curve=(),
        training_return=None,
        weights_digest=None,
        official=False,
        unofficial_reasons=("the run was stopped",),
    )
    page = _page(_build(_store([record]), tmp_path), "records")
    assert "the run was stopped" in page
    assert "The run was not evaluated." in page
    assert "No training return was recorded." in page


def test_no_records_give_a_site_that_says_so(tmp_path: Path) -> None:
    build_site([], [], [], tmp_path)
    assert "There are no tables yet" in (tmp_path / "index.html").read_text()


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    texts = hostile_texts()
    bodies = {text: [1.0] for text in texts[:20]}
    plain = make_record()
    record = make_record(
        preset=texts[0],
        morphologies={
            "id": "demo-set-v1",
            "digest": digest_of("set"),
            "source": texts[1],
            "licence": texts[2],
            "num_train": 20,
            "num_test": 20,
        },
        returns=[
            item.model_copy(update={"body": body})
            for body, item in zip(bodies, [plain.returns[-1]] * 20, strict=True)
        ],
        config={text: text for text in texts},
        versions=plain.versions | {text: text for text in texts} | {"mujoco": texts[3]},
        hardware=plain.hardware.model_dump() | {"cpu": texts[4], "gpu": texts[5]},
        official=False,
        unofficial_reasons=texts,
    )
    stored = [StoredRecord(texts[6], record, record_digest(record))]
    refused = [RefusedFile(text, text) for text in [*texts, "not \udcff unicode"]]
    description = MethodPage(
        title=texts[7],
        paper=texts[8],
        url="https://" + texts[9],
        description=texts[10],
        parameters={text: 1 for text in texts},
        deviations=tuple(texts),
        capabilities=tuple(texts),
    )
    site = _build(stored, tmp_path, refused, methods={"demo": description})
    for page in _parsed(site).values():
        _assert_inert(page)
        assert {tag for tag, _ in page.tags} <= {
            *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "div"),
            *("nav", "main", "h1", "h2", "h3", "h4", "p", "ul", "li", "dl", "dt", "dd", "span"),
            *("strong", "code", "pre", "table", "caption", "thead", "tbody", "tr", "th", "td"),
            *("label", "input", "bdi", "figure", "figcaption", "svg", "line", "text", "circle"),
            *("polyline", "polygon", "rect", "details", "summary", "section", "footer"),
            *("select", "option", "g"),
        }
    index = (site / "index.html").read_text()
    assert "&lt;script&gt;window.hit=0&lt;/script&gt;" in index


def test_colours_of_text_have_enough_contrast(site: Path) -> None:
    css = (site / "static" / "site.css").read_text()
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\n\s*\}", css, re.DOTALL)[:2]
    )
    for colours in (light, dark):
        for text in ("ink", "muted", "accent", "good", "warn"):
            for ground in ("paper", "panel"):
                assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_lines_of_charts_look_as_in_the_figures(site: Path) -> None:
    css = (site / "static" / "site.css").read_text()
    light, dark = (
        re.findall(r"--c\d: (#[0-9a-f]{6});", block)
        for block in re.findall(r":root \{(.*?)\n\s*\}", css, re.DOTALL)[:2]
    )
    assert light == [colour.lower() for colour in COLOURS.values()]
    for colours in (light, dark):
        for vision in _VISIONS:
            seen = [_perceived(colour, vision) for colour in colours]
            for first, second in itertools.combinations(seen, 2):
                assert np.linalg.norm(first - second) > 15.0
    panel = re.findall(r"--panel: (#[0-9a-f]{6});", css)[1]
    assert all(_contrast(colour, panel) >= 3.0 for colour in dark)
    width = float(re.findall(r"\.chart \.line \{[^}]*stroke-width: ([\d.]+)", css)[0])
    dashes = re.findall(r"--d\d: ([\d. ]+);", css)
    assert [[float(length) / width for length in text.split()] for text in dashes] == [
        pytest.approx(lengths) for lengths in DASHES[1:]
    ]
    for kind, name, first, count in (
        ("c", "stroke", 0, len(COLOURS)), ("d", "stroke-dasharray", 1, len(DASHES)),
    ):  # fmt: skip
        rules = re.findall(rf"\.chart \.{kind}(\d) \{{ {name}: var\(--{kind}(\d)\); \}}", css)
        assert rules == [(str(number), str(number)) for number in range(first, count)]


_VISIONS = (
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
              [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
              [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
              [0.004733, 0.691367, 0.303900]]),
)  # fmt: skip
"""Full colour vision, protanopia, deuteranopia, tritanopia on linear sRGB (Machado et al. 2009)."""


def _perceived(colour: str, vision: DoubleArray) -> DoubleArray:
    """CIE L*a*b* coordinates (3,), in which distances are about those that people see."""
    xyz_of_rgb = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                  [0.0193339, 0.1191920, 0.9503041]]  # fmt: skip
    white = np.sum(xyz_of_rgb, axis=1)
    share = xyz_of_rgb @ np.clip(vision @ _linear(colour), 0.0, 1.0) / white
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio of two colours."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    return float(_linear(colour) @ [0.2126, 0.7152, 0.0722])


def _linear(colour: str) -> DoubleArray:
    """Shares (3,) of red, green and blue light, without the gamma of sRGB."""
    channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
