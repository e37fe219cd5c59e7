import itertools
import re
from dataclasses import replace
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.importer import ImportProblemsError
from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.bodies.robot_import import (
    import_bodies,
    import_robots,
    read_robot,
    read_robots,
    robot_files,
    set_id_of,
)
from gmc_bench.bodies.robot_report import render_robot
from gmc_bench.bodies.robot_shapes import build_geoms, merge_inertia, quaternion, rotation
from gmc_bench.bodies.schema import Inertia
from gmc_bench.bodies.store import load_set
from gmc_bench.core.errors import ConfigError, MorphologyError, MorphologySetError
from gmc_bench.robots import ROBOTS
from gmc_bench.robots.mjcf import build_mjcf
from gmc_bench.sim.model import Scene, compile_model
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table
from tests.unit.bodies import foreign_robots as robots

BACK = '<joint name="k" type="fixed"><parent link="bar"/><child link="base"/></joint></robot>'
PARTS = ("swing", "knee")
GYMNASIUM = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


@pytest.fixture
def read(sandbox, tmp_path):
    """Read a robot from a text, or from a file."""

    def read_one(source, name="robot.xml", **options):
        if isinstance(source, str):
            (tmp_path / "meshes").mkdir(exist_ok=True)
            (tmp_path / "meshes" / "part.obj").write_text(robots.PART)
            path = tmp_path / name
            path.write_text(source)
        else:
            path = source
        return read_robot(path, sandbox, seconds=options.pop("seconds", 0.5), **options)

    return read_one


@pytest.mark.parametrize(
    ("file", "limbs", "joints", "actuators", "slots"),
    [
        ("ant.xml", 9, 8, 8, 1),
        ("half_cheetah.xml", 7, 6, 6, 1),
        ("walker2d_v5.xml", 7, 6, 6, 1),
        ("hopper.xml", 4, 3, 3, 1),
        ("humanoid.xml", 11, 17, 17, 3),
    ],
)
def test_gymnasium_robots_are_read_written_and_read_back(
    read, file, limbs, joints, actuators, slots
):
    found = read(GYMNASIUM / file)
    body = found.body
    assert (body.num_limbs, body.num_joints, body.num_actuators) == (limbs, joints, actuators)
    assert body.joints_per_limb == slots
    assert all(limb.inertia is None for limb in body.limbs)  # uniform shapes say it all
    assert parse_mjcf(emit_mjcf(body), body.name) == body


def test_the_ant_maps_to_tokens_as_its_report_says(read):
    found = read(GYMNASIUM / "ant.xml")
    torso = found.body.limbs[0]
    assert (torso.geom.kind, len(torso.more_geoms)) == (
        "sphere",
        4,
    )  # the first leg parts are rigid
    assert (torso.geom.contype, torso.geom.conaffinity) == (1, 0)  # legs pass through each other
    assert {motor.gear for motor in found.body.actuators} == {150.0}
    ankle = found.body.limbs[2].joints[0]
    assert ankle.range == pytest.approx((0.0, np.radians(40)))  # 30 to 70 degrees in the file
    text = render_robot(found)
    assert "slot 0: hinge ankle_1, 0 to 0.698 rad, motor 150" in text
    assert "moved into the ranges of joints: ankle_1, ankle_2, ankle_3, ankle_4" in text


def test_control_ranges_are_folded_into_gears(read):
    body = read(GYMNASIUM / "humanoid.xml").body
    gears = {motor.joint: motor.gear for motor in body.actuators}
    assert gears["abdomen_y"] == pytest.approx(40.0)  # gear 100, control -0.4 to 0.4
    assert gears["right_hip_y"] == pytest.approx(120.0)


def test_planar_robots_move_freely(read):
    found = read(GYMNASIUM / "half_cheetah.xml")
    assert "the torso moves freely now, instead of by rootx, rootz, rooty" in found.notes


def test_robots_start_above_the_ground_and_stand_above_the_fall_limit(read):
    for source in (GYMNASIUM / "humanoid.xml", robots.SERVO, robots.quadruped_urdf()):
        found = read(source)
        scene = Scene(floor='<geom type="box" size="9 9 1"/>', spawn=(0.0, 0.0, 1.0))
        compiled = compile_model(found.body, scene)
        data = mujoco.MjData(compiled.model)
        mujoco.mj_forward(compiled.model, data)
        distance = min(
            mujoco.mj_geomDistance(compiled.model, data, 0, geom, 9.0, None)
            for geom in range(1, compiled.model.ngeom)
            if compiled.model.geom_contype[geom]
        )
        assert distance == pytest.approx(0.2, abs=1e-4)
        height = data.qpos[2] - 1.0
        fall_limit = 0.5 * (found.body.limbs[0].position[2] - 0.2)
        assert 0.0 < fall_limit < height - distance  # also once it has landed


def _accelerations(model, joints, values, speeds, controls):
    """Accelerations of the torso and joints, without contacts and limits."""
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_CONTACT
        | mujoco.mjtDisableBit.mjDSBL_LIMIT
        | mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
    )
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.1, 0.2, 0.9, 0.8, 0.2, -0.4, 0.4]
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qvel[:6] = [0.3, -0.2, 0.1, 0.5, -0.6, 0.7]
    for joint in joints:
        data.joint(joint).qpos = values[joint]
        data.joint(joint).qvel = speeds[joint]
    data.ctrl[:] = controls
    mujoco.mj_forward(model, data)
    return np.concatenate([data.qacc[:6], *(data.joint(joint).qacc for joint in joints)])


GEARED = (
    robots.SERVO
    .replace('<body name="a" pos=".15 0 0">', '<body name="a" pos=".15 0 0" euler="25 0 0">')
    .replace('<body name="b" pos="0 0 -.22">', '<body name="b" pos="0 0 -.22" euler="0 40 0">')
    .replace('<position joint="a1"/>', '<position joint="a1" gear="-.5"/>')
    .replace('<velocity joint="c1"', '<velocity joint="c1" gear=".5"')
)  # fmt: skip


@pytest.mark.parametrize("name", ["ant", "humanoid", "servo", "geared"])
def test_the_physics_is_that_of_the_file(read, tmp_path, name):
    if name in ("servo", "geared"):
        body = read(GEARED if name == "geared" else robots.SERVO).body
        source = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
        start = dict(zip(["a1", "a2", "b1", "c1"], [0.3, 0.01, 0.4, -0.2], strict=True))
    else:
        body = read(GYMNASIUM / f"{name}.xml").body
        source = mujoco.MjModel.from_xml_path(str(GYMNASIUM / f"{name}.xml"))
        start = {}
        for limb in body.limbs:
            for joint in limb.joints:
                lower, upper = source.joint(joint.name).range
                start[joint.name] = float(np.clip(0.0, lower, upper))
    rng = np.random.default_rng(0)
    joints = [joint.name for limb in body.limbs for joint in limb.joints]
    moved = {joint: rng.uniform(-0.1, 0.1) for joint in joints}
    speeds = {joint: rng.uniform(-1, 1) for joint in joints}
    by_joint = {motor.joint: rng.uniform(-1, 1) for motor in body.actuators}

    controls = []
    for actuator in range(source.nu):
        joint = source.joint(int(source.actuator_trnid[actuator, 0])).name
        low, high = source.actuator_ctrlrange[actuator]
        if not source.actuator_ctrllimited[actuator]:
            low, high = -1.0, 1.0
        controls.append((low + high) / 2 + by_joint[joint] * (high - low) / 2)
    expected = _accelerations(
        source, joints, {j: start[j] + moved[j] for j in joints}, speeds, controls
    )
    written = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    own = [by_joint[motor.joint] for motor in body.actuators]
    found = _accelerations(written, joints, moved, speeds, own)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_servos_slides_and_exclusions_keep_their_meaning(read):
    body = read(robots.SERVO).body
    places = {limb.name: i for i, limb in enumerate(body.limbs)}
    assert body.exclusions == (tuple(sorted((places["a"], places["c"]))),)
    motors = {motor.joint: motor for motor in body.actuators}
    # The target 0.8 u, seen from the start value 0.3.
    assert motors["a1"].kind == "position"
    assert motors["a1"].gear == pytest.approx(8.0)
    assert motors["a1"].bias == pytest.approx((-3.0, -10.0, -0.3))
    assert motors["a2"].torque_range == pytest.approx((-50.0, 50.0))
    assert ", motor 50, at most -50 to 50 N\n" in render_robot(read(robots.SERVO))
    assert (motors["a2"].gear, motors["a2"].bias[0]) == pytest.approx((50.0, 50.0))
    assert motors["c1"].kind == "velocity"
    joints = {joint.name: joint for limb in body.limbs for joint in limb.joints}
    assert joints["a2"].kind == "slide"
    assert joints["a1"].friction_loss == 0.1
    assert joints["a1"].spring_reference == pytest.approx(np.radians(5) - 0.3)
    assert not joints["b1"].limited
    assert parse_mjcf(emit_mjcf(body), body.name) == body


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, "5", None])
def test_a_trial_takes_a_finite_time(read, seconds):
    with pytest.raises(ConfigError, match="seconds of a robot's trial must be a finite number at "):
        read(robots.FOUR_BAR, seconds=seconds)


def test_robots_of_too_many_parts_are_told_how_many_there_may_be(read):
    many = '<geom size=".1"/>' * 4096
    text = (
        f"<mujoco><worldbody><body><freejoint/>{many}<geom size='1'/></body></worldbody></mujoco>"
    )
    with pytest.raises(MorphologyError, match="has 4097 geoms; 4096 are the most that are read"):
        read(text)


def test_names_that_are_given_stay(read):
    text = robots.FOUR_BAR.replace('<joint joint1="l" joint2="r"/>', "")
    text = text.replace('joint name="l"', "joint").replace(
        'joint name="bar"', 'joint name="joint0"'
    )
    text = text.replace('motor joint="l"', 'motor joint="joint0"')
    joints = [joint.name for limb in read(text).body.limbs for joint in limb.joints]
    assert joints[:2] == ["joint0_2", "joint0"]


def test_a_mesh_becomes_the_box_around_it(read):
    """Its corners are those of the file; the engine puts a frame of its own into the middle."""
    body = read(robots.SERVO, seconds=0.0).body
    box = next(limb.geom for limb in body.limbs if limb.name == "b")
    corners = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]])
    inside = (corners - box.start) @ rotation(box.orientation)
    assert box.kind == "box"
    np.testing.assert_allclose(inside.max(axis=0), box.half_sizes, atol=1e-6)
    np.testing.assert_allclose(inside.min(axis=0), np.negative(box.half_sizes), atol=1e-6)


def test_a_cylinder_stays_one_however_thin(read):
    """Like a coin; a capsule as short is a sphere."""
    shape = '<geom type="cylinder" fromto="0 0 0 0 0 -.2" size=".03" mass=".5"/>'
    assert shape in robots.SERVO
    kinds = []
    for kind in ("cylinder", "capsule"):
        thin = f'<geom type="{kind}" size=".1 .00005" mass=".5"/>'
        body = read(robots.SERVO.replace(shape, thin), seconds=0.0).body
        geom = next(limb.geom for limb in body.limbs if limb.name == "a")
        kinds.append((geom.kind, geom.radius, np.linalg.norm(np.subtract(geom.end, geom.start))))
    assert kinds == [("cylinder", 0.1, pytest.approx(2e-4)), ("sphere", 0.1, 0.0)]


def test_bodies_that_move_as_one_have_the_inertia_of_both():
    """By hand: tensors about the origin add up, and then go to the common centre."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        bodies, total, first = [], np.zeros((3, 3)), np.zeros(3)
        for _ in range(int(rng.integers(2, 4))):
            mass, centre = rng.uniform(1.0, 2.0), rng.uniform(-0.3, 0.3, size=3)
            moments, axes = rng.uniform(0.02, 0.03, size=3), _random_axes(rng)
            total += axes @ np.diag(moments) @ axes.T
            total += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
            first += mass * centre
            bodies.append({"mass": mass, "centre": centre, "moments": moments, "axes": axes})
        mass = sum(body["mass"] for body in bodies)
        centre = first / mass
        total -= mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        origin, frame = rng.uniform(-0.3, 0.3, size=3), _random_axes(rng)
        found = merge_inertia(bodies, origin, frame, "limb")
        turn = frame @ rotation(found.orientation)
        assert found.mass == pytest.approx(mass)
        np.testing.assert_allclose(origin + frame @ found.centre, centre, atol=1e-9)
        np.testing.assert_allclose(turn @ np.diag(found.moments) @ turn.T, total, atol=1e-9)


def test_a_rotation_has_one_quaternion():
    """Of the two, that whose scalar is not negative."""
    rng = np.random.default_rng(0)
    for expected in rng.standard_normal((20, 4)):
        expected *= np.sign(expected[0]) / np.linalg.norm(expected)
        assert quaternion(rotation(expected)) == pytest.approx(expected, abs=1e-9)


def _random_axes(rng):
    axes, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return axes * np.linalg.det(axes)


def test_the_start_pose_can_be_chosen(read):
    home, zero = read(robots.SERVO), read(robots.SERVO, keyframe="none")
    low = [robot.body.limbs[1].joints[0].range[0] for robot in (home, zero)]
    assert low == pytest.approx([np.radians(-60) - 0.3, np.radians(-70)])
    with pytest.raises(MorphologyError, match="has no keyframe 'stand'; it has"):
        read(robots.SERVO, keyframe="stand")


ROCK = (
    '<link name="rock"><inertial><mass value="100"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>'
)


@pytest.mark.parametrize("rock", ["</robot>", ROCK])
def test_a_motor_of_unknown_strength_holds_the_weight_or_lifts_it(read, rock):
    text = re.sub('<joint name="close".*?</joint>', "", robots.looped_urdf())
    text = text.replace("</robot>", rock)
    text = text.replace('"jb" type="revolute"', '"jb" type="prismatic"')
    found = read(text.replace('effort="10"', 'effort="0"'), "open.urdf")
    weight = 9.81 * 4.5
    gears = {motor.joint: motor.gear for motor in found.body.actuators}
    assert gears == pytest.approx({"jl": 0.1 * weight, "jr": 0.1 * weight, "jb": weight}, rel=0.01)
    notes = [note for note in found.notes if "without effort" in note]
    assert len([note for note in notes if " N m: j" in note]) == 1
    assert "joints without effort, whose motors got 44.1 N: jb" in notes


def test_a_urdf_quadruped_gets_motors_and_a_free_base(read):
    found = read(robots.quadruped_urdf(), "quad.urdf")
    body = found.body
    assert (body.num_limbs, body.num_joints, body.num_actuators) == (13, 12, 12)
    gears = {motor.joint: motor.gear for motor in body.actuators}
    assert (gears["fl_abduct"], gears["rr_knee"]) == (20.0, 30.0)
    assert sum(limb.inertia.mass if limb.inertia else
               limb.geom.density * limb.geom.volume for limb in body.limbs) == pytest.approx(
        6 + 4 * 1.86
    )  # fmt: skip
    hip = body.limbs[1]
    # The ball whose inertia about its middle it has, 2/5 m r^2.
    assert (hip.name, hip.geom.kind, hip.geom.contype) == ("fl_hip", "sphere", 0)
    assert 0.4 * 0.6 * hip.geom.radius**2 == pytest.approx(0.0005)
    text = render_robot(found)
    assert "URDF has no motors" in text
    assert "limbs without shape, shown as balls that touch nothing: fl_hip" in text
    knee = next(j for limb in body.limbs for j in limb.joints if j.name == "fl_knee")
    assert knee.range == pytest.approx((-1.8, 0.0))


@pytest.mark.parametrize(("moment", "radius"), [(1e-6, 0.01), (0.0016, 0.02), (1.0, 0.1)])
def test_a_ball_in_place_of_a_shape_is_neither_tiny_nor_huge(moment, radius):
    inertia = Inertia(mass=10.0, centre=(0.1, 0.2, 0.3), moments=(moment,) * 3)
    (ball,) = build_geoms([], np.zeros(3), np.eye(3), inertia, "limb", [])
    assert (ball.radius, ball.start) == (pytest.approx(radius), inertia.centre)
    assert ball.volume * ball.density == pytest.approx(10.0)


def test_a_quadruped_of_the_package_is_read(read):
    found = read(build_mjcf(ROBOTS["go1"]), "go1.xml")
    assert (found.body.num_limbs, found.body.num_actuators) == (13, 12)
    assert {limb.name for limb in found.body.limbs} >= {"trunk", "FL_calf"}


def test_bodies_that_only_chain_joints_become_slots(read, tmp_path):
    found = read(robots.WALKER, seconds=0.0)
    body = found.body
    assert [limb.name for limb in body.limbs] == ["t", "leg"]
    assert [joint.name for joint in body.limbs[1].joints] == ["yaw", "roll", "pitch2"]
    assert "actuators that drive no joint of a limb are left out: pitch" in found.notes

    # The leg moves as in the file.
    source = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    written = mujoco.MjModel.from_xml_string(emit_mjcf(body))
    places = []
    for model in (source, written):
        data = mujoco.MjData(model)
        for name, value in (("yaw", 0.4), ("roll", -0.3), ("pitch2", -0.7)):
            data.joint(name).qpos = value
        mujoco.mj_kinematics(model, data)
        torso, leg = data.body("t"), data.body("leg")
        places.append(np.concatenate([leg.xpos - torso.xpos, leg.xmat]))
    np.testing.assert_allclose(places[0], places[1], atol=1e-9)


def test_joints_are_renamed_to_what_no_other_joint_is_called(read):
    """Two joints of the leg have names that stand for the same slot, so all of its are renamed."""
    text = _walker().replace('"yaw"', '"limbx a"').replace('"roll"', '"limbx b"')
    text = text.replace("<joint/>", '<joint name="joint limbx a"/>')
    body = read(text, seconds=0.0).body
    assert [[joint.name for joint in limb.joints] for limb in body.limbs[1:]] == [
        ["joint limbx a"],
        ["joint limbx a_2", "joint limbx b", "joint pitch2"],
    ]


ARM = '<body name="arm" pos="0 .2 0"><joint/><geom name="arm" size=".04"/></body>'


def _walker(constraints="", tip=""):
    """A walker with an arm beside its leg."""
    text = robots.WALKER.replace('<body name="yaw"', f'{ARM}<body name="yaw"', 1)
    text = text.replace('-.5" size=".04"/>', f'-.5" size=".04"/>{tip}')
    return text.replace("<actuator>", f"{constraints}<actuator>")


def test_a_body_that_a_loop_names_keeps_its_joints(read):
    """Folded into the leg, it would put the loop's end into the leg's frame."""
    loop = '<equality><connect body1="roll" body2="arm" anchor="0 0 0"{}/></equality>'
    body = read(_walker(loop.format("")), seconds=0.0).body
    names = [limb.name for limb in body.limbs]
    assert names == ["t", "arm", "yaw", "roll", "leg"]
    assert [(names[o.first], names[o.second], o.anchor) for o in body.loops] == [
        ("roll", "arm", (0.0, 0.0, 0.0))
    ]
    idle = read(_walker(loop.format(' active="false"')), seconds=0.0).body
    assert [limb.name for limb in idle.limbs] == ["t", "arm", "leg"]


@pytest.mark.parametrize(
    ("pairs", "exclusions", "widened"),
    [
        ([], [], False),
        ([("yaw", "arm")], [], False),  # yaw has no shape, and became part of the leg
        ([("leg", "arm"), ("tip", "arm")], [("arm", "leg")], False),
        ([("tip", "arm")], [("arm", "leg")], True),
        ([("ghost", "arm")], [], False),
        ([("t", "arm"), ("arm", "arm"), ("world", "leg")], [], False),
    ],
)
def test_exclusions_are_of_bodies_that_can_touch(read, pairs, exclusions, widened):
    tip = '<body name="tip" pos="0 0 -.5"><geom size=".05"/></body>'
    tip += '<body name="ghost"><geom size=".01" contype="0" conaffinity="0"/></body>'
    rows = "".join(f'<exclude body1="{one}" body2="{two}"/>' for one, two in pairs)
    found = read(_walker(f"<contact>{rows}</contact>", tip), seconds=0.0)
    names = [limb.name for limb in found.body.limbs]
    assert [tuple(names[end] for end in pair) for pair in found.body.exclusions] == exclusions
    note = "exclusions that count for more than the bodies they name: 'arm' and 'leg'"
    assert (note in found.notes) == widened


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("", "", True),
        ("<actuator>", '<contact><exclude body1="t" body2="leg"/></contact><actuator>', False),
        ('.4" size=".05"', '.4" size=".05" contype="2" conaffinity="2"', False),
    ],
)
def test_a_limb_that_no_longer_touches_its_parent_is_noted(read, old, new, lost):
    notes = read(robots.WALKER.replace(old, new, 1), seconds=0.0).notes
    assert ("limbs that could touch their parent and no longer can: leg" in notes) == lost


def test_light_bodies_in_a_row_count_together(read):
    """The upper one is lighter than 2 % of leg and lower one, but not than 2 % of the leg."""
    text = robots.WALKER.replace('size=".04"/>', 'size=".04" mass="1"/>')
    for mass, limbs in (("0.0202", ["t", "leg"]), ("0.0206", ["t", "yaw", "leg"])):
        chained = text.replace('mass=".001"', f'mass="{mass}"', 1)
        chained = chained.replace('mass=".001"', 'mass="0.0199"', 1)
        assert [limb.name for limb in read(chained, seconds=0.0).body.limbs] == limbs


def test_constraints_become_loops(read):
    found = read(robots.FOUR_BAR)
    (loop,) = found.body.loops
    names = [found.body.limbs[end].name for end in (loop.first, loop.second)]
    assert (names, loop.kind, loop.anchor) == (["bar", "r"], "connect", (0.0, -0.3, 0.0))
    assert 0 < found.trial["opening"] < 0.005
    assert any("constraints of other kinds than loops are left out" in n for n in found.notes)
    assert "loop: connect of bar and r" in render_robot(found)


def test_limbs_that_a_loop_joins_need_no_exclusion(read):
    pairs = '<contact><exclude body1="bar" body2="r"/><exclude body1="r" body2="l"/></contact>'
    body = read(robots.FOUR_BAR.replace("<equality>", f"{pairs}<equality>")).body
    names = [limb.name for limb in body.limbs]
    assert [(loop.first, loop.second) for loop in body.loops] == [(2, 3)]
    assert [[names[end] for end in pair] for pair in body.exclusions] == [["l", "r"]]


def test_a_weld_between_limbs_becomes_a_loop(read):
    text = robots.FOUR_BAR.replace("<connect", "<weld").replace("0 -.3 0", "0 0 -.2")
    (loop,) = read(text).body.loops
    assert loop.kind == "weld"
    assert loop.anchor == pytest.approx((0.0, -0.3, 0.0))  # in the frame of the bar


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_sites_may_name_the_ends_of_a_loop(read, kind):
    """A weld keeps the sites turned alike, whatever their bodies are."""

    def robot(first, second):
        text = robots.FOUR_BAR.replace(
            '<connect body1="bar" body2="r" anchor="0 -.3 0"/>', f'<{kind} site1="p" site2="q"/>'
        )
        leg, bar = '<body name="r" pos="0 -.15 -.05">', '<body name="bar" pos="0 0 -.2">'
        text = text.replace(leg, f'{leg}<site name="q" pos="0 0 -.2" quat="{second}"/>')
        return text.replace(bar, f'{bar}<site name="p" pos="0 -.3 0" quat="{first}"/>')

    body = read(robot("1 0 0 1", "1 0 0 1"), seconds=0.0).body
    (loop,) = body.loops
    names = [body.limbs[end].name for end in (loop.first, loop.second)]
    assert (names, loop.kind, loop.anchor) == (["bar", "r"], kind, (0.0, -0.3, 0.0))
    if kind == "weld":
        with pytest.raises(
            MorphologyError, match=r"a weld of 'bar' and 'r' that is turned by 1\.57"
        ):
            read(robot("1 0 0 1", "1 0 0 0"), seconds=0.0)


def test_a_link_with_two_parents_closes_a_loop(read):
    body = read(robots.looped_urdf(), "loop.urdf").body
    (loop,) = body.loops
    assert body.limbs[loop.first].name == "bar"
    assert loop.anchor == pytest.approx((0.0, -0.4, 0.2))
    assert read(robots.looped_urdf("fixed"), "loop.urdf").body.loops[0].kind == "weld"
    # A gap is bridged from the first limb's side.
    (loop,) = read(robots.looped_urdf(closing="0 -0.39 0.2"), "loop.urdf").body.loops
    assert loop.anchor == pytest.approx((0.0, -0.39, 0.2))


def test_a_weld_that_closes_a_loop_turns_about_fixed_axes(read):
    """Roll, pitch and yaw of URDF, as in the joint that holds the other end."""
    turned = robots.looped_urdf("fixed").replace(
        'xyz="0 -0.2 -0.2"', 'xyz="0 -0.2 -0.2" rpy="0.5 0.7 0.3"'
    )
    closed = turned.replace('xyz="0 -0.4 0.2"', 'xyz="0 -0.4 0.2" rpy="0.5 0.7 0.3"')
    assert read(closed, "loop.urdf").body.loops[0].kind == "weld"
    other = closed.replace('xyz="0 -0.4 0.2" rpy="0.5 0.7', 'xyz="0 -0.4 0.2" rpy="0.7 0.5')
    with pytest.raises(MorphologyError, match=r"a weld of 'bar' and 'right' that is turned by 0\."):
        read(other, "loop.urdf")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (robots.looped_urdf("prismatic"), "closes a loop by the 'prismatic' joint"),
        (robots.looped_urdf(closing="0 -0.1 0.2"), "open by 0.3 m in the start pose"),
        (robots.looped_urdf(closing="0 -0.37 0.2"), "open by 0.03 m in the start pose"),
        (robots.looped_urdf().replace("</robot>", BACK), "has no base"),
        (robots.FOUR_BAR.replace("<freejoint/>", "").replace("</body>\n  </worldbody>",
         '</body><body name="u"><joint/><geom size="1"/><body><joint/><geom size="1"/></body>'
         "</body></worldbody>").replace(
         '<motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/>', ""),
         "holds 't', 'u'; expected one robot"),
        (robots.WALKER.replace('joint name="roll" axis="0 1 0"', 'joint name="roll" type="ball"'),
         "refused by MuJoCo"),
        (robots.FOUR_BAR.replace('<joint name="bar" axis="1 0 0" range="-60 60"',
         '<joint name="bar" type="ball"'), "the ball joint 'bar'"),
        (robots.FOUR_BAR.replace("<motor", "<general dyntype='integrator'"), "has no actuators"),
        ("<mujoco><worldbody><body/></worldbody></mujoco>", "holds nothing that moves"),
        ("<mujoco/>", "holds nothing that moves"),
        ("<sdf><model/></sdf>", "is a file of <sdf>; expected MJCF, which begins with <mujoco>,"),
        ("{}", "is no XML; expected MJCF, which begins with <mujoco>, or URDF, which begins"),
        (robots.looped_urdf().replace('lower="-0.6"', 'lower="nan"', 1), "is not finite"),
        (robots.looped_urdf(closing="0 -0.4"), "a joint 'close' whose origin has xyz = '0 -0.4';"),
        (robots.looped_urdf(closing="0 -0.4 up"), "origin has xyz = '0 -0.4 up'; expected three"),
        (robots.FOUR_BAR.replace('gear="10"', 'gear="1e9"'), "does not simulate"),
        (robots.FOUR_BAR.replace("<geom", '<geom contype="0" conaffinity="0"'), "no shape that"),
    ],
)  # fmt: skip
def test_refuses_with_a_reason(read, text, reason):
    with pytest.raises(MorphologyError) as error:
        read(text)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def _tiles(heap):
    """A robot of two limbs of 20 boxes, side by side or in a heap."""
    boxes = [
        "".join(
            f'<geom type="box" size=".02 .02 .02" pos="{0.001 * k if heap else 0.05 * k} {y} 0"/>'
            for k in range(20)
        )
        for y in (0.0, 0.1)
    ]
    limbs = "".join(
        f'<body name="{name}" pos="{0.2 if heap else place} 0 0">'
        f'<joint name="{name}" range="-9 9"/>{boxes[0]}</body>'
        for name, place in (("a", 1.1), ("b", -1.1))
    )
    return (
        f'<mujoco><worldbody><body name="t"><freejoint/>{boxes[1]}{limbs}</body></worldbody>'
        '<actuator><motor joint="a"/><motor joint="b"/></actuator></mujoco>'
    )


def test_a_robot_is_tried_with_the_memory_that_it_has_in_environments(read):
    assert read(_tiles(heap=False)).trial["landed"]
    with pytest.raises(MorphologyError, match="than it has memory for"):
        read(_tiles(heap=True))


def test_a_low_torso_frame_is_moved_up(read):
    lowered = robots.SERVO.replace('pos="0 0 .4"', 'pos="0 0 0"').replace(
        'pos=".15 0 0"', 'pos=".15 0 .6"'
    )
    lowered = lowered.replace('pos="-.15 0 0"', 'pos="-.15 0 .6"').replace(
        'size=".2 .1 .06" mass', 'size=".2 .1 .06" pos="0 0 .6" mass'
    )
    shifted = lowered.replace("0 0 .5 1 0 0 0", "0 0 0 1 0 0 0")
    found = read(shifted.replace('fromto="0 0 0 0 0 -.2"', 'fromto="0 0 0 0 0 -.35"'))
    assert "the torso's frame is moved up to its centre of mass" in found.notes
    assert found.body.limbs[0].geom.start == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_a_torso_of_fixed_links_has_their_common_centre(read):
    """As robots with a frame on the ground have: it weighs nothing and holds two links."""
    text = robots.looped_urdf().replace(
        '<robot name="loop">',
        '<robot name="loop"><link name="base_footprint"/>'
        '<link name="pack"><inertial><origin xyz="0 0 0.1"/><mass value="1"/>'
        '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="f1" type="fixed"><origin xyz="0 0 0.45"/>'
        '<parent link="base_footprint"/><child link="base"/></joint>'
        '<joint name="f2" type="fixed"><origin xyz="0.4 0 0.75"/>'
        '<parent link="base_footprint"/><child link="pack"/></joint>',
    )
    found = read(text, "loop.urdf")
    assert "the torso's frame is moved up to its centre of mass" in found.notes
    torso = found.body.limbs[0]
    assert torso.inertia.mass == pytest.approx(4.0)
    assert torso.inertia.centre == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    # 3 kg at a height of 0.45 m and 1 kg at 0.85 m: 0.1 m above the base's own place.
    assert torso.geom.start == pytest.approx((-0.1, 0.0, -0.1))


def test_mistakes_are_pointed_out(read):
    heavy = robots.FOUR_BAR.replace('mass="3"', 'mass="3000"').replace(
        'range="-60 60"', 'range="-1 1"'
    )
    doubts = " | ".join(read(heavy).doubts)
    assert "are its units kg and m?" in doubts
    assert "motors are very weak" in doubts
    assert "the joint 'bar' moves by 0.035 only" in doubts
    assert "no actuator drives bar, r" in doubts


def test_the_mass_is_that_of_the_robot_alone(read):
    rock = '<body name="rock" pos="9 0 9"><geom size=".5" mass="2000"/></body></worldbody>'
    found = read(robots.FOUR_BAR.replace("</worldbody>", rock))
    assert "objects beside the robot are left out: rock" in found.notes
    doubts = " | ".join(found.doubts)
    assert "are its units kg and m?" not in doubts
    assert "weak" not in doubts
    assert "next to nothing" not in doubts


def test_joints_that_race_in_the_trial_are_pointed_out(read):
    urdf = re.sub('<joint name="close".*?</joint>', "", robots.looped_urdf())
    assert not any("moved at up to" in doubt for doubt in read(urdf, "open.urdf").doubts)
    racing = urdf.replace('"jb" type="revolute"', '"jb" type="continuous"')
    heavy, light = (f'ixx="{i}" iyy="{i}" izz="{i}"' for i in ("0.01", "1e-05"))
    racing = re.sub(f'(<link name="bar">.*?){heavy}', rf"\1{light}", racing)
    found = read(racing, "open.urdf")
    (doubt,) = [doubt for doubt in found.doubts if "moved at up to" in doubt]
    assert re.search(r"up to \d{3,} rad/s in the trial: jb; give them damping or armature", doubt)
    assert f"joints up to {found.trial['speeds']['jb']:.0f} rad/s" in render_robot(found)


def test_tokens_hold_what_servos_can_do(read):
    body = read(robots.SERVO).body
    scene = Scene(floor='<geom type="plane" size="0 0 1"/>')
    spec = TokenSpec(max_limbs=4, joints_per_limb=2)
    table = build_table([compile_model(body, scene)], spec)
    column = int(np.searchsorted(spec.context_indices, spec.slice("gear/0").start))
    gears = {limb.name: float(table.context[0, i, column]) for i, limb in enumerate(body.limbs)}
    assert gears == pytest.approx({"torso": 0.0, "a": 8.0, "b": 10.0, "c": 6.0})


def test_imported_robots_are_kept_as_a_set(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))
    folder = tmp_path / "robots"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes" / "part.obj").write_text(robots.PART)
    (folder / "a_servo.xml").write_text(robots.SERVO)
    (folder / "loop.urdf").write_text(robots.looped_urdf())
    (folder / "._loop.urdf").write_bytes(b"\0\5\x16\7\xff")  # of macOS
    report = import_robots("mine", folder, seconds=0.1)
    stored = load_set("mine")
    assert stored == report.bodies
    assert [body.name for body in stored.split("test")] == ["a_servo", "loop"]
    assert stored.split("train") == stored.split("test")
    assert stored.split("train")[1].loops

    (folder / "broken.xml").write_text("<mujoco>")
    (folder / "other.xml").write_text("<mujoco/>")
    with pytest.raises(ImportProblemsError, match=r"'broken' is refused .*and 1 more problem\)"):
        import_robots("mine", folder, seconds=0.1)
    assert load_set("mine") == stored  # nothing changed

    with pytest.raises(MorphologySetError, match="reserved"):
        import_robots("gmc-mine", folder)
    with pytest.raises(MorphologySetError, match="holds no robot files"):
        import_robots("mine", folder / "meshes")
    (folder / "loop.xml").write_text("<mujoco/>")
    with pytest.raises(MorphologySetError, match="two robot files called 'loop'"):
        import_robots("mine", folder)
    for end in "ab":
        (folder / f"{'long' * 16}{end}.xml").write_text("<mujoco/>")
    (folder / "loop.xml").unlink()
    with pytest.raises(MorphologySetError, match=r"called '(long){16}' .64 characters of a name"):
        import_robots("mine", folder)


def test_importing_twice_gives_the_same_body(read):
    first, second = (read(robots.quadruped_urdf(), "quad.urdf").body for _ in range(2))
    assert first == second
    other = replace(first, exclusions=((1, 3),))
    assert other.digest != first.digest


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("My Robot.v2.xml", "my-robot-v2"),
        ("ant.xml", "ant"),
        (".", "ants"),
        ("../ants/in/..", "ants"),
        ("../bots-1.1", "bots-1-1"),
    ],
)
def test_sets_are_named_after_files_and_folders(monkeypatch, tmp_path, path, expected):
    (tmp_path / "ants" / "in").mkdir(parents=True)
    (tmp_path / "bots-1.1").mkdir()
    monkeypatch.chdir(tmp_path / "ants")
    assert set_id_of(Path(path)) == expected


@pytest.mark.parametrize("path", ["_.urdf", "\u30ed\u30dc.xml", "/"])
def test_a_name_that_makes_no_id_asks_for_one(path):
    with pytest.raises(
        MorphologySetError, match=r"can be made of the name .*; choose one with --as"
    ):
        set_id_of(Path(path))


def test_the_source_of_a_set_is_the_name_of_its_folder(monkeypatch, tmp_path):
    (tmp_path / "bot.urdf").write_text(robots.quadruped_urdf())
    monkeypatch.chdir(tmp_path)
    found, _ = read_robots("mine", Path(), seconds=0.0)
    assert found.source == f"Imported from {tmp_path.name!r}."


def test_limits_the_wrong_way_round_are_refused(read):
    text = robots.looped_urdf().replace('lower="-0.6"', 'lower="0.7"')
    with pytest.raises(MorphologyError, match=r"lower limit 0\.7 is above its upper limit 0\.6"):
        read(text, "loop.urdf")


@pytest.mark.parametrize("limits", ['lower="0" upper="0"', 'lower="-0.0"'])
def test_joints_that_are_locked_at_zero_become_fixed(read, limits):
    text = robots.quadruped_urdf().replace('lower="-0.8" upper="0.8"', limits)
    found = read(text, "quad.urdf")
    names = [joint.name for limb in found.body.limbs for joint in limb.joints]
    assert names == [f"{leg}_{part}" for leg in ("fl", "fr", "rl", "rr") for part in PARTS]
    fixed = ", ".join(f"{leg}_abduct" for leg in ("fl", "fr", "rl", "rr"))
    assert f"joints whose limits are both 0 are fixed now: {fixed}" in found.notes


def test_joints_that_are_locked_elsewhere_are_refused(read):
    text = robots.looped_urdf().replace('lower="-0.6"', 'lower="0.6"')
    with pytest.raises(MorphologyError, match=r"'jl' that is locked at 0\.6 \(lower = upper\); "):
        read(text, "loop.urdf")


def test_joints_that_state_no_limits_have_none(read):
    found = read(robots.looped_urdf().replace('lower="-0.6" upper="0.6"', ""), "loop.urdf")
    assert not any(joint.limited for limb in found.body.limbs for joint in limb.joints)
    assert found.body.num_joints == 3


@pytest.mark.parametrize(
    ("kind", "limits", "expected"),
    [
        ("revolute", 'upper="0.6"', (0.0, 0.6)),
        ("revolute", 'lower="-0.6"', (-0.6, 0.0)),
        ("continuous", 'lower="-0.6" upper="0.6"', None),
    ],
)
def test_a_single_limit_goes_from_or_to_zero_and_continuous_joints_have_none(
    read, kind, limits, expected
):
    text = robots.looped_urdf().replace('lower="-0.6" upper="0.6"', limits)
    found = read(text.replace('"jl" type="revolute"', f'"jl" type="{kind}"'), "loop.urdf")
    joint = next(j for limb in found.body.limbs for j in limb.joints if j.name == "jl")
    assert joint.limited == (expected is not None)
    assert joint.range == pytest.approx(expected or (-np.pi, np.pi))


def test_a_floating_limb_is_refused_by_its_name(read):
    for kind in ("revolute", "fixed"):  # what holds the bar, which floats, to the base
        text = robots.looped_urdf().replace('"jl" type="revolute"', f'"jl" type="{kind}"')
        text = text.replace('"jb" type="revolute"', '"jb" type="floating"')
        with pytest.raises(MorphologyError, match="the floating joint 'jb' below its base, but "):
            read(text, "loop.urdf")


@pytest.mark.parametrize("frames", [("world",), ("world", "map")])
def test_a_base_floats_in_the_world(read, frames):
    links = "".join(f'<link name="{name}"/>' for name in frames)
    chain = [*frames, "base"]
    joints = "".join(
        f'<joint name="{child}" type="{"floating" if child == "base" else "fixed"}">'
        f'<parent link="{parent}"/><child link="{child}"/></joint>'
        for parent, child in itertools.pairwise(chain)
    )
    text = robots.looped_urdf().replace("</robot>", f"{links}{joints}</robot>")
    body = read(text, "loop.urdf").body
    assert [limb.name for limb in body.limbs] == ["base", "left", "bar", "right"]


def test_a_planar_limb_has_three_joints(read):
    text = robots.looped_urdf().replace('"jb" type="revolute"', '"jb" type="planar"')
    bar = next(limb for limb in read(text, "loop.urdf").body.limbs if limb.name == "bar")
    assert [joint.kind for joint in bar.joints] == ["slide", "slide", "hinge"]


def test_the_id_of_a_published_set_is_for_its_folder(tmp_path):
    with pytest.raises(MorphologySetError, match=r"from a folder with 'train' and 'test' in it"):
        import_robots("unimals_100", tmp_path / "nowhere")


def test_a_folder_with_tests_of_its_own_is_a_package_of_robots(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))
    package = tmp_path / "pkg"
    (package / "urdf").mkdir(parents=True)
    (package / "test").mkdir()
    (package / "test" / "test_launch.py").write_text("")
    (package / "package.xml").write_text('<?xml version="1.0"?>\n<package format="3"/>')
    (package / "urdf" / "legs.xml").write_text("<mujocoinclude/>")
    (package / "urdf" / "loop.urdf").write_text(robots.looped_urdf())
    report = import_bodies(package, seconds=0.0)
    assert [body.name for body in report.bodies.split("test")] == ["loop"]
    with pytest.raises(ImportProblemsError, match="train/xml is missing"):
        import_bodies(package, "unimals_100")
    (package / "test" / "xml").mkdir()
    with pytest.raises(ImportProblemsError, match="train/xml is missing"):
        import_bodies(package)


def test_a_file_that_another_includes_counts_as_a_robot_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))
    package = tmp_path / "bar"
    package.mkdir()
    (package / "bar.xml").write_text(robots.FOUR_BAR)
    (package / "scene.xml").write_text(
        '<mujoco><include file="bar.xml"/><worldbody><geom type="plane" size="9 9 1"/></worldbody>'
        "</mujoco>"
    )
    report = import_bodies(package, seconds=0.0)
    note = "one robot in several files, of which each counts: bar = scene"
    assert note in load_set("bar").notes
    assert f"\nnote: {note}\n" in report.text


def test_a_file_without_bodies_that_another_includes_is_no_robot(tmp_path):
    (tmp_path / "bar.xml").write_text(
        robots.FOUR_BAR.replace("<worldbody>", '<include file="./common.xml"/><worldbody>')
    )
    (tmp_path / "common.xml").write_text('<mujoco><compiler angle="degree"/></mujoco>')
    assert [file.name for file in robot_files(tmp_path)] == ["bar.xml"]
    (tmp_path / "other.xml").write_text("<mujoco/>")  # nobody includes it: probably a mistake
    assert [file.name for file in robot_files(tmp_path)] == ["bar.xml", "other.xml"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"keyframe": "home"}, "--keyframe"),
        ({"seconds": 0.0}, "--seconds"),
        ({"seconds": 5.0, "root": Path()}, "--seconds, --root"),
    ],
)
def test_options_for_robots_are_refused_for_the_public_layout(tmp_path, given, named):
    (tmp_path / "train").mkdir()
    with pytest.raises(ConfigError, match=f"^got {named} for .*leave them out$"):
        import_bodies(tmp_path, "mine", **given)
