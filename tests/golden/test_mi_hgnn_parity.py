"""MI-HGNN against the public code's own outputs on real bodies."""

import pytest
import torch

from gmc_baselines.mi_hgnn import SPEC
from gmc_baselines.mi_hgnn.model import build
from tests.golden.cases import case_names, read_case
from tests.golden.public_weights.mi_hgnn import from_reference

TOLERANCE = 1e-5
"""float32 sums of a few hundred terms in another order."""

each_case = pytest.mark.parametrize("name", case_names("mi_hgnn"))


def network_of(case):
    layers = {name.split(".")[1] for name in case.weights if name.startswith("convs.")}
    width = case.weights["decoder.weight"].shape[1]
    config = SPEC.make_config("paper", {"width": width, "num_layers": len(layers)})
    network = build(config, case.tokens.spec, case.num_outputs)
    network.load_state_dict(from_reference(case.weights))
    return network


@each_case
def test_outputs(name):
    case = read_case(name)
    together, alone = case.largest_error(network_of(case))
    assert max(together, alone) <= TOLERANCE, f"{together:.1e} in one batch, {alone:.1e} alone"


@each_case
def test_limb_types(name):
    case = read_case(name)
    real = ~case.tokens.limb_padding_mask
    expected = torch.from_numpy(case.inputs["node_type"])
    assert torch.equal(case.tokens.table.graph.limb_type[real], expected[real])
