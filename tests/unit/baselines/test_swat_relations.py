"""Traversals and relations of small trees, worked out by hand."""

import math

import numpy as np
import pytest
import torch

from gmc_baselines.swat.relations import limb_relations, traversal_indices
from gmc_bench.nn import LimbGraph


def relations(parents):
    parents = torch.tensor(parents)
    graph = LimbGraph(parents, parents == -2)
    return limb_relations(
        graph.adjacency.numpy(), graph.distance.numpy(), (parents > -2).sum(dim=1).numpy()
    )


def test_traversals_of_a_tree_by_hand():
    """A torso with limbs 1 (with 2 and 3), 4 and 5 (with 6), and one padded slot.

    Links, first child and next sibling: 0: 1. 1: 2 and 4. 2: 3. 4: 5. 5: 6. The first link is
    walked before a limb in the in-order walk (3 2 1 6 5 4 0), all links before it in the
    post-order walk (3 2 6 5 4 1 0).
    """
    found = traversal_indices(np.array([[-1, 0, 1, 1, 0, 0, 5, -2]]))
    assert found[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert found[0, :, 1].tolist() == [6, 2, 1, 0, 5, 4, 3, 0]
    assert found[0, :, 2].tolist() == [6, 5, 1, 0, 4, 3, 2, 0]


def test_a_sibling_comes_before_a_limb_without_children_and_after_one_with_children():
    """The reference's quirk: 1 and 3 are siblings; only in the first body has 1 a child."""
    found = traversal_indices(np.array([[-1, 0, 1, 0], [-1, 0, 0, -2]]))
    assert found[0, :, 1].tolist() == [3, 1, 0, 2]  # 2 1 3 0
    assert found[1, :, 1].tolist() == [2, 1, 0, 0]  # 2 1 0


def test_traversals_of_a_single_limb_and_of_a_long_chain():
    assert traversal_indices(np.array([[-1, -2]])).tolist() == [[[0, 0, 0], [0, 0, 0]]]
    length = 3000  # far deeper than Python's stack
    found = traversal_indices(np.arange(-1, length - 1)[None])
    assert (found[0, :, 0] == np.arange(length)).all()
    assert (found[0, :, 1:] == np.arange(length)[::-1, None]).all()


def test_relations_of_a_chain_by_hand():
    """Three limbs in a row, and one padded slot.

    I - 0.9 S = [[.55, -.45, 0], [-.3, .7, -.3], [0, -.45, .55]], whose determinant is .06325.
    """
    found = relations([[-1, 0, 1, -2]])[0]
    pagerank = np.array([[0.25, 0.2475, 0.135], [0.165, 0.3025, 0.165], [0.135, 0.2475, 0.25]])
    off = -1 / math.sqrt(2)
    laplacian = [[1, off, 0], [off, 1, off], [0, off, 1]]
    distance = [[0, 1 / 3, 2 / 3], [1 / 3, 0, 1 / 3], [2 / 3, 1 / 3, 0]]
    expected = np.stack((pagerank / 0.6325, laplacian, distance), axis=-1)
    np.testing.assert_allclose(found[:3, :3], expected, rtol=0, atol=1e-7)
    assert not found[3].any()
    assert not found[:, 3].any()


def test_relations_of_a_single_limb_are_numbers():
    found = relations([[-1, -2, -2]])[0]
    assert found[0, 0].tolist() == [pytest.approx(1.0), 0.0, 0.0]
    assert np.count_nonzero(found) == 1


def test_every_body_has_its_own_relations():
    chain, star = [-1, 0, 1, 2], [-1, 0, 0, -2]
    together = relations([chain, star])
    np.testing.assert_array_equal(together[0], relations([chain])[0])
    np.testing.assert_array_equal(together[1], relations([star])[0])


def test_pagerank_is_a_distribution_and_the_laplacian_has_no_negative_eigenvalue():
    found = relations([[-1, 0, 1, 1, 0, 0, 5]])[0].astype(np.float64)
    np.testing.assert_allclose(found[..., 0].sum(axis=1), 1.0, atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(found[..., 1])
    assert eigenvalues[0] == pytest.approx(0.0, abs=1e-6)  # one body, one connected tree
    assert eigenvalues[-1] <= 2 + 1e-6


@pytest.mark.parametrize("bodies", [3, 0.5])
def test_many_bodies_are_done_in_parts_that_change_nothing(monkeypatch, bodies):
    """At least one at a time."""
    parents = [[-1, 0, 1, 1, -2], [-1, 0, 0, 2, 3], [-1, -2, -2, -2, -2], [-1, 0, 1, 2, 3]]
    whole = relations(parents)
    monkeypatch.setattr("gmc_baselines.swat.relations._CHUNK_NUMBERS", bodies * 25)
    np.testing.assert_array_equal(relations(parents), whole)


def test_a_closed_loop_counts_in_the_relations():
    """A ring of three limbs: every limb has two neighbours, a joint away."""
    parents = torch.tensor([[-1, 0, 1]])
    graph = LimbGraph(parents, parents == -2, torch.tensor([[[0, 2]]]))
    found = limb_relations(graph.adjacency.numpy(), graph.distance.numpy(), np.array([3]))[0]
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(found[off], [[0.3, -0.5, 1 / 3]] * 6, rtol=1e-6)
    np.testing.assert_allclose(found[~off], [[0.4, 1.0, 0.0]] * 3, rtol=1e-6)
