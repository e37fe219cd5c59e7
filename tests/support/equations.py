"""What tests of networks against their equations in NumPy share."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.tokens import random_parents, random_tokens
from gmc_bench.nn import TokenBatch
from gmc_bench.tokens import TokenSpec

STEP = 1e-5
SINGLE, CHAIN, STAR = [-1], [-1, 0, 1, 2, 3, 4, 5], [-1, 0, 0, 0, 0, 0]
"""Parents of every limb of small trees, as are the following ones."""
RANDOM = [random_parents(np.random.default_rng(seed), 3 + seed) for seed in range(5)]
TREES = [SINGLE, CHAIN, STAR, *RANDOM]
TREE_BATCHES = {
    "single limb": [SINGLE],
    "chain": [CHAIN],
    "star": [STAR],
    "mixture": [SINGLE, [-1, 0, 1, 2], [-1, 0, 0, 0], [-1, 0, 1, 1, 0, 4, 4], [-1, 0]],
    "random": RANDOM,
}

Reference = Callable[..., np.ndarray]
"""Returns the outputs (num_limbs, num_outputs) of one body, from the parameters of a network by
name and what `bodies_of` yields of the body."""


def tree_tokens(
    trees: Sequence[Sequence[int]], spec: TokenSpec, *, first_again: bool = False
) -> TokenBatch:
    """Return one environment per tree, with random features in float64.

    Args:
        trees: parents of every body, each before its children.
        spec: layout with a slot for every limb.
        first_again: add another environment with the first tree.
    """
    count = len(trees)
    lengths = [len(tree) for tree in trees]
    tokens = random_tokens(np.random.default_rng(0), spec, lengths, count + first_again)
    parents = [[*tree, *[-2] * (spec.max_limbs - len(tree))] for tree in trees]
    table = dataclasses.replace(
        tokens.table, parents=torch.tensor(parents), context=tokens.table.context.double()
    )
    index = torch.tensor([*range(count), *[0] * first_again])
    heights = None if tokens.height_map is None else tokens.height_map.double()
    return TokenBatch(table, index, tokens.dynamic.double(), heights)


def bodies_of(tokens: TokenBatch) -> Iterator[tuple[Any, ...]]:
    """Yield features and parents of the real limbs of every environment, and heights if any."""
    for row, count in enumerate(tokens.num_limbs.tolist()):
        limbs = tokens.features[row, :count].numpy(), tokens.parents[row, :count].tolist()
        yield limbs if tokens.height_map is None else (*limbs, tokens.height_map[row].numpy())


def perturbed(network: nn.Module, scale: float = 0.3) -> nn.Module:
    """Return a network in float64 whose parameters have noise, so that none is special."""
    network = network.double()
    for parameter in network.parameters():
        parameter.data += scale * torch.randn_like(parameter)
    return network


def as_numpy(network: nn.Module) -> dict[str, np.ndarray]:
    """Return copies of all parameters by name."""
    return {name: value.detach().numpy().copy() for name, value in network.named_parameters()}


def gradients_of(network: nn.Module) -> dict[str, torch.Tensor | None]:
    """Return the gradients of all parameters by name."""
    return {name: value.grad for name, value in network.named_parameters()}


def assert_slopes(
    gradients: Mapping[str, torch.Tensor | None],
    arrays: Mapping[str, np.ndarray],
    loss: Callable[[], float],
    *,
    rel: float | None = 1e-6,
    tolerance: float = 1e-6,
) -> None:
    """Compare gradients with central differences of a loss that is written in NumPy.

    Every array is moved as a whole, by a step of length 1e-5 in which every entry has its part, and
    no two the same: an error in any entry shows, at the price of two losses.

    Args:
        gradients: by name.
        arrays: what `loss` reads, by the same names; they are changed and restored.
        loss: the number whose slopes are meant.
        rel: relative tolerance; without one, only the absolute one counts.
        tolerance: absolute tolerance.
    """
    rng = np.random.default_rng(0)
    for name, array in arrays.items():
        gradient = gradients[name]
        assert gradient is not None, name
        direction = rng.choice([-1.0, 1.0], array.shape) * rng.uniform(0.5, 1.5, array.shape)
        direction /= np.linalg.norm(direction)
        start, sides = array.copy(), []
        for step in (STEP, -STEP):
            array[...] = start + step * direction
            sides.append(loss())
        array[...] = start
        slope = (sides[0] - sides[1]) / (2 * STEP)
        found = float(np.sum(gradient.numpy() * direction))
        assert found == pytest.approx(slope, rel=rel, abs=tolerance), name


def assert_forward_matches(network: nn.Module, tokens: TokenBatch, reference: Reference) -> None:
    """Compare the outputs of a network with those of its equations; those of padding are zero."""
    found, parameters = network(tokens).detach().numpy(), as_numpy(network)
    for row, body in enumerate(bodies_of(tokens)):
        count = len(body[1])
        expected = reference(parameters, *body)
        np.testing.assert_allclose(found[row, :count], expected, rtol=0, atol=1e-10)
        assert not found[row, count:].any()


def assert_gradients_match(network: nn.Module, tokens: TokenBatch, reference: Reference) -> None:
    """Compare the gradients of a weighted sum of outputs with slopes of that of the equations."""
    outputs = network(tokens)
    weights = torch.randn(outputs.shape, dtype=torch.float64)
    (outputs * weights).sum().backward()
    parameters = as_numpy(network)
    terms = list(zip(bodies_of(tokens), weights.numpy(), strict=True))

    def loss() -> float:
        return sum(
            float(np.sum(weight[: len(body[1])] * reference(parameters, *body)))
            for body, weight in terms
        )

    assert_slopes(gradients_of(network), parameters, loss)


def linear(p: Mapping[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    """Return W x + b of a layer, of which the bias may be missing."""
    return p[f"{name}.weight"] @ x + p.get(f"{name}.bias", 0.0)


def relu(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0)."""
    return np.maximum(x, 0.0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))
