"""A study: variants of a run that answer one question, and what is measured on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from gmc_bench.core.errors import ConfigError, did_you_mean

Measure = Literal["training", "siblings", "representation", "gait", "friction", "budget", "bodies"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One variant."""

    name: str
    """Short, lower-case; part of folder names."""
    label: str
    """As tables and pictures show it."""
    method: str | None = None
    """Registered id; `None` is the method that the study is asked for."""
    preset_suffix: str = ""
    """Added to the name of the protocol's preset, e.g. `-plain`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the preset, by dotted name: `model.width`, `tokens.order`."""
    budget: Fraction = Fraction(1)
    """Multiple of the env steps that the run would have otherwise."""
    bodies: int | None = None
    """Train bodies, of the set that the study is run on; `None` for all."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """What sets the variant apart, by column; for readers."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study; the same for every suite that has its tasks."""

    id: str
    """Lower-case id, as on the command line."""
    title: str
    question: str
    """One sentence."""
    arms: tuple[Arm, ...]
    tasks: tuple[str, ...] = ("ft",)
    """Short names of the tasks it runs on unless asked otherwise; empty for all of the suite."""
    suite: str = "unimal"
    """Suite it runs on unless asked otherwise."""
    methods: tuple[str, ...] = ()
    """Methods it can be asked for; empty for any, the first is the default."""
    many_methods: bool = False
    """Whether it can be asked for several methods at once; each is then a variant, beside those
    that the arms name."""
    asked: tuple[str, ...] = ()
    """The methods unless it is asked for others; empty for the first of `methods`, or recmorph."""
    budgets: tuple[Fraction, ...] = (Fraction(1),)
    """Multiples of the protocol's env steps; of a study of several methods, each method is trained
    for every one."""
    body_counts: tuple[int, ...] = ()
    """Numbers of train bodies; of a study of several methods, each is trained on every one."""
    body_set: str | None = None
    """Set whose train bodies are counted, unless asked otherwise."""
    measure: Measure = "training"
    """What is done with the trained policies, see `gmc_bench.studies.measurements`."""
    published_label: str = ""
    """LaTeX label of the paper's table of the same question; empty where numbers were not
    printed."""
    source: str = ""
    """Where the question comes from, and what was decided here."""

    def require_method(self, method: str) -> None:
        """Raise unless the study can be asked for a method.

        Raises:
            ConfigError: it cannot.
        """
        if self.methods and method not in self.methods:
            raise ConfigError(
                f"the study {self.id!r} is about {' and '.join(self.methods)}, got --method "
                f"{method!r}{did_you_mean(method, self.methods)}"
            )
