import copy

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import ANYMAL_C, GO2
from gmc_bench.robots.mjcf import FLOOR, HeightField, build_mjcf
from gmc_bench.robots.model import compile_robot


def test_options(robot):
    option = compile_robot(robot).model.opt
    assert option.timestep == 0.005
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert option.impratio == 10
    assert option.jacobian == mujoco.mjtJacobian.mjJAC_DENSE
    assert option.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert option.iterations == 100
    diverged_stays = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    assert option.disableflags == diverged_stays
    blind = mujoco.MjModel.from_xml_string(build_mjcf(robot)).opt
    assert blind.disableflags == diverged_stays | mujoco.mjtDisableBit.mjDSBL_SENSOR


def test_text_depends_on_the_arguments_alone(robot):
    assert build_mjcf(robot) == build_mjcf(copy.deepcopy(robot))


def test_text_needs_no_mesh_files(robot):
    assert "mesh" not in build_mjcf(robot)


def test_numbers_read_back_exactly(robot):
    model = compile_robot(robot).model
    for link in robot.links:
        body, joint = model.body(link.name), model.joint(link.joint.name)
        assert body.mass[0] == link.inertial.mass
        np.testing.assert_array_equal(body.pos, link.position)
        np.testing.assert_array_equal(body.ipos, link.inertial.com)
        np.testing.assert_array_equal(joint.range, link.joint.range)
        np.testing.assert_array_equal(model.dof_armature[joint.dofadr], link.joint.armature)
        np.testing.assert_array_equal(model.dof_frictionloss[joint.dofadr], link.joint.frictionloss)
        np.testing.assert_array_equal(model.dof_damping[joint.dofadr], 0.0)


def test_full_inertias_survive_the_engine(robot):
    model = compile_robot(robot).model
    for part in (robot.base, *robot.links):
        body = model.body(part.name)
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, body.iquat)
        turn = turn.reshape(3, 3)
        tensor = turn @ np.diag(body.inertia) @ turn.T
        found = tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        np.testing.assert_allclose(found, part.inertial.inertia, atol=1e-12, rtol=1e-9)


def test_shapes_are_those_of_the_description(robot):
    compiled = compile_robot(robot)
    model = compiled.model
    for part in (robot.base, *robot.links):
        geoms = np.flatnonzero(model.geom_bodyid == model.body(part.name).id)
        geoms = [geom for geom in geoms if geom not in compiled.foot_geoms]
        for geom, shape in zip(geoms, part.shapes, strict=True):
            assert model.geom_type[geom] == getattr(mujoco.mjtGeom, f"mjGEOM_{shape.kind.upper()}")
            start, end = np.array(shape.start), np.array(shape.end or shape.start)
            np.testing.assert_allclose(model.geom_pos[geom], (start + end) / 2, atol=1e-12)
            turn = np.empty(9)
            mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
            if shape.kind == "box":
                np.testing.assert_array_equal(turn, np.eye(3).ravel())
                np.testing.assert_array_equal(model.geom_size[geom], shape.half_extents)
                continue
            assert model.geom_size[geom, 0] == shape.radius
            if shape.kind != "sphere":
                along, half = end - start, model.geom_size[geom, 1]
                assert np.linalg.norm(along) / 2 == pytest.approx(half)
                assert abs(turn.reshape(3, 3)[:, 2] @ along) / 2 == pytest.approx(half)  # parallel


def test_the_force_on_the_base_is_that_of_all_its_contacts():
    compiled = compile_robot(ANYMAL_C)
    legs = compiled.model.geom_bodyid > compiled.base_body
    compiled.model.geom_conaffinity[legs] = 0  # they would carry it
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.standing_qpos(0.08)  # the base is in the ground
    mujoco.mj_forward(compiled.model, data)
    base, force = [], np.empty(6)
    for index, contact in enumerate(data.contact):
        if compiled.model.geom_bodyid[contact.geom2] == compiled.base_body:
            mujoco.mj_contactForce(compiled.model, data, index, force)
            base.append(force[0])
    found, *read = data.sensordata[-4:]
    assert found
    assert np.linalg.norm(read) == pytest.approx(sum(base))
    assert sum(base) > max(base) > 0.0


def test_mass_is_all_in_the_links(robot):
    assert compile_robot(robot).model.body_mass.sum() == pytest.approx(robot.mass, rel=1e-12)


def test_only_feet_have_friction_and_nothing_touches_itself(robot):
    compiled = compile_robot(robot)
    model = compiled.model
    feet = set(compiled.foot_geoms.tolist())
    for geom in range(model.ngeom):
        if geom in feet:
            assert model.geom_condim[geom] == 3
            assert model.geom_priority[geom] == 1
            assert model.geom_friction[geom, 0] == 0.6
            assert model.geom_solimp[geom].tolist() == [0.9, 0.95, 0.023, 0.5, 2.0]
        else:
            assert model.geom_condim[geom] == 1
            assert model.geom_priority[geom] == 0
    floor = model.geom(FLOOR).id
    others = [geom for geom in range(model.ngeom) if geom != floor]
    assert not np.any(model.geom_contype[others])
    assert np.all(model.geom_conaffinity[others] == 1)


def test_foot_contacts_have_the_feet_s_friction(robot):
    compiled = compile_robot(robot)
    compiled.model.geom_friction[compiled.foot_geoms, 0] = 0.37
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.standing_qpos(robot.pose.base_height - 0.012)
    mujoco.mj_forward(compiled.model, data)
    assert data.ncon == 4
    assert all(contact.dim == 3 and contact.friction[0] == 0.37 for contact in data.contact)


def test_motors_are_clamped_to_the_torque_limits(robot):
    compiled = compile_robot(robot)
    data = mujoco.MjData(compiled.model)
    data.ctrl[:] = 1000.0
    mujoco.mj_forward(compiled.model, data)
    limits = [link.joint.torque_limit for link in robot.links]
    np.testing.assert_array_equal(data.qfrc_actuator[compiled.joint_dofs], limits)


def test_height_field_has_its_heights():
    # Rows run along y and columns along x; the corner (+x, +y) is the highest.
    field = HeightField(heights=np.array([[0.1, 0.2], [0.3, 0.5]]), half_extents=(2.0, 1.0))
    compiled = compile_robot(GO2, terrain=field)
    # Half extents, relief, and solid ground below the lowest point, m.
    assert compiled.model.hfield_size[0].tolist() == pytest.approx([2.0, 1.0, 0.4, 1.0])
    flat = HeightField(heights=np.full((2, 2), 0.3), half_extents=(2.0, 1.0))
    assert flat.relief == 0.001  # the engine takes no less
    assert not flat.elevation().any()
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.standing_qpos(3.0)
    mujoco.mj_forward(compiled.model, data)
    hit = np.zeros(1, np.int32)
    for x, y, height in ((-1.9, -0.9, 0.1), (1.9, -0.9, 0.2), (-1.9, 0.9, 0.3), (1.9, 0.9, 0.5)):
        start = np.array([x, y, 2.0])
        down = np.array([0.0, 0.0, -1.0])
        distance = mujoco.mj_ray(compiled.model, data, start, down, None, 1, -1, hit)
        assert compiled.model.geom(int(hit[0])).name == FLOOR
        assert 2.0 - distance == pytest.approx(height, abs=0.03)


@pytest.mark.parametrize(
    ("heights", "half_extents", "message"),
    [
        ([[0.0, 1.0]], (1.0, 1.0), r"at least \(2, 2\)"),
        ([0.0, 1.0], (1.0, 1.0), r"shape \(2,\)"),
        ([[0.0, 1.0], [0.0, np.nan]], (1.0, 1.0), "finite grid"),
        ([[0.0, 1.0], [0.0, 1.0]], (np.inf, 1.0), "half extents"),
        ([[0.0, 1.0], [0.0, 1.0]], (1.0, 0.0), "both must be positive"),
    ],
)
def test_bad_height_fields_are_refused(heights, half_extents, message):
    with pytest.raises(ConfigError, match=message):
        HeightField(heights=np.array(heights), half_extents=half_extents)
