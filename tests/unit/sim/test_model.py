import math
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.robots import ROBOTS
from gmc_bench.sim.model import RoughGround, Scene, compile_grounds, compile_model, compile_models
from gmc_bench.tasks import unimal_obstacles, unimal_vt

SCENE = Scene(
    floor='<geom name="ground" type="box" size="9 9 0.5"/>', spawn=(1.0, -2.0, 0.5), num_substeps=8
)


def test_a_body_is_put_into_its_scene():
    body = biped()
    compiled = compile_model(body, SCENE)
    x, y, z = body.limbs[0].position
    np.testing.assert_allclose(compiled.model.body(1).pos, [x + 1.0, y - 2.0, z + 0.5])
    assert compiled.model.geom(0).name == "ground"
    names = [compiled.model.body(i + 1).name for i in range(body.num_limbs)]
    assert names == [limb.name for limb in body.limbs]
    assert compiled.sim_dt == 0.005
    assert compiled.control_dt == 0.04
    assert (compiled.morphology, compiled.scene) == (body, SCENE)


def test_a_scene_turns_a_body_as_it_stands():
    """By 90 degrees about z, as the body is made, and then by as much about the world's y."""
    half, body = math.sqrt(0.5), biped()
    torso = replace(body.limbs[0], orientation=(half, 0.0, 0.0, half))
    scene = replace(SCENE, start_orientation=(half, 0.0, half, 0.0))
    model = compile_model(replace(body, limbs=(torso, *body.limbs[1:])), scene).model
    np.testing.assert_allclose(model.qpos0[3:7], [0.5] * 4, atol=1e-12)


def test_many_bodies_keep_their_order():
    bodies = [chain(2), star(3), chain(5), biped(), star(6)]
    assert [compiled.morphology for compiled in compile_models(bodies, SCENE)] == bodies


def test_what_the_engine_refuses_is_reported_with_its_reason():
    body = chain(2)
    weightless = replace(body.limbs[1], geom=replace(body.limbs[1].geom, density=1e-14))
    flawed = replace(body, name="ghost", limbs=(body.limbs[0], weightless))
    with pytest.raises(MorphologyError, match=r"cannot compile the body 'ghost': .*mass"):
        compile_models([body, flawed], SCENE)


@pytest.mark.parametrize("more", ["", "<freejoint/>"], ids=["a rock", "a ball"])
def test_a_floor_with_a_body_of_its_own_is_refused(more):
    """Limbs are looked up by their number among the engine's bodies."""
    rock = f'<body name="rock" pos="3 0 1">{more}<geom size="0.1"/></body>'
    with pytest.raises(ConfigError, match=r"has a <body> 'rock', .* put its geoms into the floor"):
        compile_model(biped(), replace(SCENE, floor=SCENE.floor + rock))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_substeps": 0}, "engine steps, at least 1, got 0"),
        ({"num_substeps": 2.5}, "got 2.5"),
        ({"num_substeps": True}, "got True"),
        ({"spawn": (0.0, 0.0)}, r"spawn of a scene must be a tuple of 3 numbers, got \(0.0, 0.0\)"),
        ({"start_offset": (0.0, 0.0, float("nan"))}, "each number of the start_offset .* got nan"),
        ({"start_orientation": 1.0}, "start_orientation of a scene must be a tuple of 4 numbers"),
        ({"start_orientation": (0.0,) * 4}, r"must be a unit quaternion, got \(0.0, .* length 0;"),
        ({"start_orientation": (1.0, 0.1, 0.0, 0.0)}, "of length 1.00498756; divide it by its"),
        ({"floor": b"<geom/>"}, "floor of a scene must be the text of MJCF .* got b'<geom/>'"),
        ({"assets": None}, "assets of a scene must be the text of MJCF elements, got None"),
        ({"friction_rule": "static-ish"}, "must be one of two-state, .* got 'static-ish'"),
        ({"terrain": "hills"}, "terrain .* must be ObstacleField or Corridor or None, got 'hills'"),
        ({"rough": 0.25}, "rough of a scene must be RoughGround or None, got 0.25"),
    ],
)
def test_a_scene_of_other_numbers_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(SCENE, **changes)


@pytest.mark.parametrize("module", [unimal_obstacles, unimal_vt])
def test_a_scene_holds_the_parts_of_its_terrain_first(module):
    """Draws write into them by number, without a look at what else stands there."""
    scene, other = module.TASK.scene, (unimal_vt, unimal_obstacles)[module is unimal_vt].TASK.scene
    lamp = '<site name="lamp" size="0.1" material="glow"/>'
    glow = '<material name="glow" emission="1"/>'
    more = {"floor": f"{scene.floor}\n{lamp}", "assets": f"{scene.assets}\n{glow}"}
    assert replace(scene, **more).terrain is module.TERRAIN
    for changes in (
        {"floor": SCENE.floor},
        {"floor": f"{SCENE.floor}\n{scene.floor}"},
        {"assets": f"{glow}\n{unimal_vt.TERRAIN.assets}", "terrain": unimal_vt.TERRAIN},
        {"terrain": other.terrain},
        {"terrain": replace(module.TERRAIN, length=90.0)},
    ):
        with pytest.raises(
            ConfigError, match=r"do not begin with those of its terrain, .* floor=TERRAIN"
        ):
            replace(scene, **changes)


@pytest.mark.parametrize(
    ("name", "height", "first"),
    [
        ("go1", 0.010255, (0.82223594, 0.5474054)),  # 0.035 (0.08 + 0.213)
        ("go2", 0.0107975, (0.2717161, 0.7089809)),  # 0.035 (0.0955 + 0.213)
        ("anymal-b", 0.012191, (0.37089184, 0.9433643)),  # thigh and calf joint are askew
        ("anymal-c", 0.014180, (0.67084175, 0.97103584)),
    ],
)
def test_rough_ground_has_the_heights_of_the_records(name, height, first):
    """Its cells are drawn from the robot's digest; records were measured on these very ones."""
    flat, rough = compile_grounds(ROBOTS[name], Scene(floor="", rough=RoughGround()))
    assert flat.model.nhfield == 0
    *half_widths, relief, _ = rough.model.hfield_size[0]
    assert half_widths == [24.0, 24.0]
    assert (rough.model.hfield_nrow[0], rough.model.hfield_ncol[0]) == (480, 480)  # 0.1 m a cell
    assert relief == pytest.approx(height, rel=1e-3)  # between the lowest cell and the highest
    assert rough.model.hfield_data[:2] == pytest.approx(first, abs=1e-6)
