"""Models with global coordinates: in the world everything is where its numbers say."""

import math

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.bodies.sandbox import FlawError

HEAD = '<mujoco><compiler coordinate="global" angle="degree" eulerseq="zyx"/>'
ARM = """
<body name="base" pos=".1 .2 1" euler="20 30 40"><freejoint/>
  <geom type="box" fromto="0 0 .8 .3 .4 1.2" size=".05"/>
  <site name="mark" pos="1 2 3"/>
  <body name="arm">
    <joint name="shoulder" axis="3 4 0" pos=".3 .4 1.2"/>
    <geom type="capsule" fromto=".3 .4 1.2 .5 .8 1.4" size=".04"/>
    <body name="hand" pos=".5 .8 1.4" zaxis="1 0 1">
      <inertial pos=".5 .9 1.4" mass=".3" fullinertia=".02 .03 .025 .001 .002 .003"/>
      <joint name="finger" type="slide" axis="0 1 0"/>
      <geom type="cylinder" size=".02 .1" pos=".5 .9 1.4"/>
    </body>
    <body name="heel" pos=".5 .8 1.4" quat="1 2 3 4">
      <inertial pos=".5 .9 1.5" mass=".4" diaginertia=".02 .03 .025" euler="90 0 0"/>
      <joint name="ankle" axis="0 0 1" pos=".5 .8 1.4"/>
      <geom type="box" size=".01 .02 .03" pos=".5 .9 1.5" axisangle="0 0 1 90"/>
    </body>
  </body>
</body>"""
TIE = '<equality><connect body1="hand" body2="heel" anchor=".5 .9 1.4"/></equality>'


def model(worldbody=ARM, more=TIE, head=HEAD):
    """MJCF with global coordinates."""
    return f"{head}<worldbody>{worldbody}</worldbody>{more}</mujoco>"


def by_name(rows):
    """Rows of a description by their names."""
    return {row["name"]: row for row in rows}


def tensor(body):
    """Inertia of a body along the axes of the world, kg m^2."""
    axes = np.reshape(body["axes"], (3, 3))
    return axes @ np.diag(body["moments"]) @ axes.T


def text(numbers):
    """Numbers of an attribute."""
    return " ".join(repr(float(number)) for number in numbers)


def test_shapes_and_joints_are_where_the_file_says(sandbox):
    found = sandbox.read(model(), {})
    assert found["was_global"]
    box, capsule, cylinder, small = found["geoms"]
    np.testing.assert_allclose(box["position"], [0.15, 0.2, 1.0], atol=1e-12)
    # The long axis of a shape between two points is its third one.
    long = np.reshape(box["turn"], (3, 3))[:, 2]
    np.testing.assert_allclose(abs(long), np.array([3, 4, 4]) / np.sqrt(41), atol=1e-12)
    np.testing.assert_allclose(box["size"], [0.05, 0.05, np.sqrt(0.41) / 2], atol=1e-12)
    np.testing.assert_allclose(capsule["position"], [0.4, 0.6, 1.3], atol=1e-12)
    np.testing.assert_allclose(cylinder["position"], [0.5, 0.9, 1.4], atol=1e-12)
    np.testing.assert_allclose(cylinder["turn"], np.eye(3).ravel(), atol=1e-12)
    np.testing.assert_allclose(small["turn"], [0, -1, 0, 1, 0, 0, 0, 0, 1], atol=1e-12)
    joints = by_name(found["joints"])
    np.testing.assert_allclose(joints["shoulder"]["anchor"], [0.3, 0.4, 1.2], atol=1e-12)
    np.testing.assert_allclose(joints["shoulder"]["axis"], [0.6, 0.8, 0.0], atol=1e-12)
    np.testing.assert_allclose(joints["finger"]["axis"], [0.0, 1.0, 0.0], atol=1e-12)


def test_bodies_have_the_stated_place_or_that_of_their_mass(sandbox):
    bodies = by_name(sandbox.read(model(), {})["bodies"])
    np.testing.assert_allclose(bodies["base"]["position"], [0.1, 0.2, 1.0], atol=1e-12)
    np.testing.assert_allclose(bodies["arm"]["position"], [0.4, 0.6, 1.3], atol=1e-12)
    np.testing.assert_allclose(bodies["hand"]["position"], [0.5, 0.8, 1.4], atol=1e-12)


def test_inertias_are_along_the_axes_of_the_world(sandbox):
    bodies = by_name(sandbox.read(model(), {})["bodies"])
    np.testing.assert_allclose(bodies["hand"]["centre"], [0.5, 0.9, 1.4], atol=1e-12)
    full = [[0.02, 0.001, 0.002], [0.001, 0.03, 0.003], [0.002, 0.003, 0.025]]
    np.testing.assert_allclose(tensor(bodies["hand"]), full, atol=1e-9)
    np.testing.assert_allclose(bodies["heel"]["centre"], [0.5, 0.9, 1.5], atol=1e-12)
    # Turned by 90 degrees about z, the first of `eulerseq`.
    np.testing.assert_allclose(tensor(bodies["heel"]), np.diag([0.03, 0.02, 0.025]), atol=1e-9)


@pytest.mark.parametrize(
    ("tie", "point"),
    [
        (TIE, [0.5, 0.9, 1.4]),
        (TIE.replace("connect", "weld"), [0.5, 0.9, 1.4]),
        ('<equality><weld body1="hand" body2="heel"/></equality>', [0.5, 0.8, 1.4]),
        ('<equality><weld body1="hand" anchor="1 2 3"/></equality>', [1.0, 2.0, 3.0]),
    ],
)
def test_loops_are_tied_where_the_file_says(sandbox, tie, point):
    (found,) = sandbox.read(model(more=tie), {})["equalities"]
    np.testing.assert_allclose(found["anchors"], [point, point], atol=1e-9)


def test_a_model_in_global_coordinates_is_that_in_local_ones(sandbox):
    """A chain as MuJoCo has it, written once in each way."""
    rng = np.random.default_rng(3)
    local, ends, places = "", "", ""
    for number in range(4):
        pos, turn = rng.uniform(-1, 1, 3), rng.uniform(-180, 180, 3)
        axis, geom = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)
        local += (
            f'<body name="b{number}" pos="{text(pos)}" euler="{text(turn)}">'
            f'{"<freejoint/>" if not number else f"""<joint axis="{text(axis)}"/>"""}'
            f'<geom type="box" size=".1 .2 .3" pos="{text(geom)}"/>'
        )
        ends += "</body>"
    compiler = '<mujoco><compiler angle="degree"/>'
    one = mujoco.MjModel.from_xml_string(f"{compiler}<worldbody>{local}{ends}</worldbody></mujoco>")
    data = mujoco.MjData(one)
    mujoco.mj_kinematics(one, data)
    for number in range(1, 5):
        joint = f'<joint axis="{text(data.xaxis[number - 1])}" pos="{text(data.xpos[number])}"/>'
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, data.geom_xmat[number - 1])
        places += (
            f'<body name="b{number - 1}" pos="{text(data.xpos[number])}" '
            f'quat="{text(data.xquat[number])}">{"<freejoint/>" if number == 1 else joint}'
            f'<geom type="box" size=".1 .2 .3" pos="{text(data.geom_xpos[number - 1])}" '
            f'quat="{text(quat)}"/>'
        )
    found = sandbox.read(model(places + ends, ""), {})
    expected = sandbox.read(f"{compiler}<worldbody>{local}{ends}</worldbody></mujoco>", {})
    assert not expected["was_global"]
    for kind in ("bodies", "joints", "geoms"):
        for row, other in zip(found[kind], expected[kind], strict=True):
            for key in ("position", "turn", "centre", "anchor", "axis", "moments"):
                if key in row:
                    np.testing.assert_allclose(row[key], other[key], atol=1e-9, err_msg=key)


def test_included_files_are_converted_too(sandbox):
    files = {"arm.xml": f"<mujoco>{ARM}</mujoco>".encode(), "say.xml": f"{HEAD}</mujoco>".encode()}
    split = '<include file="arm.xml"/>'
    found = sandbox.read(model(split, head='<mujoco><include file="say.xml"/>'), files)
    assert found["geoms"] == sandbox.read(model(), {})["geoms"]


def test_what_comments_say_of_coordinates_does_not_count(sandbox):
    comment = '<!-- <compiler coordinate="local"/> <frame/> -->'
    found = sandbox.read(model(comment + ARM), {})
    assert found["geoms"] == sandbox.read(model(), {})["geoms"]
    local = sandbox.read(model(head=f"<mujoco><!--{HEAD}-->"), {})
    assert not local["was_global"]


@pytest.mark.parametrize(
    ("worldbody", "head", "reason"),
    [
        (ARM, f'{HEAD}<compiler coordinate="local"/>', "local ones by another"),
        (f"<frame>{ARM}</frame>", HEAD, "together with <frame>"),
        (ARM.replace(".1 .2 1", "a b c"), HEAD, "refused by MuJoCo"),
    ],
)
def test_what_cannot_be_converted_is_refused(sandbox, worldbody, head, reason):
    with pytest.raises(FlawError, match=reason):
        sandbox.read(model(worldbody, "", head), {})


def test_an_imported_robot_says_that_its_coordinates_were_converted(tmp_path, sandbox):
    path = tmp_path / "old.xml"
    path.write_text(
        f'{HEAD}<worldbody><body name="torso" pos="0 0 1"><freejoint/>'
        '<geom name="torso" size=".1" pos="0 0 1"/><body name="leg" pos="0 0 .9">'
        '<joint name="hip" axis="0 1 0" pos="0 0 .9" range="-40 40" damping="1"/>'
        '<geom name="leg" type="capsule" fromto="0 0 .9 0 0 .5" size=".05"/></body></body>'
        '</worldbody><actuator><motor joint="hip" gear="2"/></actuator></mujoco>'
    )
    found = read_robot(path, sandbox, seconds=0.1)
    (leg,) = found.body.limbs[1].geoms
    assert leg.volume == pytest.approx(math.pi * (0.05**2 * 0.4 + 4 / 3 * 0.05**3))
    assert any("global coordinates" in note for note in found.notes)
