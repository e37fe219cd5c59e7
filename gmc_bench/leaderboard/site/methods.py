"""What the site says about a method beside its results."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class MethodPage:
    """The description of a method; plain text throughout, every field may be empty."""

    title: str = ""
    paper: str = ""
    """Citation."""
    url: str | None = None
    """Of the paper; linked only when it begins with `https://` or `http://`."""
    description: str = ""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """Trainable parameters of actor and critic per preset."""
    deviations: tuple[str, ...] = ()
    """Where the implementation differs from its source, one sentence each."""
    capabilities: tuple[str, ...] = ()
    """What the method claims, e.g. `permutation equivariant`."""

    @property
    def link(self) -> str | None:
        """`url` if a browser may follow it; `None` for other schemes, e.g. `javascript:`."""
        safe = self.url is not None and self.url.startswith(("https://", "http://"))
        return self.url if safe else None
