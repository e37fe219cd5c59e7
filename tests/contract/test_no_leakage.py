"""No body that a policy is tested on has been trained on, whatever set is asked for by name.

Bodies are compared by content, so that another name does not hide a repetition.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.bodies.store import imported_sets
from gmc_bench.bodies.variations import GROUPS, PROPERTIES, VARIATIONS
from gmc_bench.generation.released import RELEASED
from tests.support.slow import slow_but

PUBLISHED_TWICE = {
    "floor-5506-12-12-01-15-33-01",
    "floor-5506-12-14-01-15-22-01",
    "floor-5506-2-0-01-11-27-44",
    "floor-5506-4-14-01-14-32-47",
    "floor-5506-9-7-01-13-40-02",
}
"""Test files of the published set that are train bodies; zero-shot scores leave them out."""
SEEN = {name: set() for name in RELEASED} | {"unimals_100": PUBLISHED_TWICE}
SMALLEST = next(iter(RELEASED))
VARIED = slow_but(RELEASED, SMALLEST)
"""Variants of hundreds of bodies take a while."""
SETS = [*RELEASED, "unimals_100"]


def load(name):
    if name not in (*RELEASED, *imported_sets()):
        pytest.skip(f"the set {name} is not imported")
    return load_morphologies(name)


@pytest.fixture(scope="module", params=[*VARIED, *slow_but(["unimals_100"])])
def base(request):
    return load(request.param)


def contents(bodies, split):
    return [body.digest for body in bodies.split(split)]


def shared(bodies):
    """Return the names of test bodies that have the content of a train body."""
    train = set(contents(bodies, "train"))
    return {body.name for body in bodies.split("test") if body.digest in train}


@pytest.mark.parametrize("name", slow_but(SETS, "gmc-unimal-v2", "gmc-loops-v1", "unimals_100"))
def test_train_and_test_share_nothing_but_the_known_repetitions(name):
    bodies = load(name)
    assert shared(bodies) == SEEN[name] == bodies.seen_in_train


def test_variants_are_no_bodies_of_the_base_and_no_other_variants(base):
    known = {*contents(base, "train"), *contents(base, "test")}
    unions = {group: load_morphologies(f"{base.id}+{group}") for group in GROUPS}
    for bodies in unions.values():
        assert contents(bodies, "train") == contents(base, "train")
        assert shared(bodies) == set()
    variants = Counter(digest for bodies in unions.values() for digest in contents(bodies, "test"))
    assert variants.total() == 4 * len(PROPERTIES) * len(base.split("train"))
    assert set(variants.values()) == {1}
    assert not known & variants.keys()


@pytest.mark.parametrize("name", VARIED)
def test_sets_of_variants_share_nothing_unless_one_holds_the_other(name):
    base = load_morphologies(name)
    sets = {
        variation: set(contents(load_morphologies(f"{name}+{variation}"), "test"))
        for variation in VARIATIONS
    }
    for first, second in combinations(VARIATIONS, 2):
        if first in GROUPS.get(second, ()):
            assert sets[first] < sets[second]
        else:
            assert not sets[first] & sets[second], (first, second)
    for variation, digests in sets.items():
        for split in ("train", "test"):
            assert not digests & set(contents(base, split)), (variation, split)


def test_a_repetition_under_another_name_is_found():
    base = load_morphologies(next(iter(RELEASED)))
    copy = replace(base.split("train")[0], name="copy")
    leaking = replace(base, splits={**base.splits, "test": (*base.split("test"), copy)})
    assert shared(leaking) == {"copy"} == leaking.seen_in_train
