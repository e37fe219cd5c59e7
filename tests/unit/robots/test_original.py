"""Robots from model files laid out as in MuJoCo Menagerie, mesh files included."""

import hashlib
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.robots import ANYMAL_C, GO1, GO2
from gmc_bench.robots.menagerie import ENTRIES, bodies_from, load_original
from gmc_bench.robots.mjcf import HeightField, build_mjcf
from gmc_bench.robots.model import compile_robot
from gmc_bench.robots.original import read_original
from gmc_bench.robots.schema import BUILT_IN
from tests.support.menagerie import compare_models
from tests.support.stance import settle

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
OPTIONS = ("timestep", "cone", "impratio", "integrator", "solver", "iterations", "disableflags")


def write_menagerie(root, robot, *, change=None):
    """Write a robot as Menagerie does: meshes that are seen, servos, a keyframe, legs from FR."""
    folder, entry = ENTRIES[robot.name]
    (root / folder / "assets").mkdir(parents=True)
    (root / folder / "assets" / "base.obj").write_text(TETRAHEDRON)
    document = ElementTree.fromstring(build_mjcf(robot))
    document.find("compiler").set("meshdir", "assets")
    for name in ("option", "actuator"):
        document.remove(document.find(name))
    document.find("default").remove(document.find("default/geom"))
    foot = document.find("default/default/geom")
    foot.attrib.update(condim="6", solimp="0.015 1 0.031")
    world, base = document.find("worldbody"), document.find("worldbody/body")
    world.remove(world.find("geom"))
    base.set("quat", "0 0 0 1")
    legs = base.findall("body")
    for leg in legs:
        base.remove(leg)
    base.extend(legs[leg] for leg in (1, 0, 3, 2))
    for body in base.iter("body"):
        ElementTree.SubElement(body, "geom", mesh="base", type="mesh", contype="0", conaffinity="0")
        for joint in body.findall("joint"):
            joint.set("damping", "2")
    for geom in base.iter("geom"):
        geom.attrib.pop("name", None)
    extra = "".join(f'<position joint="{name}" kp="100"/>' for name in robot.joint_names)
    asset = ElementTree.SubElement(document, "asset")
    ElementTree.SubElement(asset, "mesh", file="base.obj")
    ElementTree.SubElement(asset, "material", name="black")
    for foot in document.iterfind(".//geom[@class='foot']"):
        foot.set("material", "black")
    document.append(ElementTree.fromstring(f"<actuator>{extra}</actuator>"))
    key = " ".join(["0 0 0.3 1 0 0 0", *["0 0.9 -1.8"] * 4])
    document.append(ElementTree.fromstring(f'<keyframe><key qpos="{key}"/></keyframe>'))
    document.append(
        ElementTree.fromstring(
            f'<contact><exclude body1="{robot.base.name}" body2="{robot.links[1].name}"/></contact>'
        )
    )
    if change:
        change(document)
    path = root / folder / f"{entry}.xml"
    path.write_bytes(ElementTree.tostring(document))
    return path


@pytest.fixture
def original(tmp_path):
    """Make a robot of a file that was written, and perhaps changed."""

    def make(robot, **options):
        path = write_menagerie(tmp_path / str(len(list(tmp_path.iterdir()))), robot, **options)
        assert mujoco.MjModel.from_xml_path(str(path)).nmesh == 1
        return read_original(robot, mujoco.MjSpec.from_file(str(path)), "a file")

    return make


def test_the_same_body_in_a_file_stands_as_ours(robot, original):
    found = original(robot)
    ours, theirs = compile_robot(robot), compile_robot(found)
    assert compare_models(robot, theirs.model) == []
    assert theirs.model.nmesh == theirs.model.nkey == theirs.model.nexclude == 0
    for name in OPTIONS:
        assert getattr(theirs.model.opt, name) == getattr(ours.model.opt, name), name
    assert theirs.joint_qpos.tolist() != ours.joint_qpos.tolist()  # the legs come from FR
    np.testing.assert_allclose(settle(theirs)[:7], settle(ours)[:7], atol=2e-4)
    for name in ("actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange"):
        np.testing.assert_array_equal(getattr(theirs.model, name), getattr(ours.model, name))
    for geoms, model in ((ours.foot_geoms, ours.model), (theirs.foot_geoms, theirs.model)):
        assert set(model.geom_condim[geoms]) == {3}
        np.testing.assert_allclose(model.geom_solimp[geoms, 0], 0.9)
    assert (theirs.model.dof_damping == 0.0).all()  # the drive has its own
    calves = theirs.model.geom_bodyid[theirs.foot_geoms]
    assert [theirs.model.body(calf).name for calf in calves] == [
        robot.links[foot.link].name for foot in robot.feet
    ]
    np.testing.assert_allclose(theirs.model.site("imu").pos, robot.base.imu)


def test_ground_and_sensors_are_as_ours(original):
    ground = HeightField(heights=np.zeros((3, 3)), half_extents=(2.0, 2.0))
    model = compile_robot(original(GO2), terrain=ground).model
    assert (model.nhfield, model.nsensor, model.nsite) == (1, 5, 5)


def test_a_body_of_its_own_has_its_own_digest(original):
    def heavier(document):
        mass = document.find(".//body[@name='FL_calf']/inertial")
        mass.set("mass", "0.241352")

    found, changed = original(GO2), original(GO2, change=heavier)
    assert len({robot.digest for robot in (GO2, found, changed)}) == 3
    assert original(GO2).digest == found.digest
    assert replace(found, origin="elsewhere", title="Go2 again").digest == found.digest
    (mass,) = compare_models(GO2, compile_robot(changed).model)
    assert (mass.part, mass.quantity) == ("FL_calf", "mass")
    assert changed.mass == GO2.mass  # what policies are told is ours
    assert (GO2.simulated_from, found.simulated_from) == (BUILT_IN, "a file")


def test_link_frames_may_be_turned_and_feet_be_bodies(original):
    def turn(document):
        quaternion = np.array([0.1, 0.7, -0.3, 0.5])
        quaternion /= np.linalg.norm(quaternion)
        back, axis = quaternion * [1, -1, -1, -1], np.empty(3)
        calf = document.find(".//body[@name='LF_SHANK']")
        calf.set("quat", " ".join(map(str, quaternion)))
        calf.find("joint").set("axis", " ".join(map(str, _rotated([0, 1, 0], back, axis))))
        foot = calf.find("geom[@class='foot']")
        calf.remove(foot)
        place = [float(number) for number in foot.attrib.pop("pos").split()]
        place = " ".join(map(str, _rotated(place, back, axis)))
        foot.set("contype", "0")  # the ground touches it all the same
        ElementTree.SubElement(calf, "body", pos=place).append(foot)
        inertial = calf.find("inertial")
        com = [float(number) for number in inertial.get("pos").split()]
        inertial.set("pos", " ".join(map(str, _rotated(com, back, axis))))

    found = original(ANYMAL_C, change=turn)
    ours, theirs = compile_robot(ANYMAL_C), compile_robot(found)
    np.testing.assert_allclose(theirs.stance_geometry(), ours.stance_geometry(), atol=1e-6)
    assert found.pose.base_height == pytest.approx(ANYMAL_C.pose.base_height, abs=1e-4)


def _rotated(vector, quaternion, out):
    mujoco.mju_rotVecQuat(out, np.array(vector, np.float64), quaternion)
    return out.tolist()


def _drop(path):
    def change(document):
        parents = {child: parent for parent in document.iter() for child in parent}
        found = document.find(path)
        parents[found].remove(found)

    return change


def _set(path, **values):
    return lambda document: document.find(path).attrib.update(values)


def test_what_is_simulated_is_the_file_s(original):
    def change(document):
        hip = document.find(".//body[@name='RR_hip']/joint")
        hip.attrib.update(armature="0.02", frictionloss="0.3", pos="0 0 0.01", limited="false")
        foot = document.find(".//body[@name='FL_calf']/geom[@class='foot']")
        foot.set("size", "0.032")

    found = original(GO2, change=change)
    model = compile_robot(found).model
    hip = model.joint("RR_hip_joint")
    dof = hip.dofadr[0]
    assert (model.dof_armature[dof], model.dof_frictionloss[dof]) == (0.02, 0.3)
    assert (hip.pos.tolist(), model.jnt_limited[hip.id]) == ([0.0, 0.0, 0.01], 0)
    # Front feet are the lowest, see `test_numbers`; one is a centimetre larger now.
    assert found.pose.base_height == pytest.approx(0.301503 + 0.032, abs=2e-6)


def test_a_foot_is_the_sphere_farthest_from_the_knee(original):
    """Also where another one is farther from the base."""

    def change(document):
        calf = document.find(".//body[@name='FL_calf']")
        ElementTree.SubElement(
            calf, "geom", type="sphere", size="0.02", pos="0.121 0.082 -0.137", mass="0"
        )

    compiled = compile_robot(original(GO1, change=change))
    foot = compiled.model.geom(compiled.foot_geoms[0])
    np.testing.assert_allclose(foot.pos, GO1.feet[0].position)


def test_a_zero_s_sign_makes_no_other_robot(original):
    turned = original(GO2, change=_set(".//body[@name='FL_calf']", pos="-0 0 -0.213"))
    assert turned.digest == original(GO2).digest


def _rename_hinge(document):
    document.find(".//joint[@name='FL_calf_joint']").set("name", "knee")
    document.find(".//position[@joint='FL_calf_joint']").set("joint", "knee")


def _slide(path, *, free):
    """Let a body slide, too, or instead of moving freely."""

    def change(document):
        document.remove(document.find("keyframe"))
        if not free:
            _drop(".//freejoint")(document)
        document.find(path).insert(0, ElementTree.Element("joint", type="slide", name="slide"))

    return change


def _show_bracket(document):
    """Add a body that is only seen and says nothing of its mass."""
    bracket = ElementTree.SubElement(
        document.find(".//body[@name='FL_thigh']"), "body", name="bracket"
    )
    shape = {"type": "mesh", "mesh": "base", "contype": "0", "conaffinity": "0"}
    ElementTree.SubElement(bracket, "geom", shape)


def _hide_thigh(document):
    """Leave a link without an inertial and without a mesh."""
    _drop(".//body[@name='FL_thigh']/inertial")(document)
    _drop(".//body[@name='FL_thigh']/geom[@mesh]")(document)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (_drop(".//body[@name='FL_thigh']/inertial"), "no inertial for the link 'FL_thigh'"),
        (_hide_thigh, "no inertial for the link 'FL_thigh'"),
        (_show_bracket, "no inertial for the link 'bracket'"),
        (_set(".//joint[@name='FL_calf_joint']", type="slide"), "a free joint and the hinges"),
        (_rename_hinge, "has the joints root, .*, knee, .* and the hinges FL_hip_joint"),
        (_slide(".//body[@name='FL_calf']", free=True), "a free joint and the hinges"),
        (_slide("worldbody/body", free=False), "a free joint and the hinges"),
        (_set(".//joint[@name='FL_calf_joint']", ref="0.1"), "from another zero"),
        (_set(".//body[@name='FL_calf']", name="shin"), "has no link 'FL_calf'"),
        (_drop(".//body[@name='RR_calf']/geom[@class='foot']"), "no sphere that touches"),
        (_set(".//geom[@mesh='base']", contype="1"), "a mesh that touches the ground at the link"),
    ],
)
def test_files_that_do_not_fit_are_refused(original, change, flaw):
    with pytest.raises(MorphologyError, match=flaw):
        original(GO1, change=change)


class _Menagerie(ModuleType):
    """What is used of the package where it is not installed."""

    class MenagerieError(Exception):
        pass

    def get(self, folder):
        root = Path(os.environ["MENAGERIE_ROOT"], folder)
        if not root.is_dir():
            raise self.MenagerieError("no network")
        return SimpleNamespace(xml=lambda entry: root / f"{entry}.xml")


def test_the_package_is_used_with_its_own_layout(tmp_path, monkeypatch):
    if find_spec("mujoco_menagerie") is None:
        monkeypatch.setitem(sys.modules, "mujoco_menagerie", _Menagerie("mujoco_menagerie"))
    path = write_menagerie(tmp_path, GO1)
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    assert bodies_from("built-in", [GO1]) == [GO1]
    (found,) = bodies_from("menagerie", [GO1])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.origin == f"mujoco_menagerie unitree_go1/go1.xml (sha256 {digest[:12]})"
    assert found.digest != GO1.digest
    path.write_text("no model")
    with pytest.raises(ConfigError, match=r"cannot provide the robot 'go1' \(.*; connect to"):
        load_original(GO1)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot provide the robot 'go1'"):
        load_original(GO1)
    with pytest.raises(ConfigError, match="cannot provide the robot 'go2'"):
        load_original(GO2)
