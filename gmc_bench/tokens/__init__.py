"""The token/action interface: which number of a limb stands where."""

from gmc_bench.tokens.spec import FeatureSlice, TokenSpec

__all__ = ["FeatureSlice", "TokenSpec"]
