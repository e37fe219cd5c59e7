from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest

from gmc_bench.core.config import (
    coerce,
    coerce_name,
    config_digest,
    definition_digest,
    field_docs,
    fields_of,
    leaves,
    load_yaml,
    nest,
    require_type,
    sealed_yaml,
    shown,
    to_dict,
    with_overrides,
)
from gmc_bench.core.errors import ConfigError
from tests.support.sealed import without_seal


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    lr: float = 3e-4
    """Learning rate."""
    eps_clip: float = 0.2
    """Clip range of the
    probability ratio."""

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise ConfigError(f"'lr' must be positive, got {self.lr}")


@dataclass(frozen=True, kw_only=True)
class Run:
    optimiser: Optimiser = field(default_factory=Optimiser)
    seed: int = 0
    """Seed of everything."""
    mode: Literal["fast", "exact"] = "fast"
    sizes: tuple[int, ...] = (64, 64)
    window: tuple[float, float] = (0.0, 1.0)
    limit: float | None = None
    normalise: bool = True
    title: str = "run"


@dataclass(frozen=True, kw_only=True)
class LongRun(Run):
    hours: int = 8
    """Wall-clock limit."""


# --- with_overrides


def test_overrides_reach_nested_fields_and_leave_the_rest():
    changed = with_overrides(Run(), {"optimiser": {"lr": 0.1}, "seed": 7})
    assert changed == Run(optimiser=Optimiser(lr=0.1, eps_clip=0.2), seed=7)


def test_the_original_is_not_changed():
    config = Run()
    with_overrides(config, {"optimiser": {"lr": 0.1}})
    assert config.optimiser.lr == 3e-4


def test_dashes_are_read_as_underscores():
    assert with_overrides(Run(), {"optimiser": {"eps-clip": 0.3}}).optimiser.eps_clip == 0.3


def test_a_key_in_two_spellings_is_given_twice():
    with pytest.raises(ConfigError, match=r"'optimiser\.eps_clip' is given more than once"):
        with_overrides(Run(), {"optimiser": {"eps-clip": 0.1, "eps_clip": 0.2}})


def test_an_unknown_key_is_refused_with_its_full_name_and_a_suggestion():
    with pytest.raises(
        ConfigError,
        match=r"unknown setting 'optimiser\.eps_clp'; did you mean 'optimiser\.eps_clip'\?",
    ):
        with_overrides(Run(), {"optimiser": {"eps_clp": 0.3}})


def test_a_group_cannot_be_replaced_by_a_value():
    with pytest.raises(ConfigError, match=r"'optimiser' is a group.*got 3.*optimiser\.lr"):
        with_overrides(Run(), {"optimiser": 3})


def test_the_class_checks_the_result_again():
    with pytest.raises(ConfigError, match="'lr' must be positive, got -1"):
        with_overrides(Run(), {"optimiser": {"lr": -1}})


@dataclass(frozen=True, kw_only=True)
class Even:
    width: int = 4

    def __post_init__(self) -> None:
        if self.width % 2:
            raise ValueError("must be\neven")


def test_a_class_may_refuse_its_values_with_any_error():
    message = r"^Even refuses model\.width=3: ValueError: must be even \[test_config\.py:\d+\]$"
    with pytest.raises(ConfigError, match=message):
        with_overrides(Even(), {"width": 3}, "model.")


@pytest.mark.parametrize("not_a_config", [Run, {"seed": 1}, None])
def test_only_dataclass_instances_are_taken(not_a_config):
    with pytest.raises(TypeError, match="not a dataclass instance"):
        with_overrides(not_a_config, {"seed": 1})


# --- coerce


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("3e-4", float, 0.0003),
        (1, float, 1.0),
        ("1e6", int, 1_000_000),
        (2.0, int, 2),
        (str(2**63 + 1), int, 2**63 + 1),  # beyond the 53 bits of a float
        (2**63 + 1, int, 2**63 + 1),
        ("Yes", bool, True),
        ("off", bool, False),
        (0, bool, False),
        (True, bool, True),
        ("text", str, "text"),
        ("exact", Literal["fast", "exact"], "exact"),
        ("2", Literal[1, 2], 2),
        ("64, 32", tuple[int, ...], (64, 32)),
        ("64", tuple[int, ...], (64,)),
        ("", tuple[int, ...], ()),
        ("none", tuple[int, ...], ()),
        (" none ", tuple[str, ...], ()),
        (["none"], tuple[str, ...], ("none",)),
        ("none, a", tuple[str, ...], ("none", "a")),
        ([[1, 2]], tuple[tuple[int, int], ...], ((1, 2),)),
        ("a, b", tuple[str, ...], ("a", "b")),
        ([1, "2e-1"], tuple[float, float], (1.0, 0.2)),
        ("none", float | None, None),
        (None, float | None, None),
        ("0.5", float | None, 0.5),
        ("7", int | str, 7),
        ("seven", int | str, "seven"),
        ({"a": 1}, dict[str, int], {"a": 1}),
        ([1], Any, [1]),
    ],
)
def test_values_take_the_type_of_their_field(value, hint, expected):
    got = coerce(value, hint, "x")
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize("name", ["none", "null", "None", "3", ""])
def test_every_text_is_a_name_where_names_are_expected(name):
    assert (
        coerce_name(name, str | None, "x") == coerce_name(np.array(name), str | None, "x") == name
    )
    assert coerce_name(None, str | None, "x") is None
    with pytest.raises(ConfigError, match="'x' must be a string or none, got 3"):
        coerce_name(3, str | None, "x")


@pytest.mark.parametrize(
    ("value", "hint", "reason"),
    [
        (True, int, "must be an integer, got True"),
        (1.5, int, "must be an integer, got 1.5"),
        ("many", int, "must be an integer, got 'many'"),
        ("inf", int, "must be an integer, got 'inf'"),
        ([1], int, "must be an integer"),
        (None, int, "must be an integer, got None"),
        (False, float, "must be a finite number, got False"),
        ("fast", float, "must be a finite number, got 'fast'"),
        ("nan", float, "must be a finite number, got 'nan'"),
        (float("inf"), float, "must be a finite number, got inf"),
        (10**400, float, "must be a finite number"),
        (2, bool, "must be true or false, got 2"),
        ("maybe", bool, "must be true or false, got 'maybe'"),
        (3, str, "must be a string, got 3"),
        ("exakt", Literal["fast", "exact"], "must be one of fast, exact, got 'exakt'"),
        (True, Literal[1, 2], "must be one of 1, 2, got True"),
        (5, tuple[int, ...], "must be a list, got 5"),
        ("1,2", tuple[tuple[int, int], ...], "must have 2 entries, got 1"),
        ([1, 2, 3], tuple[float, float], "must have 2 entries, got 3"),
        ([1, "x"], tuple[int, ...], "must be an integer, got 'x'"),
        ("x", float | None, "must be a finite number or none, got 'x'"),
        ([1], dict[str, int], "must be dict"),
        ({"lr": 1.0}, Optimiser, "must be Optimiser"),
        (np.ones(2), float | None, "must be a finite number or none, got array([1., 1.])"),
        (np.ones(2), Literal["fast", "exact"], "must be one of fast, exact, got array([1., 1.])"),
    ],
)
def test_values_that_do_not_fit_are_refused(value, hint, reason):
    with pytest.raises(ConfigError) as error:
        coerce(value, hint, "group.x")
    assert str(error.value).startswith("'group.x' ")
    assert reason in str(error.value)


# --- plain form, digest


def test_to_dict_holds_lists_and_scalars_only():
    assert to_dict(Run(sizes=(8,), limit=2.5)) == {
        "optimiser": {"lr": 3e-4, "eps_clip": 0.2},
        "seed": 0,
        "mode": "fast",
        "sizes": [8],
        "window": [0.0, 1.0],
        "limit": 2.5,
        "normalise": True,
        "title": "run",
    }


def test_the_digest_is_the_sha256_of_the_sorted_compact_json():
    # printf '{"a":[1,2.5],"b":{"c":true}}' | sha256sum
    expected = "2f245e2cd561def3f23d492c22524cb3ee70298a3062caca465869e6aa504001"
    assert config_digest({"b": {"c": True}, "a": [1, 2.5]}) == expected


def test_the_digest_ignores_the_order_of_keys_and_the_spelling_of_whole_numbers():
    assert config_digest({"a": 1, "b": 2.0}) == config_digest({"b": 2, "a": 1.0})


def test_dataclass_and_plain_form_have_the_same_digest():
    assert config_digest(Run()) == config_digest(to_dict(Run()))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"mode": "exact"},
        {"sizes": (64,)},
        {"limit": 0.0},
        {"normalise": False},
        {"title": "other"},
        {"optimiser": Optimiser(lr=1.0)},
    ],
)
def test_every_change_of_a_value_changes_the_digest(change):
    assert config_digest(replace(Run(), **change)) != config_digest(Run())


# --- YAML files


def test_yaml_is_read_as_a_mapping(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("optimiser:\n  lr: 3e-4\nseed: 2\n")
    assert with_overrides(Run(), load_yaml(path)) == Run(seed=2)


def test_a_long_value_is_shown_by_its_beginning():
    with pytest.raises(ConfigError, match=r"integer, got 'x{79}\.\.\. \(3002 characters\)$"):
        coerce("x" * 3000, int, "width")
    assert shown("x" * 78) == repr("x" * 78)  # 80 characters, the most that are shown


def test_an_empty_yaml_file_changes_nothing(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert load_yaml(path) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: [1", "is not valid YAML"),
        (b"a: 2024-99-99", "is not valid YAML"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"- 1\n- 2\n", "must hold 'key: value' settings, got a list"),
        (b"a: &a [*a]", r"is not valid YAML \(aliases \(\*name\) are not taken"),
        (b"a: &a [1]\nb: *a", r"aliases .* line 2, column 4"),
        (b"a: !!bool x", r"is not valid YAML \('x' is no bool .*line 1, column 4"),
        (b"a: !!int ''", "'' is no int .*line 1, column 4"),
        (b"a: {b: !!timestamp x}", "'x' is no timestamp .*line 1, column 8"),
        (b"a: !!map x", "a value is no map, but tagged as one.*line 1, column 4"),
        (b"a: !!set [x]", "a value is no map, but tagged as one.*line 1, column 4"),
        (b"ppo: {lr: 1, lr: 2}", "the key 'lr' is given more than once"),
        (b"a: 1\nb: 2\na: 3", r"'a' is given more than once at line 3, column 1\)"),
        (b"seed: 2\ndigest: 0", "is damaged: its first line, a digest, is missing"),
        (b"a: " + b"[" * 64 + b"]" * 64, "more than 64 levels"),
        (b"a: " + b"[" * 100_000, "more than 64 levels"),  # a C parser's stack would overflow
        (b"- " * 100_000, "more than 64 levels"),
    ],
)
def test_other_files_are_refused_with_their_path(tmp_path, content, reason):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as error:
        load_yaml(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.timeout(10)
def test_one_key_of_many_that_is_given_twice_is_found_at_once(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text("".join(f"key{number}: 1\n" for number in (*range(40_000), 39_999)))
    with pytest.raises(ConfigError, match="the key 'key39999' is given more than once"):
        load_yaml(path)


def test_every_changed_bit_and_every_missing_part_of_a_sealed_file_is_seen(tmp_path):
    path = tmp_path / "kept.yaml"
    sealed = sealed_yaml("seed: 2\ntitle: a\n").encode()
    path.write_bytes(sealed)
    assert load_yaml(path) == {"seed": 2, "title": "a"}
    whole = Run(seed=2, title="a")
    first = sealed.index(b"\n") + 1
    damaged = [sealed[:end] for end in range(1, len(sealed))]
    damaged += [sealed[begin:] for begin in range(1, len(sealed) - 1)]
    damaged += [sealed[:begin] + sealed[first:] for begin in range(1, first)]
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(ConfigError):
            with_overrides(whole, load_yaml(path))
    path.write_text(without_seal(sealed.decode()))  # as the sentence says
    assert load_yaml(path) == {"seed": 2, "title": "a"}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*none\.yaml: No such file"):
        load_yaml(tmp_path / "none.yaml")


# --- help texts, flat names


def test_field_docs_are_the_literals_under_the_fields_on_one_line():
    assert field_docs(Optimiser) == {
        "lr": "Learning rate.",
        "eps_clip": "Clip range of the probability ratio.",
    }


def test_field_docs_include_those_of_base_classes():
    assert field_docs(LongRun) == {"seed": "Seed of everything.", "hours": "Wall-clock limit."}


def test_a_class_in_a_function_has_docs_wherever_their_lines_begin():
    @dataclass(frozen=True)
    class Inner:
        x: int = 1
        """Help
of two lines."""

    assert field_docs(Inner) == {"x": "Help of two lines."}


@pytest.mark.parametrize("source", ["class Torn:\n    x: int = (", "  class Torn:\n x: int", ""])
def test_a_class_whose_source_was_changed_has_no_docs(monkeypatch, source):
    @dataclass(frozen=True)
    class Torn:
        x: int = 1
        """Help."""

    monkeypatch.setattr("inspect.getsource", lambda cls: source)
    assert field_docs(Torn) == {}


def test_a_class_without_source_has_no_docs():
    scope: dict[str, Any] = {"dataclass": dataclass, "__name__": "prompt"}
    exec("@dataclass(frozen=True)\nclass Typed:\n    x: int = 1\n    'Help.'", scope)
    assert field_docs(scope["Typed"]) == {}


def test_leaves_are_all_scalar_settings_with_dotted_names():
    rows = list(leaves(Run(seed=5)))
    assert rows[:3] == [
        ("optimiser.lr", 3e-4, "Learning rate."),
        ("optimiser.eps_clip", 0.2, "Clip range of the probability ratio."),
        ("seed", 5, "Seed of everything."),
    ]
    assert [name for name, _, _ in rows[3:]] == fields_of(Run)[2:]


def test_nest_builds_the_groups_of_dotted_names():
    flat = {"ppo.gamma": 0.9, "ppo.gae-lambda": 0.8, "seed": 1, "env": {"a.b": 2}}
    assert nest(flat) == {
        "ppo": {"gamma": 0.9, "gae_lambda": 0.8},
        "seed": 1,
        "env": {"a": {"b": 2}},
    }


def test_nest_leaves_its_input_alone():
    group = {"gamma": 0.9}
    nest({"ppo": group, "ppo.lr": 0.1})
    assert group == {"gamma": 0.9}


@pytest.mark.parametrize(
    ("flat", "reason"),
    [
        ({"ppo": 1, "ppo.gamma": 0.9}, "'ppo.gamma' sets a field of 'ppo'"),
        ({"ppo.gamma": 0.9, "ppo": 1}, "'ppo' is given more than once"),
        ({"eps-clip": 1, "eps_clip": 2}, "'eps_clip' is given more than once"),
    ],
)
def test_nest_refuses_settings_that_contradict_each_other(flat, reason):
    with pytest.raises(ConfigError, match=reason):
        nest(flat)


def _limit(height: float) -> Callable[[float], bool]:
    def below(value: float) -> bool:
        return value < height

    return below


@dataclass(frozen=True)
class _Term:
    function: Callable[[float], bool]
    weight: float = 1.0


def test_definition_digest_follows_numbers_names_and_what_functions_were_made_with() -> None:
    digest = definition_digest({"a": (_Term(_limit(0.5)),)})
    assert digest == definition_digest({"a": [_Term(_limit(0.5))]})
    others = [
        {"a": (_Term(_limit(0.6)),)},
        {"a": (_Term(_limit(0.5), 2.0),)},
        {"a": (_Term(lambda value: value < 0.5),)},
        {"b": (_Term(_limit(0.5)),)},
    ]
    assert len({digest, *map(definition_digest, others)}) == 5


def test_definition_digest_refuses_what_it_cannot_describe() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        definition_digest({"a": {1, 2}})


def test_a_new_optional_field_keeps_the_digest_of_a_definition() -> None:
    @dataclass(frozen=True)
    class Old:
        height: float

    @dataclass(frozen=True)
    class New:
        height: float
        slope: float = 0.0
        parts: tuple[int, ...] = field(default_factory=tuple)

    assert definition_digest(New(1.0)) == definition_digest(Old(1.0))
    assert definition_digest(New(1.0, slope=0.1)) != definition_digest(Old(1.0))
    assert definition_digest(New(1.0, parts=(1,))) != definition_digest(Old(1.0))


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (int, [2, np.int64(2)], ["2", 2.0, True, None]),
        (int | None, [2, None], ["2", "none", False]),
        (float, [2, 2.5, np.float32(2)], ["2", True, None]),
        (bool, [True, np.bool_(False)], ["true", 1, 0, None]),
        (str | None, ["2", None], [2, ["2"]]),
        (tuple[str, ...], ["a=1", ("a=1",), ["a=1"]], [1, None]),
        (dict[str, int], [{}, 5, "5"], []),  # left to `coerce`
    ],
)
def test_what_python_gives_has_the_type_of_its_field(hint, fitting, others):
    for value in fitting:
        require_type(value, hint, "x")
    for value in others:
        with pytest.raises(ConfigError, match=r"^'x' must be .*, got "):
            require_type(value, hint, "x")
