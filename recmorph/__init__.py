"""RecMorph: topology-guided spatial recurrence; network in `recmorph.model`."""

from gmc_bench.methods import MethodSpec

_PAPER = "RecMorph: Topology-Guided Spatial Recurrence for Generalized Morphology Control"
_BUILDER = "recmorph.model:build"

_BLOCK = (
    "The paper gives no norm epsilon: 1e-6.",
    "The paper gives no initialisation: embedding weight U(-0.1, 0.1) and decoder weight "
    "U(-0.01, 0.01) with zero bias as in MetaMorph, recurrence U(+-1/sqrt(hidden)) and all "
    "other layers as in torch, norm scales 1.",
    "W_x, W_z and W_o have no bias, which the published parameter count implies.",
    "No dropout and no position embedding; the paper mentions neither.",
)
_PLAIN = {"residual": False, "rms_norm": False, "modulation": False}
_LITE = {"width": 64, "hidden": 64, "num_blocks": 2}

SPEC = MethodSpec(
    id="recmorph",
    title="RecMorph",
    paper=_PAPER,
    deviations=(
        *_BLOCK,
        "The paper's recurrence has one bias per direction; two, as in torch's RNN, give its "
        "published parameter count of 3.174 M.",
        "The paper does not say what its plain BiRNN consists of: the full block without residual, "
        "norms and modulation, so that every row of its ablation adds exactly one part.",
        "The paper's parameter-matched plain BiRNN has 3.164 M parameters and no stated width: "
        "hidden 269 gives 3,164,483.",
    ),
    config="recmorph.config:RecMorphConfig",
    presets={
        "paper": {},
        "paper-2": {"num_blocks": 2},
        "paper-plain": _PLAIN,
        "paper-plain-matched": {**_PLAIN, "hidden": 269},
        "paper-residual": {"rms_norm": False, "modulation": False},
        "paper-rms-norm": {"modulation": False},
        "lite": _LITE,
        "lite-plain": {**_LITE, **_PLAIN},
        "lite-plain-matched": {**_LITE, **_PLAIN, "hidden": 70},
        "lite-residual": {**_LITE, "rms_norm": False, "modulation": False},
        "lite-rms-norm": {**_LITE, "modulation": False},
    },
    parameters={
        "paper": 3_174_019,
        "paper-2": 1_593_987,
        "paper-plain": 2_905_731,
        "paper-plain-matched": 3_164_483,
        "paper-residual": 2_905_731,
        "paper-rms-norm": 2_911_875,
        "lite": 140_099,
        "lite-plain": 122_691,
        "lite-plain-matched": 140_259,
        "lite-residual": 122_691,
        "lite-rms-norm": 123_715,
    },
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00135, "ppo.target_kl": 0.183}},
    tuning="recmorph:recmorph.tuning.json",
    builder=_BUILDER,
)
"""The method as published: a bidirectional tanh RNN. Presets with a suffix are its ablations."""

BIGRU = MethodSpec(
    id="recmorph-bigru",
    title="RecMorph (BiGRU)",
    paper=_PAPER,
    deviations=(
        *_BLOCK,
        "The paper gives no widths for this cell: those of the tanh RNN, so that only the "
        "recurrent transition changes and the parameter count rises.",
        "The GRU is torch's: two biases per gate, and the reset gate after the recurrent matrix.",
    ),
    config="recmorph.config:BiGRUConfig",
    presets={"paper": {}, "paper-2": {"num_blocks": 2}, "lite": {**_LITE, "hidden": 42}},
    parameters={"paper": 7_384_707, "paper-2": 3_699_331, "lite": 137_523},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.000683, "ppo.target_kl": 0.189}},
    tuning="recmorph:recmorph-bigru.tuning.json",
    builder=_BUILDER,
)
"""The paper's variant with gated recurrent units."""

BILSTM = MethodSpec(
    id="recmorph-bilstm",
    title="RecMorph (BiLSTM)",
    paper=_PAPER,
    deviations=(
        *_BLOCK,
        "The paper gives no widths for this cell: those of the tanh RNN, so that only the "
        "recurrent transition changes and the parameter count rises.",
        "The LSTM is torch's: two biases per gate, no peepholes, all biases drawn alike.",
    ),
    config="recmorph.config:BiLSTMConfig",
    presets={"paper": {}, "paper-2": {"num_blocks": 2}, "lite": {**_LITE, "hidden": 38}},
    parameters={"paper": 9_490_051, "paper-2": 4_752_003, "lite": 141_555},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00161, "ppo.target_kl": 0.178}},
    tuning="recmorph:recmorph-bilstm.tuning.json",
    builder=_BUILDER,
)
"""The paper's variant with long short-term memory."""

BIMAMBA2 = MethodSpec(
    id="recmorph-bimamba2",
    title="RecMorph (BiMamba2)",
    paper=_PAPER,
    deviations=(
        *_BLOCK,
        "The paper gives no sizes for this cell: model width 256 as the tanh RNN's, state 128, "
        "expansion 2, heads of 64 and convolution 4, Mamba-2's defaults.",
        "The paper does not say how the directions are joined: two mixers with separate weights, "
        "one over the reversed limbs, each 256 wide, their outputs concatenated to the 512 "
        "channels that the block expects.",
        "The mixer's own gate, norm and projections are kept inside the block, which has a gate "
        "and norms too; the mixer's norm epsilon is 1e-5 as published, the block's 1e-6.",
        "The mixer's weights start as published for Mamba-2: steps log-uniform in [0.001, 0.1], "
        "decay rates uniform in [1, 16], skip 1; without the smallest step of 1e-4, which no draw "
        "reaches, and without scaling the output projection by the number of blocks.",
        "B and C are shared by all heads (one group), projections have no bias, the convolution "
        "has one; step sizes are not limited; all as in Mamba-2's defaults.",
    ),
    config="recmorph.config:BiMamba2Config",
    presets={
        "paper": {},
        "paper-2": {"num_blocks": 2},
        "lite": {**_LITE, "hidden": 40, "mamba_state": 16, "mamba_head": 16},
    },
    parameters={"paper": 4_262_723, "paper-2": 4_262_723, "lite": 142_651},
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.00173, "ppo.target_kl": 0.0432}},
    tuning="recmorph:recmorph-bimamba2.tuning.json",
    builder=_BUILDER,
)
"""The paper's variant with Mamba-2 mixers, which has two blocks."""

__all__ = ["BIGRU", "BILSTM", "BIMAMBA2", "SPEC"]
