"""Variants of bodies: what varies, what stays, that nobody has seen them, and the pinned sets."""

import math
from collections import Counter
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies import variations
from gmc_bench.bodies.importer import PUBLISHED, SPLITS
from gmc_bench.bodies.mjcf import check_compiles, emit_mjcf
from gmc_bench.bodies.schema import Geom, Inertia, MorphologySet
from gmc_bench.bodies.variations import (
    GROUPS,
    PINNED,
    PROPERTIES,
    VARIATIONS,
    build_variations,
    draw_variant,
    resolve_variation,
    symmetric_pairs,
)
from gmc_bench.conformance.morphologies import biped, chain, lowest_point, star
from gmc_bench.core.errors import MorphologySetError, UnknownNameError
from gmc_bench.generation.released import build_released

MINI = build_released("gmc-unimal-mini-v1")
TINY = MorphologySet(
    id="tiny", splits={"train": (biped(), star(4)), "test": (chain(3),)}, source="made for tests"
)
DEGREES = {(-30, 0), (0, 30), (-30, 30), (-45, 45), (-45, 0), (0, 45), (-60, 0), (0, 60),
           (-60, 60), (-90, 0), (0, 90), (-60, 30), (-30, 60)}  # fmt: skip


_DRAWN = {}


def variants_of(base, variation):
    """Return `build_variations`, of every set and variation once for all tests."""
    key = base.digest, variation
    if key not in _DRAWN:
        _DRAWN[key] = build_variations(base, variation)
    return _DRAWN[key]


def pairs_of(base, variation):
    """Return every train body with each of its variants, in order."""
    bodies = base.split("train")
    variants = variants_of(base, variation).split("test")
    properties = GROUPS.get(variation, (variation,))
    assert len(variants) == len(bodies) * len(properties) * 4
    origins = [body for _ in properties for body in bodies for _ in range(4)]
    return list(zip(origins, variants, strict=True))


def joints(body):
    return [joint for limb in body.limbs for joint in limb.joints]


def skeleton(body):
    """What no variation may change."""
    return (
        [(limb.name, limb.parent, limb.geom.kind) for limb in body.limbs],
        [(j.name, j.slot, j.stiffness) for j in joints(body)],
        [a.joint for a in body.actuators],
        body.symmetric_limbs,
    )


def undo(variant, body, prop):
    """Return the variant with one property taken back from its base body."""
    if prop in ("armature", "damping"):
        limbs = [
            replace(limb, joints=tuple(replace(j, **{prop: 1.0}) for j in limb.joints))
            for limb in variant.limbs
        ]
    elif prop == "joint-angle":
        limbs = [
            replace(
                limb,
                joints=tuple(
                    replace(j, range=k.range) for j, k in zip(limb.joints, old.joints, strict=True)
                ),
            )
            for limb, old in zip(variant.limbs, body.limbs, strict=True)
        ]
    elif prop == "density":
        limbs = [
            replace(limb, geom=replace(limb.geom, density=old.geom.density))
            for limb, old in zip(variant.limbs, body.limbs, strict=True)
        ]
    else:
        assert prop == "gear"
        return replace(variant, actuators=body.actuators)
    return replace(variant, limbs=tuple(limbs))


@pytest.mark.parametrize("prop", [*GROUPS["dynamics"], "joint-angle"])
def test_only_the_property_changes(prop):
    for body, variant in pairs_of(MINI, prop):
        assert variant.digest != body.digest
        assert undo(variant, body, prop).digest == body.digest
        assert skeleton(variant) == skeleton(body)


@pytest.mark.parametrize(("prop", "high"), [("armature", 2.0), ("damping", 3.0)])
def test_all_hinges_of_a_body_share_one_value_drawn_as_often_below_1_as_above(prop, high):
    values = []
    for _, variant in pairs_of(MINI, prop):
        (value,) = {getattr(joint, prop) for joint in joints(variant)}
        values.append(value)
    assert all(0.1 <= value < 1.0 for value in values[0::2])
    assert all(1.0 <= value <= high for value in values[1::2])
    assert max(values) > 0.9 * high
    assert min(values) < 0.3


def test_gears_change_by_one_factor_per_limb_or_pair():
    for body, variant in pairs_of(MINI, "gear"):
        ratio = {
            new.joint: new.gear / old.gear
            for new, old in zip(variant.actuators, body.actuators, strict=True)
        }
        factors = []
        for unit in units(body):
            own = {round(ratio[j.name], 9) for limb in unit for j in body.limbs[limb].joints}
            assert len(own) <= 1
            factors += own
        assert all(0.7 <= factor <= 1.3 for factor in factors)
        assert len(set(factors)) == len(factors)


def test_densities_change_by_a_factor_for_the_torso_and_one_for_all_limbs():
    for body, variant in pairs_of(MINI, "density"):
        ratios = [
            round(new.geom.density / old.geom.density, 9)
            for new, old in zip(variant.limbs, body.limbs, strict=True)
        ]
        assert len(set(ratios[1:])) == 1
        assert ratios[0] != ratios[1]
        assert all(0.8 <= ratio <= 1.2 for ratio in ratios)


def test_new_joint_ranges_overlap_the_old_ones_by_half_and_pairs_choose_alike():
    changed = Counter()
    for body, variant in pairs_of(MINI, "joint-angle"):
        new = {joint.name: joint for joint in joints(variant)}
        for joint in joints(body):
            low, high = (round(math.degrees(x), 6) for x in new[joint.name].range)
            was_low, was_high = (math.degrees(x) for x in joint.range)
            assert (low, high) in DEGREES
            assert min(high, was_high) - max(low, was_low) >= 0.5 * (was_high - was_low) - 1e-6
            changed[(low, high) != (round(was_low, 6), round(was_high, 6))] += 1
        for first, second in body.symmetric_limbs:
            assert [new[j.name].range for j in body.limbs[first].joints] == [
                new[j.name].range for j in body.limbs[second].joints
            ]
    assert changed[True] > changed[False] > 0


@pytest.mark.parametrize("changes", [{"kind": "slide"}, {"limited": False}])
def test_joints_whose_ranges_are_metres_or_no_limits_keep_them(changes):
    body = biped()
    limbs = [
        replace(limb, joints=tuple(replace(joint, **changes) for joint in limb.joints))
        if index % 2
        else limb
        for index, limb in enumerate(body.limbs)
    ]
    sliding = replace(body, limbs=tuple(limbs))
    kinds = Counter()
    for number in range(6):
        variant = draw_variant("0" * 64, "joint-angle", sliding, number)
        for old, new in zip(joints(sliding), joints(variant), strict=True):
            keeps = old.kind == "slide" or not old.limited
            kinds[keeps, old.range != new.range] += 1
    assert kinds[False, True] > 0
    assert kinds[True, False] > 0
    assert kinds[True, True] == 0


def test_shapes_follow_the_design_space_unrounded():
    """Section by section: size, direction, origin, hinge, torso height."""
    for body, variant in pairs_of(MINI, "module-shape"):
        assert skeleton(variant) == skeleton(body)
        assert lowest_point(variant) == pytest.approx(lowest_point(body), abs=1e-9)
        for index, (old, new) in enumerate(zip(body.limbs, variant.limbs, strict=True)):
            if index == 0:
                assert replace(new, position=old.position) == old
                continue
            radius, length = new.geom.radius, math.hypot(*new.geom.end)
            assert 0.04 <= radius <= 0.06
            assert 0.15 <= length - radius <= 0.45
            assert new.geom.density == old.geom.density
            direction = np.array(new.geom.end) / length
            before = np.array(old.geom.end) / math.hypot(*old.geom.end)
            assert direction @ before > math.cos(math.radians(3))
            parent = variant.limbs[new.parent]
            site = np.array(new.position) - parent.geom.radius * direction
            if new.parent == 0:
                np.testing.assert_allclose(site, 0.0, atol=1e-12)
            else:
                whole = np.array(parent.geom.end)
                height = math.hypot(*whole) - parent.geom.radius
                middle = whole * (parent.geom.radius + height / 2) / math.hypot(*whole)
                assert min(np.abs(site - whole).max(), np.abs(site - middle).max()) < 1e-12
            for joint, was in zip(new.joints, old.joints, strict=True):
                np.testing.assert_allclose(joint.position, -radius * direction, atol=1e-12)
                assert math.dist(joint.axis, was.axis) < 0.05
                assert replace(joint, position=was.position, axis=was.axis) == was
        for first, second in body.symmetric_limbs:
            one, other = variant.limbs[first].geom, variant.limbs[second].geom
            assert (one.radius, math.hypot(*one.end)) == (other.radius, math.hypot(*other.end))


def test_a_limb_in_the_middle_of_its_parent_stays_there():
    old = next(b for b in MINI.split("train") if {"mid", "end"} <= set(places(b)))
    variant = draw_variant(MINI.digest, "module-shape", old, 0)
    assert places(variant) == places(old)


def places(body):
    """Return where every limb that is not on the torso grows."""
    found = []
    for limb in body.limbs[1:]:
        if limb.parent == 0:
            continue
        parent = body.limbs[limb.parent].geom
        start = np.array(limb.position) - parent.radius * np.array(limb.geom.end) / math.hypot(
            *limb.geom.end
        )
        share = math.hypot(*start) / math.hypot(*parent.end)
        found.append("end" if share > 0.9 else "mid")
    return found


def engine_contacts(body):
    """Return the pairs of limbs that the engine finds touching at the start."""
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return {tuple(sorted(contact.geom)) for contact in data.contact}


def test_the_engine_finds_no_new_contact_and_simulates_every_shape():
    for body, variant in pairs_of(MINI, "module-shape"):
        assert engine_contacts(variant) <= engine_contacts(body)
        check_compiles(variant)


def test_shapes_with_new_contact_are_drawn_again(monkeypatch):
    body = next(b for b in MINI.split("train") if b.name == "grown-00379")
    key = (MINI.digest, "module-shape", body)
    drawn = [draw_variant(*key, number) for number in range(10)]
    monkeypatch.setattr(variations, "_contacts", lambda body, margin: set())
    unchecked = [draw_variant(*key, number) for number in range(10)]
    assert any(engine_contacts(v) > engine_contacts(body) for v in unchecked)
    assert all(engine_contacts(v) <= engine_contacts(body) for v in drawn)


def units(body):
    partner = {index: index for index in range(1, body.num_limbs)}
    for first, second in body.symmetric_limbs:
        partner[second] = first
    return [[k for k in partner if partner[k] == first] for first in sorted(set(partner.values()))]


def test_pairs_are_recovered_from_geometry():
    assert symmetric_pairs(biped()) == ((1, 3), (2, 4))
    assert symmetric_pairs(chain(4)) == ()
    for split in SPLITS:
        for body in MINI.split(split):
            known = {frozenset(pair) for pair in body.symmetric_limbs}
            bare = replace(body, symmetric_limbs=())
            assert {frozenset(pair) for pair in symmetric_pairs(bare)} == known


def test_limbs_of_unequal_size_or_hinges_are_no_pair():
    body = biped()
    shin = body.limbs[4]
    thick = replace(shin, geom=replace(shin.geom, radius=0.06))
    assert symmetric_pairs(replace(body, limbs=(*body.limbs[:4], thick))) == ((1, 3),)
    bare = replace(shin, joints=())
    actuators = tuple(a for a in body.actuators if a.joint != shin.joints[0].name)
    changed = replace(body, limbs=(*body.limbs[:4], bare), actuators=actuators)
    assert symmetric_pairs(changed) == ((1, 3),)


def test_a_limb_is_in_one_pair_at_most():
    body = biped()
    thigh = body.limbs[3]
    again = replace(
        thigh, name="again", joints=tuple(replace(j, name=f"{j.name}-2") for j in thigh.joints)
    )
    assert symmetric_pairs(replace(body, limbs=(*body.limbs, again))) == ((1, 3), (2, 4))


def test_a_draw_follows_from_set_property_content_and_number_alone():
    body, other = MINI.split("train")[:2]
    first = draw_variant(MINI.digest, "density", body, 0)
    assert draw_variant(MINI.digest, "density", replace(body, name="x"), 0).digest == first.digest
    assert draw_variant(MINI.digest, "density", body, 1).digest != first.digest
    assert draw_variant("0" * 64, "density", body, 0).digest != first.digest
    for prop in PROPERTIES:
        names = [f"{other.name}_{prop}_{index}" for index in range(4)]
        variants = variants_of(MINI, prop).split("test")[4:8]
        again = [draw_variant(MINI.digest, prop, other, number) for number in range(4)]
        assert [v.name for v in variants] == names
        assert [v.digest for v in variants] == [v.digest for v in again]


def test_draws_that_repeat_a_known_body_are_skipped(monkeypatch):
    body, other = biped(), chain(3)
    real = [draw_variant("0" * 64, "gear", body, number) for number in range(4)]
    draws = [body, real[0], other, real[0], real[1], real[1], real[2], real[3]]
    monkeypatch.setattr(variations, "draw_variant", lambda *key: draws[key[-1]])
    base = replace(TINY, splits={"train": (body,), "test": (other,)})
    variants = build_variations(base, "gear").split("test")
    assert [variant.digest for variant in variants] == [variant.digest for variant in real]
    assert [variant.name for variant in variants] == [f"biped_gear_{k}" for k in range(4)]


def test_a_body_that_cannot_vary_is_refused(monkeypatch):
    monkeypatch.setattr(variations.design, "JOINT_RANGES", ())
    with pytest.raises(MorphologySetError, match="only 0 variants of the body 'biped' in joint-a"):
        build_variations(TINY, "joint-angle")
    numbers = []

    def draw(digest, prop, body, number):
        numbers.append(number)
        return body

    monkeypatch.setattr(variations, "draw_variant", draw)
    with pytest.raises(MorphologySetError, match="only 0 variants"):
        build_variations(TINY, "gear")
    assert numbers == list(range(1_000))


def test_a_body_whose_name_has_no_room_for_its_variants_is_refused():
    long = replace(biped(), name="b" * 250)
    base = replace(TINY, splits={"train": (long,), "test": (chain(3),)})
    message = r"^the name of the body 'b+\.\.\. .* of the set 'tiny' is too long .* rename the body"
    with pytest.raises(MorphologySetError, match=message):
        build_variations(base, "gear")


@pytest.mark.parametrize(("turned", "snaps"), [(0.0, True), (2.0, True), (4.0, False)])
def test_directions_are_those_of_the_design_space_up_to_rounding(turned, snaps):
    own = (math.cos(math.radians(45 + turned)), 0.0, -math.sin(math.radians(45 + turned)))
    limb = chain(3).limbs[1]
    limb = replace(limb, geom=replace(limb.geom, end=tuple(0.3 * number for number in own)))
    expected = (math.sqrt(0.5), 0.0, -math.sqrt(0.5)) if snaps else own
    assert variations._direction(limb) == pytest.approx(expected, abs=1e-9)


def test_shapes_outside_the_design_space_are_refused():
    body = biped()
    x, y, z = body.limbs[1].position
    moved = replace(body.limbs[1], position=(x + 0.03, y, z))
    odd = replace(body, limbs=(body.limbs[0], moved, *body.limbs[2:]))
    base = replace(TINY, splits={"train": (odd,), "test": (chain(3),)})
    assert len(build_variations(base, "dynamics").split("test")) == 16
    with pytest.raises(MorphologySetError, match="limb 'limb/1' does not lie as in the UNIMAL"):
        build_variations(base, "module-shape")
    top, leg = body.limbs[:2]  # a limb that points straight up has no axes of that design
    up = replace(
        leg,
        position=(0.0, 0.0, top.geom.radius),
        geom=replace(leg.geom, end=(0.0, 0.0, 0.3)),
    )
    odd = replace(body, limbs=(top, up, *body.limbs[2:]))
    base = replace(TINY, splits={"train": (odd,), "test": (chain(3),)})
    with pytest.raises(MorphologySetError, match="limb 'limb/1' does not lie as in the UNIMAL"):
        build_variations(base, "module-shape")


TURNED = (0.0, 0.0, 0.0, 1.0)  # by half a turn about z


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        (0, {"orientation": TURNED}),
        (0, {"geom": Geom(kind="capsule", radius=0.1, end=(0.0, 0.0, 0.1))}),
        (2, {"orientation": TURNED}),
        (2, {"geom": Geom(kind="sphere", radius=0.05)}),
        (2, {"geom": Geom(kind="capsule", radius=0.05, start=(0.0, 0.0, 0.01), end=(0, 0, -0.5))}),
        (2, {"slot": 2}),
        (2, {"axis": (0.0, 0.9, 0.2)}),
    ],
)
def test_limbs_that_lie_otherwise_are_refused(place, changes):
    body = biped()
    limb = body.limbs[place]
    if changes.keys() & {"slot", "axis"}:
        changes = {"joints": tuple(replace(joint, **changes) for joint in limb.joints)}
    limbs = (*body.limbs[:place], replace(limb, **changes), *body.limbs[place + 1 :])
    with pytest.raises(MorphologySetError, match=r"limb 'limb/\d' does not lie as in the UNIMAL"):
        draw_variant("0" * 64, "module-shape", replace(body, limbs=limbs), 0)


def test_bodies_with_turned_limbs_state_their_pairs():
    body = biped()
    limbs = (*body.limbs[:4], replace(body.limbs[4], orientation=TURNED))
    stated = replace(body, limbs=limbs, symmetric_limbs=((3, 1),))
    assert symmetric_pairs(stated) == ((1, 3),)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"more_geoms": (Geom(kind="sphere", radius=0.08),)}, "several shapes"),
        (
            {"inertia": Inertia(mass=2.0, centre=(0.0, 0.0, 0.0), moments=(0.1, 0.1, 0.1))},
            "an inertia of its own",
        ),
    ],
)
def test_limbs_with_more_than_one_shape_or_an_inertia_are_refused(place, changes, reason):
    body = biped()
    limbs = list(body.limbs)
    limbs[place] = replace(limbs[place], **changes)
    odd = replace(body, limbs=tuple(limbs))
    named = f"its limb '{limbs[place].name}' has {reason}"
    with pytest.raises(MorphologySetError, match=named):
        draw_variant("0" * 64, "module-shape", odd, 0)
    assert draw_variant("0" * 64, "damping", odd, 0).limbs[place].geoms == limbs[place].geoms


@pytest.mark.parametrize("group", GROUPS)
def test_a_union_is_its_properties_in_order(group):
    union = build_variations(MINI, f"{group}-v1")
    parts = [variants_of(MINI, prop).split("test") for prop in GROUPS[group]]
    assert union.split("test") == tuple(variant for part in parts for variant in part)
    assert union.id == f"gmc-unimal-mini-v1+{group}-v1"
    assert union.split("train") == MINI.split("train")
    assert "rule set v1" in union.source


def test_names_with_and_without_version_and_unknown_ones():
    assert resolve_variation("gear") == resolve_variation("gear-v1") == "gear-v1"
    assert resolve_variation("module-shape-v1") == "module-shape-v1"
    for name, closest in (("gears", "gear-v1"), ("gear-v2", "gear-v1"), ("-v1", "gear-v1")):
        with pytest.raises(UnknownNameError, match="unknown variation") as error:
            resolve_variation(name)
        assert closest in str(error.value)


@pytest.mark.parametrize("prop", PROPERTIES)
def test_variants_of_the_mini_set_are_the_pinned_ones(prop, monkeypatch):
    bodies = variants_of(MINI, prop)
    assert bodies.digest == PINNED[MINI.digest][f"{prop}-v1"]
    monkeypatch.setitem(PINNED, MINI.digest, {f"{prop}-v1": "0" * 64})
    with pytest.raises(MorphologySetError, match="came out as"):
        build_variations(MINI, prop)


def assert_nothing_leaks(base):
    """No variant is a body of the base or any other variant; return the sets by property."""
    sets = {prop: variants_of(base, prop) for prop in PROPERTIES}
    variants = [body.digest for bodies in sets.values() for body in bodies.split("test")]
    assert len(set(variants)) == len(variants)
    for split in SPLITS:
        assert not {body.digest for body in base.split(split)} & set(variants)
    assert all(bodies.seen_in_train == frozenset() for bodies in sets.values())
    return sets


def count_of(sets, group):
    return sum(len(sets[prop].split("test")) for prop in GROUPS[group])


def test_no_variant_of_the_mini_set_was_seen_before():
    sets = assert_nothing_leaks(MINI)
    assert (count_of(sets, "dynamics"), count_of(sets, "kinematics")) == (320, 160)


def test_repeated_train_bodies_get_different_variants():
    body = biped()
    twins = tuple(replace(body, name=name) for name in "abc")
    splits = {"train": twins, "test": (chain(3),)}
    base = replace(TINY, splits=splits, licence="some licence")
    sets = assert_nothing_leaks(base)
    assert {len(bodies.split("test")) for bodies in sets.values()} == {12}
    assert {bodies.notes for bodies in sets.values()} == {("train: a = b = c",)}
    assert {bodies.licence for bodies in sets.values()} == {"some licence"}


@pytest.mark.slow
def test_no_variant_of_the_published_set_was_seen_before(published):
    assert published.digest == PUBLISHED["unimals_100"].digest
    sets = assert_nothing_leaks(published)
    assert (count_of(sets, "dynamics"), count_of(sets, "kinematics")) == (1600, 800)
    assert len(published.split("test")) - len(published.seen_in_train) == 97
    pinned = {f"{prop}-v1": bodies.digest for prop, bodies in sets.items()}
    assert pinned == PINNED[published.digest]


@pytest.mark.slow
def test_published_pairs_are_recovered_and_shapes_keep_the_bodies_contacts(published):
    for split in SPLITS:
        for body in published.split(split):
            known = {frozenset(pair) for pair in body.symmetric_limbs}
            assert {frozenset(pair) for pair in symmetric_pairs(body)} == known
    for body, variant in pairs_of(published, "module-shape")[::7]:
        assert engine_contacts(variant) <= engine_contacts(body)
        assert lowest_point(variant) == pytest.approx(lowest_point(body), abs=1e-9)
        assert places(variant) == places(body)


def test_every_name_has_its_own_draws():
    digests = {build_variations(TINY, name).digest for name in VARIATIONS}
    assert len(digests) == len(VARIATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gmc-unimal-v1", "gmc-large-v1", "gmc-loops-v1"])
def test_variants_of_the_other_released_sets_are_the_pinned_ones(name):
    base = build_released(name)
    found = {f"{prop}-v1": build_variations(base, prop).digest for prop in PROPERTIES}
    assert found == PINNED[base.digest]
