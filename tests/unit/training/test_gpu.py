"""Training with the networks on a GPU."""

import numpy as np
import pytest
import torch

from tests.support.small_runs import stop_at

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
METHODS = ["recmorph", "metamorph", "modumorph", "smr", "nervenet"]


def rollout(make_run, device):
    trainer = make_run(device).trainer
    trainer.collector.collect(trainer.buffer)
    trainer.algorithm._preprocess_batch(trainer.buffer, trainer.buffer, None)
    return trainer


@pytest.fixture
def make_run(make_trainer):
    """Build a trainer of a registered method on a device."""
    return lambda device, method="recmorph", name=None, **settings: make_trainer(
        name or f"{method}-{device}", method=method, device=device, **settings
    )


def test_the_rollout_lives_on_the_device(make_run):
    buffer = rollout(make_run, "cuda").buffer
    tensors = [value for value in vars(buffer).values() if isinstance(value, torch.Tensor)]
    assert {value.device.type for value in tensors} == {"cuda"}


def test_a_first_observation_gets_the_value_that_a_cpu_gives_it(make_run):
    found, expected = (rollout(make_run, device).buffer for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.dynamic[0].cpu(), expected.dynamic[0])
    torch.testing.assert_close(found.value[0].cpu(), expected.value[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("method", METHODS)
def test_methods_train(make_run, method, precision):
    trainer = make_run("cuda", method, precision=precision, target_kl=None)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    changed = [
        not torch.equal(old, new)
        for old, new in zip(before, trainer.model.parameters(), strict=True)
    ]
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())
    assert np.mean(changed) > 0.9
    assert all(parameter.device.type == "cuda" for parameter in trainer.model.parameters())


def test_a_stopped_run_goes_on_from_its_checkpoint(make_run):
    stop_at(make_run("cuda", name="parts"), 2)
    rest = make_run("cuda", name="parts")
    assert rest.iteration == 2
    assert rest.buffer.state.device.type == "cuda"
    rest.train()
    assert rest.iteration == 5


def test_a_stopped_run_goes_on_with_the_same_random_numbers(make_trainer):
    """Networks with dropout draw them on the device."""
    settings = {"device": "cuda", "dropout": 0.5, "target_kl": None}
    whole = make_trainer("whole", **settings)
    start, outside = whole.torch_state.gpu, torch.cuda.get_rng_state()
    for _ in range(2):
        whole.iterate()
    drawn = whole.torch_state.gpu
    assert not torch.equal(drawn, start)
    assert torch.equal(torch.cuda.get_rng_state(), outside)  # the process draws as if it was alone
    whole.save()
    rest = make_trainer("whole", **settings)
    assert rest.iteration == 2
    assert torch.equal(rest.torch_state.gpu, drawn)


@pytest.mark.parametrize(
    "method", ["recmorph", "recmorph-bimamba2", "metamorph-star", "bot", "swat"]
)
def test_a_captured_gradient_step_equals_single_launches(make_run, method):
    trainer = rollout(lambda device: make_run(device, method, target_kl=None), "cuda")
    algorithm, found = trainer.algorithm, []
    minibatches = list(trainer.buffer.minibatches(24, torch.Generator().manual_seed(0)))
    assert len(minibatches) == 2
    for algorithm.captures in (True, False):
        for minibatch in minibatches:
            parts, kl = algorithm._gradients(minibatch)
            gradients = [part.grad for part in trainer.model.parameters()]
            found.append([value.clone() for value in (parts, kl, *gradients)])
    assert algorithm._captured is not None
    for captured, launched in zip(found[:2], found[2:], strict=True):
        for one, other in zip(captured, launched, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_a_captured_step_that_the_kl_estimate_forbids_is_not_taken(make_run):
    trainer = make_run("cuda", "recmorph", target_kl=1e-9)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    stats = trainer.iterate()
    assert trainer.algorithm._captured is not None
    # The first minibatch has the policy of the rollout, whose estimate is zero up to rounding.
    assert stats.stopped_early == 1.0
    assert stats.gradient_steps <= 2
    assert any(
        not torch.equal(old, new)
        for old, new in zip(before, trainer.model.parameters(), strict=True)
    ) == (stats.gradient_steps > 0)


@pytest.mark.parametrize("method", ["gcnt", "modumorph", "nervenet"])
def test_what_cannot_be_captured_is_trained_all_the_same(make_run, method):
    trainer = make_run("cuda", method, target_kl=None)
    trainer.train()
    assert not trainer.algorithm.captures
    assert trainer.collector.bound.explorer.replays > 0
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_products_are_rounded_to_tf32_only_if_asked_for(make_run, precision):
    trainer = make_run("cuda", "recmorph", precision=precision, target_kl=None)
    draw = torch.Generator("cuda").manual_seed(0)
    one, other = torch.randn(2, 512, 512, device="cuda", generator=draw)
    exact = one.double() @ other.double()

    def error():
        return float(((one @ other).double() - exact).abs().max())

    outside = error()
    with trainer.torch_state.in_use():
        inside = error()
    assert (inside > 1e-3) == (precision == "tf32")
    assert error() == outside < 1e-3
