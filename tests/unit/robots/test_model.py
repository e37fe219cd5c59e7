from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import MorphologyError
from gmc_bench.robots import GO1
from gmc_bench.robots.model import compile_robot


def test_addresses_are_those_of_the_named_parts(robot):
    compiled = compile_robot(robot)
    model = compiled.model
    assert (model.nq, model.nv, model.nu, model.nbody) == (19, 18, 12, 14)
    for slot, link in enumerate(robot.links):
        joint = model.joint(link.joint.name)
        assert compiled.joint_qpos[slot] == joint.qposadr[0]
        assert compiled.joint_dofs[slot] == joint.dofadr[0]
        assert model.actuator_trnid[compiled.actuators[slot], 0] == joint.id
        parent = robot.base.name if link.parent < 0 else robot.links[link.parent].name
        assert model.body(link.name).parentid[0] == model.body(parent).id
    for leg, geom in enumerate(compiled.foot_geoms):
        assert model.geom_bodyid[geom] == model.body(robot.links[3 * leg + 2].name).id
    assert model.body(compiled.base_body).name == robot.base.name


def test_standing_state(robot):
    compiled = compile_robot(robot)
    qpos = compiled.standing_qpos()
    np.testing.assert_array_equal(qpos[:7], [0, 0, robot.pose.base_height, 1, 0, 0, 0])
    np.testing.assert_array_equal(qpos[compiled.joint_qpos], robot.pose.angles)
    assert compiled.standing_qpos(0.7)[2] == 0.7
    assert compiled.standing_qpos(0.0)[2] == 0.0
    anchors, axes = compiled.stance_geometry()  # of hips, which do not follow other joints
    np.testing.assert_allclose(anchors[::3], [link.position for link in robot.links[::3]])
    np.testing.assert_allclose(axes[::3], [link.joint.axis for link in robot.links[::3]])


def test_a_name_the_engine_refuses_is_reported():
    # A motor and a joint may share a name; two bodies of the world may not.
    world = replace(GO1, base=replace(GO1.base, name="world"))
    with pytest.raises(MorphologyError, match="MuJoCo cannot compile the robot 'go1'"):
        compile_robot(world)


def test_soft_limits_are_the_middle_of_the_limits_that_policies_see(robot):
    """Not of a joint's hard limits, which are placeholders in some makers' descriptions."""
    seen = np.array([link.joint.feature_range for link in robot.links])
    cut = (1.0 - robot.soft_limit_factor) / 2 * (seen[:, 1] - seen[:, 0])
    expected = np.stack((seen[:, 0] + cut, seen[:, 1] - cut), axis=1)
    np.testing.assert_allclose(robot.soft_ranges, expected, atol=1e-12)
