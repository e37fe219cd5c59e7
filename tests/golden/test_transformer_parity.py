"""MetaMorph, MetaMorph* and SWAT against stored outputs of their public implementations."""

import numpy as np
import pytest
import torch

from gmc_baselines import metamorph, metamorph_star, swat
from gmc_baselines.swat.relations import limb_relations, traversal_indices
from gmc_bench.conformance.tokens import select
from tests.golden.cases import case_names, read_case
from tests.golden.public_weights import metamorph as metamorph_reference
from tests.golden.public_weights import metamorph_star as metamorph_star_reference
from tests.golden.public_weights import swat as swat_reference

TOLERANCE = 1e-5  # float32: sums of some hundred terms in another order
METHODS = {  # the longest prefix that fits counts
    "metamorph_star": (metamorph_star.SPEC, metamorph_star_reference),
    "metamorph": (metamorph.SPEC, metamorph_reference),
    "swat": (swat.SPEC, swat_reference),
}


def _build(case):
    spec, reference = next(
        found for prefix, found in METHODS.items() if case.name.startswith(prefix)
    )
    settings = {"num_heads": case.num_heads, **reference.settings_from_reference(case.weights)}
    config = spec.make_config("paper", settings)
    network = spec.build(config, case.tokens.spec, case.num_outputs)
    network.load_state_dict(reference.from_reference(case.weights))
    return network


@pytest.mark.parametrize("name", [*case_names("metamorph"), *case_names("swat")])
def test_outputs_are_those_of_the_public_implementation(name):
    case = read_case(name)
    together, alone = case.largest_error(_build(case))
    assert max(together, alone) <= TOLERANCE, (
        f"{case.name}: outputs differ by {together:.1e} in one batch of all bodies, by {alone:.1e} "
        f"with every body alone; at most {TOLERANCE:g} is rounding"
    )


@pytest.mark.parametrize("name", case_names("swat"))
def test_traversals_and_relations_are_those_of_the_public_implementation(name):
    case = read_case(name)
    graph = case.tokens.table.graph
    traversals = traversal_indices(graph.parents.numpy())
    np.testing.assert_array_equal(traversals, case.inputs["traversal_index"])
    relations = limb_relations(
        graph.adjacency.numpy(), graph.distance.numpy(), case.tokens.num_limbs.numpy()
    )
    np.testing.assert_allclose(relations, case.inputs["relation"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", case_names("swat"))
def test_relation_bias_goes_to_its_own_body(name):
    """As the reference's does not in a batch, where it mixes up bodies and heads."""
    case = read_case(name)
    network = _build(case)
    with torch.no_grad():
        for layer in network.tree.relation_bias:
            layer.weight[0] *= 3.0  # the heads differ
        together = network(case.tokens)
        for body in range(len(case.tokens)):
            (alone,) = network(select(case.tokens, [body]))
            torch.testing.assert_close(together[body], alone, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("name", case_names("swat"))
def test_relation_bias_goes_to_its_own_head(name, head):
    """With every other head cut off, the biases of this one alone count."""
    case = read_case(name)
    network = _build(case)
    assert case.num_heads == 2

    def change_by_bias_of(which):
        before = network(case.tokens)
        for layer in network.tree.relation_bias:
            layer.weight[which] += 1.0
        return float((network(case.tokens) - before).abs().max())

    with torch.no_grad():
        for layer in network.layers:
            weight = layer.self_attn.out_proj.weight  # (width, heads x size)
            weight.unflatten(1, (case.num_heads, -1))[:, 1 - head] = 0.0
        assert change_by_bias_of(1 - head) == 0.0
        assert change_by_bias_of(head) > 100 * TOLERANCE
