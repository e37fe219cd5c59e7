"""SWAT: structure-aware transformer; network in `gmc_baselines.swat.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="swat",
    title="SWAT",
    paper="Hong et al., Structure-Aware Transformer Policy for Inhomogeneous Multi-Task "
    "Reinforcement Learning, ICLR 2022, https://openreview.net/forum?id=fy_XRVHqly",
    reference_code="MasterXiong/ModuMorph@80e1ba4, "
    "MasterXiong/Universal-Morphology-Control@18c0516, "
    "sunghoonhong/SWAT@0b9e3d9",
    footnote="the public re-implementation for these bodies with a bug fixed that mixes up the "
    "relation biases of bodies and heads; papers may have run it with the bug.",
    deviations=(
        "Layers and sizes are those of the re-implementation in the ModuMorph repository: five "
        "pre-norm layers with 1024 feed-forward channels and a relation bias of their own in every "
        "layer, no norm at the end, a decoder that sees no raw features, linear action means, PPO; "
        "the original has three post-norm layers with 256 channels, one relation bias in the first "
        "layer, a norm at the end, a decoder that sees the features, tanh actions, TD3.",
        "The relation bias of a body and head is added to the attention of that body and head; the "
        "re-implementation mixes them up in batches of more than one body.",
        "Both traversal embedding and relation bias are on; no position table and no dropout.",
        "The in-order index follows the reference in visiting the right sibling of a limb without "
        "children before the limb itself; a true in-order walk would visit it after.",
        "A body of one limb, for which the reference defines no relations, has personalised "
        "PageRank 1, Laplacian 0 and distance 0.",
        "The height map, where a task has one, is encoded and appended before the decoder as in "
        "the reference, but its encoder and the decoder's hidden layers are settings that all "
        "methods of this benchmark share.",
    ),
    config="gmc_baselines.swat.config:SwatConfig",
    presets={"paper": {}, "lite": {"width": 32, "feedforward": 280, "num_layers": 3}},
    parameters={"paper": 3_315_667, "lite": 139_811},
    task_target_kl={"unimal-incline-v1": 0.03},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00231, "ppo.target_kl": 0.072}},
    tuning="gmc_baselines.swat:swat.tuning.json",
    builder="gmc_baselines.swat.model:build",
    capabilities=Capabilities(uses_graph=True),
)

__all__ = ["SPEC"]
