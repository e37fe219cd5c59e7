import hashlib
import os
import sys
from importlib.metadata import entry_points

import pytest

from gmc_bench.core.errors import PluginError, UnknownNameError
from gmc_bench.core.registry import Registry, importable, load_target, origin_of, raised_at
from gmc_bench.methods import METHODS

GROUP = "test_gmc_bench.colours"


class Colour:
    def __init__(self, name):
        self.name = name


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Return a function that installs a package: one module and its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, source, points):
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "\n".join(f"{key} = {value}" for key, value in points.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


@pytest.fixture
def registry():
    return Registry("colour", GROUP, Colour)


@pytest.fixture
def versions(registry):
    for name in ("red-v2", "red-v10", "blue", "red-velvet"):
        registry.add(name, Colour(name))
    return registry


def plugin_file(folder, source, name="my_colour.py"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(source)
    return path


# --- entry points


def test_an_installed_package_is_found_and_loaded_on_first_use(distribution):
    numbers = Registry("number", GROUP, int)
    distribution("paint", "TEN = 10\n", {"ten": "paint:TEN"})
    assert numbers.names() == ["ten"]
    assert "paint" not in sys.modules
    assert numbers.get("ten") == 10
    assert "paint" in sys.modules


def test_the_same_entry_point_twice_is_one_plugin(distribution):
    distribution("paint", "TEN = 10\n", {"ten": "paint:TEN"})
    distribution("paint_copy", "", {"ten": "paint:TEN"})
    assert len(entry_points(group=GROUP)) == 2
    assert Registry("number", GROUP, int).get("ten") == 10


def test_own_names_are_those_of_this_package(distribution):
    distribution("gmc-bench", "", {"ours": "paint:TEN"})
    distribution("paint", "TEN = 10\n", {"theirs": "paint:TEN"})
    numbers = Registry("number", GROUP, int)
    assert (numbers.names(), numbers.own_names()) == (["ours", "theirs"], ["ours"])
    assert METHODS.own_names() == METHODS.names()
    with METHODS.temporarily("mine", METHODS.get("recmorph")):
        assert "mine" in METHODS.names()
        assert "mine" not in METHODS.own_names()


def test_two_packages_cannot_share_a_name(distribution, registry):
    distribution("paint", "", {"red": "paint:RED"})
    distribution("varnish", "", {"red": "varnish:RED"})
    with pytest.raises(
        PluginError, match=r"two packages register the colour 'red'.*uninstall"
    ) as e:
        registry.names()
    assert "paint:RED" in str(e.value)
    assert "varnish:RED" in str(e.value)


def test_a_broken_plugin_is_listed_with_its_reason_and_stops_nobody_else(distribution):
    numbers = Registry("number", GROUP, int)
    distribution("good", "TEN = 10\n", {"ten": "good:TEN"})
    distribution("bad", "import package_that_is_not_there\n", {"broken": "bad:X"})
    distribution("quits", "raise SystemExit(3)\n", {"quits": "quits:X"})
    leaving = "def __getattr__(name):\n    raise SystemExit(name)\n"
    distribution("late", leaving, {"leaves": "late:X"})
    distribution("text", "X = 'ten'\n", {"wrong": "text:X"})
    found = dict(numbers.items())
    assert list(found) == ["broken", "leaves", "quits", "ten", "wrong"]
    assert "'late:X' could not be made: SystemExit: " in str(found["leaves"])
    assert found["ten"] == 10
    assert "ModuleNotFoundError: No module named 'package_that_is_not_there'" in str(
        found["broken"]
    )
    assert "'quits' could not be imported: SystemExit: 3" in str(found["quits"])
    assert str(found["wrong"]) == "text:X is a str, but a number must be a int"


def test_an_interrupt_while_a_plugin_is_imported_goes_through(distribution):
    numbers = Registry("number", GROUP, int)
    distribution("slow", "raise KeyboardInterrupt\n", {"slow": "slow:X"})
    with pytest.raises(KeyboardInterrupt):
        dict(numbers.items())


def test_an_entry_point_has_the_name_of_its_plugin(distribution):
    source = "class Named(int):\n    id = 'eleven'\nELEVEN = Named(11)\n"
    distribution("paint", source, {"ten": "paint:ELEVEN", "eleven": "paint:ELEVEN"})
    numbers = Registry("number", GROUP, int)
    assert numbers.get("eleven") == 11
    sentence = "paint:ELEVEN is registered as 'ten', but its id is 'eleven'; give the entry point"
    with pytest.raises(PluginError, match=sentence):
        numbers.get("ten")
    assert isinstance(dict(numbers.items())["ten"], PluginError)


# --- names


@pytest.mark.parametrize(
    ("asked", "found"),
    [("red-v2", "red-v2"), ("red", "red-v10"), ("blue", "blue"), ("red-velvet", "red-velvet")],
)
def test_a_missing_version_is_the_newest(versions, asked, found):
    assert versions.resolve(asked) == found
    assert versions.get(asked).name == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("bleu", r"unknown colour 'bleu'; did you mean 'blue'\?"),
        ("red-v3", r"the colour 'red-v3' is no longer here, 'red-v10' took its place; use that"),
        ("red-v11", r"unknown colour 'red-v11'; did you mean 'red-v10'\?"),
        ("", r"unknown colour ''; known: blue, red, red-v10, red-v2, red-velvet"),
        (f"red-v{'9' * 5000}", r"unknown colour 'red-v99"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(versions, asked, message):
    with pytest.raises(UnknownNameError, match=message):
        versions.get(asked)


@pytest.mark.parametrize(
    ("name", "latest"),
    [
        *(("red-v1", "red-v10"), ("red-v9", "red-v10"), ("red-v2", "red-v2")),
        *((name, name) for name in ("red-v10", "red-v11", "red", "blue", "green-v1")),
    ],
)
def test_a_version_that_is_gone_is_replaced_by_the_latest_one(versions, name, latest):
    assert versions.latest(name) == latest
    assert versions.replaced(name) is (latest != name)


@pytest.mark.parametrize("name", [3, None, ["a"]])
def test_a_name_that_is_no_string_is_refused(registry, name):
    for find in (registry.get, registry.load):
        with pytest.raises(UnknownNameError, match="must be a string, got"):
            find(name)


def test_an_empty_registry_says_only_what_is_unknown(registry):
    with pytest.raises(UnknownNameError, match=r"^unknown colour 'red'$"):
        registry.get("red")


# --- add, temporarily


def test_a_name_can_be_added_once(registry):
    registry.add("red", Colour("red"))
    with pytest.raises(PluginError, match="'red' is already registered; choose another name"):
        registry.add("red", Colour("other"))
    assert registry.get("red").name == "red"


def test_only_the_base_class_is_taken(registry):
    with pytest.raises(PluginError, match="red is a str, but a colour must be a Colour"):
        registry.add("red", "red")
    assert registry.names() == []


def test_temporary_names_go_even_after_an_error(registry):
    item = Colour("red")

    def use_and_fail():
        with registry.temporarily("red", item):
            assert registry.get("red") is item
            raise RuntimeError("inside the block")

    with pytest.raises(RuntimeError, match="inside the block"):
        use_and_fail()
    assert registry.names() == []


# --- load_target


def test_a_module_attribute_is_loaded():
    assert load_target("gmc_bench.core.registry:Registry") is Registry


def test_a_file_attribute_is_loaded_once(tmp_path):
    path = plugin_file(tmp_path, "ITEM = object()\n")
    assert load_target(f"{path}:ITEM") is load_target(f"{path}:ITEM")


def test_a_file_that_changed_is_loaded_again_and_the_text_before_stays(tmp_path):
    path = plugin_file(tmp_path, "class Item:\n    value = 1\n")
    first = load_target(f"{path}:Item")
    times = path.stat().st_atime, path.stat().st_mtime
    path.write_text("class Item:\n    value = 2\n")
    os.utime(path, times)  # as large and as old: neither tells that it changed
    second = load_target(f"{path}:Item")
    assert (first.value, second.value) == (1, 2)
    assert origin_of(second).digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_target(f"{path}:Item", origin_of(first).digest) is first
    path.write_text("class Item:\n    value = 1\n")
    assert load_target(f"{path}:Item") is first


def test_a_file_imports_what_lies_beside_it_but_nothing_in_place_of_a_package(tmp_path):
    (tmp_path / "beside_my_colour.py").write_text("VALUE = 3\n")
    (tmp_path / "colorsys.py").write_text("1 / 0\n")
    source = "import colorsys\nfrom beside_my_colour import VALUE\nITEM = VALUE\n"
    before = list(sys.path)
    assert load_target(f"{plugin_file(tmp_path, source)}:ITEM") == 3
    assert sys.path == before


def test_files_import_what_lies_beside_them_also_where_names_are_the_same(tmp_path):
    source = (
        "from beside_my_colour import VALUE, shade\n"
        "def ITEM():\n"
        "    from beside_my_colour.shade import DEPTH\n"
        "    return VALUE, shade.DEPTH, DEPTH\n"
    )
    targets = []
    for value, name in enumerate("ab"):
        (tmp_path / name / "beside_my_colour").mkdir(parents=True)
        (tmp_path / name / "beside_my_colour" / "__init__.py").write_text(f"VALUE = {value}\n")
        (tmp_path / name / "beside_my_colour" / "shade.py").write_text(f"DEPTH = {-value}\n")
        targets.append(f"{plugin_file(tmp_path / name, source)}:ITEM")
    items = [load_target(target) for target in targets]
    places = list(sys.meta_path)
    for value in (0, 1, 0):
        with importable(tmp_path / "ab"[value]):
            assert items[value]() == (value, -value, -value)
            with importable(tmp_path / "ab"[value]):
                assert items[value]() == (value, -value, -value)
            with importable(tmp_path / "ba"[value]):  # one plug-in loads another
                assert items[1 - value]() == (1 - value, value - 1, value - 1)
            assert items[value]() == (value, -value, -value)
    assert sys.meta_path == places
    # A module that was loaded once stays the same: its classes are told apart by identity.
    assert sys.modules["beside_my_colour.shade"].DEPTH == 0
    assert items[0]() == (0, 0, 0)


def test_a_folder_of_that_name_hides_no_module_beside_a_file(tmp_path, monkeypatch):
    (tmp_path / "data" / "beside_my_shade").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "data")
    path = plugin_file(tmp_path / "plug", "from beside_my_shade import VALUE\nITEM = VALUE\n")
    (tmp_path / "plug" / "beside_my_shade.py").write_text("VALUE = 4\n")
    assert load_target(f"{path}:ITEM") == 4


def test_a_module_that_was_taken_out_by_hand_is_imported_anew(tmp_path):
    beside = tmp_path / "beside_my_hand.py"
    for value in (1, 22):
        beside.write_text(f"VALUE = {value}\n")
        text = f"from beside_my_hand import VALUE\nITEM = VALUE  # {value}\n"
        assert load_target(f"{plugin_file(tmp_path, text)}:ITEM") == value
        del sys.modules["beside_my_hand"]


@pytest.fixture
def folders(tmp_path):
    """Return a function that loads `a/m.py:ITEM` with a text, and one that writes a package."""

    def load(folder, text):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / f"m{len(list((tmp_path / folder).glob('m*.py')))}.py"
        path.write_text(text)
        return load_target(f"{path}:ITEM")

    def package(folder, name):
        (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / name / "__init__.py").touch()
        (tmp_path / folder / name / "layers.py").write_text(f"WHO = {folder!r}\n")

    return load, package


def test_parts_of_packages_that_share_a_name_stay_with_their_folders(folders):
    load, package = folders
    for folder in "abc":
        package(folder, "beside_my_part")
    layers = "from beside_my_part.layers import WHO as ITEM\n"
    load("a", "import beside_my_part\nITEM = 1\n")
    assert [load(folder, layers) for folder in "bcabc"] == list("bcabc")


def test_modules_are_not_those_of_a_folder_whose_import_of_that_name_failed(folders, tmp_path):
    load, _ = folders
    helper = tmp_path / "a" / "beside_my_fault.py"
    helper.parent.mkdir()
    helper.write_text("1 / 0\n")
    who = "from beside_my_fault import WHO as ITEM\n"
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        load("a", who)
    for folder in "bc":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "beside_my_fault.py").write_text(f"WHO = {folder!r}\n")
    assert [load(folder, who) for folder in "bc"] == list("bc")
    helper.write_text("WHO = 'mended'\n")
    assert load("a", who) == "mended"


def test_what_is_imported_later_is_part_of_the_package_that_stands_there(folders):
    load, package = folders
    package("a", "beside_my_late")
    package("b", "beside_my_late")
    load("a", "from beside_my_late import layers\nITEM = 1\n")
    item = load(
        "b",
        "import beside_my_late\n"
        "def ITEM():\n"
        "    from beside_my_late.layers import WHO\n"
        "    return WHO\n",
    )
    assert item() == "b"


def test_a_file_that_one_loads_from_elsewhere_shares_modules_with_those_beside_the_first(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "beside_my_kind.py").write_text("class Kind:\n    pass\n")
    (tmp_path / "b" / "beside_my_kind.py").write_text("Kind = 3\n")
    load = "from gmc_bench.core.registry import load_target\n"
    mine = "from beside_my_kind import Kind\n"
    third = tmp_path / "a" / "third.py"
    third.write_text(f"{mine}ITEM = Kind\n")
    second = tmp_path / "b" / "second.py"
    second.write_text(f"{mine}{load}ITEM = Kind, load_target({f'{third}:ITEM'!r})\n")
    first = tmp_path / "a" / "first.py"
    first.write_text(f"{mine}{load}OTHERS = load_target({f'{second}:ITEM'!r})\n"
                     "from beside_my_kind import Kind as again\n"
                     "ITEM = Kind, again, *OTHERS\n")  # fmt: skip
    kind, again, of_second, of_third = load_target(f"{first}:ITEM")
    assert of_second == 3
    assert kind is again is of_third


def test_files_of_the_same_name_do_not_replace_each_other(tmp_path):
    source = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import get_type_hints\n"
        "Size = {}\n"
        "@dataclass\n"
        "class Config:\n"
        "    size: Size = None\n"
        "def hints():\n"
        "    return get_type_hints(Config)\n"
    )
    first = plugin_file(tmp_path / "a", source.format("int"))
    second = plugin_file(tmp_path / "b", source.format("float"))
    first_hints, second_hints = load_target(f"{first}:hints"), load_target(f"{second}:hints")
    # get_type_hints looks the class's module up by name, so each file needs its own name.
    assert first_hints() == {"size": int}
    assert second_hints() == {"size": float}


def test_a_file_that_failed_can_be_corrected_and_loaded_again(tmp_path):
    path = plugin_file(tmp_path, "ITEM = 1 / 0\n")
    with pytest.raises(PluginError, match="ZeroDivisionError: division by zero"):
        load_target(f"{path}:ITEM")
    path.write_text("ITEM = 'corrected'\n")
    assert load_target(f"{path}:ITEM") == "corrected"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_colon", "is not of the form 'MODULE:ATTRIBUTE' or 'FILE.py:ATTRIBUTE'"),
        ("gmc_bench.core.registry:", "is not of the form"),
        (":Registry", "is not of the form"),
        ("gmc_bench.nowhere:X", "could not be imported: ModuleNotFoundError"),
        ("gmc_bench.core.registry:Registri", r"has no 'Registri'; did you mean 'Registry'\?"),
        ("nowhere/method.py:SPEC", "the file 'nowhere/method.py' does not exist"),
    ],
)
def test_what_cannot_be_loaded_is_explained_in_one_sentence(target, message):
    with pytest.raises(PluginError, match=message) as error:
        load_target(target)
    assert "\n" not in str(error.value)


def test_an_attribute_that_fails_to_be_made_is_broken_like_its_module(tmp_path):
    path = plugin_file(tmp_path, "def __getattr__(name):\n    raise ValueError(name + ' is odd')\n")
    with pytest.raises(
        PluginError, match=r"my_colour.py:ITEM' could not be made: ValueError: ITEM is"
    ):
        load_target(f"{path}:ITEM")


def test_load_takes_registered_names_and_targets(registry, tmp_path):
    registry.add("red", Colour("red"))
    assert registry.load("red").name == "red"
    path = plugin_file(tmp_path, "ITEM = 'not a colour'\n")
    with pytest.raises(PluginError, match=r"my_colour\.py:ITEM is a str, but a colour must be"):
        registry.load(f"{path}:ITEM")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mine.py", "mine.py:COLOUR"),
        ("some/folder/mine.py", "some/folder/mine.py:COLOUR"),
        ("no_such_package.colours", "no_such_package.colours:COLOUR"),
        ("gmc_bench", "gmc_bench:COLOUR"),
    ],
)
def test_a_file_or_module_without_its_plugin_is_told_how_to_go_on(registry, name, given):
    message = f"{name!r} is not a registered colour; for the one that it defines give {given}"
    with pytest.raises(UnknownNameError) as error:
        registry.load(name)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["no_such_package", "__main__", "no/such/folder", "a..b"])
def test_other_unknown_names_are_just_unknown(registry, name):
    with pytest.raises(UnknownNameError, match=f"^unknown colour '{name}'$"):
        registry.load(name)


def test_a_registered_name_wins_over_a_module(registry):
    for name in ("gmc_bench", "red.velvet"):
        registry.add(name, Colour(name))
        assert registry.load(name).name == name


def test_a_module_calls_a_plugin_as_its_registry_says():
    with pytest.raises(UnknownNameError, match=r"give mine\.py:SPEC$"):
        Registry("colour", GROUP, Colour, "SPEC").load("mine.py")


def test_a_name_is_taken_by_anything_but_the_plugin_itself(distribution, registry):
    distribution("bad", "1 / 0\n", {"broken": "bad:X"})
    red = Colour("red")
    registry.add("red", red)
    assert not registry.taken("red", red)
    assert registry.taken("red", Colour("red"))
    assert registry.taken("broken", red)
    assert not registry.taken("blue", red)


# --- where an error was raised


def test_an_error_on_import_names_its_line(tmp_path):
    path = plugin_file(tmp_path, "\n\nITEM = int('x')\n")
    with pytest.raises(PluginError, match=r"invalid literal.* \[my_colour\.py:3\]$"):
        load_target(f"{path}:ITEM")


def test_the_line_is_the_plugins_and_not_that_of_a_package_it_calls(tmp_path):
    source = (
        "import json\nimport torch\n"
        "def inner(x):\n    return torch.nn.Linear(2, 3)(x)\n"
        "def outer(x):\n    return inner(x)\n"
        "def decode(x):\n    return json.loads(x)\n"
    )
    path = plugin_file(tmp_path, source)
    for name, argument, line in (("outer", None, 4), ("decode", "{", 8)):
        with pytest.raises((TypeError, ValueError)) as error:
            load_target(f"{path}:{name}")(argument)
        assert raised_at(error.value.with_traceback(error.tb.tb_next)) == f" [my_colour.py:{line}]"


def test_an_error_outside_of_plugins_has_no_place():
    with pytest.raises(PluginError) as error:
        load_target("nowhere")
    assert raised_at(error.value.with_traceback(error.tb.tb_next)) == ""
    assert raised_at(ValueError("never raised")) == ""
