from itertools import pairwise

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.tokens.spec import TokenSpec

# The published layout for two joint slots, written out: name, first index, one past the last.
PUBLISHED = [
    ("body_xpos", 0, 3),
    ("body_xvelp", 3, 6),
    ("body_xvelr", 6, 9),
    ("body_xquat", 9, 13),
    ("body_pos", 13, 16),
    ("body_ipos", 16, 19),
    ("body_iquat", 19, 23),
    ("geom_quat", 23, 27),
    ("body_mass", 27, 28),
    ("body_shape", 28, 30),
    ("qpos/0", 30, 31),
    ("qvel/0", 31, 32),
    ("jnt_pos/0", 32, 35),
    ("joint_range/0", 35, 37),
    ("joint_axis/0", 37, 40),
    ("gear/0", 40, 41),
    ("qpos/1", 41, 42),
    ("qvel/1", 42, 43),
    ("jnt_pos/1", 43, 46),
    ("joint_range/1", 46, 48),
    ("joint_axis/1", 48, 51),
    ("gear/1", 51, 52),
]


def test_two_joint_slots_give_the_published_layout():
    groups = TokenSpec(12).slices
    assert [(group.name, group.start, group.stop) for group in groups] == PUBLISHED


def test_time_varying_and_fixed_places_with_two_joint_slots():
    spec = TokenSpec(12)
    assert spec.dynamic_indices.tolist() == [*range(13), 30, 31, 41, 42]
    assert spec.context_indices.tolist() == [*range(13, 30), *range(32, 41), *range(43, 52)]
    assert spec.dynamic_indices.dtype == np.int64


@pytest.mark.parametrize(
    ("joints", "features", "dynamic", "context"),
    # 30 numbers per limb (13 + 17) and 11 per joint slot (2 + 9)
    [(1, 41, 15, 26), (2, 52, 17, 35), (3, 63, 19, 44)],
)
def test_widths_grow_with_the_joint_slots(joints, features, dynamic, context):
    spec = TokenSpec(5, joints)
    assert (spec.num_features, spec.num_dynamic, spec.num_context) == (features, dynamic, context)
    assert spec.actions_per_token == joints


@pytest.mark.parametrize("joints", [1, 2, 3])
def test_groups_are_contiguous_and_every_number_has_one_kind(joints):
    spec = TokenSpec(5, joints)
    assert all(left.stop == right.start for left, right in pairwise(spec.slices))
    both = np.concatenate([spec.dynamic_indices, spec.context_indices])
    assert sorted(both.tolist()) == list(range(spec.num_features))


def test_a_third_joint_slot_follows_the_second():
    spec = TokenSpec(5, 3)
    assert (spec.slice("qpos/2").start, spec.slice("gear/2").stop) == (52, 63)
    assert spec.slice("qvel/2").kind == "dynamic"
    assert spec.slice("joint_axis/2").kind == "context"


def test_groups_state_unit_and_frame():
    group = TokenSpec(5).slice("body_xvelr")
    assert (group.width, group.unit, group.frame) == (3, "rad/s", "world")
    assert all(group.unit and group.frame for group in TokenSpec(5).slices)


def test_equal_sizes_are_equal_layouts():
    assert TokenSpec(12) == TokenSpec(12, 2)
    assert TokenSpec(12) != TokenSpec(12, 3)


def test_an_unknown_group_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown feature 'qpos/3'; did you mean 'qpos/\d'\?"):
        TokenSpec(12).slice("qpos/3")


@pytest.mark.parametrize(
    ("limbs", "joints", "heights"),
    [
        *((0, 2, 0), (12, 0, 0), (-1, 2, 0), (12, 2, -1)),
        *((5.5, 2, 0), ("12", 2, 0), (True, 2, 0), (12, 2.0, 0), (12, 2, 1.5)),
    ],
)
def test_a_layout_needs_a_limb_and_a_joint_slot(limbs, joints, heights):
    found = f"got {limbs!r}, {joints!r} and {heights!r}"
    with pytest.raises(ConfigError, match=f"at least one limb.*{found}"):
        TokenSpec(limbs, joints, heights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": "legs"}, "'parts' .* must be limbs or actuators, got 'legs'"),
        ({"tree": "bfs"}, "'tree' .* must be kinematic or breadth-first, got 'bfs'"),
        ({"loops": "no"}, "'loops' .* must be True or False, got 'no'"),
        ({"without": None}, "'without' .* must be a tuple of names, got None"),
        ({"without": "gear"}, "'without' .* must be a tuple of names, got 'gear'"),
        ({"without": (3,)}, "3 is no group of context features"),
        *(
            ({"observed": wrong}, r"'observed' .* tuple of \(name, width, unit, frame\), got")
            for wrong in (None, ("a",), (("a", 0, "m", "-"),), (("a", 1, "m", None),), (("a", 1),))
        ),
    ],
)
def test_a_layout_of_other_parts_trees_or_groups_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        TokenSpec(12, **change)


@pytest.mark.parametrize("joints", [1, 2, 3])
def test_a_mark_of_loops_is_the_last_feature_and_moves_no_other(joints):
    plain, marked = TokenSpec(12, joints), TokenSpec(12, joints, loops=True)
    assert marked.slices[:-1] == plain.slices
    mark = marked.slices[-1]
    assert (mark.name, mark.start, mark.width) == ("in_loop", plain.num_features, 1)
    assert mark.kind == "context"
    assert marked.num_context == plain.num_context + 1
    assert marked.num_dynamic == plain.num_dynamic


def test_actuators_are_in_no_loop():
    with pytest.raises(ConfigError, match="closed loops are marked on limbs, but the tokens stand"):
        TokenSpec(12, 1, parts="actuators", loops=True)
