"""Replays in a real browser, without a network."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.evaluation.evaluate import Scoring
from gmc_bench.methods import METHODS
from gmc_bench.policies.policy import Policy
from gmc_bench.rendering.web.episodes import EpisodeKeeper, model_of
from gmc_bench.rendering.web.live import Contestant, LiveSimulation
from gmc_bench.rendering.web.page import linked_files, make_page
from gmc_bench.rendering.web.replay import describe_episode
from gmc_bench.rendering.web.server import LiveServer
from gmc_bench.tasks import TASKS
from tests.support.leaderboards import hostile_texts

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def episodes() -> list[Any]:
    """One episode on variable terrain of each of two bodies, played by an untrained policy."""
    task = TASKS.get("unimal-vt-v1")
    bodies = (biped(), chain(3))
    policy = Policy.untrained(METHODS.load("recmorph"), task, bodies, seed=1)
    scoring = Scoring(task=task, bodies=bodies, episodes=1, seed=3, num_threads=1)
    return list(EpisodeKeeper(scoring).play(policy).values())


def _page(episodes: list[Any], folder: Path, **texts: Any) -> Path:
    described = [
        describe_episode(episode, episode.scoring.task) | {"title": episode.body.name, "facts": ""}
        for episode in episodes
    ]
    data = {"episodes": described, "remarks": []} | texts
    path = folder / "replay.html"
    path.write_text(make_page("a replay", data), encoding="utf-8")
    return path


def _wait(page: Any, condition: str) -> None:
    """Wait until a condition holds; the page's policy forbids what playwright does for that."""
    end = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def _expected(episode: Any, step: int) -> Any:
    """Return (N, 3) positions of the bodies, m, as the engine has them."""
    model = model_of(episode)
    data = mujoco.MjData(model)
    data.qpos[:] = episode.states[step]
    mujoco.mj_kinematics(model, data)
    return data.xpos[1:]


def test_bodies_are_where_they_were_simulated(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    tab = visit(tmp_path, viewport={"width": 300, "height": 500}, offline=True)
    page = tab.open(_page(episodes, tmp_path))
    _wait(page, "window.replay !== undefined")
    playing = page.evaluate("replay.time")
    _wait(page, f"replay.time > {playing}")  # by itself
    for tile, episode in enumerate(episodes):
        for step in (0, 2 * (episode.length // 3)):
            page.evaluate(f"replay.seek({0.02 * step})")
            for body, place in enumerate(_expected(episode, step)):
                found = page.evaluate(f"replay.position({tile}, {body})")
                np.testing.assert_allclose(found, place, atol=1e-3)
    numbers = page.locator(".numbers").all_inner_texts()
    assert len(numbers) == len(episodes)
    assert all("m/s along x" in text for text in numbers)
    end = max(episodes, key=lambda episode: episode.length)
    assert page.evaluate("replay.duration") == pytest.approx(0.02 * end.length)
    page.evaluate("replay.seek(replay.duration)")
    shown = page.locator(".ended").all_inner_texts()
    assert shown == [
        f"{'time limit' if item.ended == 'time_limit' else item.ended}: "
        f"return {item.episode_return:.2f}"
        for item in episodes
    ]
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_pages_that_share_the_player_play(episodes: list[Any], tmp_path: Path, visit: Any) -> None:
    (tmp_path / "static").mkdir()
    for name, data in linked_files().items():
        (tmp_path / "static" / name).write_bytes(data)
    described = describe_episode(episodes[0], episodes[0].scoring.task)
    described |= {"title": hostile_texts()[0], "facts": hostile_texts()[1]}
    page = make_page("a", {"episodes": [described], "remarks": []}, static="static/", back="b.html")
    path = tmp_path / "replay.html"
    path.write_text(page, encoding="utf-8")
    tab = visit(tmp_path, viewport={"width": 300, "height": 500}, offline=True)
    page = tab.open(path)
    _wait(page, "window.replay !== undefined")
    page.evaluate("replay.seek(0.04)")
    np.testing.assert_allclose(
        page.evaluate("replay.position(0, 0)"), _expected(episodes[0], 2)[0], atol=1e-3
    )
    assert page.get_by_text("The record").get_attribute("href") == "b.html"
    assert page.evaluate("window.hit") is None
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_keys_steer_and_axe_finds_nothing_serious(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    live = tmp_path / "watch.html"  # without its server; the controls are those of `watch`
    live.write_text(make_page("live", {"live": True}, live=True), encoding="utf-8")
    for path in (_page(episodes[:1], tmp_path, remarks=["a remark"]), live):
        page = visit(tmp_path, viewport={"width": 300, "height": 500}, offline=True).open(path)
        if path != live:
            _wait(page, "window.replay !== undefined")
            page.evaluate("replay.pause()")
            page.locator(".tile").focus()
            before = np.array(page.evaluate("replay.eye(0)"))
            page.keyboard.press("ArrowLeft")
            turned = np.array(page.evaluate("replay.eye(0)"))
            assert np.hypot(*(turned - before)[:2]) > 0.05
            assert turned[2] == pytest.approx(before[2])
            page.keyboard.press("+")
            assert page.evaluate("replay.eye(0)")[2] < turned[2]  # nearer to a target below
        for _ in ("folded", "open"):
            found = axe.run(page).response["violations"]
            serious = [item["id"] for item in found if item["impact"] in ("serious", "critical")]
            assert serious == [], path
            page.locator("#options > summary").click()


@pytest.mark.slow
def test_space_is_that_of_a_checkbox_with_the_focus_and_else_stops_playback(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    page = visit(tmp_path, viewport={"width": 900, "height": 500}).open(_page(episodes, tmp_path))
    _wait(page, "window.replay !== undefined")
    page.evaluate("replay.pause()")
    for box in ("#follow", "#contacts"):
        page.locator(box).focus()
        page.keyboard.press("Space")
        assert not page.locator(box).is_checked()
        assert page.locator("#play").inner_text() == "Play"
    page.locator(".tile").first.focus()
    page.keyboard.press("Space")
    assert page.locator("#play").inner_text() == "Pause"


LIVE_REGIONS = """[...document.querySelectorAll("output, [aria-live], [role=status], [role=log]")]
    .map((element) => [element.id, element.textContent])"""
"""What screen readers read out whenever it changes."""


@pytest.mark.slow
def test_the_time_is_not_read_out_again_and_again(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    page = visit(tmp_path, viewport={"width": 300, "height": 500}).open(_page(episodes, tmp_path))
    _wait(page, "window.replay !== undefined")
    page.evaluate("replay.seek(0.04)")
    assert page.locator("#clock").inner_text() == "0.04 s"
    assert page.locator("#time").get_attribute("aria-valuetext") == "0.04 seconds"
    assert page.evaluate(LIVE_REGIONS) == [["connection", ""]]
    live = tmp_path / "watch.html"  # without its server
    live.write_text(make_page("live", {"live": True}, live=True), encoding="utf-8")
    page = visit(tmp_path).open(live)
    _wait(page, "document.getElementById('connection').textContent === 'no connection'")
    assert not page.locator("#clock").is_visible()


@pytest.mark.slow
def test_a_slow_choice_of_bodies_does_not_replace_a_later_one(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    page = visit(tmp_path, viewport={"width": 900, "height": 500}).open(
        _page(episodes * 2, tmp_path)
    )
    _wait(page, "window.replay !== undefined")
    page.evaluate(
        """() => {
            const read = Response.prototype.arrayBuffer;
            const opened = new Promise((open) => { window.openGate = open; });
            window.waiting = 0;
            Response.prototype.arrayBuffer = async function () {
                window.waiting++;
                await opened;
                return read.call(this);
            };
        }"""
    )
    page.locator("#choice summary").click()
    box = page.locator("#choice input").nth(3)
    box.check()
    _wait(page, "window.waiting > 0")
    box.uncheck()
    page.evaluate("openGate()")
    page.wait_for_timeout(500)  # for the fourth body to be there, if anybody still wanted it
    assert page.evaluate("replay.titles.length") == 3
    box.check()
    _wait(page, "replay.titles.length === 4")


@pytest.mark.slow
def test_hostile_texts_are_shown_and_do_nothing(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    texts = hostile_texts()
    path = _page(episodes, tmp_path, remarks=texts)
    content = path.read_text(encoding="utf-8")
    start = content.index('id="data">') + len('id="data">')
    end = content.index("</script>", start)
    data = json.loads(content[start:end])
    data["episodes"] = [
        data["episodes"][0] | {"title": text, "facts": text, "ended": text} for text in texts[:60]
    ]
    path.write_text(make_page(texts[5], data), encoding="utf-8")
    tab = visit(tmp_path, viewport={"width": 300, "height": 400}, offline=True)
    page = tab.open(path)
    _wait(page, "window.replay !== undefined")
    page.evaluate("replay.seek(replay.duration)")
    page.locator("#options > summary").click()
    page.locator("#choice summary").click()
    assert page.locator("h2").all_text_contents() == texts[:3]
    total = f"{data['episodes'][0]['total']:.1f}"
    choices = [f" {text}: {total}" for text in texts[:60]]
    assert page.locator("#choice li").all_text_contents() == choices
    assert page.locator("#remarks").text_content() == "\n".join(texts)
    assert page.evaluate("window.hit") is None
    assert tab.complaints == []
    assert tab.outside() == []


@pytest.mark.slow
def test_a_phone_shows_all_of_it(episodes: list[Any], tmp_path: Path, visit: Any) -> None:
    tab = visit(tmp_path, viewport={"width": 360, "height": 740}, has_touch=True)
    page = tab.open(_page(episodes, tmp_path))
    _wait(page, "window.replay !== undefined")
    assert page.evaluate(OVERFLOW) == 0
    assert page.locator(".tile").count() == len(episodes)


CAPTIONS = """() => [...document.querySelectorAll(".tile")].map((tile) =>
    [tile.firstElementChild, tile].map((element) => element.getBoundingClientRect().bottom))"""
"""Of each picture the lower ends of its caption and of itself, pixels of the window."""


@pytest.mark.slow
def test_bodies_are_not_behind_their_captions(
    episodes: list[Any], tmp_path: Path, visit: Any
) -> None:
    page = visit(tmp_path, viewport={"width": 360, "height": 640}).open(_page(episodes, tmp_path))
    _wait(page, "window.replay !== undefined")
    page.evaluate("replay.pause()")
    page.evaluate("replay.seek(0)")
    page.wait_for_timeout(300)  # for the next picture
    captions = page.evaluate(CAPTIONS)
    assert len(captions) == len(episodes)
    for tile, ends in enumerate(captions):
        assert page.evaluate(f"replay.center({tile})") == pytest.approx([180, sum(ends) / 2], abs=2)


@contextmanager
def _served(names: Sequence[str], task_id: str = "unimal-ft-v1") -> Iterator[LiveServer]:
    """Yield the server of an untrained policy on two bodies of these names."""
    task, method = TASKS.get(task_id), METHODS.load("recmorph")
    bodies = tuple(
        replace(body, name=name) for body, name in zip((biped(), chain(3)), names, strict=False)
    )
    policy = Policy.untrained(method, task, bodies, seed=1)
    session: Any = SimpleNamespace(
        method=method,
        task=task,
        bodies=SimpleNamespace(split=lambda _: bodies),
        config=SimpleNamespace(seed=4),
    )
    server = LiveServer(LiveSimulation([Contestant(session=session, policy=policy)]), port=0)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(10)


SETTINGS = """[document.getElementById("play").textContent,
    ...["speed", "friction"].map((name) => document.getElementById(name).value)].join()"""
"""What the controls of a live page say."""
DISPOSED = """{
    const dispose = THREE.BufferGeometry.prototype.dispose;
    THREE.BufferGeometry.prototype.dispose = function () { disposed += 1; dispose.call(this); };
    window.disposed = 0;
}"""
"""Counts the geometries that are given back."""


@pytest.mark.slow
def test_another_ground_takes_neither_the_view_nor_the_focus(tmp_path: Path, visit: Any) -> None:
    with _served(["one", "other"], "unimal-vt-v1") as server:
        tab = visit(tmp_path, viewport={"width": 300, "height": 300})
        page = tab.page
        page.goto(server.url)
        _wait(page, "window.replay !== undefined && replay.ready")
        _wait(page, "!/step 0$/.test(document.querySelector('.numbers').textContent)")
        page.evaluate("play.click(); follow.click()")
        _wait(page, f"{SETTINGS} === 'Play,1,1'")
        tile = page.locator(".tile")
        tile.focus()
        for _ in range(4):
            page.keyboard.press("ArrowLeft")
        page.evaluate(DISPOSED)
        eye = page.evaluate("replay.eye()")
        for _ in range(2):
            number = page.evaluate("replay.number")
            server.control({"restart": True})
            _wait(page, f"replay.number > {number}")
        _wait(page, "/step 0$/.test(document.querySelector('.numbers').textContent)")
        assert page.evaluate("replay.eye()") == eye
        assert page.evaluate("document.activeElement.className") == "tile"
        assert page.evaluate("disposed") > 2 * 4  # of both grounds and the limbs on them
        assert tab.complaints == []


@pytest.mark.slow
def test_options_of_the_picture_take_effect_while_it_pauses(tmp_path: Path, visit: Any) -> None:
    with _served(["one", "other"]) as server:
        page = visit(tmp_path, viewport={"width": 300, "height": 300}).page
        page.goto(server.url)
        _wait(page, "window.replay !== undefined && replay.ready")
        page.evaluate("follow.click()")
        eye, place = page.evaluate("[replay.eye(), replay.position(0, 0)]")
        _wait(page, f"replay.contacts && Math.abs(replay.position(0, 0)[0] - {place[0]}) > 0.02")
        page.evaluate("play.click()")
        _wait(page, f"{SETTINGS} === 'Play,1,1'")
        assert page.evaluate("replay.eye()") == eye
        page.evaluate("follow.click()")
        assert page.evaluate("replay.eye()") != eye
        while not (shown := page.evaluate("replay.contacts")):  # it paused with no foot down
            page.evaluate("play.click()")
            _wait(page, "replay.contacts")
            page.evaluate("play.click()")
            _wait(page, f"{SETTINGS} === 'Play,1,1'")
        page.evaluate("contacts.click()")
        assert page.evaluate("replay.contacts") == 0
        page.evaluate("contacts.click()")
        assert page.evaluate("replay.contacts") == shown


COVERED = """(name) => {
    const steps = Array.from({length: 40}, (_, k) => (k + 0.5) / 40);
    const points = steps.flatMap((x) => steps.map((y) => [x * innerWidth, y * innerHeight]));
    return points.filter(([x, y]) => document.elementFromPoint(x, y)?.closest(name)).length / 1600;
}"""
"""The share of the window where an element is on top."""


@pytest.mark.slow
def test_on_a_phone_the_robot_has_the_page(episodes: list[Any], tmp_path: Path, visit: Any) -> None:
    replay = _page(episodes[:1], tmp_path)
    with _served(["evolved-00088.287.412.480.721.803.1002.1289.1404.1", "other"]) as server:
        for url, needed in ((replay.as_uri(), "#follow"), (server.url, "#policy, #restart")):
            tab = visit(tmp_path, viewport={"width": 390, "height": 664})
            page = tab.page
            page.goto(url)
            _wait(page, "window.replay !== undefined && replay.ready !== false")
            if page.locator("#play").inner_text() == "Pause":  # a large picture takes long to draw
                page.evaluate("play.click()")
            options = page.locator("#options > summary")
            for turned in ({"width": 390, "height": 664}, {"width": 664, "height": 390}):
                page.set_viewport_size(turned)
                _wait(page, "!options.open")
                assert page.evaluate(OVERFLOW) == 0, url
                assert page.evaluate(COVERED, "#controls") < 0.12, url
                assert page.evaluate(COVERED, ".tile") > 0.75, url
                assert page.locator("#play").is_visible()
                assert not page.locator(needed).first.is_visible()
                options.focus()
                page.keyboard.press("Enter")
                assert all(item.is_visible() for item in page.locator(needed).all())
                assert page.evaluate(OVERFLOW) == 0, url
                assert page.evaluate(COVERED, ".tile") > 0.25, url
                page.set_viewport_size({"width": 1000, "height": 700})
                _wait(page, "options.open")
                assert not options.is_visible()
                assert all(item.is_visible() for item in page.locator(needed).all())
            assert tab.complaints == []


@pytest.mark.slow
def test_a_live_page_plays_and_is_heard(tmp_path: Path, visit: Any) -> None:
    names = hostile_texts()
    with _served(names) as server:
        tab = visit(tmp_path, viewport={"width": 300, "height": 500})
        tab.page.goto(server.url)
        _wait(tab.page, "window.replay !== undefined && replay.ready")
        assert tab.page.evaluate("replay.title") == names[0]
        before = tab.page.evaluate("replay.position(0, 0)")
        _wait(tab.page, f"replay.position(0, 0)[0] !== {before[0]}")
        tab.page.locator("#options > summary").click()
        tab.page.select_option("#body", "1")
        _wait(tab.page, f"replay.title === {json.dumps(names[1])}")
        assert tab.page.evaluate("window.hit") is None
        assert tab.complaints == []
        assert [url for url in tab.requests if not url.startswith(server.url)] == []


@pytest.mark.slow
def test_all_tabs_show_the_settings(tmp_path: Path, visit: Any) -> None:
    with _served(["one", "other"]) as server:
        pages = [visit(tmp_path).page for _ in range(2)]
        for page in pages:
            page.goto(server.url)
            _wait(page, "window.replay !== undefined && replay.ready")
        pages[0].select_option("#friction", "0.25")
        pages[0].select_option("#speed", "4")
        pages[0].click("#play")
        for page in pages:
            _wait(page, f"{SETTINGS} === 'Play,4,0.25'")
        pages[1].click("#play")
        pages[1].select_option("#speed", "0.5")
        _wait(pages[0], f"{SETTINGS} === 'Pause,0.5,0.25'")
        pages[0].reload()
        _wait(pages[0], f"{SETTINGS} === 'Pause,0.5,0.25'")
