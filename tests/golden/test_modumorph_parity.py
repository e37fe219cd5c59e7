"""ModuMorph against stored activations of the public implementation."""

import pytest
import torch

from gmc_baselines.modumorph import SPEC
from gmc_baselines.modumorph.model import build
from gmc_bench.nn import fixed_weights
from tests.golden.cases import case_names, read_case
from tests.golden.public_weights.modumorph import from_reference, settings_from_reference

TOLERANCE = 1e-5  # float32 sums in another order
each_case = pytest.mark.parametrize("name", case_names("modumorph"))


def load(name):
    case = read_case(name)
    changes = {**settings_from_reference(case.weights), "num_heads": case.num_heads}
    network = build(SPEC.make_config("paper", changes), case.tokens.spec, case.num_outputs)
    network.load_state_dict(from_reference(case.weights))
    return case, network


@each_case
def test_outputs_match_the_public_implementation(name):
    case, network = load(name)
    together, alone = case.largest_error(network)
    assert max(together, alone) <= TOLERANCE, (
        f"{case.name}: largest error {together:.1e} in one batch, {alone:.1e} alone"
    )


@each_case
def test_results_kept_per_body_match_too(name):
    case, network = load(name)
    with fixed_weights(network):
        together, alone = case.largest_error(network)
    assert max(together, alone) <= TOLERANCE, (
        f"{case.name}: largest error {together:.1e} in one batch, {alone:.1e} alone"
    )


@each_case
def test_many_samples_per_body_match_too(name):
    """So many that rows are mapped in blocks instead of with a weight per row."""
    case, network = load(name)
    tokens = case.tokens
    rows = torch.arange(len(tokens)).repeat(5)
    many = type(tokens)(
        tokens.table,
        rows,
        tokens.dynamic[rows],
        None if tokens.height_map is None else tokens.height_map[rows],
    )
    expected = torch.from_numpy(case.outputs["per_limb"])[rows]
    real = ~many.limb_padding_mask
    error = (network.eval()(many) - expected)[real].abs().max()
    assert error <= TOLERANCE, f"{case.name}: largest error {error:.1e}"
