"""Settings of MetaMorph*."""

from dataclasses import dataclass

from gmc_bench.methods.config import AttentionConfig


@dataclass(frozen=True, kw_only=True)
class MetaMorphStarConfig(AttentionConfig):
    """Size of the network; the defaults are the paper's."""
