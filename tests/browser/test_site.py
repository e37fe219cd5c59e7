"""The site as people use it: in a browser, from a folder, with and without scripts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.site import MethodPage, build_site
from gmc_bench.leaderboard.site import build as site_pages
from gmc_bench.leaderboard.site.drawing import DrawnSet
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord, record_digest
from gmc_bench.rendering.web.page import linked_files, make_page
from tests.support.leaderboards import hostile_texts, synthetic_records
from tests.support.records import digest_of, make_record

PHONE = {"width": 360, "height": 740}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = synthetic_records(5, 3, 20, reference=True)
    unofficial = records.pop(10)  # the last seed of the fourth method
    changes = {"official": False, "unofficial_reasons": ("env_steps was changed",)}
    records.append(unofficial.model_copy(update=changes))
    stored = [
        StoredRecord(f"results/{place}.json", record, record_digest(record))
        for place, record in enumerate(records)
    ]
    return _build(stored, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every one of 300 hostile texts in every free field that can hold them."""
    texts = hostile_texts()
    records = [_hostile_record(texts, method, seed) for method in ("a", "b") for seed in (0, 1)]
    changes = {"official": False, "unofficial_reasons": tuple(texts), "seed": 9}
    records.append(records[0].model_copy(update=changes))
    stored = [
        StoredRecord(texts[place], record, record_digest(record))
        for place, record in enumerate(records)
    ]
    description = MethodPage(
        title=texts[0],
        paper=texts[1],
        url="https://hostile.invalid/" + texts[2],
        description=" ".join(texts[:30]),
        parameters=dict.fromkeys(texts, 1),
        deviations=tuple(texts),
        capabilities=tuple(texts),
        equations=tuple((text, text) for text in texts),
    )
    refused = [RefusedFile(text, text) for text in texts]
    folder = tmp_path_factory.mktemp("hostile")
    return _build(stored, folder, refused, {"a": description}, HostileReplays(texts))


@pytest.fixture
def drawn_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of 60 train and 60 test bodies that are drawn."""
    records = synthetic_records(2, 1, 60)
    digests = [entry.body_digest for entry in records[0].returns]
    at_hand = DrawnSet(dict.fromkeys(digests, biped()))
    monkeypatch.setattr(site_pages, "bodies_at_hand", lambda *_: at_hand)
    stored = [
        StoredRecord(f"results/{place}.json", record, record_digest(record))
        for place, record in enumerate(records)
    ]
    return _build(stored, tmp_path)


@dataclass(frozen=True)
class HostileReplays:
    """Says hostile things about every record, on a real page of the player without episodes."""

    texts: list[str]

    @property
    def files(self) -> dict[str, bytes]:
        return linked_files()

    @property
    def episodes(self) -> list[dict[str, Any]]:
        return [{"title": text, "rank": text, "total": 1.0} for text in self.texts]

    @property
    def remarks(self) -> list[str]:
        return self.texts

    def of(self, stored: StoredRecord) -> "HostileReplays":
        return self

    def page(self, static: str, back: str) -> bytes:
        data = {"episodes": [], "remarks": self.texts}
        return make_page(self.texts[7], data, static=static, back=back).encode()


def _hostile_record(texts: list[str], method: str, seed: int) -> RunRecord:
    plain = make_record()
    returns = [
        {
            "split": split,
            "mode": "deterministic",
            "body": text,
            "body_digest": digest_of(f"{split} {text}"),
            "seen_in_train": split == "train",
            "episodes": [{"episode_return": 10.0 + seed, "length": 5, "ended": "fell"}],
        }
        for split in ("train", "test")
        for text in texts
    ]
    return make_record(
        method=method,
        preset=texts[ord(method)],
        seed=seed,
        morphologies={
            "id": "hostile-v1",
            "digest": digest_of("set"),
            "source": " ".join(texts[:60]),
            "licence": texts[-4],
            "num_train": len(texts),
            "num_test": len(texts),
        },
        returns=returns,
        config={text: text for text in texts} | {"method": method},
        versions=plain.versions | dict(zip(texts, texts, strict=True)) | {"mujoco": texts[-4]},
        hardware=plain.hardware.model_dump()
        | {"cpu": texts[-3], "gpu": texts[3], "platform": texts[-7]},
    )


def _build(
    stored: list[StoredRecord],
    out: Path,
    refused: list[RefusedFile] | None = None,
    methods: dict[str, MethodPage] | None = None,
    replays: HostileReplays | None = None,
) -> Path:
    tables, duplicates = aggregate(stored, {item.digest for item in stored})
    analyses = [analyse(table) for table in tables]
    problems = [*(refused or []), *duplicates]
    kept = {str(item.record.weights_digest) for item in stored}
    build_site(analyses, stored, problems, out, methods=methods, weights=kept, replays=replays)
    return out


def _pages(site: Path) -> list[Path]:
    """Return all pages, of those of bodies only every hundredth."""
    bodies = sorted(site.glob("body/*.html"))
    return sorted([*(set(site.rglob("*.html")) - set(bodies)), *bodies[::100]])


def _column(page: Any, table: str, column: int) -> list[str]:
    cells = page.locator(f"#{table} tbody tr > :nth-child({column})")
    return [text.split()[0] for text in cells.all_inner_texts()]


def _headers(page: Any, table: str) -> list[str]:
    texts = page.locator(f"#{table} thead th").all_inner_texts()
    return [text.strip() for text in texts]


def _visible_rows(page: Any, table: str) -> int:
    return int(page.locator(f"#{table} tbody tr:visible").count())


def test_pages_fit_and_neither_complain_nor_load_from_elsewhere(site: Path, visit: Any) -> None:
    tab = visit(site)
    for path in _pages(site):
        tab.page.set_viewport_size(PHONE)
        page = tab.open(path)
        assert page.evaluate(OVERFLOW) == 0, path
        page.set_viewport_size({"width": 1280, "height": 800})
        assert page.evaluate(OVERFLOW) == 0, path
    assert tab.complaints == []
    assert tab.outside() == []


def test_numbers_sort_best_first_then_the_other_way(site: Path, visit: Any) -> None:
    page = visit(site).open_only("boards")
    # By name the incomplete row is not the last one.
    page.locator("#board").get_by_role("button", name="Method").click()
    assert page.locator("#board tbody tr").nth(3).get_attribute("data-incomplete") is not None
    column = _headers(page, "board").index("Mean") + 1
    header = page.locator("#board thead th").nth(column - 1)
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    falling = _column(page, "board", column)
    values = [float(text.replace(",", "")) for text in falling[:-1]]
    assert values == sorted(values, reverse=True)
    assert falling[-1] == "—"
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    # What is missing stays last.
    assert _column(page, "board", column) == [*falling[-2::-1], "—"]


def test_every_column_sorts_and_only_one_at_a_time(site: Path, visit: Any) -> None:
    tab = visit(site)
    page = tab.open_only("boards")
    buttons = page.locator("#board thead button")
    assert buttons.count() == len([text for text in _headers(page, "board") if text]) - 1
    before = sorted(_column(page, "board", 3))
    for place in range(buttons.count()):
        buttons.nth(place).click()
        assert page.locator("#board thead [aria-sort]").count() == 1
        assert sorted(_column(page, "board", 3)) == before
    assert tab.complaints == []


@pytest.mark.slow
def test_names_sort_as_text(site: Path, visit: Any) -> None:
    page = visit(site).open_only("boards")
    button = page.locator("#board").get_by_role("button", name="Method")
    button.click()
    names = _column(page, "board", 3)
    assert names == sorted(names)
    button.click()
    assert _column(page, "board", 3) == names[::-1]


def test_filter_keeps_rows_that_hold_every_word(site: Path, visit: Any) -> None:
    page = visit(site).open_only("boards")
    box = page.locator("[data-tools=board] input[type=search]")
    assert _visible_rows(page, "board") == 5
    box.fill("LITE method-02")
    assert _visible_rows(page, "board") == 1
    assert page.locator("[data-tools=board] [role=status]").inner_text() == "1 of 5 rows"
    box.fill("")
    assert _visible_rows(page, "board") == 5


@pytest.mark.slow
def test_incomplete_rows_can_be_hidden(site: Path, visit: Any) -> None:
    page = visit(site).open_only("boards")
    page.get_by_label("Show incomplete rows").uncheck()
    assert _visible_rows(page, "board") == 4
    assert not page.locator("tr[data-incomplete]").is_visible()
    page.get_by_label("Show incomplete rows").check()
    assert _visible_rows(page, "board") == 5


@pytest.mark.slow
def test_two_methods_are_compared(site: Path, visit: Any) -> None:
    tab = visit(site)
    page = tab.open_only("compare")
    verdict = page.locator("#verdict")
    there = verdict.inner_text()
    pair = page.locator("#pairs tbody tr").first.locator("td")
    shown, ratio = pair.nth(2).inner_text().strip(), pair.nth(3).inner_text().split()
    assert f"first − second: {shown}. Ratio, first / second: {ratio[0]} (" in there
    assert page.locator("#scatter circle").count() == 19  # one test body is a train body
    page.locator("#first").select_option("1")
    assert "Pick two different methods" in verdict.inner_text()
    page.locator("#second").select_option("0")
    turned = verdict.inner_text()
    assert f"first − second: -{shown}. Ratio, first / second: " in turned
    found = [float(text.split("second: ")[2].split()[0]) for text in (there, turned)]
    assert found[0] * found[1] == pytest.approx(1.0, abs=0.01)
    assert "method-02" in page.locator("#side-first").inner_text()
    page.get_by_text("Score per body").click()
    first, second, difference = [
        float(text.replace(",", ""))
        for text in page.locator("#by-body tbody tr").first.locator("td").all_inner_texts()
    ]
    assert difference == pytest.approx(first - second, abs=1.0)
    assert tab.complaints == []


@pytest.mark.slow
def test_the_keyboard_is_enough(site: Path, visit: Any) -> None:
    page = visit(site).open_only("boards")
    page.keyboard.press("Tab")
    skip = page.locator("a.skip")
    assert skip.evaluate("node => node === document.activeElement")
    assert skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "sort":
            break
    outline = page.evaluate(
        "(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle(document.activeElement))"
    )
    assert outline == ["solid", "2px"]
    page.keyboard.press("Enter")
    assert page.locator("#board thead [aria-sort=ascending]").count() == 1
    page.keyboard.press("Space")
    assert page.locator("#board thead [aria-sort=descending]").count() == 1


@pytest.mark.slow
def test_without_scripts_everything_is_readable(site: Path, visit: Any) -> None:
    tab = visit(site, java_script_enabled=False)
    page = tab.open_only("boards")
    assert page.locator("#board tbody tr").count() == _visible_rows(page, "board") == 5
    assert not page.locator("[data-tools=board]").is_visible()
    page = tab.open_only("compare")
    assert _visible_rows(page, "pairs") == 6
    assert not page.locator("#pick").is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_the_front_page_is_light_and_readable(site: Path, visit: Any, scripts: bool) -> None:
    tab = visit(site, java_script_enabled=scripts)
    page = tab.open(site / "index.html")
    files = {Path(unquote(urlparse(url).path)) for url in tab.requests}
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert page.locator(".parade svg:visible").count() >= 4
    assert page.locator(".matrix tbody tr:visible").count() == 5
    assert page.locator(".card .score:visible").count() == 1
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_dark_colours_follow_the_system(site: Path, visit: Any) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        page = visit(site, color_scheme=scheme).open(site / "index.html")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(251, 251, 249)", "rgb(20, 23, 26)"]


@pytest.mark.slow
def test_axe_finds_nothing_serious(site: Path, visit: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme, options in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
        tab = visit(site, color_scheme=scheme)
        for folder in ("", "boards", "compare", "methods", "records", "bodies", "body"):
            path = sorted((site / folder).glob("*.html"))[-1]
            found = axe.run(tab.open(path), options=options).response["violations"]
            serious = [
                (item["id"], item["nodes"][0]["html"])
                for item in found
                if item["impact"] in ("serious", "critical")
            ]
            assert serious == [], (path, scheme)


def test_charts_are_drawn_from_the_numbers_of_the_page(site: Path, visit: Any) -> None:
    tab = visit(site)
    page = tab.open_only("boards")
    assert page.locator("[data-chart] canvas").count() == 2
    assert page.locator("[data-chart=profiles] .u-legend tr:visible").count() == 5  # and x
    looks = page.locator("[data-chart=curves] .u-legend tr:visible line").evaluate_all(
        "lines => lines.map((line) => getComputedStyle(line))"
        "    .map((style) => [style.stroke, style.strokeDasharray])"
    )
    assert len({tuple(look) for look in looks}) == len(looks) == 4
    assert any(dashes != "none" for _, dashes in looks)
    page.locator("[data-chart=curves] .u-legend tr:visible th").nth(1).click()
    assert page.locator("[data-chart=curves] tr.u-off:visible").count() == 1
    label = page.get_by_role("img", name="the numbers behind them are").first.get_attribute(
        "aria-label"
    )
    switch = page.locator("[data-chart=curves] .u-legend button:visible").nth(1)
    switch.focus()
    for key, pressed, off in (("Enter", "false", 2), ("Space", "true", 1)):
        page.keyboard.press(key)
        assert switch.get_attribute("aria-pressed") == pressed
        assert page.locator("[data-chart=curves] tr.u-off:visible").count() == off
    assert tab.complaints == []
    page = visit(site, java_script_enabled=False).open_only("boards")
    assert page.locator("[data-chart] svg").first.get_attribute("aria-label") == label
    assert page.locator("[data-chart] svg polyline").count() == 8
    assert page.locator("[data-chart] .key li").count() == 8


@pytest.mark.slow
def test_print_shows_whole_tables(site: Path, visit: Any) -> None:
    page = visit(site).open_only("bodies")
    page.emulate_media(media="print")
    assert page.locator("nav:visible").count() == 0
    assert page.locator(".tall").first.evaluate("n => getComputedStyle(n).maxHeight") == "none"


def test_the_policy_blocks_what_a_page_must_not_do(site: Path, visit: Any) -> None:
    tab = visit(site)
    page = tab.open(site / "index.html")
    page.evaluate(
        """() => {
            window.blocked = [];
            document.addEventListener("securitypolicyviolation",
                (event) => window.blocked.push(event.effectiveDirective));
            const picture = new Image();
            picture.src = "http://hostile.invalid/a.png";
            const link = document.createElement("link");
            link.rel = "stylesheet";
            link.href = "http://hostile.invalid/a.css";
            document.head.append(link);
            try { document.body.innerHTML = "<b>x</b>"; } catch { window.refused = true; }
        }"""
    )
    page.wait_for_function("window.blocked.length >= 3")
    blocked = page.evaluate("window.blocked")
    assert {"img-src", "style-src-elem", "require-trusted-types-for"} <= set(blocked)
    assert page.evaluate("window.refused")
    assert page.locator("h1").count() == 1


@pytest.mark.slow
def test_hostile_text_neither_runs_nor_loads_nor_breaks_the_page(
    hostile_site: Path, visit: Any
) -> None:
    tab = visit(hostile_site)
    for path in _pages(hostile_site):
        tab.page.set_viewport_size({"width": 1280, "height": 800})
        page = tab.open(path)
        for closed in page.locator("details").all():
            closed.evaluate("node => { node.open = true; }")
        assert page.evaluate("window.hit") is None, path
        assert page.evaluate(OVERFLOW) == 0, path
        page.set_viewport_size(PHONE)
        assert page.evaluate(OVERFLOW) == 0, path
        assert page.locator("script:not([src]):not([type='application/json'])").count() == 0
        assert page.locator("iframe, object, embed, base, style, form:not(#controls)").count() == 0
        assert page.locator("footer").is_visible() or path.parent.name == "replays", path
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_hostile_methods_can_be_compared(hostile_site: Path, visit: Any) -> None:
    tab = visit(hostile_site)
    page = tab.open_only("compare")
    page.locator("#first").select_option("1")
    page.locator("#second").select_option("0")
    assert page.locator("#by-body tbody tr").count() == 300
    assert page.evaluate("window.hit") is None
    assert page.locator("#pick script:not([type='application/json'])").count() == 0
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_hostile_names_stay_in_their_cells(hostile_site: Path, visit: Any) -> None:
    page = visit(hostile_site, viewport=PHONE).open_only("bodies")
    seen, outside = page.locator("bdi").evaluate_all(
        """nodes => {
            const seen = nodes.filter((node) => node.checkVisibility());
            const outside = seen.filter((node) => {
                const inner = node.getBoundingClientRect();
                const outer = node.parentElement.getBoundingClientRect();
                return inner.left < outer.left - 1 || inner.right > outer.right + 1;
            });
            return [seen.length, outside.length];
        }"""
    )
    assert seen >= 600  # train and test bodies
    assert outside == 0


@pytest.mark.slow
def test_a_gallery_is_short_on_a_phone(drawn_site: Path, visit: Any) -> None:
    tab = visit(drawn_site, viewport={"width": 390, "height": 844})
    page = tab.open_only("bodies")
    places = page.locator("#train + .gallery li").evaluate_all(
        "items => items.map((item) => item.getBoundingClientRect().top)"
    )
    assert len(places) == 60
    assert len(set(places)) == 20  # three columns
    assert page.evaluate("document.documentElement.scrollHeight") < 9000
    assert page.evaluate(OVERFLOW) == 0
    page.wait_for_load_state("networkidle")
    asked = {url for url in tab.requests if "/drawings/" in url}
    assert len(asked) < 60  # none but those near the screen
    link = page.get_by_role("link", name="Test bodies (60)")
    assert link.bounding_box()["y"] < 844  # seen at once
    link.click()
    assert -1 < page.locator("#test").bounding_box()["y"] < 100
    first = page.locator("#test + .gallery img").first
    assert first.get_attribute("loading") == "lazy"
    # The page's policy lets it in; it is asked for some time after it has come into sight.
    page.wait_for_function("image => image.naturalWidth > 0", arg=first.element_handle())
    assert tab.complaints == []
    assert tab.outside() == []
    page = visit(drawn_site, java_script_enabled=False).open_only("bodies")
    assert page.locator(".gallery img[alt]:visible").count() == 120
    assert page.locator("nav.index a:visible").count() == 3


def test_a_direction_override_ends_with_its_text(hostile_site: Path, visit: Any) -> None:
    page = visit(hostile_site).open(hostile_site / "index.html")
    # In the list of refused files ": " follows each path; after an override that leaks it would
    # stand left of the path.
    items, lines, wrong = page.locator("ul.plain li").evaluate_all(
        """items => {
            const places = items.map((item) => [...item.querySelectorAll("bdi")]
                .map((text) => text.getBoundingClientRect()));
            const lines = places.filter(([path, reason]) =>
                path.width && Math.abs(path.bottom - reason.bottom) < 2);
            const wrong = lines.filter(([path, reason]) => reason.left < path.right - 1);
            return [items.length, lines.length, wrong.length];
        }"""
    )
    assert items == 300
    assert lines > 0  # of path and reason beside each other
    assert wrong == 0
