"""Frozen dataclasses as the only definition of a configuration.

A configuration is a `@dataclass(frozen=True, kw_only=True)`; a string literal under each field
documents it. YAML files, presets and command-line flags are nested mappings applied with
`with_overrides`, which rejects unknown keys and converts values by field type.
"""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import math
import operator
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gmc_bench.core.errors import ConfigError, GmcBenchError, did_you_mean
from gmc_bench.core.files import read_limited
from gmc_bench.core.registry import failure_text

C = TypeVar("C")
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where libyaml is there, for lists of thousands of runs."""
_SEAL = "digest"
_SEALED = re.compile(rb"digest: ([0-9a-f]{64})")
_END = "# Kept by a digest: to change this file, delete its first line and this one.\n"
"""Last line of sealed YAML: what loses its beginning does not pass for a file without a digest."""
_MAX_SHOWN = 80
"""Characters of a wrong value in a message."""
_MAX_DEPTH = 64
"""Levels of YAML; far deeper ones would exhaust the C stack of the parser."""


class _StrictSafeLoader(_SafeLoader):  # type: ignore[misc]
    """Refuses a key that is given twice, of which a reader would see one.

    It also says where a value stands that does not fit its tag (`!!int x`) or is an impossible
    date, for which the parser raises various errors without a place.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _refusal(f"{shown(node.value)} is no {kind}", node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        if not isinstance(node, yaml.MappingNode):  # `!!map x`
            raise _refusal("a value is no map, but tagged as one", node.start_mark)
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise _refusal(f"the key {key.value!r} is given more than once", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _refusal(problem: str, mark: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _require_plain(text: str) -> None:
    """Raise for aliases, which can make a short text expand without end, and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("aliases (*name) are not taken", event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise _refusal(f"more than {_MAX_DEPTH} levels", event.start_mark)


def with_overrides(config: C, changes: Mapping[str, Any], where: str = "") -> C:
    """Return `config` with nested `changes` applied.

    Args:
        config: a frozen dataclass instance.
        changes: field name to value, `-` counts as `_`; a nested dataclass takes a mapping.
        where: dotted prefix for messages.

    Returns:
        A new instance; `__post_init__` checks it again.

    Raises:
        ConfigError: a key is unknown or given twice, a value does not fit the field's type, or the
            class refuses the new values, with whatever error.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"{config!r} is not a dataclass instance")
    names = {field.name for field in dataclasses.fields(config)}
    hints = type_hints(type(config))
    new: dict[str, Any] = {}
    for raw_key, raw_value in changes.items():
        key = str(raw_key).replace("-", "_")
        if key not in names:
            raise ConfigError(f"unknown setting {where + key!r}{did_you_mean(key, names, where)}")
        if key in new:
            raise ConfigError(f"{where + key!r} is given more than once; keep one of them")
        old = getattr(config, key)
        if dataclasses.is_dataclass(old) and not isinstance(old, type):
            if not isinstance(raw_value, Mapping):
                raise ConfigError(
                    f"{where + key!r} is a group of settings, but got {shown(raw_value)}; "
                    f"set one of its fields, e.g. {where + key}.{next(iter(fields_of(old)))}"
                )
            new[key] = with_overrides(old, raw_value, f"{where}{key}.")
        else:
            new[key] = coerce(raw_value, hints[key], where + key)
    try:
        return dataclasses.replace(config, **new)
    except GmcBenchError:
        raise
    except (Exception, SystemExit) as error:  # a class of a plug-in may raise anything
        given = ", ".join(f"{where}{key}={shown(value)}" for key, value in changes.items())
        raise ConfigError(
            f"{type(config).__name__} refuses {given}: {failure_text(error)}"
        ) from error


def shown(value: Any) -> str:
    """Return a wrong value as messages show it: of a long one, the beginning."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"


def type_hints(cls: Any) -> dict[str, Any]:
    """Return the types of a class's fields, looked up once."""
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


_HINTS: dict[type, dict[str, Any]] = {}


def fields_of(config: Any) -> list[str]:
    """Return the field names of a dataclass instance or class."""
    return [field.name for field in dataclasses.fields(config)]


def coerce(value: Any, hint: Any, where: str) -> Any:
    """Convert a YAML or command-line value to a field's type.

    Args:
        value: the raw value; strings are parsed (PyYAML reads `3e-4` as a string; `none` is also a
            tuple without entries), scalars of numpy and torch are taken as Python's.
        hint: the field's type: a scalar, `Literal`, `tuple`, union or `None` of these. Values of
            any other type must already be instances of it.
        where: the setting's dotted name, for messages.

    Returns:
        The value in the field's type.

    Raises:
        ConfigError: the value does not fit.
    """
    value = plain_scalar(value)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(value, hint, where)
    if origin is typing.Literal:
        return _coerce_literal(value, typing.get_args(hint), where)
    if origin is tuple:
        return _coerce_tuple(value, typing.get_args(hint), where)
    try:
        return _coerce_scalar(value, hint, origin)
    except (ValueError, KeyError, OverflowError):
        raise ConfigError(f"{where!r} must be {_name(hint)}, got {shown(value)}") from None


def coerce_name(value: Any, hint: Any, where: str) -> Any:
    """Convert a value like `coerce`, but take all text as a name, also `none` and `null`.

    Args:
        value: the raw value.
        hint: the field's type, which takes text.
        where: the setting's dotted name, for messages.

    Returns:
        The value in the field's type.

    Raises:
        ConfigError: the value does not fit.
    """
    value = plain_scalar(value)
    return value if isinstance(value, str) else coerce(value, hint, where)


_FROM_PYTHON: dict[Any, tuple[type, ...]] = {
    int: (int,),
    float: (int, float),
    bool: (bool,),
    str: (str,),
    type(None): (type(None),),
    tuple: (tuple, list, str),
}
"""Python types that a field accepts where values are not read from text, by the field's type; for a
tuple, a string is its one entry."""


def require_type(value: Any, hint: Any, where: str) -> None:
    """Raise unless a value has its field's type, as an argument that is given from Python should.

    Args:
        value: the value; scalars of numpy and torch are taken as Python's.
        hint: the field's type, see `coerce`. Types other than Python's scalars, tuples and unions
            of these are not checked here, but by `coerce`.
        where: the setting's name, for messages.

    Raises:
        ConfigError: it would have to be converted, e.g. text for a number.
    """
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = typing.get_args(hint) if union else (hint,)
    kinds = {typing.get_origin(option) or option for option in options}
    fitting = {fit for kind in kinds for fit in _FROM_PYTHON.get(kind, ())}
    # Not by `isinstance`, to which True is an integer.
    if kinds <= _FROM_PYTHON.keys() and type(plain_scalar(value)) not in fitting:
        raise ConfigError(f"{where!r} must be {_name(hint)}, got {shown(value)}")


def coerce_fields(config: Any, names: Collection[str] = ()) -> None:
    """Convert the fields of a frozen dataclass to their types; for its `__post_init__`.

    Args:
        config: the dataclass.
        names: fields that hold a name, see `coerce_name`.

    Raises:
        ConfigError: a value does not fit.
    """
    hints = type_hints(type(config))
    for name in fields_of(config):
        convert = coerce_name if name in names else coerce
        object.__setattr__(config, name, convert(getattr(config, name), hints[name], name))


def plain_scalar(value: Any) -> Any:
    """Return Python's value of a scalar of numpy or torch, which YAML and JSON can hold."""
    return value.item() if getattr(value, "shape", None) == () else value


_NONE = ("none", "null", "None")
"""Texts that stand for `None`, and for a tuple without entries."""


def _coerce_union(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint)
    # Arrays have no truth value, so only text is compared with text.
    named = isinstance(value, str) and value in _NONE
    if type(None) in options and (value is None or named):
        return None
    for option in (option for option in options if option is not type(None)):
        try:
            return coerce(value, option, where)
        except ConfigError:
            continue
    raise ConfigError(f"{where!r} must be {_name(hint)}, got {shown(value)}")


def _coerce_literal(value: Any, options: tuple[Any, ...], where: str) -> Any:
    for option in options:
        named = isinstance(value, str) and value == str(option)
        if named or (type(value) is type(option) and value == option):
            return option
    known = ", ".join(str(option) for option in options)
    raise ConfigError(f"{where!r} must be one of {known}, got {shown(value)}")


def _coerce_tuple(value: Any, hints: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    items = value
    if isinstance(value, str):
        # Help shows an empty tuple as `none`.
        empty = value.strip() in ("", *_NONE)
        items = [] if empty else [item.strip() for item in value.split(",")]
    if not isinstance(items, (list, tuple)):
        raise ConfigError(f"{where!r} must be a list, got {shown(value)}")
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(coerce(item, hints[0], where) for item in items)
    if len(items) != len(hints):
        raise ConfigError(f"{where!r} must have {len(hints)} entries, got {len(items)}")
    return tuple(coerce(item, hint, where) for item, hint in zip(items, hints, strict=True))


_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _coerce_scalar(value: Any, hint: Any, origin: Any) -> Any:
    if hint is bool:
        return value if isinstance(value, bool) else _BOOLEANS[str(value).lower()]
    if hint in (int, float):
        return _coerce_number(value, hint)
    kind = origin or hint
    if isinstance(kind, type) and kind is not Any and not isinstance(value, kind):
        raise ValueError(value)
    return value


def _coerce_number(value: Any, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(value)
    if kind is int:
        with contextlib.suppress(ValueError):  # digits are taken exactly, beyond a float's 53 bits
            if not isinstance(value, float):
                return int(value)
    number = float(value)
    if not math.isfinite(number) or (kind is int and not number.is_integer()):
        raise ValueError(value)
    return kind(number)


def _name(hint: Any) -> str:
    names = {int: "an integer", float: "a finite number", bool: "true or false", str: "a string"}
    if hint in names:
        return names[hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        return " or ".join("none" if option is type(None) else _name(option) for option in options)
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    plain = isinstance(hint, type) and typing.get_origin(hint) is None
    return hint.__name__ if plain else str(hint).replace("typing.", "")


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as plain nested dicts, lists and scalars (for YAML and JSON)."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def config_digest(config: Any) -> str:
    """Return the SHA-256 of a configuration (dataclass or plain mapping), 64 hex digits.

    The order of keys does not count, and `1` and `1.0` are the same setting.
    """
    plain = to_dict(config) if dataclasses.is_dataclass(config) else config
    text = json.dumps(_canonical(plain), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def json_digest(content: Any) -> str:
    """Return the SHA-256 of JSON data, 64 hex digits; the order of keys does not count."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def definition_digest(definition: Any) -> str:
    """Return the SHA-256 of a definition that may hold functions, 64 hex digits.

    A function counts by its module, its name and the values it was made with (its closure), not by
    its code: which code ran is the business of the commit. A field that has its default value does
    not count, so that definitions keep their digest when a new optional field is introduced.

    Args:
        definition: nested dataclasses, mappings, sequences, scalars and functions.

    Raises:
        TypeError: something else is inside.
    """
    return config_digest({"definition": _described(definition)})


def _described(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {
            field.name: (getattr(value, field.name), field) for field in dataclasses.fields(value)
        }
        return {
            name: _described(item)
            for name, (item, field) in found.items()
            if not _is_default(item, field)
        }
    if isinstance(value, Mapping):
        return {str(key): _described(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_described(item) for item in value]
    if inspect.isfunction(value):
        captured = [_described(cell.cell_contents) for cell in value.__closure__ or ()]
        return {"function": f"{value.__module__}.{value.__qualname__}", "captured": captured}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a definition cannot hold a {type(value).__name__}")


def _is_default(value: Any, field: "dataclasses.Field[Any]") -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping.

    Raises:
        ConfigError: the file is missing, is not YAML, does not hold a mapping, or is not what
            `sealed_yaml` made.
    """
    try:
        data = read_limited(path)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from error
    head, _, rest = data.partition(b"\n")
    seal = _SEALED.fullmatch(head)
    if seal and hashlib.sha256(rest).hexdigest().encode() != seal[1]:
        raise ConfigError(
            f"{path} was changed after it was written (its digest is not that of its content); "
            f"restore it, or delete its first and last line if it shall count as it is"
        )
    damaged = ConfigError(
        f"{path} is damaged: its first line, a digest, is missing or not whole; restore it, or "
        f"delete its last line and what is left of the digest if the rest shall count as it is"
    )
    if not seal and data.endswith(_END.encode()):
        raise damaged
    try:
        text = (rest if seal else data).decode()
        _require_plain(text)
        content = yaml.load(text, Loader=_StrictSafeLoader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bad encoding
        first = " ".join(str(error).split()).replace(' in "<unicode string>",', " at")
        raise ConfigError(f"{path} is not valid YAML ({first}); fix or delete it") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold 'key: value' settings, got a {type(content).__name__}")
    if _SEAL in content:
        raise damaged
    return content


def sealed_yaml(text: str) -> str:
    """Return YAML with the SHA-256 of the rest in the first line, which `load_yaml` checks."""
    rest = text + _END
    return f"{_SEAL}: {hashlib.sha256(rest.encode()).hexdigest()}\n{rest}"


def field_docs(cls: type) -> dict[str, str]:
    """Return the string literal under each field of a dataclass, as help text.

    Fields of base classes are included; a class without source (typed into a prompt) has none.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= _own_field_docs(base)
    return docs


@functools.cache  # a file is parsed for every class in it
def _own_field_docs(cls: type) -> dict[str, str]:
    try:
        source = inspect.getsource(cls)
        # Not dedented: a line of a literal may begin further to the left than the class.
        tree = ast.parse(f"if True:\n{source}" if source[:1].isspace() else source)
    except (OSError, TypeError, SyntaxError):
        return {}
    body = next((node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)), [])
    docs: dict[str, str] = {}
    for statement, following in pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = " ".join(following.value.value.split())
    return docs


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield `(dotted name, value, help)` for every scalar setting of a nested configuration."""
    docs = field_docs(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", value, docs.get(field.name, "")


def look_up(content: Any, name: str, otherwise: Any = None) -> Any:
    """Return a setting of nested content by dotted name, or `otherwise` where there is none."""
    try:
        return functools.reduce(operator.getitem, name.split("."), content)
    except (KeyError, TypeError):  # it may hold anything
        return otherwise


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `{"ppo.gamma": 0.9}` into `{"ppo": {"gamma": 0.9}}`.

    Raises:
        ConfigError: a setting is given twice, or both as a whole and by one of its fields.
    """
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.replace("-", "_").split(".")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
            if not isinstance(level, dict):
                raise ConfigError(f"{key!r} sets a field of {parent!r}, which also has a value")
        if last in level:
            raise ConfigError(f"{key!r} is given more than once; keep one of them")
        level[last] = nest(value) if isinstance(value, Mapping) else value
    return nested
