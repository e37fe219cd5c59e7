import re
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import (
    check_compiles,
    emit_mjcf,
    has_warned,
    mute_warnings,
    parse_mjcf,
    read_mjcf,
)
from gmc_bench.bodies.schema import Loop
from gmc_bench.conformance.morphologies import biped, linkage, star
from gmc_bench.core.errors import MorphologyError

# Everything of a compiled model that moves the physics of one body.
PHYSICS = (
    "body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia",
    "body_parentid", "geom_type", "geom_size", "geom_pos", "geom_quat", "geom_friction",
    "geom_condim", "geom_solref", "geom_solimp", "geom_contype", "geom_conaffinity", "geom_margin",
    "jnt_type", "jnt_pos", "jnt_axis", "jnt_range", "jnt_limited", "jnt_stiffness", "jnt_solref",
    "jnt_solimp", "dof_damping", "dof_armature", "dof_frictionloss", "qpos0", "qpos_spring",
    "actuator_gear", "actuator_ctrlrange", "actuator_ctrllimited", "actuator_trnid",
    "actuator_gainprm", "actuator_biasprm",
)  # fmt: skip


def _compile(text: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(text)


def _assert_same_model(path) -> None:
    body = read_mjcf(path)
    text = emit_mjcf(body)
    ours, theirs = _compile(text), mujoco.MjModel.from_xml_path(str(path))
    assert (ours.nq, ours.nv, ours.nu, ours.nbody) == (
        theirs.nq,
        theirs.nv,
        theirs.nu,
        theirs.nbody,
    )
    for name in PHYSICS:
        np.testing.assert_allclose(
            getattr(ours, name),
            getattr(theirs, name),
            rtol=0,
            atol=1e-9,
            err_msg=f"{path.stem} {name}",
        )
    again = parse_mjcf(text, body.name)
    assert again == body
    assert again.digest == body.digest


@pytest.mark.slow
def test_every_written_body_compiles_to_the_published_model(published_dir):
    files = sorted(published_dir.glob("*/xml/*.xml"))
    assert len(files) == 202
    for path in files:
        _assert_same_model(path)


def test_written_model_has_the_settings_of_the_environment(tiny_body):
    model = _compile(emit_mjcf(parse_mjcf(tiny_body, "tiny")))
    off = mujoco.mjtDisableBit
    assert model.opt.timestep == 0.005
    assert model.opt.jacobian == mujoco.mjtJacobian.mjJAC_DENSE
    assert model.opt.disableflags == off.mjDSBL_SENSOR | off.mjDSBL_AUTORESET
    assert model.opt.enableflags == 0
    assert (model.nsensor, model.nsite, model.ncam, model.nexclude) == (0, 0, 0, 0)
    assert model.joint(0).name == "root"
    np.testing.assert_array_equal(model.geom_friction, np.tile([0.7, 0.1, 0.1], (3, 1)))
    np.testing.assert_array_equal(model.jnt_solimp[1:, :3], np.tile([0.0, 0.99, 0.01], (3, 1)))
    np.testing.assert_array_equal(model.dof_damping, [0] * 6 + [2.0] * 3)
    np.testing.assert_array_equal(model.dof_armature, [0] * 6 + [0.5] * 3)
    np.testing.assert_array_equal(model.actuator_gear[:, 0], [150, 200, 250])


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_loops_are_as_stiff_as_the_timestep_allows(kind):
    model = _compile(emit_mjcf(linkage(2, kind)))
    np.testing.assert_array_equal(model.eq_solref, [[0.01, 1.0]] * 2)  # twice the timestep, s


def test_written_masses_are_those_of_solid_shapes(tiny_body):
    model = _compile(emit_mjcf(parse_mjcf(tiny_body, "tiny")))
    sphere = 4 / 3 * np.pi * 0.1**3 * 500
    capsule = np.pi * 0.05**2 * (0.25 + 4 / 3 * 0.05) * 900
    np.testing.assert_allclose(model.body_mass, [0, sphere, capsule, capsule], rtol=1e-12)


def test_floor_and_spawn_are_added(tiny_body):
    floor = '<geom name="floor/0" type="box" size="100 100 1"/>'
    text = emit_mjcf(parse_mjcf(tiny_body, "tiny"), floor=floor, spawn=(1.0, 2.0, 1.0))
    model = _compile(text)
    assert model.geom(0).name == "floor/0"
    np.testing.assert_array_equal(model.body("torso/0").pos, [1.0, 2.0, 1.5])
    np.testing.assert_array_equal(model.body("limb/0").pos, [0.0, 0.1, 0.0])


def test_names_and_orientations_survive_the_round_trip(tiny_body):
    body = parse_mjcf(tiny_body, "a <b> & \"c\" 'd'")
    odd = replace(body.limbs[2], name="l&<>\"'", orientation=(0.5, 0.5, -0.5, 0.5))
    body = replace(body, limbs=(*body.limbs[:2], odd))
    text = emit_mjcf(body)
    assert parse_mjcf(text, body.name) == body
    np.testing.assert_allclose(_compile(text).body(odd.name).quat, odd.orientation)


def test_exclusions_of_limbs_with_slashes_in_their_names_survive_the_round_trip():
    body = star(4)
    names = ("torso", "a/b", "c", "a", "b/c")
    limbs = tuple(replace(limb, name=name) for limb, name in zip(body.limbs, names, strict=True))
    body = replace(body, limbs=limbs, exclusions=((1, 2), (1, 3), (3, 4)))
    text = emit_mjcf(body)
    assert re.findall('<exclude name="(.*?)"', text) == ["kept/a/b/c", "kept/a/b/a", "kept/a/b/c/2"]
    assert parse_mjcf(text, body.name).exclusions == body.exclusions


def test_text_is_deterministic(tiny_body):
    first, second = parse_mjcf(tiny_body, "tiny"), parse_mjcf(tiny_body, "tiny")
    assert emit_mjcf(first) == emit_mjcf(second)


def test_refuses_names_that_the_model_needs(tiny_body):
    with pytest.raises(MorphologyError, match="hinge named 'root'"):
        emit_mjcf(parse_mjcf(tiny_body.replace('"root"', '"r"').replace("limbx/0", "root"), "tiny"))
    torso, *others, last = parse_mjcf(tiny_body, "tiny").limbs
    limbs = (torso, *others, replace(last, name="world"))
    with pytest.raises(MorphologyError, match="limb named 'world'"):
        emit_mjcf(replace(parse_mjcf(tiny_body, "tiny"), limbs=limbs))


@pytest.mark.parametrize("ground", ['<geom name="ramp"/>', "<body pos='0 0 0' name='ramp'/>"])
def test_refuses_names_of_the_ground(tiny_body, ground):
    torso, *others, last = parse_mjcf(tiny_body, "tiny").limbs

    def named(name):
        return replace(
            parse_mjcf(tiny_body, "tiny"), limbs=(torso, *others, replace(last, name=name))
        )

    for name in ("floor/0", "wall/x", "patch/", "box/12"):
        with pytest.raises(MorphologyError, match=f"limb named '{name}', .* 'limb {name}'$"):
            emit_mjcf(named(name))
    assert emit_mjcf(named("ramp"))
    with pytest.raises(MorphologyError, match="limb named 'ramp'"):
        emit_mjcf(named("ramp"), floor=ground)


def test_check_compiles_accepts_a_sound_body(tiny_body):
    check_compiles(parse_mjcf(tiny_body, "tiny"))


def test_check_compiles_reports_what_the_engine_refuses(tiny_body):
    body = parse_mjcf(tiny_body, "tiny")
    weightless = replace(body.limbs[2], geom=replace(body.limbs[2].geom, density=1e-14))
    with pytest.raises(MorphologyError, match=r"does not compile \(.*mass"):
        check_compiles(replace(body, limbs=(*body.limbs[:2], weightless)))


def test_check_compiles_reports_divergence(tiny_body, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    body = parse_mjcf(tiny_body, "tiny")
    wild = tuple(replace(actuator, gear=1e12) for actuator in body.actuators)
    with pytest.raises(MorphologyError, match=r"does not simulate: .*mjWARN_BAD"):
        check_compiles(replace(body, actuators=wild))
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []  # no log file of the engine


def test_one_warning_counts(tiny_body):
    data = mujoco.MjData(_compile(emit_mjcf(parse_mjcf(tiny_body, "tiny"))))
    mute_warnings(data)
    assert not has_warned(data)
    data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number += 1
    assert has_warned(data)


def test_read_refuses_missing_and_binary_files(tmp_path):
    with pytest.raises(MorphologyError, match=r"cannot read the body file .*none\.xml"):
        read_mjcf(tmp_path / "none.xml")
    binary = tmp_path / "binary.xml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MorphologyError, match="not UTF-8"):
        read_mjcf(binary)


@pytest.mark.parametrize(("kind", "rows"), [("connect", 3), ("weld", 6)])
def test_loops_are_closed_at_rest_around_their_anchor(kind, rows):
    body = biped()
    ends = (1, body.num_limbs - 1)
    anchor = (0.05, 0.02, -0.1)
    looped = replace(body, loops=(Loop(first=ends[0], second=ends[1], anchor=anchor, kind=kind),))
    model = _compile(emit_mjcf(looped))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ne == rows
    assert np.abs(data.efc_pos[:rows]).max() < 1e-12
    # Moving the second limb's whole branch alone opens the loop by as much as the anchor moves.
    joint = model.jnt_qposadr[model.body_jntadr[ends[1] + 1]]
    data.qpos[joint] += 0.1
    before = data.xmat[ends[1] + 1].reshape(3, 3).T @ (
        data.xpos[ends[0] + 1] + anchor - data.xpos[ends[1] + 1]
    )
    mujoco.mj_forward(model, data)
    at_second = data.xpos[ends[1] + 1] + data.xmat[ends[1] + 1].reshape(3, 3) @ before
    gap = data.xpos[ends[0] + 1] + anchor - at_second
    np.testing.assert_allclose(np.abs(data.efc_pos[:3]), np.abs(gap), atol=1e-9)
    assert np.abs(gap).max() > 1e-3
    assert model.body_parentid[ends[1] + 1] != ends[0] + 1
    assert model.nexclude == 1
