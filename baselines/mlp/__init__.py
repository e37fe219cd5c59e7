"""Single-robot MLPs: one policy per body; network in `gmc_baselines.mlp.model`."""

from dataclasses import replace

from gmc_bench.methods import Capabilities, MethodSpec

SPEC = MethodSpec(
    id="mlp",
    version=3,
    title="Single-robot MLP",
    paper="Xiong et al. 2023, Universal Morphology Control via Contextual Modulation, ICML "
    "(single-robot reference)",
    reference_code="MasterXiong/ModuMorph@80e1ba4",
    deviations=(
        "All bodies are trained in one batched run, each as if it were alone: weights, "
        "environments, statistics, gradient-norm limit, KL stop and Adam's moments are its own.",
        "Initialisation: torch's for hidden layers, as in the source; U(-0.01, 0.01) with zero "
        "bias for the last one, as in the other controllers, where the source has torch's.",
        "The encoded height map is appended before the last layer; in the source after the first.",
        "`paper` has the environments, rollouts and minibatches of the public script for single "
        "robots, which runs the default configuration, but 1,000,000 steps per body, the share of "
        "a shared policy; `lite` has rules of its own (docs/protocols.md). Elsewhere a body has "
        "its share of the protocol: at least one environment and 256 transitions per iteration, in "
        "as many minibatches as the protocol's.",
    ),
    config="gmc_baselines.mlp.config:MLPConfig",
    presets={"paper": {}, "lite": {"hidden": (88, 88, 88)}},
    parameters={"paper": 592_420, "lite": 144_532},
    builder="gmc_baselines.mlp.model:build",
    capabilities=Capabilities(per_body=True),
)

LONG = replace(
    SPEC,
    id="mlp-10m",
    title="Single-robot MLP, 10 M steps per body",
    deviations=(
        *SPEC.deviations[:3],
        "Environments, rollouts and minibatches of a body are those of the method `mlp`.",
        "Every body gets the 10,000,000 steps of the public script, far more than from any shared "
        "policy: a reference, not a competitor.",
    ),
    tuned={},  # what serves the short budget need not serve this one
    tuning="",
    env_steps_per_body=10_000_000,
)

__all__ = ["LONG", "SPEC"]
