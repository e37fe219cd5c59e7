"""ModuMorph: contextual modulation; network in `gmc_baselines.modumorph.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="modumorph",
    title="ModuMorph",
    paper="Xiong, Beck, Whiteson 2023, Universal Morphology Control via Contextual Modulation, "
    "ICML, arXiv:2302.11070",
    reference_code="MasterXiong/Universal-Morphology-Control@18c0516, "
    "MasterXiong/ModuMorph@80e1ba4",
    deviations=(
        "The body's context is scaled by the ranges measured over the training bodies, cut off at "
        "-3 and 3, and a number that is the same in all of them counts as 0; the public code has "
        "fixed ranges, cuts nothing off, and multiplies such a number by up to 2e8 when it differs "
        "on an unseen body.",
        "The zeros that stand for a joint that a limb does not have are scaled like other numbers "
        "of the context (a gear of 0 becomes -1); the public code scales existing joints alone and "
        "pads with 0 after that.",
        "The public code's shared embedding and decoder, which its hypernetwork replaces and "
        "nothing uses, are left out: 13,955 parameters.",
        "Context encoders have three linear layers for attention and two for the generated maps, "
        "and queries and keys have a layer norm, as in the public code; equations in the "
        "literature that write one layer and no norm are taken as abbreviations.",
        "Attention probabilities and generated maps are made once per different body of a batch, "
        "and once per table of bodies while weights are fixed; the same numbers up to rounding.",
        "The height map is appended before the generated decoder and is no part of the context, "
        "the public code's default.",
    ),
    config="gmc_baselines.modumorph.config:ModuMorphConfig",
    presets={
        "paper": {},
        "lite": {
            "width": 32,
            "feedforward": 128,
            "num_layers": 3,
            "generator_context_width": 16,
        },
    },
    parameters={"paper": 5_218_819, "lite": 144_179},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00173, "ppo.target_kl": 0.0432}},
    tuning="gmc_baselines.modumorph:modumorph.tuning.json",
    builder="gmc_baselines.modumorph.model:build",
    capabilities=Capabilities(permutation_equivariant=True),
)

__all__ = ["SPEC"]
