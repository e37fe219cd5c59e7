"""Body Transformer: attention masked by the limb graph; network in `gmc_baselines.bot.model`."""

from gmc_bench.methods import Capabilities, MethodSpec

_LITE = {"width": 48, "feedforward": 128, "num_layers": 3}

SPEC = MethodSpec(
    id="bot",
    title="Body Transformer",
    paper="Sferrazza et al. 2024, Body Transformer: Leveraging Robot Embodiment for Policy "
    "Learning, CoRL, arXiv:2408.06316",
    reference_code="carlosferrazza/BodyTransformer@941551e",
    licence="MIT",
    footnote="adapted to many bodies, with sizes chosen here; the RecMorph paper does not describe "
    "its own adaptation.",
    deviations=(
        "The paper maps every body part to a token, and back to actions, with linear maps of its "
        "own; all limbs share one of each here, because a map per part cannot serve a body with "
        "other parts.",
        "Tokens start with the benchmark's common embedding, sqrt(width) (W o + b) with "
        "W in U(-0.1, 0.1); the reference code has no factor and draws W from N(0, 0.02). Position "
        "embeddings start in N(0, 0.02) in both, so they are about 33 times weaker beside it here.",
        "The decoder starts in U(-0.01, 0.01) with zero bias as for every controller here; the "
        "reference code draws it from N(0, 0.02).",
        "Paper presets have the 5 layers, width 128, 2 heads and feed-forward width 1024 of the "
        "other transformers here; the paper's own sizes differ from task to task.",
        "Which layers of the mixed variant are masked differs within the reference code: the even "
        "ones here, counted from 0, as in its reinforcement-learning part.",
        "Mixed masking is the default; in the reference code it is an option next to masking in "
        "every layer, which the presets named `hard` have.",
        "No position embedding by default, because a slot is another part of every body; the "
        "reference code has one for reinforcement learning, and so has the preset "
        "`paper-positions`.",
        "Actions have the benchmark's fixed standard deviation; the paper learns it.",
        "The value is the mean over real limbs; the reference code has no padding and takes the "
        "mean over all parts.",
        "A height map enters in the decoder as for every controller here; the paper has none.",
    ),
    config="gmc_baselines.bot.config:BotConfig",
    presets={
        "paper": {},
        "lite": _LITE,
        "paper-hard": {"masking": "hard"},
        "lite-hard": {**_LITE, "masking": "hard"},
        "paper-positions": {"positions": True},
    },
    parameters={
        "paper": 3_312_515,
        "lite": 137_619,
        "paper-hard": 3_312_515,
        "lite-hard": 137_619,
        "paper-positions": 3_315_587,
    },
    tuned={"unimal-v1/unimal-ft-v1/lite": {"ppo.lr": 0.000406, "ppo.target_kl": 0.114}},
    tuning="gmc_baselines.bot:bot.tuning.json",
    builder="gmc_baselines.bot.model:build",
    capabilities=Capabilities(permutation_equivariant=True, uses_graph=True),
    preset_capabilities={"paper-positions": Capabilities(uses_graph=True)},
)

__all__ = ["SPEC"]
