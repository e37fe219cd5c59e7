import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import check_compiles, emit_mjcf
from gmc_bench.conformance.morphologies import biped, chain, linkage, lowest_point, star
from gmc_bench.core.errors import MorphologyError

LOOPED = [linkage(1), linkage(2, "weld"), linkage(3)]
BODIES = [chain(2), chain(3), chain(12), star(1), star(4), star(9), biped(), *LOOPED]
FLOOR = '<geom name="floor" type="plane" size="100 100 1"/>'


@pytest.fixture(params=BODIES, ids=lambda body: body.name)
def body(request):
    return request.param


@pytest.fixture
def started(body):
    """Return MuJoCo's model and data of a body at its start."""
    model = mujoco.MjModel.from_xml_string(emit_mjcf(body, floor=FLOOR))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def test_sizes():
    assert (chain(5).num_limbs, chain(5).num_joints, chain(5).depth) == (5, 6, 4)
    assert (star(4).num_limbs, star(4).num_joints, star(4).depth) == (5, 8, 1)
    assert (biped().num_limbs, biped().num_joints, biped().depth) == (5, 6, 2)
    assert [len(limb.joints) for limb in chain(5).limbs] == [0, 2, 1, 1, 2]


@pytest.mark.parametrize("body", LOOPED, ids=lambda body: body.name)
def test_the_shins_of_a_linkage_end_in_one_point(body, started):
    model, data = started
    assert body.num_limbs == 1 + 4 * len(body.loops)
    assert model.neq == len(body.loops)
    assert np.abs(data.efc_pos[: data.ne]).max() < 1e-12
    for loop in body.loops:
        tips = [
            data.xpos[end + 1] + np.array(body.limbs[end].geom.end)
            for end in (loop.first, loop.second)
        ]
        np.testing.assert_allclose(tips[0], tips[1], atol=1e-12)


def test_every_joint_is_driven(body):
    joints = [joint.name for limb in body.limbs for joint in limb.joints]
    assert [motor.joint for motor in body.actuators] == joints


def test_bodies_run_in_the_engine(body):
    check_compiles(body)


def test_the_lowest_point_starts_0_2_above_the_floor(body, started):
    _, data = started
    tips = []
    for limb, frame in zip(body.limbs, data.xpos[1:], strict=True):
        tips += [frame[2] + end[2] - limb.geom.radius for end in (limb.geom.start, limb.geom.end)]
    assert min(tips) == pytest.approx(0.2, abs=1e-9)
    assert lowest_point(body) == pytest.approx(0.2, abs=1e-9)


def test_nothing_touches_at_the_start(started):
    _, data = started
    assert data.ncon == 0


def test_hinges_turn_about_the_axes_of_the_engines_geom_frame(body, started):
    model, data = started
    geoms = {model.geom(index).bodyid[0]: index for index in range(model.ngeom)}
    for limb in body.limbs:
        frame = data.geom_xmat[geoms[model.body(limb.name).id]].reshape(3, 3)
        for joint in limb.joints:
            np.testing.assert_allclose(joint.axis, frame[:, joint.slot], atol=1e-8)


def test_the_biped_is_mirrored():
    body = biped()
    for left, right in body.symmetric_limbs:
        x, y, z = body.limbs[left].geom.end
        assert body.limbs[right].geom.end == pytest.approx((x, -y, z))


@pytest.mark.parametrize(("make", "count"), [(chain, 1), (star, 0)])
def test_too_few_limbs_are_refused(make, count):
    with pytest.raises(MorphologyError, match=f"got {count}"):
        make(count)
