import numpy as np
import pytest

from gmc_bench.robots import ANYMAL_C, GO1
from gmc_bench.robots.assembly import Naming, half_turned, mirrored, mirrored_range
from gmc_bench.robots.parts import Inertial, flip_point

PART = Inertial(mass=2.0, com=(0.1, 0.2, 0.3), inertia=(1.0, 1.1, 1.2, 0.01, 0.02, 0.03))


def _tensor(part):
    xx, yy, zz, xy, xz, yz = part.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _assert_image(image, part, signs):
    flip = np.diag(signs)
    assert image.mass == part.mass
    np.testing.assert_array_equal(image.com, flip @ part.com)
    np.testing.assert_array_equal(_tensor(image), flip @ _tensor(part) @ flip)


def test_mirrored_parts_are_reflections():
    for image, signs in zip(
        mirrored(PART), [(1, 1, 1), (1, -1, 1), (-1, 1, 1), (-1, -1, 1)], strict=True
    ):
        _assert_image(image, PART, signs)


def test_a_mirrored_zero_has_no_sign():
    assert str(flip_point((0.0, 0.0, 1.0), x=True, y=True)) == "(0.0, 0.0, 1.0)"


def test_left_right_mirror_leaves_the_rear_as_the_front():
    front_left, front_right, rear_left, rear_right = mirrored(PART, "y")
    assert rear_left == front_left
    assert rear_right == front_right


def test_half_turn_swaps_the_diagonals():
    other = Inertial(mass=2.0, com=(0.1, -0.21, 0.3), inertia=PART.inertia)
    _, _, rear_left, rear_right = half_turned(PART, other)
    _assert_image(rear_left, other, (-1, -1, 1))
    _assert_image(rear_right, PART, (-1, -1, 1))


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("y", [(-1, 2), (-2, 1), (-1, 2), (-2, 1)]),
        ("x", [(-1, 2), (-1, 2), (-2, 1), (-2, 1)]),
    ],
)
def test_ranges_change_sign_on_the_mirrored_side(axes, expected):
    assert list(mirrored_range((-1, 2), axes)) == expected


def test_joint_orders():
    naming = Naming()
    assert naming.joint_order(("FR", "FL", "RR", "RL"))[:4] == (
        "FR_hip_joint", "FR_thigh_joint", "FR_calf_joint", "FL_hip_joint",
    )  # fmt: skip
    assert naming.joint_order(("FL", "FR", "RL", "RR"), by_leg=False)[2:5] == (
        "RL_hip_joint", "RR_hip_joint", "FL_thigh_joint",
    )  # fmt: skip


def test_rear_legs_of_anymal_mirror_and_those_of_go1_do_not():
    assert GO1.links[4].joint.range == GO1.links[7].joint.range
    lower, upper = ANYMAL_C.links[4].joint.feature_range
    assert ANYMAL_C.links[7].joint.feature_range == (-upper, -lower)
