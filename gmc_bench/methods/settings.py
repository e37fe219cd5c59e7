"""Check of a method's settings: everything in them must survive a record and its way back."""

import dataclasses
import inspect
import json
import sys
import typing
from types import SimpleNamespace
from typing import Any

from gmc_bench.core.config import coerce, shown, type_hints
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.core.escape import one_line
from gmc_bench.core.registry import failure_text

ALLOWED = (
    "int, float, bool, str, Literal, tuples of these, None beside one of them, or a dataclass of "
    "such fields"
)
"""Types of settings, for messages."""
_SOUND: set[type[Any]] = set()
"""Classes that were checked: a class does not change, and is asked for often."""


def require_settings(method: str, settings: type[Any]) -> None:
    """Raise unless the settings of a method can be made, recorded, and rebuilt from the record.

    Args:
        method: its id.
        settings: the dataclass.

    Raises:
        PluginError: a field has no default, or holds what JSON or its type does not; or a class
            attribute was meant to be a field, but is none for lack of a type or the decorator.
    """
    if settings in _SOUND:
        return
    for field in dataclasses.fields(settings):
        if field.default is field.default_factory is dataclasses.MISSING:
            raise _refused(method, field.name, "must have a default, which presets then change")
    try:
        values = settings()
    except ConfigError as error:
        raise PluginError(f"the settings of the method {method!r}: {error}") from error
    except Exception as error:  # a class of a plug-in may raise anything
        raise PluginError(
            f"the settings of the method {method!r} cannot be made of their defaults: "
            f"{failure_text(error)}"
        ) from error
    _require_fields(method, values, "")
    _SOUND.add(settings)


def _require_fields(method: str, values: Any, prefix: str) -> None:
    hints = _hints(method, type(values), prefix)
    _require_no_others(method, type(values), hints, prefix)
    for field in dataclasses.fields(values):
        name, value = prefix + field.name, getattr(values, field.name)
        if not field.init:
            raise _refused(method, name, "must be an argument of the class, without 'init=False'")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            _require_fields(method, value, f"{name}.")
        elif not _comes_back(value, hints[field.name], name):
            raise _refused(
                method,
                name,
                f"must be {ALLOWED}, which a record gives back as it was, got {shown(value)} for "
                f"{field.type!r}",
            )


def _require_no_others(
    method: str, settings: type[Any], hints: dict[str, Any], prefix: str
) -> None:
    """Raise for a class attribute that looks like a field, which would silently be no setting.

    Private names, methods, properties, classes and whatever is annotated with `ClassVar` are left
    alone, and so is what comes from a base class that is no dataclass.
    """
    for base in filter(dataclasses.is_dataclass, settings.__mro__):
        annotated, decorated = inspect.get_annotations(base), "__dataclass_fields__" in vars(base)
        for name, value in vars(base).items():
            # Functions, properties and the slots of fields are descriptors.
            if name.startswith("_") or isinstance(value, type) or hasattr(value, "__get__"):
                continue
            if name not in annotated:
                kind = type(value).__name__ if type(value) in (bool, float, int, str) else "TYPE"
                given = shown(value)
                raise _refused(
                    method,
                    prefix + name,
                    f"has no type; write `{name}: {kind} = {given}` in {base.__name__}, or "
                    f"`{name}: ClassVar = {given}` if it is no setting",
                )
            constant = typing.ClassVar in (hints[name], typing.get_origin(hints[name]))
            if not decorated and not constant:
                raise _refused(
                    method,
                    prefix + name,
                    f"is no field; write @dataclass(frozen=True, kw_only=True) above "
                    f"{base.__name__}",
                )


def _hints(method: str, settings: type[Any], prefix: str) -> dict[str, Any]:
    """Return the types of fields; of the first one that has none here, say so."""
    try:
        return type_hints(settings)
    except Exception as error:  # evaluating an annotation runs foreign code
        what = one_line(f"{type(error).__name__}: {error}")
        raise _refused(
            method,
            prefix + _unresolved(settings),
            f"has an annotation that cannot be looked up ({what}); it must be {ALLOWED}",
        ) from error


def _unresolved(settings: type[Any]) -> str:
    for base in settings.__mro__:
        for name, annotation in vars(base).get("__annotations__", {}).items():
            try:
                one = SimpleNamespace(__annotations__={name: annotation})
                typing.get_type_hints(one, vars(sys.modules.get(base.__module__, one)))
            except Exception:  # noqa: BLE001 - likewise
                return str(name)
    return "?"


def _comes_back(value: Any, hint: Any, name: str) -> bool:
    """Return whether a value is the same after it was written into a record and read again."""
    try:
        return bool(coerce(json.loads(json.dumps(value)), hint, name) == value)
    except (TypeError, ValueError, RecursionError, ConfigError):
        return False


def _refused(method: str, name: str, why: str) -> PluginError:
    return PluginError(f"the setting {name!r} of the method {method!r} {why}")
