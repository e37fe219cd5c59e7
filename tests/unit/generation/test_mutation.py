"""Mutations and lineages: children are valid bodies near their parents, and follow from seeds."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation import mutation
from gmc_bench.generation.growing_body import GrowingBody
from gmc_bench.generation.grown_limbs import TORSO, Growth, Site, is_free, limb_site, place
from gmc_bench.generation.lineage import (
    FOUNDER_LIMBS,
    descend,
    grow_lineage,
    lineage_name,
    read_lineage,
)
from gmc_bench.generation.mutation import MAX_LIMBS, MIN_LIMBS, mutate

SEED = 5


@pytest.fixture(scope="module")
def families():
    """Founders, each with the eight bodies that descend from it by one more mutation each."""
    found = []
    for number in range(1, 13):
        lineage = (number,)
        try:
            chain = [descend(SEED, lineage)]
        except MorphologyError:
            continue
        for child in range(1, 9):
            lineage = (*lineage, child)
            chain.append(descend(SEED, lineage))
        found.append(chain)
    return found


def _traits(limb):
    return limb.site.middle, limb.direction, limb.radius, limb.height, limb.hinges


def test_children_keep_the_rules_of_growth(families):
    assert len(families) >= 8
    for body in (body for chain in families for body in chain[1:]):
        parts = body.parts
        assert MIN_LIMBS <= len(parts) <= MAX_LIMBS
        for number, part in enumerate(parts):
            group = [part] if part.partner is None else [part, parts[part.partner]]
            older = [p for n, p in enumerate(parts[:number]) if n != part.partner]
            assert is_free(older, group[:1])
            assert part.site.parent < number
            if part.partner is not None:
                assert part == parts[parts[part.partner].partner]
                (x, y, z), (*_, w) = part.shape.end, parts[part.partner].shape.end
                assert parts[part.partner].shape.end == (x, -y, w)
                assert w == z
                assert _traits(part)[2:] == _traits(parts[part.partner])[2:]
            else:
                assert part.shape.end[1] == 0.0


def test_a_child_differs_from_its_parent_in_one_respect(families):
    kinds = Counter()
    for chain in families:
        for parent, child in pairwise(chain):
            before, after = (Counter(map(_traits, body.parts)) for body in (parent, child))
            gone, new = sum((before - after).values()), sum((after - before).values())
            densities = [(b.torso_density, b.limb_density) for b in (parent, child)]
            if densities[0] != densities[1]:
                kinds["density"] += 1
                assert before == after
            elif len(parent.parts) != len(child.parts):
                kinds["more" if new else "fewer"] += 1
                assert sorted((gone, new))[0] == 0
                assert 1 <= gone + new <= 2
            else:
                kinds["changed"] += 1
                assert 1 <= gone == new <= 2
    assert min(kinds[kind] for kind in ("density", "more", "fewer", "changed")) > 0


def test_a_lineage_names_its_body(families):
    bodies = [grow_lineage(SEED, (1, *range(1, length))) for length in range(1, 10)]
    assert all(child.digest != parent.digest for parent, child in pairwise(bodies))
    assert bodies[2].name == lineage_name((1, 1, 2)) == "evolved-00001.1.2"
    assert read_lineage("1.1.2") == (1, 1, 2)


def test_seed_and_lineage_decide_the_body(families):
    body = grow_lineage(SEED, (1, 1, 2))
    descend.cache_clear()
    assert grow_lineage(SEED, (1, 1, 2)) == body
    assert grow_lineage(SEED, (1, 1, 3)).digest != body.digest
    assert grow_lineage(SEED + 1, (1, 1, 2)).digest != body.digest
    assert {len(chain[0].parts) for chain in families} <= set(FOUNDER_LIMBS)


def test_a_parent_stays_as_it_was(families):
    parent = families[0][0]
    parts, poses = list(parent.parts), parent.sweep.starts.copy()
    mutate(np.random.default_rng(0), parent)
    assert parent.parts == parts
    np.testing.assert_array_equal(parent.sweep.starts, poses)


def _shortened(body, number):
    """Return a body with a shorter limb or pair and no hinges, which needs little room."""
    group = {number, body.parts[number].partner}
    parts = [
        replace(part, height=0.15 if n in group else part.height, hinges=())
        for n, part in enumerate(body.parts)
    ]
    return mutation._regrown(np.random.default_rng(1), body, parts)


def test_what_grows_on_a_limb_moves_with_its_end(families):
    checked = 0
    for body in (chain[0] for chain in families):
        for number in {p.site.parent for p in body.parts if p.site.parent >= 0}:
            short = _shortened(body, number)
            for part in short.parts if short else ():
                if part.site.parent == number and not part.site.middle:
                    tip = np.add(short.parts[number].shape.end, np.multiply(part.direction, 0.05))
                    # Lengths are whole centimetres.
                    np.testing.assert_allclose(part.shape.start, tip, atol=0.006)
                    checked += 1
    assert checked >= 3


def test_a_body_without_any_room_is_refused(monkeypatch):
    monkeypatch.setattr(mutation, "_CHANGES", (lambda rng, body: None,))
    with pytest.raises(MorphologyError, match="found no mutation of a body with"):
        mutate(np.random.default_rng(0), descend(SEED, (1,)))


@pytest.mark.parametrize(("num_limbs", "left"), [(4, 3), (3, None)])
def test_no_body_loses_more_limbs_than_it_can_spare(num_limbs, left):
    site = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    parts = []
    for direction in ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, -1.0)):
        parts += place(parts, Growth((site,), (direction,)), 0.2, (), 0.04)
    if num_limbs == 4:
        tip = limb_site(parts, 0, middle=False)
        parts += place(parts, Growth((tip,), ((0.0, 0.0, -1.0),)), 0.2, (), 0.04)
    body = GrowingBody(torso_density=500.0, limb_density=500.0)
    body = mutation._regrown(np.random.default_rng(0), body, parts)
    for seed in range(4):
        found = mutation._remove_limbs(np.random.default_rng(seed), body)
        assert (found and len(found.parts)) == left
        assert not found or {part.radius for part in found.parts} == {0.04}


@pytest.mark.parametrize(("second", "fits"), [((1.0, 0.0, 0.0), False), (None, True)])
def test_limbs_at_one_site_must_not_touch_at_the_start(second, fits):
    """In other poses they may, so that no sweep of their joints finds it."""
    site = Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    parts = place((), Growth((site,), ((1.0, 0.0, 0.0),)), 0.2, ())
    end = limb_site(parts, 0, middle=False)
    parts += [
        limb
        for direction in ((0.0, 0.0, -1.0), second)
        if direction is not None
        for limb in place(parts, Growth((end,), (direction,)), 0.2, ())
    ]
    body = GrowingBody(torso_density=500.0, limb_density=500.0)
    found = mutation._regrown(np.random.default_rng(0), body, parts)
    assert (found is not None) is fits
