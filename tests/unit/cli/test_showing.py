"""`gmc-bench render`, `replay` and `watch`: what is shown follows from their options."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.experiments.experiment import Experiment
from gmc_bench.rendering import backend, episode, stills
from gmc_bench.rendering.web import live, replay, server
from gmc_bench.tasks import TASKS


@pytest.fixture(autouse=True)
def _nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(backend, "import_engine", lambda: None)
    monkeypatch.setattr(Experiment, "open", lambda path: f"run {path}")


@pytest.fixture
def asked(monkeypatch):
    """Note the arguments of functions by module and name, which return something instead."""

    def watch(module, name, returned):
        found = []

        def note(*arguments, **options):
            found.append(arguments)
            found.append(options)
            return returned

        monkeypatch.setattr(module, name, note)
        return found

    return watch


def test_the_options_of_a_video(gmc, asked):
    played = SimpleNamespace(length=7, episode_return=1.5, ended=None)
    shown = SimpleNamespace(title="T", replay=played, recorded=None, path="v.mp4")
    found = asked(episode, "render_episode", shown)
    options = ("--split", "train", "--mode", "stochastic", "--episode", 3, "--seconds", 1.5)
    assert gmc("render", "r", "--body", "b", *options, "--size", "64x128", "--fps", 7)[0] == 0
    experiment, wanted, out, video = found[0]
    assert (experiment, out) == ("run r", None)
    assert (wanted.body, wanted.split, wanted.mode) == ("b", "train", "stochastic")
    assert (wanted.episode, wanted.seconds) == (3, 1.5)
    assert (video.width, video.height, video.fps) == (64, 128, 7)
    gmc("render", "r", "--body", "b", "--out", "v.mp4")
    _, wanted, out, video = found[2]
    assert (wanted.split, wanted.mode, wanted.episode, wanted.seconds, out) == (
        None, "deterministic", 1, None, Path("v.mp4"),
    )  # fmt: skip
    assert (video.width, video.height, video.fps) == (320, 240, 25)


def test_the_options_of_stills(gmc, asked):
    report = SimpleNamespace(drawn=1, kept=0, folder="f", sheet="s")
    found = asked(stills, "write_stills", report)
    chosen = asked(stills, "bodies_to_draw", ("tiny", ("bodies",)))
    options = ("--split", "test", "--body", "b", "--task", "unimal-vt", "--seed", 0)
    assert gmc("render", "--stills", "tiny", *options)[0] == 0
    assert chosen[0] == ("tiny", "test", "b")
    bodies, folder, size = found[0]
    assert (bodies, folder, size) == (("bodies",), Path("media/tiny/unimal-vt-v1"), (256, 256))
    assert (found[1]["task"], found[1]["seed"]) == (TASKS.get("unimal-vt-v1"), 0)
    gmc("render", "--stills", "tiny", "--out", "o", "--size", "64x64")
    assert (found[2][1:], found[3]["task"], found[3]["seed"]) == ((Path("o"), (64, 64)), None, 1)


def test_the_options_of_a_replay(gmc, asked):
    written = SimpleNamespace(remarks=["one is missing"], shown=2, path="r.html")
    found = asked(replay, "write_replay", written)
    options = ("--split", "train", "--mode", "stochastic", "--out", "r.html")
    code, out, err = gmc("replay", "r", "--body", "a", "b", *options)
    assert (code, out, err) == (0, "replay of 2 episodes  r.html\n", "one is missing\n")
    wanted = replay.ReplayChoice(bodies=("a", "b"), split="train", mode="stochastic")
    assert found[0] == ("run r", wanted, Path("r.html"))
    gmc("replay", "r", "--all")
    assert found[2] == ("run r", replay.ReplayChoice(everything=True), None)


def test_the_options_of_a_live_page(gmc, asked):
    simulated = asked(live.LiveSimulation, "of_runs", "simulation")
    page = SimpleNamespace(url="http://here", serve=lambda: None)
    served = asked(server, "LiveServer", page)
    code, out, _ = gmc("watch", "r", "s", "--body", "b", "--port", 0)
    assert (code, out.split()[1]) == (0, "http://here")
    assert simulated == [([Path("r"), Path("s")],), {"body": "b"}]
    gmc("watch", "r")
    assert [arguments for arguments in served if arguments] == [
        ("simulation", 0), ("simulation", 8765),
    ]  # fmt: skip
