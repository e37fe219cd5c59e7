"""NerveNet: message passing along the limb graph; network in `gmc_baselines.nervenet.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="nervenet",
    title="NerveNet",
    paper="Wang, Liao, Ba, Fidler 2018, NerveNet: Learning Structured Policy with Graph Neural "
    "Networks, ICLR 2018",
    reference_code="WilsonWangTHU/NerveNet@9c4d0d7",
    footnote="in the form that the RecMorph paper gives NerveNet, with a norm chosen here; the "
    "original is the preset paper-gru.",
    deviations=(
        "The default form is the residual operator in which the RecMorph paper writes NerveNet, "
        "not the gated one of the original; the original is the form `gru`.",
        "Residual form, activations: left open; ReLU on message, self path and joined update.",
        "Residual form, normalisation: left open; layer norm without learned scale and shift on "
        "the limbs before every layer, none before the decoder.",
        "Residual form, weights: the matrices carry no layer index in the paper; here every layer "
        "has its own, and `share_weights` gives the literal reading (685,315 parameters).",
        "Residual form, sizes: left open; 4 layers, width 256 for limbs and messages.",
        "Residual form, aggregation weights: left open; the mean over the limbs that joints and "
        "closed loops connect with it, the limb itself left out, and zero for a limb without "
        "neighbours.",
        "Residual form, initialisation: left open; embedding and decoder as in MetaMorph with the "
        "embedding scaled by sqrt(width), everything else as in torch.",
        "Nodes are limbs; the original's are the joints and the root.",
        "Form `gru` has one node type and one edge type; the original may have more.",
        "Form `gru` decodes two actions per limb with the original's tanh head; the critic is the "
        "same network with one output per limb, where the original has an MLP by default.",
        "Form `gru` draws every initial matrix independently; the public code passes the same "
        "seed to all of them.",
        "The action standard deviation is the benchmark's fixed one, not learned.",
        "PPO settings are the benchmark's, not the original's.",
        "A height map, which the original does not have, enters at the decoder as in every method.",
    ),
    config="gmc_baselines.nervenet.config:NerveNetConfig",
    presets={
        "paper": {},
        "lite": {"width": 80, "num_layers": 2},
        "paper-gru": {
            "form": "gru",
            "width": 64,
            "share_weights": True,
            "decoder_hidden": (64, 64),
        },
        "lite-gru": {
            "form": "gru",
            "width": 80,
            "num_layers": 2,
            "share_weights": True,
            "decoder_hidden": (80, 80),
        },
    },
    parameters={
        "paper": 2_657_539,
        "lite": 138_003,
        "paper-gru": 94_787,
        "lite-gru": 146_643,
    },
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00081, "ppo.target_kl": 0.173}},
    tuning="gmc_baselines.nervenet:nervenet.tuning.json",
    builder="gmc_baselines.nervenet.model:build",
    capabilities=Capabilities(permutation_equivariant=True, uses_graph=True),
)

__all__ = ["SPEC"]
