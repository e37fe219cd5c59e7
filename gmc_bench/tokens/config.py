"""Settings of how a body is shown to a policy: order of its limbs, and what is known of them."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.tokens.spec import Tree

Order = Literal["dfs", "bfs", "random", "siblings"]
Attributes = Literal["all", "hardware"]

TOPOLOGY_ATTRIBUTES = ("body_pos", "body_ipos", "body_iquat", "geom_quat", "jnt_pos")
"""Features that tell where limbs are and how they are turned; the RecMorph paper's list."""


@dataclass(frozen=True, kw_only=True)
class TokenConfig:
    """The defaults are the benchmark's; anything else is for studies.

    Source:
        The RecMorph paper: traversal orders, sibling permutations, removed attributes.
    """

    order: Order = "dfs"
    """Limbs depth first, breadth first, in one random order per body, or depth first with the
    children of every limb permuted anew for each training episode."""
    attributes: Attributes = "all"
    """Features fixed by the body: all of them, or without those of its topology."""
    tree: Tree = "kinematic"
    """Spanning tree that a body with closed loops is read along: the one its joints form, or one
    grown breadth first over all its edges. Bodies without loops have one tree only."""

    @property
    def test_order(self) -> Order:
        """How limbs are ordered when a policy is scored: permutations are for training."""
        return "dfs" if self.order == "siblings" else self.order

    @property
    def without(self) -> tuple[str, ...]:
        """Groups of features that are left out, see `TokenSpec`."""
        return TOPOLOGY_ATTRIBUTES if self.attributes == "hardware" else ()
