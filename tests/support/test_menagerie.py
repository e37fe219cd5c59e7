"""What the comparison of robots with other models finds, and what it lets through."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import MorphologyError
from gmc_bench.robots import GO1, GO2
from gmc_bench.robots.mjcf import build_mjcf
from gmc_bench.robots.model import compile_robot
from tests.support.menagerie import compare_models


def test_differences_are_named():
    calf = replace(GO1.links[2], inertial=replace(GO1.links[2].inertial, mass=0.25))
    thigh = replace(GO1.links[1], joint=replace(GO1.links[1].joint, range=(-0.7, 4.6)))
    other = replace(GO1, links=(GO1.links[0], thigh, calf, *GO1.links[3:]))
    mass, limits = compare_models(GO1, compile_robot(other).model)
    assert (mass.part, mass.quantity, mass.ours, mass.theirs) == (
        "FL_calf", "mass", (0.195862,), (0.25,),
    )  # fmt: skip
    assert (limits.part, limits.quantity) == ("FL_thigh_joint", "range")
    assert (limits.ours, limits.theirs) == ((-0.686, 4.501), (-0.7, 4.6))


def test_inertias_are_compared_as_tensors():
    base = GO2.base
    xx, yy, zz, xy, xz, yz = base.inertial.inertia
    turned = replace(base.inertial, inertia=(xx, yy, zz, -xy, xz, yz))
    other = replace(GO2, base=replace(base, inertial=turned))
    (difference,) = compare_models(GO2, compile_robot(other).model)
    assert (difference.part, difference.quantity) == ("base", "inertia")
    assert difference.ours[3] == pytest.approx(-difference.theirs[3])


def test_a_model_with_other_names_is_refused():
    with pytest.raises(MorphologyError, match="no part named 'trunk'"):
        compare_models(GO1, compile_robot(GO2).model)


def test_rotated_link_frames_do_not_count():
    spec = mujoco.MjSpec.from_string(build_mjcf(GO1))
    calf = spec.body("FL_calf")
    quaternion = np.array([0.1, 0.7, -0.3, 0.5])
    quaternion /= np.linalg.norm(quaternion)
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, quaternion)
    turn = turn.reshape(3, 3)
    xx, yy, zz, xy, xz, yz = GO1.links[2].inertial.inertia
    tensor = turn.T @ [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]] @ turn
    calf.quat = quaternion
    calf.ipos = turn.T @ calf.ipos
    calf.fullinertia = tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    calf.joints[0].axis = turn.T @ calf.joints[0].axis
    assert compare_models(GO1, spec.compile()) == []
