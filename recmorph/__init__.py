"""RecMorph: topology-guided spatial recurrence. This module is light; see `recmorph.model`."""

from gmc_bench.methods import MethodSpec

SPEC = MethodSpec(
    id="recmorph",
    title="RecMorph",
    paper="RecMorph: Topology-Guided Spatial Recurrence for Generalized Morphology Control",
    deviations=(
        "The paper gives no norm epsilon: 1e-6.",
        "The paper gives no initialisation: embedding weight U(-0.1, 0.1) and decoder weight "
        "U(-0.01, 0.01) with zero bias as in MetaMorph, recurrence U(+-1/sqrt(hidden)) and all "
        "other layers as in torch, norm scales 1.",
        "The paper's recurrence has one bias per direction; two, as in torch's RNN, give its "
        "published parameter count of 3.174 M.",
        "W_x, W_z and W_o have no bias, which the published parameter count implies.",
        "No dropout and no position embedding; the paper mentions neither.",
    ),
    config="recmorph.config:RecMorphConfig",
    presets={"paper": {}, "lite": {"width": 64, "hidden": 64, "num_blocks": 2}},
    parameters={"paper": 3_174_019, "lite": 140_099},
    builder="recmorph.model:build",
)

__all__ = ["SPEC"]
