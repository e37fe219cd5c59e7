"""Training on bodies with closed loops: what comes open is counted, and counted on after a stop."""

from dataclasses import replace

import pytest
import torch

from gmc_bench.conformance.morphologies import biped, linkage
from gmc_bench.methods import METHODS
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.checkpoint import read_latest
from gmc_bench.training.trainer import make_trainer
from tests.support.small_runs import (
    TrainerInFolder,
    same_statistics,
    small_config,
    small_protocol,
    stop_at,
)

BODIES = (linkage(1), biped())
SMALL = {"width": 8, "hidden": 8}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Build a trainer: 4 environments x 16 steps, by default 2 iterations."""
    monkeypatch.setattr("gmc_bench.envs.core.OPEN", 0.005)  # random motors open loops that far

    def build(name, method="recmorph", tree="kinematic", bodies=BODIES, iterations=2):
        spec, settings = METHODS.get(method), SMALL if method == "recmorph" else {}
        config = small_config(
            method,
            spec.make_config("lite", settings),
            small_protocol(env_steps=64 * iterations),
            tokens=TokenConfig(tree=tree),
        )
        layout = TokenSpec(6, loops=True, tree=tree)
        trainer = make_trainer(config, spec, replace(TASK, horizon=12), bodies, layout)
        return TrainerInFolder(trainer, config, tmp_path / name)

    return build


@pytest.mark.parametrize("tree", ["kinematic", "breadth-first"])
def test_a_continued_run_ends_in_the_same_bits_and_counts(make, tree):
    whole = make("whole", tree=tree)
    whole.train()

    stop_at(make("parts", tree=tree), 1)
    parts = make("parts", tree=tree)
    assert parts.env_steps == 64
    assert parts.collector.loops_opened > 0
    parts.train()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], value), name
    assert parts.collector.loops_opened == whole.collector.loops_opened > 0
    same_statistics(parts, whole)


def test_openings_of_all_rollouts_are_counted(make):
    trainer, told = make("run"), []
    step = trainer.env.step

    def noting(actions):
        found = step(actions)
        told.append(int(found[4]["loops_opened"].sum()))
        return found

    trainer.env.step = noting
    trainer.train()
    assert len(told) == 2 * 16
    assert 0 < sum(told[-16:]) < sum(told)
    assert trainer.collector.loops_opened == sum(told)


def test_openings_of_all_processes_are_added(make, monkeypatch):
    collector = make("run").collector
    monkeypatch.setattr(collector.learner.group, "sum", lambda values: values + 3)
    collector.loops_opened, collector._opened = 5, 2
    collector._count()
    assert collector.loops_opened == 5 + 2 + 3


@pytest.mark.parametrize("method", ["gcnt", "mlp"])
def test_methods_of_every_kind_train_on_loops(make, method):
    trainer = make("run", method, iterations=1)
    trainer.train()
    assert trainer.env_steps == 64
    assert trainer.collector.loops_opened > 0


def test_nothing_is_counted_or_stored_without_loops(make):
    trainer = make("run", bodies=(biped(),), iterations=1)
    trainer.train()
    assert trainer.collector.loops_opened is None
    checkpoint = read_latest(trainer.folder.checkpoints, trainer.config.run_digest)
    assert checkpoint.state["statistics"]["collector"]["loops_opened"] is None
    assert not any("loops" in name for name in checkpoint.state["environment"])
