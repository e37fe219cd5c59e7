"""Several processes that share a run, against one with all environments."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies import normalization
from gmc_bench.policies.policy import Policy
from gmc_bench.tasks.unimal_ft import TASK as FLAT
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training import group
from gmc_bench.training.group import Group, LostProcessError
from gmc_bench.training.trainer import make_trainer
from tests.support.small_runs import small_config, small_protocol

BODIES = (chain(3), star(3), biped())
SMALL = {"width": 16}
EPSILON = normalization.EPSILON


class Together(Group):
    """The groups of threads of this process, which meet at every exchange."""

    def __init__(self, rank, size, table, barrier):
        self.rank, self.size, self._table, self._barrier = rank, size, table, barrier

    def exchange(self, values):
        return self._meet(values)

    def sum(self, values):
        return torch.stack(self.exchange(values)).sum(dim=0)

    def broadcast(self, value):
        return self._meet(value)[0]

    def collect(self, value):
        return self._meet(value) if self.rank == 0 else self._meet(value)[:0]

    def _meet(self, value):
        self._table[self.rank] = value
        self._barrier.wait()
        found = copy.deepcopy(self._table)  # before anybody goes on with his own
        self._barrier.wait()
        return found

    def abort(self):
        self._barrier.abort()


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError("\nreset by peer\nat 0x1"), "reset by peer"), (RuntimeError(), "RuntimeError")],
)
def test_who_does_not_answer_is_told_of_in_one_line(error, reason):
    with (
        pytest.raises(LostProcessError, match=rf"does not answer \({reason}\); continue"),
        group._answers(),
    ):
        raise error


def side_by_side(size, work):
    """Call a function with each of `size` groups, in threads; return the first one's result."""
    table, barrier = [None] * size, threading.Barrier(size, timeout=60)
    groups = [Together(rank, size, table, barrier) for rank in range(size)]

    def guarded(group):
        try:
            return work(group)
        except BaseException:
            group.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        first, *_ = pool.map(guarded, groups)
    return first


@pytest.fixture
def in_float64(monkeypatch):
    """Normalise observations in float64, and return what turns trainers to it."""
    of_table, one_at_a_time, first = Policy.of_table, threading.Lock(), []

    def made(*arguments, **options):
        with one_at_a_time:  # initial weights come from the one generator of torch
            if not first:
                first.append(of_table(*arguments, **options))
            return copy.deepcopy(first[0])

    def standardize(values, mean, variance, padding):
        shifted = (values.astype(np.float64) - mean) / np.sqrt(variance + EPSILON)
        shifted = np.clip(shifted, -normalization.CLIP, normalization.CLIP)
        shifted[padding] = 0.0
        return shifted

    monkeypatch.setattr(normalization, "standardize", standardize)
    monkeypatch.setattr(Policy, "of_table", made)

    def double(trainer):
        trainer.model.double()
        bound, buffer = trainer.collector.bound, trainer.buffer
        bound.state = bound.state.double()
        floats = {
            name: value.double()
            for name, value in bound.table.tensors().items()
            if value.is_floating_point()
        }
        bound.table = buffer.table = replace(bound.table, **floats)
        for name, value in vars(buffer).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(buffer, name, value.double())
        return trainer

    return double


def make(group, method="recmorph", *, envs=5, order="dfs", task=FLAT, seed=3, **ppo):
    """Build a trainer: 5 environments x 16 steps, horizon 10, with minibatches of 24 or fewer."""
    spec = METHODS.load(method)
    settings = SMALL if method != "mlp" else {"hidden": (8,)}
    protocol = small_protocol({"target_kl": None, **ppo}, env_steps=3 * 16 * envs, num_envs=envs)
    config = small_config(
        method,
        spec.make_config("lite", settings),
        protocol,
        seed=seed,
        tokens=TokenConfig(order=order),
    )
    layout = TokenSpec(max_limbs=6, joints_per_limb=2, num_heights=task.num_heights)
    return make_trainer(config, spec, replace(task, horizon=10), BODIES, layout, group)


def trained(double, **settings):
    """Return work for a group: train, and give the state at the end and what was learned."""

    def work(group):
        trainer = double(make(group, **settings))
        if group.rank:
            trainer.follow()
            return None
        stats = []
        while trainer.iteration < 3:
            stats.append(vars(trainer.iterate()))
        state = trainer.get_state()
        group.announce(None)
        return state, stats

    return work


def compare(found, expected, where="", tolerance=1e-10):
    """Check that nested states are equal, numbers up to a tolerance."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            if name not in ("timers", "processes", "torch", "train_time"):
                compare(found[name], value, f"{where}/{name}", tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for number, value in enumerate(expected):
            compare(found[number], value, f"{where}/{number}", tolerance)
    elif isinstance(expected, (float, np.ndarray)):
        found, expected = np.asarray(found), np.asarray(expected)
        assert found.shape == expected.shape, where
        np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=where)
    else:
        assert found == expected, where


SLOW = pytest.mark.slow
KL = 2e-4
"""At which some iterations stop half-way."""
CASES = [
    pytest.param(3, {"order": "siblings", "target_kl": KL}, id="drawn sequences, stopped"),
    pytest.param(2, {"method": "metamorph-star"}, id="attention", marks=SLOW),
    pytest.param(2, {"method": "smr"}, id="memory", marks=SLOW),
    pytest.param(3, {"envs": 3, "batch_size": 2}, id="minibatches without part", marks=SLOW),
    pytest.param(3, {"method": "modumorph", "target_kl": 1e-4}, id="stopped", marks=SLOW),
]


@pytest.mark.parametrize(("size", "case"), CASES)
def test_processes_together_do_what_one_does(in_float64, case, size):
    """Weights, moments, statistics, streams, environments and losses after three iterations."""
    work = trained(in_float64, **case)
    state, stats = side_by_side(size, work)
    expected, expected_stats = work(Group())
    state["statistics"]["random"].pop("torch_of_others")
    compare(state, expected)
    compare(stats, expected_stats, tolerance=1e-5)  # added up in float32
    assert state["progress"]["processes"] == [[0, size]]
    if case.get("target_kl") == KL:
        assert 0 < min(item["gradient_steps"] for item in expected_stats) < 8


class Member(Group):
    """One of three processes, before it meets the others."""

    size = 3

    def __init__(self, rank):
        self.rank = rank


def test_gradients_of_several_processes_are_not_captured(monkeypatch):
    """Each would go on with its own."""
    monkeypatch.setattr(ActorCritic, "may_be_captured", True)
    assert make(Group()).algorithm.captures
    assert not make(Member(0)).algorithm.captures


def test_separate_weights_are_trained_by_one_process():
    with pytest.raises(ConfigError, match="separate weights per body need one process, got 3"):
        make(Member(0), "mlp", envs=6)


@pytest.mark.slow
def test_processes_draw_other_numbers_for_dropout_and_go_on_with_them():
    def drawn(rank, state=None, seed=3):
        trainer = make(Member(rank), seed=seed)
        if state is not None:
            trainer.set_state(state)
        return trainer.torch_state.cpu

    alone = make(Group())
    first, second, third = (drawn(rank) for rank in range(3))
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)
    assert not torch.equal(second, third)
    alone.torch_state.seed(5)
    state = alone.get_state()
    random, numbered = state["statistics"]["random"], alone.torch_state.cpu
    # One process has become three: those that are new begin anew.
    assert torch.equal(drawn(0, state), numbered)
    later, last = (drawn(rank, state) for rank in (1, 2))
    assert not torch.equal(later, numbered)
    assert not torch.equal(last, numbered)
    assert not torch.equal(later, last)
    assert not torch.equal(later, drawn(1, state, seed=4))
    state["progress"]["iteration"] = 7  # not what they drew when they began before
    assert not torch.equal(later, drawn(1, state))
    assert not torch.equal(second, drawn(1, state))
    # Three are three again: each goes on where it was.
    random["torch_of_others"] = np.stack([second.numpy(), third.numpy()])
    for rank, expected in enumerate((numbered, second, third)):
        assert torch.equal(drawn(rank, state), expected)


def test_a_parameter_without_gradient_anywhere_gets_none():
    def summed(group):
        everywhere, somewhere, nowhere = (nn.Parameter(torch.zeros(2)) for _ in range(3))
        frozen = nn.Parameter(torch.zeros(2), requires_grad=False)
        everywhere.grad = torch.tensor([1.0, 10.0]) * (1 + group.rank)
        if group.rank == 1:
            somewhere.grad = torch.tensor([3.0, 4.0])
        beside = group.sum_gradients(
            [everywhere, frozen, somewhere, nowhere], torch.tensor([[0.5], [group.rank]])
        )
        return beside, everywhere.grad, somewhere.grad, nowhere.grad, frozen.grad

    beside, everywhere, somewhere, *none = side_by_side(2, summed)
    assert beside.tolist() == [[1.0], [1.0]]
    assert (everywhere.tolist(), somewhere.tolist()) == ([3.0, 30.0], [3.0, 4.0])
    assert none == [None, None]
