"""No action at all, run like a method: what the bodies do of themselves."""

from dataclasses import dataclass

from gmc_bench.methods.spec import Capabilities, MethodSpec


@dataclass(frozen=True, kw_only=True)
class ZeroActionConfig:
    """There is nothing to set."""


SPEC = MethodSpec(
    id="zero-action",
    title="No action",
    paper="none: the floor of every table",
    deviations=("Mean actions are zero; sampled ones are the protocol's noise around zero.",),
    config=ZeroActionConfig,
    builder="gmc_bench.nn.zero_action:build",
    trainable=False,
    capabilities=Capabilities(permutation_equivariant=True),
)
