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
"""All controllers: entry points of the group `gmc_bench.methods`, or `FILE.py:SPEC`. A
reference that is run like a method, such as `zero-action`, is found by name but not listed."""

__all__ = ["METHODS", "Capabilities", "MethodSpec"]
