"""MetaMorph: a transformer over limbs; network in `gmc_baselines.metamorph.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="metamorph",
    title="MetaMorph",
    paper="Gupta et al., MetaMorph: Learning Universal Controllers with Transformers, ICLR 2022, "
    "arXiv:2203.11931",
    reference_code="agrimgupta92/metamorph@c656989, "
    "MasterXiong/Universal-Morphology-Control@18c0516",
    deviations=(
        "Position table and embedding dropout have a switch each; in the original repository the "
        "dropout is a part of the position table and goes with it.",
        "The height map, where a task has one, is encoded and appended before the decoder as in "
        "the reference, but its encoder and the decoder's hidden layers are settings that all "
        "methods of this benchmark share.",
        "The KL threshold of 0.2 that comes with the dropout is the reference's; it belongs to the "
        "method and so holds in the presets without dropout too.",
    ),
    config="gmc_baselines.metamorph.config:MetaMorphConfig",
    presets={
        "paper": {},
        "lite": {"width": 32, "feedforward": 280, "num_layers": 3},
        "paper-no-dropout": {"embedding_dropout": 0.0},
        "paper-no-positions": {"positions": False},
    },
    parameters={
        "paper": 3_315_587,
        "lite": 139_763,
        "paper-no-dropout": 3_315_587,
        "paper-no-positions": 3_312_515,
    },
    tuned={
        "unimal-v1/unimal-ft-v1/lite": {
            "ppo.lr": 0.00207,
            "ppo.target_kl": 0.135,
            "model.embedding_dropout": 0.00593,
        }
    },
    tuning="gmc_baselines.metamorph:metamorph.tuning.json",
    builder="gmc_baselines.metamorph.model:build",
    training={"ppo": {"target_kl": 0.2}},
    preset_capabilities={"paper-no-positions": Capabilities(permutation_equivariant=True)},
)

__all__ = ["SPEC"]
