"""Evolution with training, on a handful of bodies."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.cli.main import main
from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments import evolution
from gmc_bench.experiments.events import Progress, Remark
from gmc_bench.experiments.evolution import (
    EvolutionFolder,
    evolution_folder,
    evolve,
    evolve_set,
)
from gmc_bench.experiments.lease import NAME, FolderInUseError, LeaseLostError
from gmc_bench.generation.evolution import Evolution, Generation

TINY = Evolution(
    seed=2, population=4, survivors=2, kin=1, generations=2, env_steps=2048, num_envs=16
)
OPTIONS = [
    *("--population", "4", "--survivors", "2", "--kin", "1", "--generations", "2"),
    *("--env-steps", "2048", "--num-envs", "16", "--seed", "2"),
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))
    return tmp_path


def _policies(folder):
    return [path.read_bytes() for path in sorted(folder.glob("*/policy.safetensors"))]


@pytest.mark.slow
def test_evolution_goes_on_to_the_same_bits(data, monkeypatch, capsys):
    events, went_on, go_on = [], [], evolution._go_on
    with monkeypatch.context() as noting:
        noting.setattr(evolution, "_go_on", lambda *a: went_on.append(a) or go_on(*a))
        whole = evolve(TINY, listener=events.append)
    assert len(went_on) == 1  # the second generation, with what the first has learned
    weights = _policies(evolution_folder(TINY))
    assert whole.number == 2
    assert len(whole.lineages) == 4
    assert sum(len(lineage) == 2 for lineage in whole.lineages) == 2
    assert all(math.isfinite(value) for value in whole.returns)
    assert whole.mean_return > -100.0
    progress = [event for event in events if isinstance(event, Progress)]
    assert {event.what for event in progress} == {"generation 1", "generation 2"}
    assert progress[-1].done == progress[-1].total == TINY.env_steps
    assert "descendants of 4 founders" in next(e for e in events if isinstance(e, Remark)).text

    monkeypatch.setenv("GMC_BENCH_DATA", str(data / "again"))
    with pytest.raises(InterruptedError):
        evolve(TINY, listener=_Stop("generation 2"))
    assert main(["morphologies", "evolve", "walkers", "--train", "2", "--test", "1", *OPTIONS]) == 0
    assert _policies(evolution_folder(TINY)) == weights
    with pytest.raises(ConfigError, match="1 generations were asked for, but this evolution is at"):
        evolve(replace(TINY, generations=1))  # the bodies would be of another generation
    shown = capsys.readouterr()
    assert "Going on after generation 1" in shown.err
    assert f"training return {whole.mean_return:.1f} on 4 bodies" in shown.out
    bodies = load_morphologies("walkers")
    names = {split: [body.name for body in bodies.split(split)] for split in bodies.splits}
    ranked = [f"evolved-{'.'.join([f'{k[0]:05d}', *map(str, k[1:])])}" for k in whole.ranked]
    assert names == {"train": ranked[:2], "test": ranked[2:3]}


class _Stop:
    """Interrupts in the training of a generation."""

    def __init__(self, what):
        self.what = what

    def __call__(self, event):
        if isinstance(event, Progress) and event.what == self.what:
            raise InterruptedError


def test_every_generation_draws_noise_of_its_own(monkeypatch):
    seeds = []
    monkeypatch.setattr(evolution, "Trainer", lambda *_, seed, **__: seeds.append(seed))
    other = replace(TINY, seed=3)
    for settings, number in ((TINY, 1), (TINY, 1), (TINY, 2), (other, 1)):
        evolution._trainer(settings, (biped(), chain(3)), number, 1)
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3


def test_a_generation_goes_on_with_what_the_one_before_has_learned():
    before, after = (evolution._trainer(TINY, (biped(), chain(3)), number, 1) for number in (1, 2))
    before.iterate()
    last = Generation(number=1, lineages=((0,), (1,)), returns=(0.0, 0.0), births=2)
    evolution._go_on(after, evolution._state(before, last))
    learned, taken = before.policy.tensors(), after.policy.tensors()
    assert learned.keys() == taken.keys()
    for name, values in learned.items():
        np.testing.assert_array_equal(taken[name], values)
    rewards, others = (trainer.learner.rewards.moments for trainer in (before, after))
    assert (rewards.mean, rewards.variance) == (others.mean, others.variance)
    epochs = [trainer.algorithm.get_state()["last_epoch"] for trainer in (before, after)]
    assert epochs == [1, 0]  # its rates begin anew


def _train_nothing(monkeypatch, train=lambda tell: None):
    """Let generations of four bodies have returns without training."""
    tracker = SimpleNamespace(body_returns=np.array([-1.0, np.nan, -9.0, 3.0]))
    trainer = SimpleNamespace(tracker=tracker, env_steps_planned=0, train=train)
    monkeypatch.setattr(evolution, "breed", lambda *_: ({(k,): named(k) for k in range(4)}, 4))
    monkeypatch.setattr(evolution, "_trainer", lambda *_: trainer)
    monkeypatch.setattr(evolution, "_state", lambda *_: {})


def test_bodies_that_finished_no_episode_are_the_least_fit(data, monkeypatch):
    _train_nothing(monkeypatch)
    monkeypatch.setattr(evolution, "write_checkpoint", lambda *_: None)
    assert evolve(replace(TINY, generations=1)).ranked == ((3,), (0,), (2,), (1,))


def test_who_lost_the_folder_while_training_writes_no_generation(data, monkeypatch):
    """Another process has taken it over, and writes that very generation."""
    folder = evolution_folder(TINY)
    _train_nothing(monkeypatch, lambda tell: (folder / NAME).write_text('{"token": "another"}'))
    with pytest.raises(LeaseLostError, match="was taken over by"):
        evolve(replace(TINY, generations=1))
    assert [path.name for path in folder.glob("[!.]*")] == ["evolution.json"]


def test_test_bodies_are_as_fit_as_train_bodies(data, monkeypatch):
    """They take turns from the best one on, in the ratio of their numbers."""
    lineages, returns = tuple((k,) for k in range(6)), (6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
    last = Generation(number=2, lineages=lineages, returns=returns, births=6)
    monkeypatch.setattr(evolution, "evolve", lambda settings: last)
    monkeypatch.setattr(evolution, "grow_lineage", lambda seed, lineage: named(lineage[0]))
    found = evolve_set("walkers", replace(TINY, population=6), 4, 2).bodies
    names = {split: [body.name for body in found.split(split)] for split in ("train", "test")}
    assert names == {"train": ["0", "1", "3", "4"], "test": ["2", "5"]}


def named(number):
    """Return a body that is no other's copy."""
    return replace(chain(3 + number), name=str(number))


def test_two_evolutions_with_the_same_settings_are_kept_apart(data, monkeypatch):
    monkeypatch.setattr(evolution, "_evolve", lambda *_: "evolved")
    folder = evolution_folder(TINY)
    (folder / "00000001").mkdir(parents=True)  # of a version without locks
    with EvolutionFolder(replace(TINY, generations=1)):
        with pytest.raises(FolderInUseError, match=r"is in use by another process \(pro"):
            evolve(TINY)
        assert evolve(replace(TINY, seed=3)) == "evolved"
    assert evolve(TINY) == "evolved"
    assert {path.name for path in folder.glob("[!.]*")} == {"00000001", "evolution.json"}


def test_more_bodies_than_there_are_cannot_be_kept(data):
    with pytest.raises(ConfigError, match="3 train and 2 test bodies were asked for of a pop"):
        evolve_set("walkers", TINY, 3, 2)
