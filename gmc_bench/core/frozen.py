"""Mappings and lists that nobody changes in place, for fields of frozen dataclasses."""

from collections.abc import Mapping
from typing import Any, NoReturn

from yaml.representer import SafeRepresenter

from gmc_bench.core.errors import ConfigError


def frozen(value: Any) -> Any:
    """Return a mapping or list, and those in it, as one that is equal and cannot be changed.

    They are still a `dict` and a `list`, so that JSON and YAML take them and copies made by `dict`
    and `list` can be changed. Anything else is returned as it is.
    """
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen(item) for name, item in value.items()})
    return FrozenList(map(frozen, value)) if isinstance(value, list) else value


def _refuse(self: Any, *given: Any, **named: Any) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise ConfigError(
        f"{self!r} belongs to something that is frozen and cannot be changed in place; copy it by "
        f"{kind}(...), change that, and make the whole anew, e.g. by its replace(...)"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses changes; see `frozen`."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses changes; see `frozen`."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = _refuse
    remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


# PyYAML's safe dumpers look up the exact type, where JSON also takes subclasses.
SafeRepresenter.add_representer(FrozenDict, SafeRepresenter.represent_dict)
SafeRepresenter.add_representer(FrozenList, SafeRepresenter.represent_list)
