"""Motion of bodies with joint drives: without a direction, beyond rounding, and with noise."""

import math
from dataclasses import fields, replace

import numpy as np

from gmc_bench.tasks.motion import Joints, Motion, SensorNoise


def _motion(gravity, velocity=(0.0, 0.0, 0.0)):
    nothing = np.zeros((1, 0))
    joints = Joints(**{field.name: nothing for field in fields(Joints)})
    parts = dict.fromkeys((field.name for field in fields(Motion)), nothing)
    seen = {"gravity": np.array([gravity]), "base_linear_velocity": np.array([velocity])}
    return Motion(**parts | {"joints": joints} | seen)


def test_a_base_that_points_straight_up_has_no_level_velocity():
    assert _motion((-1.0, 0.0, 0.0), velocity=(2.0, 3.0, 4.0)).level_velocity.tolist() == [
        [0.0] * 2
    ]


def test_a_tilt_is_an_angle_even_where_rounding_makes_the_vertical_too_long():
    assert _motion((0.0, 0.0, -1.0 - 1e-15)).tilt.tolist() == [0.0]
    assert _motion((0.0, 0.0, 1.0 + 1e-15)).tilt.tolist() == [math.pi]


def test_every_reading_has_random_numbers_of_its_own():
    """Two joints: 9 numbers of the base, then two angles and two velocities."""
    joints = {name: np.array([[5.0, 6.0]]) for name in ("joint_angle", "joint_velocity")}
    still = replace(_motion((0.0, 0.0, -1.0)), base_angular_velocity=np.zeros((1, 3)), **joints)
    noise = SensorNoise(
        base_linear_velocity=1.0, base_angular_velocity=2.0, gravity=0.1, joint_angle=0.5,
        joint_velocity=10.0,
    )  # fmt: skip
    drawn = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, -0.1, -0.2, -0.3, -0.4]
    found = still.sensed(noise, np.array([drawn]))
    np.testing.assert_allclose(found.base_linear_velocity, [[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(found.base_angular_velocity, [[0.8, 1.0, 1.2]])
    np.testing.assert_allclose(found.gravity, [[0.07, 0.08, -0.91]])
    np.testing.assert_allclose(found.joint_angle, [[4.95, 5.9]])
    np.testing.assert_allclose(found.joint_velocity, [[2.0, 2.0]])
