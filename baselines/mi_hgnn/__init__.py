"""MI-HGNN: message passing with typed limbs; network in `gmc_baselines.mi_hgnn.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="mi-hgnn",
    title="MI-HGNN",
    paper="Butterfield, Garimella, Cheng, Gan 2025, MI-HGNN: Morphology-Informed Heterogeneous "
    "Graph Neural Network for Legged Robot Contact Perception, ICRA 2025, arXiv:2409.11146",
    reference_code="lunarlab-gatech/Morphology-Informed-HGNN@98e8768",
    footnote="a network that perceives contacts, adapted to control; the RecMorph paper does not "
    "describe its own adaptation.",
    deviations=(
        "The original perceives contacts; here the same network controls, trained with PPO.",
        "Nodes are limbs, not joints: the torso is a base, a limb with children or in a closed "
        "loop a joint, any other limb a foot.",
        "Every node takes the 52 features of its limb at the current step; the original takes "
        "histories of 150 steps, whose width depends on node type and data set.",
        "Seven relations instead of five: base to foot and foot to base are added, because a limb "
        "without children may hang on the torso.",
        "A relation adds its root term and bias to every node of its target type, also where a "
        "body or batch has no such edge; the original's rule depends on the batch.",
        "One decoder serves the limbs of all types; the original decodes feet only.",
        "Decoder weight U(-0.01, 0.01) and zero bias as in MetaMorph; all other layers start as "
        "in torch-geometric.",
        "No sqrt(width) scale on the encoder's output.",
        "A height map, which the original does not have, enters at the decoder as in every method.",
    ),
    config="gmc_baselines.mi_hgnn.config:MIHGNNConfig",
    presets={"paper": {}, "lite": {"width": 34, "num_layers": 4}},
    parameters={"paper": 3_725_443, "lite": 142_293},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00173, "ppo.target_kl": 0.0432}},
    tuning="gmc_baselines.mi_hgnn:mi-hgnn.tuning.json",
    builder="gmc_baselines.mi_hgnn.model:build",
    capabilities=Capabilities(permutation_equivariant=True, uses_graph=True),
)

__all__ = ["SPEC"]
