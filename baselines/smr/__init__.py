"""SMR: a memory over time for every limb; network in `gmc_baselines.smr.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="smr",
    title="SMR",
    paper="Engwegen, Brinks and Boehmer 2025, Shared Modular Recurrence, arXiv:2506.08630",
    footnote="built from descriptions of the paper; there is no public code, and cell, size and "
    "place of the memory were chosen here.",
    deviations=(
        "The variant on MetaMorph (R-MeMo) with the backbone of MetaMorph*: no positions, no "
        "dropout; the variant on ModuMorph is not built.",
        "Where the recurrent unit sits is not known: between embedding and attention; "
        "memory_place=before_embedding is the other reading.",
        "The cell is not known: GRU; cell=lstm is the other reading.",
        "Its size is not published: as wide as the embedding, so that its state replaces the "
        "embedded limb.",
        "Actor and critic have a unit each.",
        "Training unrolls 16 consecutive steps from the state stored in the rollout; the paper's "
        "scheme is not known. Stored states are slightly stale, because the observation statistics "
        "move on during a rollout.",
        "A height map enters in the decoder as for every controller here; what the paper does is "
        "not known.",
    ),
    config="gmc_baselines.smr.config:SMRConfig",
    presets={
        "paper": {},
        "lite": {"width": 40, "feedforward": 160, "num_layers": 3},
        "paper-lstm": {"cell": "lstm"},
        "paper-before-embedding": {"memory_place": "before_embedding"},
        "paper-lstm-before-embedding": {"cell": "lstm", "memory_place": "before_embedding"},
    },
    parameters={
        "paper": 3_512_195,
        "lite": 142_843,
        "paper-lstm": 3_578_755,
        "paper-before-embedding": 3_473_283,
        "paper-lstm-before-embedding": 3_520_387,
    },
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00231, "ppo.target_kl": 0.072}},
    tuning="gmc_baselines.smr:smr.tuning.json",
    builder="gmc_baselines.smr.model:build",
    capabilities=Capabilities(permutation_equivariant=True, temporal=True),
)

__all__ = ["SPEC"]
