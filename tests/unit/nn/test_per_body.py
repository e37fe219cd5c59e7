"""What depends on the body alone is computed as often as needed, and never kept too long."""

import copy
import pickle

import numpy as np
import pytest
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn import PerBody, TokenBatch, fixed_weights
from gmc_bench.nn import per_body as module
from gmc_bench.tokens import TokenSpec


class Scaled(PerBody):
    """A number per body: its limbs times a weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.sizes = []

    def compute(self, table, bodies):
        self.sizes.append(len(bodies))
        return (table.num_limbs[bodies].float() * self.weight,)


def make(seed=0):
    return random_tokens(np.random.default_rng(seed), TokenSpec(4), (2, 4, 3), 5)


def taken(part, tokens):
    (values,), index = part(tokens)
    return values[index]


def test_training_computes_the_bodies_of_the_batch_once_each():
    part, tokens = Scaled(), make()
    tokens = TokenBatch(tokens.table, torch.tensor([2, 0, 2, 2, 0]), tokens.dynamic)
    found = taken(part, tokens)
    assert part.sizes == [2]
    assert torch.equal(found, tokens.num_limbs.float())
    found.sum().backward()
    assert part.weight.grad == tokens.num_limbs.sum()


def test_fixed_weights_compute_a_table_once_and_another_table_anew():
    part, first, second = Scaled(), make(), make(1)
    with fixed_weights(part):
        for tokens in (first, first, second):
            assert torch.equal(taken(part, tokens), tokens.num_limbs.float())
    assert part.sizes == [1, 3, 1, 3]  # the size of one decides whether all are kept


def test_a_table_that_is_too_large_is_computed_batch_by_batch(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 11)  # three bodies have four bytes each
    part, tokens = Scaled(), make()
    with fixed_weights(part):
        for _ in range(3):
            assert torch.equal(taken(part, tokens), tokens.num_limbs.float())
    assert part.sizes == [1, 3, 3, 3]


@pytest.mark.parametrize("raises", [False, True])
def test_nothing_is_kept_after_the_block(raises):
    part, tokens = Scaled(), make()
    with pytest.raises(KeyError) if raises else torch.no_grad(), fixed_weights(part):
        part(tokens)
        if raises:
            raise KeyError
    with torch.no_grad():
        part.weight.mul_(2)
        assert torch.equal(taken(part, tokens), 2 * tokens.num_limbs.float())
    with fixed_weights(part):  # nor is anything left for the next one
        assert torch.equal(taken(part, tokens), 2 * tokens.num_limbs.float())


def test_gradients_are_those_of_the_batch_where_they_are_asked_for_inside():
    part, tokens = Scaled(), make()
    with fixed_weights(part):
        part(tokens)
        with torch.enable_grad():
            taken(part, tokens).sum().backward()
    assert part.weight.grad == tokens.num_limbs.sum()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
def test_copies_made_inside_keep_nothing(copied):
    part, tokens = Scaled(), make()
    with fixed_weights(part):
        part(tokens)
        other = copied(part)
    with torch.no_grad():
        for factor in (1, 2, 4):
            assert torch.equal(taken(other, tokens), factor * tokens.num_limbs.float())
            other.weight.mul_(2)


def test_an_inner_block_leaves_the_outer_one_keeping():
    network = torch.nn.Sequential(Scaled())
    with fixed_weights(network):
        with fixed_weights(network):
            assert network[0].keeps
        assert network[0].keeps
    assert not network[0].keeps


class Turned(PerBody):
    """A view whose rows do not lie one after the other."""

    def compute(self, table, bodies):
        return (table.context[bodies].permute(0, 2, 1),)


def test_kept_results_are_contiguous_and_equal():
    """Rows are taken at every step: a view would be copied as a whole each time."""
    part, tokens = Turned(), make()
    with fixed_weights(part):
        (values,), _ = part(tokens)
    assert values.is_contiguous()
    assert torch.equal(values, tokens.table.context.permute(0, 2, 1))
