"""Controllers: what one must provide, and the registry of all of them."""

from gmc_bench.core.registry import Registry
from gmc_bench.methods.spec import Capabilities, MethodSpec

METHODS: Registry[MethodSpec] = Registry(
    "method",
    "gmc_bench.methods",
    MethodSpec,
    "SPEC",
    unlisted={"zero-action": "gmc_bench.methods.zero_action:SPEC"},
)
"""All controllers: entry points of the group `gmc_bench.methods`, or `FILE.py:SPEC`. What is no
method but is run like one, for a reference, is found by name and not listed."""

__all__ = ["METHODS", "Capabilities", "MethodSpec"]
