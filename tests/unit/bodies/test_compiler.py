from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Actuator, Geom, Joint, Limb, Morphology
from gmc_bench.conformance.morphologies import chain, linkage, star

_FLOOR = '<geom name="floor/0" type="plane" size="50 50 1"/>'


def _bytes(model):
    content = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return content


@pytest.mark.parametrize("body", [chain(5), star(7), linkage(2)], ids=["chain", "star", "loops"])
def test_models_differ_in_nothing_but_the_arena(body):
    text = emit_mjcf(body, floor=_FLOOR)
    small, usual = compile_mjcf(text), mujoco.MjModel.from_xml_string(text)
    assert small.narena < 0.2 * usual.narena
    different = np.flatnonzero(_bytes(small) != _bytes(usual))
    assert 1 <= len(different) <= 8
    assert np.ptp(different) < 8  # the bytes of one number


@pytest.mark.parametrize("body", [star(30), chain(30)], ids=["star", "chain"])
def test_a_heap_of_limbs_needs_a_part_of_the_arena(body):
    model = compile_mjcf(emit_mjcf(body, floor=_FLOOR))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    # Straight through the floor: as many contacts as there can be.
    data.qpos[2] = 0.02
    for _ in range(200):
        data.ctrl[:] = rng.uniform(-1, 1, model.nu)
        mujoco.mj_step(model, data)
    assert data.maxuse_con >= 10
    assert data.maxuse_arena + data.maxuse_stack < 0.5 * model.narena
    assert not data.warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number
    assert not data.warning[mujoco.mjtWarning.mjWARN_CNSTRFULL].number


def test_a_long_snake_of_boxes_can_lie_on_the_ground():
    limbs = [
        Limb(
            name=f"l{k}",
            parent=k - 1,
            position=(0.05, 0.0, 0.0) if k else (0.0, 0.0, 0.019),
            geom=Geom(kind="box", radius=0.05, half_sizes=(0.024, 0.05, 0.02)),
            joints=tuple(
                Joint(name=f"j{k}{n}", axis=axis, position=(0.0,) * 3, range=(-0.5, 0.5), slot=n)
                for n, axis in enumerate([(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)] if k else [])
            ),
        )
        for k in range(256)
    ]
    body = Morphology(
        name="snake", limbs=tuple(limbs), actuators=(Actuator(joint="j10", gear=1.0),)
    )
    model = compile_mjcf(emit_mjcf(body, floor=_FLOOR))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ncon >= 2 * 256
    assert not any(warning.number for warning in data.warning)


def _tiles(boxes):
    """A torso and two limbs that lie on the ground, each of a square of small boxes."""
    places = [(0.05 * (k % 8), 0.05 * (k // 8), 0.0) for k in range(boxes)]
    first, *others = [
        Geom(kind="box", radius=0.02, half_sizes=(0.02,) * 3, start=place, end=place)
        for place in places
    ]
    hinge = Joint(name="j", axis=(0.0, 1.0, 0.0), position=(0.0,) * 3, range=(-0.5, 0.5), slot=0)
    limbs = [
        Limb(
            name=f"l{k}",
            parent=k - 1,
            position=(0.45, 0.0, 0.0) if k else (0.0, 0.0, 0.0195),
            geom=first,
            more_geoms=tuple(others),
            joints=(replace(hinge, name=f"j{k}"),) if k else (),
        )
        for k in range(3)
    ]
    motors = tuple(Actuator(joint=f"j{k}", gear=1.0) for k in (1, 2))
    return Morphology(name="tiles", limbs=tuple(limbs), actuators=motors)


def test_limbs_of_many_boxes_can_lie_on_the_ground():
    """Three limbs of the 64 boxes that an import keeps of each."""
    model = compile_mjcf(emit_mjcf(_tiles(64), floor=_FLOOR))
    assert model.narena < 2**22
    data = mujoco.MjData(model)
    for _ in range(200):
        mujoco.mj_step(model, data)
    assert data.maxuse_con >= 4 * 3 * 64
    assert not any(warning.number for warning in data.warning)


def test_the_arena_of_a_body_of_few_shapes_follows_from_its_joints():
    """2 ** 20 + 2 ** 15 bytes per joint; shapes of the ground do not count."""
    floor = _FLOOR.replace("floor/0", "floor/{}")
    for body in (_tiles(2), _tiles(20), chain(5)):
        joints = 1 + body.num_joints
        text = emit_mjcf(body, floor="".join(floor.format(k) for k in range(100)))
        assert compile_mjcf(text).narena == 2**20 + 2**15 * joints


def test_a_text_that_the_engine_refuses_is_an_error():
    with pytest.raises(ValueError, match="unrecognized attribute"):
        compile_mjcf('<mujoco><worldbody><geom wrong="1"/></worldbody></mujoco>')
