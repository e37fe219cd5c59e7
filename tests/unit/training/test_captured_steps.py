"""What is captured of training on a GPU, replayed here by calling it again."""

from functools import partial

import pytest
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.policies import exploration
from gmc_bench.training import ppo
from tests.support.slow import slow_but


class CalledAgain:
    """Stands in for a captured graph where there is no GPU: static inputs, the same function."""

    def __init__(self, function, inputs):
        self.function = function
        self.inputs = [None if one is None else one.clone() for one in inputs]
        self.replays = 0
        function(*self.inputs)  # the warm-up

    def __call__(self, *inputs):
        for own, given in zip(self.inputs, inputs, strict=True):
            if own is not None:
                own.copy_(given)
        self.replays += 1
        return self.function(*self.inputs)


class Refuses(CalledAgain):
    error: Exception = RuntimeError("operation not permitted when stream is capturing")

    def __init__(self, function, inputs):
        super().__init__(function, inputs)
        raise self.error


class TakesTooMuch(Refuses):
    error = ConfigError("the networks of 'recmorph' need more memory than this machine gives")


@pytest.fixture
def make(make_trainer, monkeypatch):
    """Build a trainer whose acting and gradient steps are captured by a stand-in."""

    def build(stand_in, method="recmorph", **settings):
        monkeypatch.setattr(ppo, "CapturedCall", stand_in)
        monkeypatch.setattr(exploration, "CapturedCall", stand_in)
        trainer = make_trainer(f"{method}-{stand_in}", method=method, target_kl=None, **settings)
        trainer.algorithm.captures = trainer.model.padded_rows
        trainer.collector.bound.explorer._possible = True
        # A graph writes gradients to where they were when it was captured.
        in_place = partial(trainer.algorithm._optimizer.zero_grad, set_to_none=False)
        monkeypatch.setattr(trainer.algorithm._optimizer, "zero_grad", in_place)
        return trainer

    return build


SHORT = {"env_steps": 128, "warmup_iterations": 0}
"""Two iterations, at the full rate from the first step."""


def weights(trainer):
    return torch.cat([part.detach().flatten() for part in trainer.model.parameters()])


@pytest.mark.parametrize("method", slow_but(["recmorph", "metamorph-star", "nervenet"], "recmorph"))
def test_captured_training_equals_training(make, make_trainer, method):
    plain = make_trainer("plain", method=method, target_kl=None, **SHORT)
    captured = make(CalledAgain, method, **SHORT)
    for trainer in (plain, captured):
        trainer.train()
    explorer = captured.collector.bound.explorer
    assert explorer.replays > 0
    assert (captured.algorithm._captured is not None) == captured.model.padded_rows
    assert plain.algorithm._captured is None
    assert [point["episodes"] for point in captured.curve] == [
        point["episodes"] for point in plain.curve
    ]
    torch.testing.assert_close(weights(captured), weights(plain), rtol=1e-3, atol=2e-3)


def test_gradients_and_estimate_are_those_of_the_minibatch(make):
    trainer = make(CalledAgain)
    algorithm = trainer.algorithm
    trainer.collector.collect(trainer.buffer)
    algorithm._preprocess_batch(trainer.buffer, trainer.buffer, None)
    minibatches = list(trainer.buffer.minibatches(24, torch.Generator().manual_seed(0)))
    found = []
    for algorithm.captures in (True, False):
        for minibatch in minibatches:
            parts, kl = algorithm._gradients(minibatch)
            gradients = [part.grad.clone() for part in trainer.model.parameters()]
            found.append([parts, kl, *gradients])
    for one, other in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert algorithm._captured.replays == 2


def test_a_step_that_the_kl_estimate_forbids_has_no_losses(make):
    trainer = make(CalledAgain)
    trainer.collector.collect(trainer.buffer)
    trainer.algorithm._preprocess_batch(trainer.buffer, trainer.buffer, None)
    trainer.algorithm._allowed = lambda kl: torch.zeros(1, dtype=torch.bool)
    (minibatch, *_) = trainer.buffer.minibatches(24, torch.Generator().manual_seed(0))
    assert trainer.algorithm._gradients(minibatch)[0] is None


@pytest.mark.slow
@pytest.mark.parametrize("stand_in", [Refuses, TakesTooMuch])
def test_what_cannot_be_captured_is_trained_all_the_same(make, make_trainer, stand_in):
    plain = make_trainer("plain", method="recmorph", target_kl=None, **SHORT)
    refused = make(stand_in, **SHORT)
    for trainer in (plain, refused):
        trainer.train()
    assert not refused.algorithm.captures
    assert refused.collector.bound.explorer.captures == 0
    assert torch.equal(weights(plain), weights(refused))


def test_results_kept_per_body_are_forgotten_after_a_rollout(make):
    trainer = make(CalledAgain, "modumorph")
    explorer = trainer.collector.bound.explorer
    trainer.algorithm.captures = False
    for count in (1, 2):
        trainer.iterate()
        assert explorer.captures == count
    assert explorer.replays == 2 * trainer.buffer.length
