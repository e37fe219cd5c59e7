"""The view of a body that everything above the simulator shares."""

from typing import Literal, Protocol

Parts = Literal["limbs", "actuators"]
"""What the tokens of a body stand for."""


class Body(Protocol):
    """A body by what sets, tokens and environments ask of it: limbs and quadrupeds alike."""

    @property
    def name(self) -> str:
        """Id in its set."""

    @property
    def digest(self) -> str:
        """SHA-256 over everything that moves the physics, 64 hex digits."""

    @property
    def parts(self) -> Parts:
        """What its tokens stand for."""

    @property
    def num_limbs(self) -> int:
        """Number of tokens: limbs, or actuators."""

    @property
    def joints_per_limb(self) -> int:
        """Joint slots, and so actions, per token."""
