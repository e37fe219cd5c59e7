"""The scene of every task, measured with rays on the model that is simulated."""

import math

import mujoco
import numpy as np
import pytest

from tests.reference_tasks.plain_task import RULES, SLOPE, Ground

UP = (0.0, 0.0, 1.0)
WALLED = {
    "unimal-exploration-v1": (0.0, 100.0, 50.0),
    "unimal-obstacles-v1": (-3.0, 97.0, 20.0),
}


@pytest.fixture(params=RULES)
def name(request):
    return request.param


def model_of(core, row=0):
    return core.simulator.model(row)


def start_of(name, body):
    """Return the first seven coordinates of a start pose without noise."""
    height = body.limbs[0].position[2] + 1.0
    if name == "unimal-incline-v1":
        turn = (math.cos(SLOPE / 2), 0.0, -math.sin(SLOPE / 2), 0.0)  # about y, uphill
        return (math.cos(SLOPE) * -73.0, 0.0, height - 73.0 * math.sin(SLOPE), *turn)
    return (50.0 if name == "unimal-exploration-v1" else 0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0)


def test_starts_are_shaken_on_every_coordinate(name, bodies, make_core):
    body = bodies[-1]
    core = make_core(name, [body] * 60)
    qpos = np.array([core.simulator.data(row).qpos for row in range(60)])
    qpos[:, :7] -= start_of(name, body)
    qvel = np.array([core.simulator.data(row).qvel for row in range(60)])
    for noise in (qpos, qvel):
        widest = np.abs(noise).max(axis=0)
        assert (widest <= 0.005 + 1e-12).all()
        assert (widest > 0.0045).all()
        assert (np.abs(noise.mean(axis=0)) < 0.0015).all()


def test_physical_settings(name, bodies, make_core):
    model = model_of(make_core(name, bodies))
    assert model.opt.timestep == 0.005
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
    assert model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    assert model.opt.jacobian == mujoco.mjtJacobian.mjJAC_DENSE
    assert model.nexclude == 0
    touching = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    assert (model.geom_condim[touching] == 3).all()
    np.testing.assert_allclose(model.geom_friction[touching], [[0.7, 0.1, 0.1]] * touching.sum())


def test_what_stands_still_never_touches_itself(name, bodies, make_core):
    """All of the scene is welded to the world, whose parts the engine does not pair."""
    core = make_core(name, bodies)
    core.step(np.zeros((len(bodies), core.spec.max_limbs, 2), np.float32))
    for row in range(len(bodies)):
        model, data = model_of(core, row), core.simulator.data(row)
        torso = model.body("torso/0").id
        scene = model.body_rootid[model.geom_bodyid] != torso
        assert scene.any()
        assert (model.body_weldid[model.geom_bodyid[scene]] == 0).all()
        assert not any(scene[list(contact.geom)].all() for contact in data.contact)


def test_the_incline_rises_by_ten_degrees(bodies, make_core):
    ground = Ground(model_of(make_core("unimal-incline-v1", bodies)))
    for x in np.linspace(-73.5, 73.5, 50):
        expected = math.tan(SLOPE) * x + 1.0 / math.cos(SLOPE)
        assert ground.height(x, 3.0) == pytest.approx(expected, abs=1e-6)
        assert ground.height(x, 19.99) == pytest.approx(expected, abs=1e-6)
        assert ground.height(x, 20.01) == -math.inf
    # The top face ends where the turned box does: 75 cos(10) - sin(10).
    end = 75.0 * math.cos(SLOPE) - math.sin(SLOPE)
    assert ground.height(end - 0.01, 0.0) == pytest.approx(
        math.tan(SLOPE) * (end - 0.01) + 1.0 / math.cos(SLOPE), abs=1e-6
    )
    assert ground.height(75.0 * math.cos(SLOPE) + math.sin(SLOPE) + 0.01, 0.0) == -math.inf


def test_flat_ground_ends_at_100_m(bodies, make_core):
    ground = Ground(model_of(make_core("unimal-ft-v1", bodies)))
    for x, y in ((0.0, 0.0), (99.99, 0.0), (-99.99, 99.99), (3.0, -99.99)):
        assert ground.height(x, y) == pytest.approx(1.0, abs=1e-9)
    assert ground.height(100.01, 0.0) == ground.height(0.0, -100.01) == -math.inf


@pytest.mark.parametrize("task", WALLED)
def test_walls_stand_around_flat_ground(task, bodies, make_core):
    ground = Ground(model_of(make_core(task, bodies)))
    west, east, side = WALLED[task]
    middle = (west + east) / 2
    # Above the ground at the edge of the field, away from any box of the obstacles task.
    inside = {
        (-1.0, 0.0): (west + 0.1, 0.0, 0.1),
        (1.0, 0.0): (east - 0.1, 0.0, 0.1),
        (0.0, 1.0): (west + 1.0, side - 0.1, 0.1),
        (0.0, -1.0): (west + 1.0, 0.1 - side, 0.1),
    }
    for (dx, dy), (x, y, distance) in inside.items():
        for z in (1.01, 2.99):
            assert ground.hit((x, y, z), (dx, dy, 0.0))[0] == pytest.approx(distance, abs=1e-6)
        assert ground.hit((x, y, 3.01), (dx, dy, 0.0))[0] == math.inf
        outside = (x + 5.0 * dx, y + 5.0 * dy, 2.0)
        back = ground.hit(outside, (-dx, -dy, 0.0))[0]
        assert back == pytest.approx(5.0 - distance - 1.0, abs=1e-6)
    corners = [(x, y) for x in (west - 0.5, east + 0.5) for y in (-side - 0.5, side + 0.5)]
    edges = [(x, middle_y) for x in (west + 0.01, east - 0.01) for middle_y in (0.0, side - 0.01)]
    assert all(ground.height(x, y) == pytest.approx(3.0, abs=1e-6) for x, y in corners)
    assert all(ground.height(x, y) == pytest.approx(1.0, abs=1e-6) for x, y in edges)
    if task == "unimal-exploration-v1":
        assert ground.height(middle, 0.0) == pytest.approx(1.0, abs=1e-6)
    # The walls reach down to the underside of the ground.
    below = ground.hit((west - 0.5, 0.0, -3.0), UP)[0]
    assert below == pytest.approx(2.0, abs=1e-6)
