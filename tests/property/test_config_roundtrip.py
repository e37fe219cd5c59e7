"""A configuration survives every form it is written in: plain dict, JSON, YAML, flags."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gmc_bench.core.config import config_digest, leaves, nest, to_dict, with_overrides


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    layers: tuple[int, ...] = ()
    kind: Literal["birnn", "gru"] = "birnn"


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    seed: int = 0
    limit: float | None = None
    enabled: bool = False
    title: str = ""


numbers = st.floats(allow_nan=False, allow_infinity=False)
configs = st.builds(
    Outer,
    inner=st.builds(
        Inner,
        rate=numbers,
        layers=st.lists(st.integers(), max_size=4).map(tuple),
        kind=st.sampled_from(["birnn", "gru"]),
    ),
    seed=st.integers(),
    limit=st.none() | numbers,
    enabled=st.booleans(),
    title=st.text(),
)


def as_flag(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value)


@given(configs)
def test_plain_form(config):
    restored = with_overrides(Outer(), to_dict(config))
    assert restored == config
    assert config_digest(restored) == config_digest(config)


@given(configs)
def test_json(config):
    plain = json.loads(json.dumps(to_dict(config)))
    assert with_overrides(Outer(), plain) == config
    assert config_digest(plain) == config_digest(config)


@given(configs)
def test_yaml(config):
    assert with_overrides(Outer(), yaml.safe_load(yaml.safe_dump(to_dict(config)))) == config


@given(configs)
def test_flags(config):
    flags = {name: as_flag(value) for name, value, _ in leaves(config)}
    assert with_overrides(Outer(), nest(flags)) == config
