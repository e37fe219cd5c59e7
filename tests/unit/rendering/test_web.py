"""Replays for a browser: what the page is given is what was simulated, and texts stay texts."""

import base64
import gzip
import json
import re
from hashlib import sha256
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import linkage, star
from gmc_bench.evaluation import episode_subset
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.records.schema import BodyReturns, Episode
from gmc_bench.rendering.scene import drawing_model
from gmc_bench.rendering.web import records as records_module
from gmc_bench.rendering.web import replay as replay_module
from gmc_bench.rendering.web.episodes import EpisodeKeeper, model_of
from gmc_bench.rendering.web.motion import (
    LENGTH_UNIT,
    TURN_UNIT,
    follow_states,
    frames_of,
    place_bodies,
)
from gmc_bench.rendering.web.page import linked_files, make_page
from gmc_bench.rendering.web.records import RecordReplays
from gmc_bench.rendering.web.replay import ReplayChoice, _choose, _facts, _file_name, _Shown
from gmc_bench.rendering.web.shapes import describe_model
from gmc_bench.tasks.unimal_ft import TASK
from tests.support.leaderboards import hostile_texts
from tests.support.records import make_record, make_returns


def unpacked(text, kind):
    return np.frombuffer(gzip.decompress(base64.b64decode(text)), kind)


def test_kept_episodes_are_the_scored_ones_and_change_nothing(subject):
    keeper = EpisodeKeeper(subject.scoring("deterministic"))
    results = subject.score(observers=(keeper,))
    assert results == subject.score()
    assert sorted(keeper.episodes) == [0, 3, 6]
    for number, episode in keeper.episodes.items():
        scored = results[number // 3][0]
        found = (episode.episode_return, episode.length, episode.ended)
        assert found == (scored.episode_return, scored.length, scored.ended)
        assert episode.body is subject.bodies[number // 3]
    again = EpisodeKeeper(subject.scoring("deterministic"), [4]).play(subject.policy)
    assert again[4].episode_return == results[1][1].episode_return
    np.testing.assert_array_equal(again[4].states, subject.replay(1, 1).states)


@pytest.fixture
def plays(monkeypatch):
    """Return a list of (rows shown, steps) that grows with every play of chosen episodes."""
    found = []
    play, act = episode_subset._SubsetPlayer.play, episode_subset._SubsetPlayer._act

    def noted(player, policy):
        found.append((len(player.stage.dynamic), 0))
        play(player, policy)

    def counted(player):
        found[-1] = (found[-1][0], found[-1][1] + 1)
        return act(player)

    monkeypatch.setattr(episode_subset._SubsetPlayer, "play", noted)
    monkeypatch.setattr(episode_subset._SubsetPlayer, "_act", counted)
    return found


@pytest.fixture
def fewer(subject, plays, monkeypatch):
    """Return a number of rows, below all nine, with which two of them get the same actions.

    Which ones do depends on the machine's matrix products.
    """
    results = [item for items in subject.score() for item in items]
    expected = {
        number: (results[number].episode_return, results[number].length) for number in (0, 4)
    }
    for count in range(2, 9):
        monkeypatch.setattr(episode_subset, "FEWER_ROWS", (count,))
        plays.clear()
        EpisodeKeeper(subject.scoring("deterministic"), expected).play(
            subject.policy, expected=expected
        )
        if plays[0][0] == count:
            return count
    pytest.skip("on this machine actions depend on the number of rows, whatever it is")


def test_unexpected_episodes_are_played_again_with_all_rows_if_they_were_not(
    subject, plays, fewer, monkeypatch
):
    results = [item for items in subject.score() for item in items]
    expected = {
        number: (results[number].episode_return, results[number].length) for number in (0, 4)
    }
    other = {**expected, 4: (0.0, 1)}
    longest = max(length for _, length in expected.values())
    for shown, wanted, noted in (
        ((fewer,), expected, [(fewer, longest)]),
        ((fewer,), other, [(fewer, longest), (9, expected[4][1])]),
        ((), other, [(9, longest)]),
    ):
        monkeypatch.setattr(episode_subset, "FEWER_ROWS", shown)
        plays.clear()
        keeper = EpisodeKeeper(subject.scoring("deterministic"), wanted)
        found = keeper.play(subject.policy, expected=wanted)
        assert plays == noted
        assert {number: item.outcome for number, item in found.items()} == expected


def test_longer_episodes_are_left_once_one_is_unexpected_with_all_rows(
    subject, plays, fewer, monkeypatch
):
    results = [item for items in subject.score() for item in items]
    order = sorted(range(9), key=lambda number: results[number].length)
    short, long = order[0], order[-1]
    assert results[short].length < results[long].length
    expected = {
        number: (results[number].episode_return, results[number].length) for number in order
    }
    monkeypatch.setattr(episode_subset, "FEWER_ROWS", (fewer,))
    for wrong, over in ((short, {short}), (long, {short, long})):
        plays.clear()
        wanted = {number: expected[number] for number in (short, long)}
        wanted[wrong] = (0.0, 1)
        keeper = EpisodeKeeper(subject.scoring("deterministic"), wanted)
        found = keeper.play(subject.policy, expected=wanted, give_up=True)
        assert plays == [(fewer, results[wrong].length), (9, results[wrong].length)]
        assert {number: item.outcome for number, item in found.items()} == {
            number: expected[number] for number in over
        }


def test_a_broken_simulation_is_shown_as_it_was_before(wild_subject):
    (episode,) = (
        EpisodeKeeper(wild_subject.scoring("deterministic")).play(wild_subject.policy).values()
    )
    assert (episode.ended, episode.length) == ("diverged", 1)
    np.testing.assert_array_equal(episode.states[1], episode.states[0])


def test_ground_is_that_of_the_episode(ground_subject):
    found = EpisodeKeeper(ground_subject.scoring("deterministic"), [7]).play(ground_subject.policy)
    model = model_of(found[7])
    expected = ground_subject.replay(2, 1).terrain
    for name in ("geom_pos", "geom_size", "hfield_data"):
        if name in expected:
            drawn = getattr(model, name)[: len(expected[name])]
            np.testing.assert_array_equal(drawn, expected[name])
    kinds = {shape["kind"] for shape in describe_model(model, 0.5)["shapes"]}
    assert kinds <= {"box", "capsule", "sphere", "field"}
    assert ("field" in kinds) == bool(model.nhfield)


def test_motion_can_be_read_back(subject):
    found = EpisodeKeeper(subject.scoring("deterministic"), [6]).play(subject.policy)[6]
    model, steps = model_of(found), frames_of(found.length, 0.02)
    motion = follow_states(model, found.states, steps)
    text = motion.packed()
    count, bodies = len(steps), model.nbody - 1
    places = np.cumsum(unpacked(text["places"], "<i4").reshape(-1, count), axis=1)
    turns = np.cumsum(unpacked(text["turns"], "<i2").reshape(-1, count), axis=1, dtype=np.int16)
    np.testing.assert_array_equal(np.cumsum(unpacked(text["steps"], "<i4")), steps)
    data = mujoco.MjData(model)
    for frame in (0, count // 2, count - 1):
        data.qpos[:] = found.states[steps[frame]]
        mujoco.mj_kinematics(model, data)
        seen = places[:, frame].reshape(bodies, 3) * LENGTH_UNIT
        np.testing.assert_allclose(seen, data.xpos[1:], atol=0.6 * LENGTH_UNIT)
        turn = turns[:, frame].reshape(bodies, 4) * TURN_UNIT
        np.testing.assert_allclose(
            np.abs((turn * data.xquat[1:]).sum(axis=1)), 1.0, atol=1e-3
        )  # the same but for its sign
    # The body has fallen: it touches the floor, at the floor's height.
    assert motion.num_contacts[-1] > 0
    np.testing.assert_allclose(motion.contacts[:, 2], TASK.ground_height, atol=0.05)


def test_turns_do_not_jump_to_their_negatives():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    angles = 0.1 * np.arange(6)
    states = np.zeros((6, 7))
    states[:, 3], states[:, 6] = np.cos(angles / 2), np.sin(angles / 2)
    expected = states[:, None, 3:].copy()
    states[:, 3:] *= np.array([1, -1, -1, -1, 1, -1])[:, None]  # q and -q are one turn
    np.testing.assert_allclose(follow_states(model, states, np.arange(6)).turns, expected)


@pytest.mark.parametrize(("height", "touching"), [(0.1, 1), (0.12, 0), (0.3, 0)])
def test_only_what_touches_the_ground_is_marked(height, touching):
    # The engine also has contacts within a margin.
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body><freejoint/>"
        "<geom size='.1' margin='.05'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    data.qpos[2] = height
    assert len(place_bodies(model, data)) == touching


def test_frames_are_25_a_second_and_end_with_the_last_step():
    assert frames_of(7, 0.02).tolist() == [0, 2, 4, 6, 7]
    assert frames_of(3, 0.1).tolist() == [0, 1, 2, 3]
    assert frames_of(0, 0.02).tolist() == [0]


def test_shapes_stand_where_the_model_has_them():
    """Each at its place and turn in the frame of its body; -1 is the world."""
    model = drawing_model(star(4), TASK.scene)
    data = mujoco.MjData(model)
    data.qpos[:] = np.random.default_rng(0).normal(size=model.nq)
    mujoco.mj_kinematics(model, data)
    shapes = describe_model(model, 0.5)["shapes"]
    assert len(shapes) == model.ngeom
    assert {shape["body"] for shape in shapes} == set(range(-1, star(4).num_limbs))
    for index, shape in enumerate(shapes):
        frame, turn, whole = data.xmat[shape["body"] + 1].reshape(3, 3), np.empty(9), np.empty(4)
        place = data.xpos[shape["body"] + 1] + frame @ shape["place"]
        np.testing.assert_allclose(place, data.geom_xpos[index], atol=1e-5)
        mujoco.mju_mulQuat(whole, data.xquat[shape["body"] + 1], np.array(shape["turn"]))
        mujoco.mju_quat2Mat(turn, whole)
        np.testing.assert_allclose(turn, data.geom_xmat[index], atol=1e-5)
        np.testing.assert_allclose(shape["size"], model.geom_size[index], atol=1e-6)
        np.testing.assert_allclose(shape["color"], model.geom_rgba[index, :3], atol=1e-3)


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_closed_loops_have_a_mark_at_each_end(kind):
    body = linkage(2, kind)
    model = drawing_model(body, TASK.scene)
    marks = describe_model(model, 0.5)["shapes"][model.ngeom :]
    assert len(marks) == 2 * len(body.loops)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    places = [
        data.xpos[mark["body"] + 1] + data.xmat[mark["body"] + 1].reshape(3, 3) @ mark["place"]
        for mark in marks
    ]
    np.testing.assert_allclose(places[::2], places[1::2], atol=1e-4)  # closed in the start pose


def test_every_choice_has_a_file_of_its_own():
    bodies = [(), ("足",), ("手",), ("a/b",), ("a_b",), ("a" * 120,), ("a" * 121,)]
    choices = [
        ReplayChoice(**which, split=split, mode=mode)
        for which in ({"everything": True}, *({"bodies": names} for names in bodies))
        for split in (None, "train")
        for mode in (None, "stochastic")
    ]
    names = [_file_name(choice) for choice in choices]
    assert len(set(names)) == len(choices)
    assert names[0] == "replay_all.html"
    assert names[4:7] == ["replay.html", "replay_stochastic.html", "replay_train.html"]
    assert "replay_a_b_train_stochastic.html" in names
    for name in names:
        assert re.fullmatch(r"replay[A-Za-z0-9._-]{,150}\.html", name)


def test_the_best_the_median_and_the_worst_of_the_unseen_bodies_are_shown():
    means = {"p": 3.0, "q": 9.0, "r": 1.0, "s": 5.0, "t": 4.0, "u": 2.0}
    returns = make_returns("test", {name: [mean] for name, mean in means.items()}, seen=("q",))
    bodies = make_record().morphologies.model_dump() | {"num_test": 6}
    returns = (*make_returns("train", {"a": [7.0]}), *returns)
    record = make_record(returns=returns, morphologies=bodies)

    def shown(**choice):
        found = _choose(record, ReplayChoice(**choice))
        return [(entry.item.body, entry.index, entry.rank) for entry in found]

    assert shown() == [("s", 3, "best of 5"), ("p", 0, "median of 5"), ("r", 2, "worst of 5")]
    assert shown(bodies=("u", "q")) == [("u", 5, ""), ("q", 1, "")]
    assert shown(everything=True) == [(name, place, "") for place, name in enumerate(means)]
    assert shown(split="train") == [("a", 0, "")]


def test_a_rank_stands_beside_the_mean_that_makes_it():
    episodes = [Episode(episode_return=value, length=9, ended="fell") for value in (1.0, 4.0)]
    item = BodyReturns(
        split="test", mode="deterministic", body="a", body_digest="0" * 64, seen_in_train=False,
        episodes=episodes,
    )  # fmt: skip
    assert _facts(_Shown(item=item, index=0, rank="median of 4")) == (
        "median of 4 by mean return 2.50 · test body, deterministic, episode 1 of 2 · "
        "return of this episode 1.00"
    )
    assert _facts(_Shown(item=item, index=0)).startswith("test body")


@pytest.fixture
def played(monkeypatch):
    """Let replays of records be described without playing; return what grows with each."""
    found = []

    def describe(experiment, choice, *, listener):
        found.append(experiment)
        return f"title {len(found)}", {"episodes": [{"title": "chain-3"}], "remarks": remarks}

    remarks = []
    folder = SimpleNamespace(read_policy=lambda: {})
    monkeypatch.setattr(Experiment, "open", lambda _: SimpleNamespace(folder=folder))
    monkeypatch.setattr(replay_module, "describe_replay", describe)
    return found, remarks


def stored_record(digest):
    return SimpleNamespace(path="run", digest=digest, record=SimpleNamespace(method="swat"))


@pytest.mark.parametrize("missing", [[], ["biped is not shown: it came out otherwise."]])
def test_what_was_replayed_is_kept_but_an_episode_that_is_missing_is_tried_again_elsewhere(
    monkeypatch, tmp_path, played, missing
):
    played, remarks = played
    remarks += missing
    replays = RecordReplays(tmp_path, cache=tmp_path / "cache")
    record, other = stored_record("one"), stored_record("two")
    assert [replays.of(record).remarks for _ in range(2)] == [remarks, remarks]
    assert len(played) == 1
    replays.of(other)
    assert len(played) == 2
    monkeypatch.setattr(RecordReplays, "_playing", "another processor")
    RecordReplays(tmp_path, cache=tmp_path / "cache").of(record)
    assert len(played) == 2 + len(remarks)
    monkeypatch.setattr(RecordReplays, "_describing", "another player")
    RecordReplays(tmp_path, cache=tmp_path / "cache").of(record)
    assert len(played) == 3 + len(remarks)


def test_a_replay_has_the_title_that_its_method_has_now(monkeypatch, tmp_path, played):
    replays, record = RecordReplays(tmp_path, cache=tmp_path / "cache"), stored_record("one")
    assert [replays.of(record).title for _ in range(2)] == ["title 1", "title 1"]
    other = SimpleNamespace(get=lambda name: SimpleNamespace(title=f"The new {name}"))
    monkeypatch.setattr(records_module, "METHODS", other)
    assert replays.of(record).title == "title 2"


def test_a_replay_that_cannot_be_kept_is_shown_all_the_same(tmp_path, played, caplog):
    (tmp_path / "cache").write_bytes(b"no folder")
    replays = RecordReplays(tmp_path, cache=tmp_path / "cache")
    assert replays.of(stored_record("one")).episodes == [{"title": "chain-3"}]
    assert "the replay of run is not kept for another time: cannot write" in caplog.text


def test_texts_of_others_stay_texts():
    texts = hostile_texts()
    page = make_page(texts[0] + "</title><script>", {"texts": texts, "remarks": texts})
    own = page.replace(page[page.index('id="data">') : page.index("<script>")], "")
    assert own.count("<script") == 3
    assert own.count("</title>") == 1
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set("<>&") & set(data[1])
    assert json.loads(data[1])["texts"] == texts
    assert "connect-src 'none'" in page


def _policy(page):
    """Return the sources that a page's policy allows, by directive."""
    (found,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    pairs = [directive.split() for directive in found.split(";")]
    assert len({name for name, *_ in pairs}) == len(pairs)  # of two, browsers heed the first
    return {name: sorted(sources) for name, *sources in pairs}


def _hashes(page, kind):
    """Return the hashes, as policies have them, of the elements that a browser would obey."""
    digests = [
        sha256(text.encode()).digest()
        for text in re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
    ]
    return sorted(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@pytest.mark.parametrize("live", [False, True])
def test_only_its_own_scripts_may_run(live):
    page = make_page("a", {}, live=live)
    scripts, styles = _hashes(page, "script"), _hashes(page, "style")
    assert (len(scripts), len(styles)) == (2, 1)
    assert _policy(page) == {
        "default-src": ["'none'"],
        "script-src": scripts,
        "style-src": styles,
        "connect-src": ["'self'" if live else "'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }


def test_a_page_with_files_beside_it_has_no_code_of_its_own():
    texts = hostile_texts()
    page = make_page(texts[1], {"texts": texts}, static="static/", back=f"../a.html?{texts[0]}")
    head, _, rest = page.partition('<script type="application/json" id="data">')
    data, _, rest = rest.partition("</script>")
    assert json.loads(data) == {"texts": texts}
    scripts = re.findall(r"<script[^>]*>[^<]*", head + rest)
    assert scripts == ['<script src="static/three.js">', '<script src="static/player.js">']
    assert "<style" not in page
    assert "script-src 'self'; style-src 'self'; connect-src 'none'" in page
    assert "trusted-types 'none'" in page
    assert set(linked_files()) == {"three.js", "player.js", "player.css"}
