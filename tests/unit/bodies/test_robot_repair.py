"""Robots as files say them in ways of their own, from the file to the body."""

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.bodies.robot_repair import forget_endless_limits
from gmc_bench.core.errors import MorphologyError
from gmc_bench.sim.model import compile_model
from gmc_bench.tasks import TASKS
from tests.unit.bodies import foreign_robots as robots

SCENERY = {"t": "floor/0", "l": "wall/1", "bar": "patch/2", "r": "box/0"}


@pytest.fixture
def read(sandbox, tmp_path):
    def read_one(text, name="robot.xml", **options):
        (tmp_path / name).write_text(text)
        return read_robot(tmp_path / name, sandbox, seconds=0.1, **options)

    return read_one


def _four_bar(*changes):
    text = robots.FOUR_BAR
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def _joint(found, name):
    return next(j for limb in found.body.limbs for j in limb.joints if j.name == name)


def test_limits_beyond_any_use_are_none(read):
    text = robots.looped_urdf().replace('lower="-0.6"', 'lower="-1e16"')
    text = text.replace('upper="0.6"', 'upper="1e16"').replace('effort="10"', 'effort="1e12"')
    found = read(text, "loop.urdf")
    joint = _joint(found, "jl")
    assert not joint.limited
    assert joint.range == pytest.approx((-np.pi, np.pi))
    # 4.5 kg weigh 44.1 N.
    assert {motor.gear for motor in found.body.actuators} == {4.41}
    assert "endless limits of torques are left out: jl, jb, jr" in found.notes

    text = robots.looped_urdf().replace('upper="0.6"', 'upper="1e16"')
    joint = _joint(read(text, "loop.urdf"), "jl")
    assert joint.limited
    assert joint.range == pytest.approx((-0.6, 100.0))


@pytest.mark.parametrize("value", [-150.0, 150.0])
def test_a_start_value_beyond_a_far_limit_stays_inside(value):
    limits = [-1e6, 1.0] if value < 0 else [-1.0, 1e6]
    joint = {"name": "j", "kind": "slide", "limited": True, "range": limits, "value": value}
    model = {"joints": [{**joint, "torque": None}], "actuators": []}
    forget_endless_limits(model, [])
    assert model["joints"][0]["range"] == sorted([value, limits[value < 0]])


def test_robots_that_touch_only_the_ground_of_their_file_touch_this_one(read):
    bits = ("<geom type", '<geom contype="2" conaffinity="6" type')
    plane = ("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" conaffinity="2"/>')
    found = read(_four_bar(bits, plane))
    assert {(g.contype, g.conaffinity) for limb in found.body.limbs for g in limb.geoms} == {(3, 6)}
    assert "contact bits are changed, so that the robot touches the ground" in found.notes

    found = read(_four_bar(("<geom type", '<geom contype="-1" conaffinity="-1" type')))
    assert found.body.limbs[0].geom.contype == 2**31 - 1


def test_names_of_scenery_are_free_for_the_scenery(read):
    changes = [(f'name="{old}" pos', f'name="{new}" pos') for old, new in SCENERY.items()]
    ends = ('body1="bar" body2="r"', 'body1="patch/2" body2="box/0"')
    body = read(_four_bar(*changes, ends)).body
    names = [limb.name for limb in body.limbs]
    assert names == ["limb floor/0", "limb wall/1", "limb patch/2", "limb box/0"]
    assert parse_mjcf(emit_mjcf(body), body.name) == body
    compile_model(body, TASKS.get("unimal-obstacles-v1").scene)


def test_what_motors_add_to_their_joints_is_kept(read):
    found = read(_four_bar(('gear="10"', 'gear="10" armature=".02" damping=".03"')))
    joint = _joint(found, "l")
    assert (joint.armature, joint.damping) == pytest.approx((2.0, 4.0))  # gear squared, plus 1
    source = robots.FOUR_BAR.replace('gear="10"', 'gear="10" armature=".02" damping=".03"')
    moved = []
    for text in (source, emit_mjcf(found.body)):
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        data.joint("l").qvel = 1.0
        mujoco.mj_forward(model, data)
        inertia = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, inertia)
        dof = model.joint("l").dofadr[0]
        moved.append((dof, data.qfrc_passive[dof], inertia[dof, dof]))
    assert moved[0] == pytest.approx(moved[1])


def test_actuators_with_several_controls_do_not_shift_the_others(read):
    found = read(
        _four_bar(
            ("<actuator>", '<actuator><pid joint="r" kp="1" ctrlrange="-9 9"/>'),
            ('ctrlrange="-1 1"', 'ctrlrange="-3 3" delay=".01" nsample="3"'),
        )
    )
    assert {motor.joint: motor.gear for motor in found.body.actuators} == {"l": 30.0}
    assert "delays of actuators are left out: l" in found.notes


@pytest.mark.parametrize("gear", [1.0, -2.0])
@pytest.mark.parametrize("gain", [20.0, -10.0])
def test_servos_without_control_range_reach_the_limits_of_their_joint(read, gear, gain):
    motor = '<motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/>'
    servo = (
        f'<general joint="l" gear="{gear}" gainprm="{gain}" biastype="affine" biasprm="5 -20 -1"/>'
    )
    found = read(_four_bar((motor, servo)))
    assert "servos without control range, which take that of the joint: l" in found.notes
    model = mujoco.MjModel.from_xml_string(emit_mjcf(found.body))
    data = mujoco.MjData(model)
    limits = _joint(found, "l").range
    for control, limit in zip((-1.0, 1.0), sorted(limits, reverse=gear * gain < 0), strict=True):
        data.ctrl[:] = control
        data.joint("l").qpos = limit
        mujoco.mj_forward(model, data)
        assert data.actuator("l").force == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("motor_has", "joint_has"),
    [('forcerange="-9 11"', ""), ('gear="2"', 'actuatorfrcrange="-9 11"')],
)
def test_motors_without_control_range_reach_the_limits_of_their_force(read, motor_has, joint_has):
    motor = '<motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/>'
    pushing = f'<general joint="l" gainprm="4" biastype="affine" biasprm="5 0 0" {motor_has}/>'
    changes = [(motor, pushing), ('name="l" axis', f'name="l" {joint_has} axis')]
    (found,) = read(_four_bar(*changes)).body.actuators
    assert found.gear == pytest.approx(10.0)
    assert found.bias[0] == pytest.approx(1.0)  # controls -1 and 1 give -9 and 11 N m


def test_limits_of_forces_are_turned_round_by_a_negative_gear(read):
    changes = ('gear="10" ctrlrange', 'gear="-10" forcerange="-.3 .5" ctrlrange')
    (found,) = read(_four_bar(changes)).body.actuators
    assert found.gear == pytest.approx(-10.0)
    assert found.torque_range == pytest.approx((-5.0, 3.0))


def test_actuators_of_disabled_groups_are_left_out(read):
    motor = '<motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/>'
    both = (motor, motor.replace("/>", ' group="1"/>') + '<position joint="l" kp="7"/>')
    found = read(_four_bar(both, ("<worldbody>", '<option actuatorgroupdisable="1"/><worldbody>')))
    assert [motor.kind for motor in found.body.actuators] == ["position"]
    assert "actuators of groups that are switched off are left out: l" in found.notes
    # Groups may be numbered so that they can never be switched off.
    for group in (-1, 31, 40):
        other = motor.replace("/>", f' group="{group}"/>')
        assert read(_four_bar((motor, other))).body.actuators[0].kind == "motor"
    with pytest.raises(MorphologyError, match=r"groups that are switched off are left out: l\)"):
        read(_four_bar(("<worldbody>", '<option actuatorgroupdisable="0"/><worldbody>')))


def test_parts_of_the_physics_that_the_file_disables_are_told(read):
    flags = '<option><flag gravity="disable" limit="disable" warmstart="disable"/></option>'
    doubts = read(_four_bar(("<worldbody>", f"{flags}<worldbody>"))).doubts
    assert "the file disables limit, gravity, which is enabled here" in doubts
    assert not any("disables" in doubt for doubt in read(robots.FOUR_BAR).doubts)


def test_higher_powers_are_told(read):
    found = read(_four_bar(('name="bar" axis', 'name="bar" stiffness="1 2 3" axis')))
    assert "higher powers of damping and stiffness are left out: bar" in found.notes


def test_a_turned_weld_is_not_closed(read):
    old = '<connect body1="bar" body2="r" anchor="0 -.3 0"/>'
    new = '<weld body1="bar" body2="r" anchor="0 0 -.2" relpose="0 -.3 0 {}"/>'
    assert read(_four_bar((old, new.format("1 0 0 0")))).body.loops[0].kind == "weld"
    with pytest.raises(MorphologyError, match=r"a weld of 'bar' and 'r' that is turned by 1\.57"):
        read(_four_bar((old, new.format("1 0 0 1"))))
    turned = robots.looped_urdf("fixed").replace(
        '<origin xyz="0 -0.4 0.2"/>', '<origin xyz="0 -0.4 0.2" rpy="0 0 0.5"/>'
    )
    with pytest.raises(MorphologyError, match=r"that is turned by 0\.5 rad"):
        read(turned, "loop.urdf")


def test_links_between_the_world_and_the_torso_keep_mass_and_joints(read):
    base = (
        '<body name="base" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass=".05" '
        'diaginertia="1e-4 1e-4 1e-4"/><body name="t">'
    )
    wrapped = [
        ('<body name="t" pos="0 0 1">\n      <freejoint/>', base),
        ("</worldbody>", "</body></worldbody>"),
    ]
    body = read(_four_bar(*wrapped)).body
    assert [limb.name for limb in body.limbs] == ["t", "l", "bar", "r"]
    assert body.limbs[0].inertia is not None
    assert body.limbs[0].inertia.mass == pytest.approx(3.05)

    wrapped[0] = (wrapped[0][0], base + '<joint name="waist" axis="0 0 1"/>')
    body = read(_four_bar(*wrapped)).body
    assert [limb.name for limb in body.limbs] == ["base", "t", "l", "bar", "r"]
    assert body.limbs[1].joints[0].name == "waist"


@pytest.mark.parametrize("size", ['memory="64G"', 'njmax="8000" nconmax="4000"', 'nstack="1000"'])
def test_sizes_for_simulations_do_not_matter(read, size):
    assert read(_four_bar(("<worldbody>", f"<size {size}/><worldbody>"))).body.num_limbs == 4


def test_gravity_of_another_direction_is_pointed_out(read):
    found = read(_four_bar(("<worldbody>", '<option gravity="0 -9.81 0"/><worldbody>')))
    assert any("gravity is 0 -9.81 0 m/s^2 in the file" in doubt for doubt in found.doubts)
    assert not any("gravity" in doubt for doubt in read(robots.FOUR_BAR).doubts)


def test_limits_of_another_unit_are_pointed_out(read):
    radians = ("<worldbody>", '<compiler angle="radian"/><worldbody>')
    doubts = read(_four_bar(radians)).doubts
    expected = (
        "hinges may turn by up to 120 rad, 19.1 turns: l, bar, r; were degrees meant in a file of "
        "radians?"
    )
    assert expected in doubts
    # Beyond 100 rad they stand for no limits at all, and are the same mistake.
    wide = ('range="-60 60"', 'range="-170 170"')
    found = read(_four_bar(radians, wide))
    assert not _joint(found, "bar").limited
    assert any("up to 340 rad, 54.1 turns: l, bar, r" in doubt for doubt in found.doubts)
    found = read(robots.looped_urdf().replace('upper="0.6"', 'upper="60"'), "loop.urdf")
    assert any("up to 60.6 rad, 9.6 turns: jl" in doubt for doubt in found.doubts)

    narrow = [('range="-60 60"', 'range="-1.5 1.5"'), ('range="-40 40"', 'range="0 2.6"')]
    doubts = read(_four_bar(*narrow)).doubts
    assert any(
        "may turn by more than 3 degrees; were radians meant in a file" in doubt for doubt in doubts
    )

    endless = robots.looped_urdf().replace('lower="-0.6"', 'lower="-1e16"')
    endless = endless.replace('upper="0.6"', 'upper="1e16"')
    for text, name in ((robots.FOUR_BAR, "robot.xml"), (endless, "loop.urdf")):
        assert not any("meant in a file" in doubt for doubt in read(text, name).doubts)


def test_ranges_with_exchanged_ends_are_pointed_out(read):
    """MuJoCo takes them for no range at all."""
    told = "ranges that start above their end count as none: {}; exchange the two numbers"
    found = read(_four_bar(('name="bar" axis="1 0 0" range="-60 60"', 'name="bar" range="60 -60"')))
    assert not _joint(found, "bar").limited
    assert told.format("bar") in found.doubts
    motor = 'ctrlrange="-1 1" ctrllimited="true"'
    for text in ('ctrlrange="1 -1"', f'{motor} forcerange="2 -2"'):
        doubts = read(_four_bar((motor, f'name="m" {text}'))).doubts
        assert told.format("m") in doubts
    assert not any("exchange" in doubt for doubt in read(robots.FOUR_BAR).doubts)


def test_start_poses_that_nobody_chose_are_told(read):
    rest = "qpos='0 0 1 1 0 0 0 0 0 0'/>"
    keys = f"<keyframe><key name='sit' {rest}<key {rest}<key name='up' {rest}"
    told = "the start pose is that of the file, and none of its keyframes: sit, up"
    changes = [("<equality>", f"{keys}</keyframe><equality>")]
    assert told in read(_four_bar(*changes)).notes
    assert not any("keyframes" in note for note in read(_four_bar(*changes), keyframe="none").notes)
    changes.append(("'up'", "'home'"))
    assert not any("keyframes" in note for note in read(_four_bar(*changes)).notes)


def test_robots_in_other_units_than_metres_are_refused_for_it(read):
    tiny = """<mujoco><worldbody><body name="t" pos="0 0 1"><freejoint/><geom size=".002"/>
      <body name="a"><joint name="a" axis="0 1 0" range="-9 90"/>
      <geom type="capsule" fromto="0 0 0 .006 0 0" size=".001"/></body></body></worldbody>
      <actuator><motor joint="a"/></actuator></mujoco>"""
    with pytest.raises(MorphologyError, match=r"its torso 0\.002 m above .*\(are its units m\?\)"):
        read(tiny)


def test_limbs_that_overlap_in_several_points_are_named_once(read):
    boxes = ('type="capsule" fromto="0 0 0 0 -.3 0" size=".02"', 'type="box" size=".3 .3 .3"')
    doubts = read(_four_bar(boxes)).doubts
    overlaps = [doubt for doubt in doubts if "'t' and 'bar' overlap" in doubt]
    assert len(overlaps) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("<motor", "<general dyntype='integrator'"),
         "has no actuators that can be kept (actuators other than motors, position and velocity "
         "servos are left out: l); add a motor"),
        (('gear="10"', 'gear="0"'), "(actuators without gear or gain are left out: l); add a"),
        (('name="bar" axis="1 0 0" range="-60 60"', 'type="ball"'), "the ball joint of 'bar'"),
        (("<worldbody>", '<asset><mesh file="no.obj"/></asset><worldbody>'),
         "needs the file 'no.obj', which is not in /"),
        (('"-60 60"', '"150 200" ref="150" type="slide"'),
         "has a joint 'bar' with the range 150 to 200, all of it beyond 100 rad or m; are its"),
        (('gear="10"', 'gear="1e9"'), "and its file steps by 2 ms only"),
        (('gear="10"', 'gear="nan"'), "a number that is not finite (inf or nan); replace it"),
        (('<geom type="capsule" fromto="0 0 0 0 -.3 0" size=".02" mass=".3"/>', ""),
         "has no mass at 'bar', which moves; give it an <inertial> element, a small one where"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(read, change, reason):
    with pytest.raises(MorphologyError) as error:
        read(_four_bar(change))
    assert reason in str(error.value)


def test_a_trial_that_runs_out_of_memory_for_contacts_says_so(read, sandbox, monkeypatch):
    full = {"warnings": ["mjWARN_CNSTRFULL"], "time": 0.18}
    monkeypatch.setattr(sandbox, "roll_out", lambda *given, **more: full)
    reason = r"reports mjWARN_CNSTRFULL \(more contacts and joint limits at once than .*\); check"
    with pytest.raises(MorphologyError, match=reason):
        read(robots.FOUR_BAR)
    full["warnings"] = ["mjWARN_BADQACC"]
    advice = "reports mjWARN_BADQACC; check masses, .*damping and armature"
    with pytest.raises(MorphologyError, match=f"{advice}, and its file steps by 2 ms only$"):
        read(robots.FOUR_BAR)
    with pytest.raises(MorphologyError, match=f"{advice}$"):
        read(_four_bar(("<worldbody>", '<option timestep="0.005"/><worldbody>')))
