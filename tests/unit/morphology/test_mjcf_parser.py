import math

import pytest

from gmc_bench.errors import MorphologyError
from gmc_bench.morphology.mjcf_parser import MAX_LIMBS, parse_mjcf
from gmc_bench.morphology.schema import Actuator, Geom, Joint, Limb


def test_reads_limbs_joints_and_motors_with_their_defaults(tiny_body):
    body = parse_mjcf(tiny_body, "tiny")

    assert body.limbs[0] == Limb(
        name="torso/0",
        parent=-1,
        position=(0.0, 0.0, 0.5),
        geom=Geom(kind="sphere", radius=0.1, density=500.0),
    )
    assert body.limbs[1].geom == Geom(
        kind="capsule", radius=0.05, end=(0.0, 0.25, 0.0), density=900.0
    )
    assert body.limbs[1].joints[0] == Joint(
        name="limbx/0",
        axis=(1.0, 0.0, 0.0),
        position=(0.0, -0.05, 0.0),
        range=(-math.pi / 6, math.pi / 3),  # overrides the class's -90 90
        slot=0,
        damping=2.0,
        stiffness=3.0,
        armature=0.5,
    )
    assert body.limbs[2].joints[0].range == (-math.pi / 2, math.pi / 2)
    assert body.parents == (-1, 0, 0)
    assert body.actuators == (
        Actuator(joint="limbx/0", gear=150.0),
        Actuator(joint="limby/0", gear=200.0),
        Actuator(joint="limby/1", gear=250.0),
    )
    assert body.symmetric_limbs == ()


def test_slot_follows_the_name_or_else_the_place(tiny_body):
    body = parse_mjcf(tiny_body, "tiny")
    assert [joint.slot for limb in body.limbs for joint in limb.joints] == [0, 1, 1]

    renamed = tiny_body.replace("limbx/0", "knee").replace("limby/0", "ankle")
    body = parse_mjcf(renamed.replace("limby/1", "hip"), "tiny")
    assert [joint.slot for limb in body.limbs for joint in limb.joints] == [0, 1, 0]


def test_radians_are_taken_as_they_are(tiny_body):
    text = tiny_body.replace('angle="degree"', 'angle="radian"')
    text = text.replace("-30 60", "-0.5 1").replace("-90 90", "-1.5 1.5")
    body = parse_mjcf(text, "tiny")
    assert body.limbs[1].joints[0].range == (-0.5, 1.0)


def test_degrees_are_the_default_unit(tiny_body):
    body = parse_mjcf(tiny_body.replace('<compiler angle="degree"/>', ""), "tiny")
    assert body.limbs[1].joints[0].range == (-math.pi / 6, math.pi / 3)


def test_childclass_nested_classes_and_a_named_outermost_class(tiny_body):
    text = tiny_body.replace("<default>", '<default class="all">', 1)
    text = text.replace(
        "</default>\n  <worldbody>",
        '<default class="outer"><joint damping="7"/><default class="inner">'
        '<joint armature="8"/></default></default></default>\n  <worldbody>',
    )
    text = text.replace('class="normal" axis="0 0 -1"', 'range="-90 90" axis="0 0 -1"')
    text = text.replace('name="limb/1" pos', 'name="limb/1" childclass="inner" pos')
    joint = parse_mjcf(text, "tiny").limbs[2].joints[0]
    assert (joint.damping, joint.armature, joint.stiffness) == (7.0, 8.0, 0.0)


def test_motors_are_put_in_joint_order(tiny_body):
    first = '<motor name="limbx/0" joint="limbx/0" gear="150"/>'
    text = tiny_body.replace(first, "").replace("</actuator>", f"{first}</actuator>")
    assert parse_mjcf(text, "tiny") == parse_mjcf(tiny_body, "tiny")


def test_quaternion_is_normalised(tiny_body):
    text = tiny_body.replace('pos="0 -0.1 0"', 'pos="0 -0.1 0" quat="2 0 0 0"')
    assert parse_mjcf(text, "tiny").limbs[2].orientation == (1.0, 0.0, 0.0, 0.0)


def test_freejoint_element_is_a_free_joint(tiny_body):
    text = tiny_body.replace('<joint name="root" type="free"/>', "<freejoint/>")
    assert parse_mjcf(text, "tiny") == parse_mjcf(tiny_body, "tiny")


LIMB_1_GEOM = '<geom name="limb/1" fromto="0 0 0 0 -0.25 0" size="0.05" density="900"/>'
FREE = '<joint name="root" type="free"/>'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("</mujoco>", "", "not well-formed"),
        ("<mujoco model", "<!DOCTYPE mujoco [<!ENTITY a 'b'>]><mujoco model", "document type"),
        ("mujoco", "robot", "starts with <robot>"),
        ("<body name=\"torso/0\" pos=\"0 0 0.5\">", "</worldbody><asset>", "not well-formed"),
        ("</worldbody>", '<body name="second"/></worldbody>', "2 bodies in its worldbody"),
        (FREE, "", "0 joints on its torso"),
        (FREE, FREE + FREE.replace("root", "second"), "2 joints on its torso"),
        ('type="free"', 'type="free" damping="1"', "damping on its free joint"),
        ('joint="limby/1"', 'joint="limby/9"', "'limby/9', which does not exist"),
        ('motor name="limby/1"', 'velocity name="limby/1"', "<velocity> actuator"),
        ('joint="limby/1" gear', 'tendon="t" gear', "'tendon' on the motor"),
        ('gear="250"', 'gear="strong"', "gear of the motor of joint 'limby/1' 'strong'"),
        ('gear="250"', 'gear=""', "gear of the motor of joint 'limby/1' ''"),
        ('gear="250"', 'gear="250" ctrlrange="0 1"', "control range (0.0, 1.0)"),
        ('gear="250"', 'gear="250" forcerange="-1 1"', "'forcerange' on the motor"),
        (LIMB_1_GEOM, "", "0 geoms in limb 'limb/1'"),
        (LIMB_1_GEOM, LIMB_1_GEOM * 2, "2 geoms in limb 'limb/1'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom type="box"'), "'box' geom"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom mass="3"'), "'mass' on the geom"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("-0.25", "nan"), "6 finite numbers"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("-0.25", "far"), "expected 6 numbers"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("0 -0.25 0", ""), "6 finite numbers"),
        (LIMB_1_GEOM, '<geom pos="0 0 0" size="0.05 0.1"/>', "capsule without 'fromto'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace('size="0.05"', ""), "radius of limb 'limb/1'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom type="sphere"'), "use 'pos'"),
        (LIMB_1_GEOM, LIMB_1_GEOM + "<inertial/>", "<inertial> in limb 'limb/1'"),
        (LIMB_1_GEOM, LIMB_1_GEOM + "<freejoint/>", "free joint in limb 'limb/1'"),
        ('pos="0 -0.1 0"', 'pos="0 -0.1"', "position of limb 'limb/1' '0 -0.1'"),
        ('pos="0 -0.1 0"', 'euler="0 0 90"', "'euler' on limb 'limb/1'"),
        ('pos="0 -0.1 0"', 'quat="0 0 0 0"', "zero orientation"),
        ('<body name="limb/1"', "<body", "limb without a name"),
        ('joint name="limby/1"', "joint", "joint without a name in limb 'limb/1'"),
        ('class="normal" axis="0 0 -1"', 'class="norm"', "default class 'norm'"),
        ('class="normal" axis="0 0 -1"', 'axis="0 0 -1"', "no limits at joint 'limby/1'"),
        ('axis="0 0 -1"', 'limited="false"', "no limits at joint 'limby/1'"),
        ('axis="0 0 -1"', 'type="slide"', "'slide' joint 'limby/1'"),
        ('axis="0 0 -1"', 'springref="1"', "'springref' on joint 'limby/1'"),
        ('axis="0 0 -1"', 'axis="0 0 0"', "zero axis"),
        ('angle="degree"', 'angle="turn"', "angle unit 'turn'"),
        ('angle="degree"', 'settotalmass="3"', "'settotalmass' on <compiler>"),
        ('class="normal">', ">", "nested <default> without a class name"),
        ("<contact>", '<equality><connect body1="limb/0"/></equality><contact>', "closed loops"),
        ("<contact>", "<tendon><fixed/></tendon><contact>", "closed loops and tendons"),
        ("<contact>", '<contact><pair geom1="limb/0"/></contact><contact>', "contact pairs"),
        ("<contact>", '<include file="other.xml"/><contact>', "<include> section"),
    ],
)  # fmt: skip
def test_refuses_with_a_reason(tiny_body, old, new, reason):
    assert old in tiny_body
    with pytest.raises(MorphologyError) as error:
        parse_mjcf(tiny_body.replace(old, new), "tiny")
    assert reason in str(error.value)
    assert "'tiny'" in str(error.value)


def test_refuses_a_body_without_motors(tiny_body):
    start, end = tiny_body.index("<actuator>"), tiny_body.index("</actuator>")
    with pytest.raises(MorphologyError, match="has no actuators"):
        parse_mjcf(tiny_body[:start] + tiny_body[end + len("</actuator>") :], "tiny")


def _chain(depth: int) -> str:
    opened = "".join(
        f'<body name="b{i}" pos="0 0 1"><joint name="j{i}" range="-1 1"/><geom size="0.1"/>'
        for i in range(depth)
    )
    return (
        '<mujoco><worldbody><body name="t"><freejoint/><geom size="0.1"/>'
        f"{opened}{'</body>' * depth}</body></worldbody>"
        '<actuator><motor joint="j0"/></actuator></mujoco>'
    )


def test_limb_limit_is_exact_and_deep_files_do_not_overflow_the_stack():
    assert parse_mjcf(_chain(MAX_LIMBS - 1), "chain").depth == MAX_LIMBS - 1
    for limbs in (MAX_LIMBS, 50_000):
        with pytest.raises(MorphologyError, match="more than 256 limbs"):
            parse_mjcf(_chain(limbs), "chain")


def test_deeply_nested_defaults_do_not_overflow_the_stack(tiny_body):
    nested = "".join(f'<default class="c{i}">' for i in range(5000)) + "</default>" * 5000
    text = tiny_body.replace("</default>\n  <worldbody>", f"{nested}</default>\n  <worldbody>")
    assert parse_mjcf(text, "tiny") == parse_mjcf(tiny_body, "tiny")
