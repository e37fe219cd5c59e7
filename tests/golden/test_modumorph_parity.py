"""ModuMorph against stored activations of the public implementation.

Not marked `golden`: these are quick and run by default, and skip where the data is absent.
"""

import pytest
import torch

from gmc_baselines.modumorph import SPEC
from gmc_baselines.modumorph.model import build
from gmc_baselines.modumorph.reference import from_reference, settings_from_reference
from gmc_bench.conformance.reference import read_reference, reference_files, reference_folder
from gmc_bench.nn import fixed_weights

FILES = reference_files(["modumorph"])
TOLERANCE = 1e-5  # float32 sums in another order
pytestmark = pytest.mark.skipif(not FILES, reason=f"no modumorph*.npz in {reference_folder()}")


def load(path):
    case = read_reference(path)
    changes = {**settings_from_reference(case.weights), "num_heads": case.num_heads}
    network = build(SPEC.make_config("paper", changes), case.tokens.spec, case.num_outputs)
    network.load_state_dict(from_reference(case.weights))
    return case, network


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_outputs_match_the_public_implementation(path):
    case, network = load(path)
    together, alone = case.largest_error(network)
    assert max(together, alone) <= TOLERANCE, (
        f"{case.name}: largest error {together:.1e} in one batch, {alone:.1e} alone"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_kept_per_body_match_too(path):
    case, network = load(path)
    with fixed_weights(network):
        together, alone = case.largest_error(network)
    assert max(together, alone) <= TOLERANCE, (
        f"{case.name}: largest error {together:.1e} in one batch, {alone:.1e} alone"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_many_samples_per_body_match_too(path):
    """So many that rows are mapped in blocks instead of with a weight per row."""
    case, network = load(path)
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
