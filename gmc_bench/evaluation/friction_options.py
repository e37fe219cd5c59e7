"""Options in which two friction measurements of the same policy may differ."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from gmc_bench.core.config import fields_of
from gmc_bench.core.errors import ConfigError, did_you_mean, reject_unknown
from gmc_bench.robots.friction import FRICTION_RULES, FrictionRule
from gmc_bench.robots.menagerie import ROBOT_SOURCES, RobotSource
from gmc_bench.suites.measured import Heading

HEADINGS: tuple[Heading, ...] = get_args(Heading)


@dataclass(frozen=True, kw_only=True)
class FrictionOptions:
    """How friction is measured, besides what the protocol says.

    Results of unlike options never share a table.

    Raises:
        ConfigError: an option has no such value.
    """

    heading: Heading = "held"
    rule: FrictionRule | None = None
    """How a pair becomes one coefficient; `None` takes the suite's."""
    robots: RobotSource = "built-in"
    """Whose bodies are simulated."""

    def __post_init__(self) -> None:
        for what, value, known in (
            ("heading", self.heading, HEADINGS),
            ("friction rule", self.rule, (*FRICTION_RULES, None)),
            ("robot source", self.robots, ROBOT_SOURCES),
        ):
            if value not in known:
                names = [name for name in known if name is not None]
                raise ConfigError(f"unknown {what} {value!r}{did_you_mean(str(value), names)}")

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, as plain values."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in values.items() if value != usual}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "FrictionOptions":
        """Read what `to_dict` made.

        Raises:
            ConfigError: an option or a value is unknown.
        """
        reject_unknown(content, fields_of(cls), "a friction measurement")
        return cls(**content)
