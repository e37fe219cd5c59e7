"""Motion of bodies with joint drives where it has no direction, or more than rounding allows."""

import math
from dataclasses import fields

import numpy as np

from gmc_bench.tasks.motion import Joints, Motion


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
