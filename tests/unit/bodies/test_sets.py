import re
import subprocess
import sys
from dataclasses import replace

import pytest

from gmc_bench import make_env
from gmc_bench.bodies import sets
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import (
    SetInfo,
    list_sets,
    load_morphologies,
    loaded_once,
    resolve_default,
    resolve_set,
)
from gmc_bench.bodies.store import imported_sets, store_set
from gmc_bench.core.errors import ConfigError, MorphologyError, MorphologySetError, UnknownNameError
from gmc_bench.generation.released import build_released

MINI = "gmc-unimal-mini-v2"


@pytest.fixture(autouse=True)
def _own_data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))


def _save(set_id: str):
    bodies = replace(build_released(MINI), id=set_id)
    store_set(bodies)
    return bodies


@pytest.mark.parametrize("name", [7, ["gmc-unimal-mini-v2"]])
def test_a_name_that_is_no_string_is_refused(name):
    with pytest.raises(UnknownNameError, match="name of a morphology set must be a string, got"):
        load_morphologies(name)
    with pytest.raises(MorphologySetError, match="has no split 7; known: test, train"):
        build_released(MINI).split(7)


def test_a_set_given_for_its_name_is_not_printed_whole():
    with pytest.raises(UnknownNameError, match=r"must be a string, got a MorphologySet$"):
        load_morphologies(build_released(MINI))


def test_generated_set_loads_with_and_without_its_version():
    assert load_morphologies(MINI) is build_released(MINI)
    assert load_morphologies("gmc-unimal-mini") is build_released(MINI)


def test_imported_set_loads_by_id():
    bodies = _save("my-bodies")
    assert load_morphologies("my-bodies") == bodies


def test_a_set_is_loaded_once_where_that_is_asked_for():
    name = f"{MINI}:1"
    with loaded_once():
        first = load_morphologies(name)
        assert load_morphologies(name) is first
    again = load_morphologies(name)
    assert again == first
    assert again is not first


def test_published_set_that_is_not_imported_says_how():
    assert resolve_set("unimals_100") == "unimals_100"
    with pytest.raises(MorphologySetError, match="morphologies import unimals_100 PATH"):
        load_morphologies("unimals_100")


@pytest.mark.parametrize(
    ("name", "closest"),
    [("unimal_100", "unimals_100"), ("gmc-unimal-minni", MINI), ("my-bodis", "my-bodies")],
)
def test_unknown_name_suggests_the_closest(name, closest):
    _save("my-bodies")
    with pytest.raises(UnknownNameError, match=f"did you mean '{closest}'"):
        load_morphologies(name)


def test_default_is_the_published_set_once_it_is_imported():
    chosen, reason = resolve_default()
    assert chosen == MINI
    assert "unimals_100 is not imported" in reason
    assert load_morphologies().id == MINI

    _save("unimals_100")
    chosen, reason = resolve_default()
    assert chosen == "unimals_100"
    assert "is imported" in reason
    assert load_morphologies().id == "unimals_100"


def test_the_default_of_a_suite_is_the_first_of_its_sets_that_is_there():
    preferred = ("mine", "gmc-loops-v1", MINI)
    assert resolve_default(preferred)[0] == "gmc-loops-v1"
    _save("mine")
    assert resolve_default(preferred)[0] == "mine"
    assert resolve_default(("yours", "theirs"))[0] == "theirs"


@pytest.mark.parametrize("name", [f"{MINI}+gear-v1", "gmc-unimal-mini+gear"])
def test_variants_of_a_generated_set_load_by_id(name):
    bodies = load_morphologies(name)
    assert bodies.id == f"{MINI}+gear-v1"
    assert bodies.split("train") == build_released(MINI).split("train")
    assert len(bodies.split("test")) == 4 * len(bodies.split("train"))
    assert load_morphologies(name).digest == bodies.digest


@pytest.mark.slow
def test_variants_of_imported_sets_and_of_parts_of_a_set_load_by_id():
    count = len(_save("my-bodies").split("train"))
    assert len(load_morphologies("my-bodies+dynamics-v1").split("test")) == 16 * count
    few = load_morphologies(f"{MINI}:2+kinematics-v1")
    assert few.id == f"{MINI}.first2+kinematics-v1"
    assert len(few.split("test")) == 16


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{MINI}+armatur", "unknown variation 'armatur'; did you mean 'armature-v1'"),
        (f"{MINI}+armature-v1+gear-v1", "cannot be varied again; vary 'gmc-unimal-mini-v2'"),
        ("my-bodis+gear", "unknown morphology set 'my-bodis'; did you mean 'my-bodies'"),
        ("unimals_100+gear", "morphologies import unimals_100 PATH"),
        ("quadrupeds+gear", "the set 'quadrupeds-v1' holds quadrupeds"),
    ],
)
def test_variants_of_unknown_names_are_refused_in_a_sentence(name, reason):
    _save("my-bodies")
    with pytest.raises((UnknownNameError, MorphologySetError), match=re.escape(reason)):
        load_morphologies(name)


def test_list_shows_generated_imported_and_importable_sets():
    generated = [
        *("gmc-large-v1", "gmc-loops-v1", "gmc-search-v1"),
        *("gmc-unimal-1k-v1", "gmc-unimal-mini-v1", MINI, "gmc-unimal-v1", "gmc-unimal-v2"),
    ]
    assert list_sets() == [
        *(SetInfo(name, "generated", "") for name in generated),
        SetInfo("quadrupeds-v1", "built in", ""),
        SetInfo("unimals_100", "not imported", "gmc-bench morphologies import unimals_100 PATH"),
    ]
    _save("unimals_100")
    _save("my-bodies")
    assert [(info.id, info.status) for info in list_sets()] == [
        *((name, "generated") for name in generated),
        ("quadrupeds-v1", "built in"),
        ("my-bodies", "imported"),
        ("unimals_100", "imported"),
    ]


def test_preferred_and_fallback_sets_are_known():
    assert {sets.PREFERRED_SET, sets.FALLBACK_SET} <= {info.id for info in list_sets()}


def test_finding_sets_does_not_import_torch():
    code = "import sys, gmc_bench.bodies.sets; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_some_bodies_of_a_set_are_a_set_of_their_own():
    every = load_morphologies(MINI).split("train")
    part = load_morphologies(f"{MINI}:3@5")
    assert part.id == f"{MINI}.first3from5"
    assert part.split("train") == every[4:7]
    assert load_morphologies(part.id).digest == part.digest
    assert len(load_morphologies(f"{MINI}:1@{len(every)}").split("train")) == 1
    with pytest.raises(MorphologySetError, match="so 2 from number 24 on cannot be taken"):
        load_morphologies(f"{MINI}:2@{len(every)}")
    with pytest.raises(UnknownNameError, match="unknown morphology set"):
        load_morphologies(f"{MINI}:{'9' * 5000}")


@pytest.mark.parametrize(
    ("set_id", "reason"),
    [
        (MINI, "is reserved for generated sets"),
        ("quadrupeds-v1", "is that of a set that a package offers"),
        ("unimals_100", "is the id of a published set"),
        ("a b", "cannot be the id of a set"),
    ],
)
def test_a_set_made_in_python_does_not_take_the_id_of_another(tmp_path, set_id, reason):
    with pytest.raises(MorphologySetError, match=reason):
        sets.save_set(replace(build_released(MINI), id=set_id))
    assert not any(tmp_path.iterdir())


def test_a_set_made_in_python_is_kept_and_loaded_by_its_id():
    bodies = replace(build_released(MINI), id="mine")
    assert sets.save_set(bodies).is_dir()
    assert load_morphologies("mine") == bodies
    with pytest.raises(ConfigError, match=r"^save_set needs a MorphologySet, got 3; make one: "):
        sets.save_set(3)


def test_bodies_that_no_file_could_be_read_into_are_not_kept():
    robots = replace(load_morphologies("quadrupeds-v1"), id="mine")
    with pytest.raises(MorphologySetError, match="holds 'go1', which is not made of limbs, and"):
        sets.save_set(robots)
    body = build_released(MINI).split("train")[0]
    last = body.limbs[-1]
    more = tuple(replace(last, name=f"more {k}", joints=()) for k in range(256))
    large = replace(body, limbs=(*body.limbs, *more))
    bodies = MorphologySet(id="large", splits={"train": (large,), "test": (body,)}, source="a test")
    with pytest.raises(MorphologySetError, match=r"limbs, more than the 256 that are read from a"):
        sets.save_set(bodies)
    assert imported_sets() == []


def test_bodies_that_do_not_compile_are_not_kept():
    body = build_released(MINI).split("train")[0]
    limb = replace(body.limbs[-1], geom=replace(body.limbs[-1].geom, density=1e-14))
    empty = replace(body, limbs=(*body.limbs[:-1], limb))
    bodies = MorphologySet(id="light", splits={"train": (empty,), "test": (body,)}, source="a test")
    with pytest.raises(MorphologyError, match=r"does not compile \(.*mass and inertia"):
        sets.save_set(bodies)
    assert imported_sets() == []


def test_bodies_that_start_too_high_are_kept_nowhere_and_not_simulated(tmp_path):
    body = build_released(MINI).split("train")[0]
    torso = replace(body.limbs[0], position=(0.0, 0.0, 5.0))
    high = replace(body, limbs=(torso, *body.limbs[1:]))
    bodies = MorphologySet(id="high", splits={"train": (high,), "test": (body,)}, source="a test")
    with pytest.raises(MorphologyError, match=r"start its torso at z = .* instead of 5$"):
        sets.save_set(bodies)
    assert not any(tmp_path.iterdir())
    for num_envs in (None, 2):
        with pytest.raises(MorphologyError, match=r"instead of 5$"):
            make_env("unimal-ft", bodies, num_envs=num_envs)
