from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import MorphologyError
from gmc_bench.sim.model import Scene, compile_model, compile_models

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


def test_many_bodies_keep_their_order():
    bodies = [chain(2), star(3), chain(5), biped(), star(6)]
    assert [compiled.morphology for compiled in compile_models(bodies, SCENE)] == bodies


def test_what_the_engine_refuses_is_reported_with_its_reason():
    body = chain(2)
    weightless = replace(body.limbs[1], geom=replace(body.limbs[1].geom, density=1e-14))
    flawed = replace(body, name="ghost", limbs=(body.limbs[0], weightless))
    with pytest.raises(MorphologyError, match=r"cannot compile the body 'ghost': .*mass"):
        compile_models([body, flawed], SCENE)
