"""Which classes of settings a method may have."""

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.methods import MethodSpec


class Kind(enum.Enum):
    A = 1


class Level(enum.IntEnum):
    LOW = 1


def config_class(settings):
    return MethodSpec(id="fake", config=settings, builder="nowhere:build").config_class()


@dataclass(frozen=True)
class Part:
    heads: int = 2
    drop: float = 0.0


@dataclass(frozen=True)
class Every:
    width: int = 8
    scale: float = 1
    gate: bool = False
    name: str = "a"
    cell: Literal["gru", "lstm"] = "gru"
    widths: tuple[int, ...] = (2, 3)
    pair: tuple[int, str] = (1, "a")
    limit: float | None = None
    sizes: list[int] = field(default_factory=lambda: [1])
    table: dict[str, int] = field(default_factory=lambda: {"a": 1})
    part: Part = Part()


def test_fields_that_a_record_can_hold_are_taken():
    assert config_class(Every) is Every


def settings(annotation, *default):
    """Return a dataclass with one field."""
    body = {"__annotations__": {"odd": annotation}, "__module__": __name__}
    if default:
        body["odd"] = default[0]
    return dataclass(frozen=True)(type("Settings", (), body))


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (settings(int), "must have a default"),
        (settings(Kind, Kind.A), "must be int, float, bool, str, Literal, tuples of these, None "),
        (settings(Level, Level.LOW), "got <Level.LOW: 1> for"),
        (settings(Path, Path("x")), "got PosixPath('x') for"),
        (settings(int, None), "got None for <class 'int'>"),
        (settings(float, float("nan")), "got nan for <class 'float'>"),
        (settings(Any, field(default_factory=set)), "got set() for"),
        (settings("Foo", 3), "annotation that cannot be looked up (NameError: name 'Foo' is not"),
        (settings(int, field(default=1, init=False)), "must be an argument of the class"),
    ],
)
def test_other_fields_are_refused_by_name(odd, why):
    with pytest.raises(PluginError) as error:
        config_class(odd)
    assert "the setting 'odd' of the method 'fake'" in str(error.value)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_a_field_of_a_group_is_named_with_it():
    @dataclass(frozen=True)
    class Outer:
        inner: Any = field(default_factory=settings(Kind, Kind.A))

    with pytest.raises(PluginError, match=r"the setting 'inner\.odd' of the method 'fake' must be"):
        config_class(Outer)


def test_defaults_that_the_class_itself_refuses_are_named():
    @dataclass(frozen=True)
    class Refuses:
        width: int = 0

        def __post_init__(self):
            raise ConfigError("'width' must be at least 1, got 0")

    @dataclass(frozen=True)
    class Breaks(Refuses):
        def __post_init__(self):
            raise KeyError("x")

    with pytest.raises(PluginError, match="settings of the method 'fake': 'width' must be at"):
        config_class(Refuses)
    with pytest.raises(PluginError, match=r"defaults: KeyError: 'x' \[test_settings\.py:\d+\]$"):
        config_class(Breaks)
