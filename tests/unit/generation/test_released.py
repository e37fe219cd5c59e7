from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from gmc_bench.errors import MorphologySetError, UnknownNameError
from gmc_bench.generation import released
from gmc_bench.generation.released import (
    GENERATOR_VERSION,
    RELEASED,
    assign_splits,
    build_released,
    grow_seed,
    is_viable,
    resolve_released,
    search_seeds,
)

MINI = "gmc-unimal-mini-v1"


def test_mini_set_is_the_released_one():
    bodies = build_released(MINI)
    assert bodies.digest == RELEASED[MINI].digest
    assert RELEASED[MINI].generator_version == GENERATOR_VERSION
    assert {split: len(members) for split, members in bodies.splits.items()} == {
        "train": 20,
        "test": 20,
    }


def test_mini_set_repeats_no_body():
    bodies = build_released(MINI)
    digests = [body.digest for members in bodies.splits.values() for body in members]
    assert len(set(digests)) == 40
    assert bodies.seen_in_train == frozenset()


def test_mini_set_has_every_size_equally_often():
    bodies = build_released(MINI)
    sizes = Counter(b.num_limbs for members in bodies.splits.values() for b in members)
    assert sizes == {tokens: 5 for tokens in range(5, 13)}
    for split in ("train", "test"):
        per_size = Counter(body.num_limbs for body in bodies.split(split))
        assert set(per_size.values()) == {2, 3}
    assert bodies.max_limbs == 12
    assert bodies.joints_per_limb == 2


def test_pinned_splits_follow_the_rule():
    pinned = RELEASED[MINI]
    seeds = sorted(pinned.train_seeds + pinned.test_seeds)
    assert assign_splits(seeds) == (pinned.train_seeds, pinned.test_seeds)


def test_seed_decides_name_and_body():
    assert grow_seed(7).name == "grown-00007"
    assert grow_seed(7) == grow_seed(7)
    assert grow_seed(7).digest != grow_seed(8).digest


def test_splits_are_dealt_in_turn_within_each_size():
    by_size: dict[int, list[int]] = {}
    for seed in range(60):
        by_size.setdefault(grow_seed(seed).num_limbs - 1, []).append(seed)
    even, odd = by_size[4][:3], by_size[5][:3]
    train, test = assign_splits([*even, *odd])
    assert train == (even[0], even[2], odd[1])
    assert test == (even[1], odd[0], odd[2])


def test_search_keeps_viable_seeds_until_every_size_is_complete(monkeypatch):
    monkeypatch.setattr(released, "is_viable", lambda seed, body: seed % 3 == 0)
    found = list(search_seeds(2))
    sizes = Counter(grow_seed(seed).num_limbs - 1 for seed in found)
    assert sizes == {limbs: 2 for limbs in released.LIMB_COUNTS}
    assert all(seed % 3 == 0 for seed in found)
    assert found == sorted(found)


def test_version_can_be_left_out():
    assert resolve_released("gmc-unimal-mini") == MINI
    assert resolve_released(MINI) == MINI
    with pytest.raises(UnknownNameError, match="did you mean 'gmc-unimal-mini-v1'"):
        resolve_released("gmc-unimal-mni")


def test_newest_version_is_taken_by_number(monkeypatch):
    for version in (2, 10):
        newer = replace(RELEASED[MINI], id=f"gmc-unimal-mini-v{version}")
        monkeypatch.setitem(released.RELEASED, newer.id, newer)
    assert resolve_released("gmc-unimal-mini") == "gmc-unimal-mini-v10"


def test_another_content_is_refused(monkeypatch):
    forged = replace(RELEASED[MINI], id="forged-v1", train_seeds=(0,), test_seeds=(1,))
    monkeypatch.setitem(released.RELEASED, forged.id, forged)
    with pytest.raises(MorphologySetError, match="'forged-v1' came out as"):
        build_released("forged-v1")
    with pytest.raises(UnknownNameError, match="unknown morphology set 'none-v1'"):
        build_released("none-v1")


@pytest.mark.slow
def test_search_finds_the_pinned_seeds_again():
    pinned = sorted(RELEASED[MINI].train_seeds + RELEASED[MINI].test_seeds)
    assert list(islice(search_seeds(5), 5)) == pinned[:5]


@pytest.mark.slow
def test_released_bodies_are_viable():
    pinned = RELEASED[MINI]
    viable = [is_viable(seed, grow_seed(seed)) for seed in pinned.train_seeds + pinned.test_seeds]
    # Open-loop motion is chaotic: another processor may turn a borderline body down.
    assert sum(viable) >= 36
