"""Which classes of settings a method may have."""

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

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


def test_what_has_no_type_is_refused_because_it_would_be_no_setting():
    @dataclass(frozen=True)
    class Forgets(Part):
        hops = 3

    @dataclass(frozen=True)
    class Lists(Part):
        sizes = (1, 2)

    @dataclass(frozen=True)
    class Hides(Part):
        """Its `heads` are 2 all the same."""

        heads = 4

    @dataclass(frozen=True)
    class Groups:
        part: Part = Forgets()

    sentence = r"the setting '{}' of the method 'fake' has no type; write `{}` in {}, or `{}` if it"
    for odd, *words in (
        (Forgets, "hops", "hops: int = 3", "Forgets", "hops: ClassVar = 3"),
        (Lists, "sizes", r"sizes: TYPE = \(1, 2\)", "Lists", r"sizes: ClassVar = \(1, 2\)"),
        (Hides, "heads", "heads: int = 4", "Hides", "heads: ClassVar = 4"),
        (Groups, "part.hops", "hops: int = 3", "Forgets", "hops: ClassVar = 3"),
    ):
        with pytest.raises(PluginError, match=sentence.format(*words)):
            config_class(odd)


def test_fields_of_a_class_without_the_decorator_are_refused():
    class Undecorated(Part):
        hops: int = 3

    with pytest.raises(PluginError, match=r"'hops' .* is no field; write @dataclass.* Undecorated"):
        config_class(Undecorated)


def test_other_attributes_of_a_class_are_no_settings():
    class Plain:
        note = "not a dataclass"

    @dataclass(frozen=True, slots=True)
    class Rich(Plain):
        width: int = 8
        limit: ClassVar[int] = 9
        other: ClassVar = 9
        _hidden = 1

        class Inner:
            pass

        @property
        def double(self):
            return 2 * self.width

        @staticmethod
        def scale():
            return 1

        @classmethod
        def small(cls):
            return cls(width=1)

    class Renamed(Rich):
        limit: ClassVar[int] = 10

        def triple(self):
            return 3 * self.width

    assert config_class(Rich) is Rich
    assert config_class(Renamed) is Renamed


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
