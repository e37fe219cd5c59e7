"""The episode of a run that was asked for, and the same one of its record."""

from types import SimpleNamespace

import pytest
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.session import torch_state
from gmc_bench.records.store import write_record
from gmc_bench.rendering import episode as module
from gmc_bench.rendering.episode import EpisodeChoice, render_episode
from tests.support.records import make_record


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Return what plays and shows an episode whose return is known; nothing is drawn."""
    (tmp_path / "config.yaml").touch()
    folder = RunFolder(tmp_path)
    write_record(folder.record, make_record())  # whose test body `c` has the returns 10 and 30
    splits = {"train": ("a", "b"), "test": ("b", "c", "d")}
    evaluation = SimpleNamespace(episodes=2)
    config = SimpleNamespace(
        threads=1,
        seed=4,
        device="cuda:99",  # of another machine
        precision="float32",
        protocol=SimpleNamespace(evaluation=evaluation),
    )
    session = SimpleNamespace(
        task=SimpleNamespace(horizon=1000, parts="limbs"),
        method=SimpleNamespace(id="toy", capabilities=SimpleNamespace(per_body=False)),
        config=config,
        bodies=SimpleNamespace(
            id="set", split=lambda name: [SimpleNamespace(name=body) for body in splits[name]]
        ),
    )
    experiment = SimpleNamespace(session=session, folder=folder, policy=None)
    played = SimpleNamespace(episode_return=30.0, length=1000)
    asked, drawn = [], []

    def replay(policy, wanted, on_step):
        asked.append(wanted)
        drawn.append(torch.get_rng_state())
        return played

    monkeypatch.setattr(module, "require_video", lambda: None)
    monkeypatch.setattr(module, "scoring_of", lambda session, *part: part)
    monkeypatch.setattr(module, "replay_episode", replay)
    monkeypatch.setattr(module, "film_of", lambda *_: SimpleNamespace(frame_steps=lambda fps: []))
    monkeypatch.setattr(module, "write_video", lambda *_, **__: None)

    def show(**choice):
        found = render_episode(experiment, EpisodeChoice(**choice))
        with torch_state(session).in_use():  # as for the score
            assert torch.equal(drawn[-1], torch.get_rng_state())
        return found, asked[-1]

    return show


def test_the_episode_is_the_one_of_that_number(shown, tmp_path):
    found, wanted = shown(body="c", episode=2, seconds=3.0)
    assert (wanted.scoring, wanted.body, wanted.episode) == (("test", "deterministic"), 1, 1)
    assert (wanted.lengths, wanted.seconds) == ([1000] * 4, 3.0)
    assert found.recorded.episode_return == 30.0
    assert found.is_recorded
    assert found.title == "c, test, deterministic #2"
    assert found.path == tmp_path / "videos" / "c_test_deterministic_2.mp4"
    first, _ = shown(body="c")
    assert first.recorded.episode_return == 10.0
    assert not first.is_recorded
    missing, _ = shown(body="b", split="train", episode=2)
    assert missing.recorded is None  # it has one episode in the record
    with pytest.raises(ConfigError, match="--episode is 3, but the run is scored on 2 per body"):
        shown(body="c", episode=3)


def test_a_body_of_both_splits_is_looked_for_in_the_test_split_first(shown):
    for split, expected, place in ((None, "test", 0), ("train", "train", 1)):
        found, wanted = shown(body="b", split=split)
        assert (wanted.scoring[0], wanted.body) == (expected, place)
        assert found.recorded.episode_return == {"test": 180.0, "train": 200.0}[expected]
    _, wanted = shown(body="a")
    assert (wanted.scoring[0], wanted.body) == ("train", 0)
