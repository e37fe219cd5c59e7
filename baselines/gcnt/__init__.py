"""GCNT: attention directed by a graph encoding; network in `gmc_baselines.gcnt.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="gcnt",
    title="GCNT",
    paper="Luo, Yao and Xiao 2025, GCNT: Graph-Based Transformer Policies for "
    "Morphology-Agnostic Reinforcement Learning, IJCAI, arXiv:2505.15211",
    footnote="built from descriptions of the paper; there is no public code, and sizes and many "
    "details were chosen here.",
    deviations=(
        "No public code was found, and the paper reached us through descriptions of it: sizes, "
        "depths, activations and the places of norms are choices made here.",
        "Limbs have three types: torso, limb with children or in a closed loop, other limb; limbs "
        "of this benchmark differ by nothing else that is not a number.",
        "The limb types enter through a linear map without bias, followed by 3 graph convolutions "
        "with ReLU, their two matrices without bias.",
        "Colour refinement runs 3 rounds from the limb types; only the colours of the last round "
        "are counted.",
        "Colours are hashed to 32 bins by fixed integer arithmetic instead of being numbered over "
        "the training bodies: unseen bodies need no bin for unknown colours, but colours may share "
        "a bin.",
        "Colour counts are divided by the number of limbs, so that they do not grow with the body.",
        "Graph features and colour counts are joined by a linear map.",
        "Queries and keys come from that joint feature in every layer, under a layer norm of its "
        "own per layer as in ModuMorph's fixed attention; the paper's deeper layers are not known.",
        "The rest of the encoder has the form and the sizes of the other transformers here: 5 "
        "pre-norm layers, width 128, 2 heads, feed-forward width 1024, no dropout, no positions.",
        "The observation module is one linear map with the benchmark's common scale and "
        "initialisation; the paper speaks of an MLP.",
        "The distance table is shared by the layers, starts at zero, and its last row stands for "
        "12 joints and more.",
        "Graph convolutions start as in torch-geometric and torch (Glorot uniform for the first "
        "matrix, U(+-1/sqrt(width)) for the second); the paper's initialisation is not known.",
        "A height map enters in the decoder as for every controller here.",
    ),
    config="gmc_baselines.gcnt.config:GcntConfig",
    presets={
        "paper": {},
        "lite": {"width": 40, "feedforward": 160, "num_layers": 3, "num_convolutions": 2},
    },
    parameters={"paper": 3_553_719, "lite": 142_095},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00173, "ppo.target_kl": 0.0432}},
    tuning="gmc_baselines.gcnt:gcnt.tuning.json",
    builder="gmc_baselines.gcnt.model:build",
    capabilities=Capabilities(permutation_equivariant=True, uses_graph=True),
)

__all__ = ["SPEC"]
