"""MetaMorph*: no positions, no dropout; network in `gmc_baselines.metamorph_star.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="metamorph-star",
    title="MetaMorph*",
    paper="Xiong et al., Universal Morphology Control via Contextual Modulation, ICML 2023, "
    "arXiv:2302.11070",
    reference_code="MasterXiong/ModuMorph@80e1ba4, "
    "MasterXiong/Universal-Morphology-Control@18c0516",
    deviations=(
        "Papers describe MetaMorph* by the missing position table alone; the embedding dropout is "
        "missing too, as in the run recipe of the repository.",
        "The height map, where a task has one, is encoded and appended before the decoder as in "
        "the reference, but its encoder and the decoder's hidden layers are settings that all "
        "methods of this benchmark share.",
    ),
    config="gmc_baselines.metamorph_star.config:MetaMorphStarConfig",
    presets={"paper": {}, "lite": {"width": 32, "feedforward": 280, "num_layers": 3}},
    parameters={"paper": 3_312_515, "lite": 138_995},
    task_target_kl={"unimal-incline-v1": 0.03},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00161, "ppo.target_kl": 0.178}},
    tuning="gmc_baselines.metamorph_star:metamorph-star.tuning.json",
    builder="gmc_baselines.metamorph_star.model:build",
    capabilities=Capabilities(permutation_equivariant=True),
)

__all__ = ["SPEC"]
