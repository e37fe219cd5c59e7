import math
from dataclasses import replace

import pytest

from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.mjcf_reader import MAX_LIMBS, parse_mjcf
from gmc_bench.bodies.schema import Actuator, Geom, Inertia, Joint, Limb, Loop, Morphology
from gmc_bench.core.errors import MorphologyError


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


def test_a_joint_with_a_range_is_limited_unless_the_file_says_otherwise(tiny_body):
    body = parse_mjcf(tiny_body, "tiny")
    assert parse_mjcf(tiny_body.replace('limited="true" range', "range"), "tiny") == body
    text = tiny_body.replace('limited="true" range', 'limited="false" range')
    loose = [joint for limb in parse_mjcf(text, "tiny").limbs for joint in limb.joints]
    stated = [joint for limb in body.limbs for joint in limb.joints]
    assert loose == [replace(joint, limited=False) for joint in stated]


def test_springs_rest_at_angles_of_the_files_unit_and_slides_are_in_metres(tiny_body):
    text = tiny_body.replace('axis="0 0 -1"', 'springref="45" axis="0 0 -1"')
    slide = 'type="slide" range="-0.1 0.2" springref="0.05" axis="0 0 1"'
    text = text.replace('axis="0 0 1"', slide)
    body = parse_mjcf(text, "tiny")
    moved, turned = body.limbs[1].joints[1], body.limbs[2].joints[0]
    assert (turned.kind, turned.spring_reference) == ("hinge", math.pi / 4)
    assert (moved.kind, moved.range, moved.spring_reference) == ("slide", (-0.1, 0.2), 0.05)
    radians = text.replace('angle="degree"', 'angle="radian"').replace('"45"', '"0.4"')
    moved, turned = (limb.joints[-1] for limb in parse_mjcf(radians, "tiny").limbs[1:])
    assert (turned.spring_reference, moved.range) == (0.4, (-0.1, 0.2))


def test_childclass_nested_classes_and_a_named_outermost_class(tiny_body):
    text = tiny_body.replace("<default>", '<default class="main">', 1)
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


def test_a_unit_quaternion_is_read_back_to_the_last_digit(tiny_body):
    """Its length as a computer finds it is 1 - 1.1e-16, by which it is not divided."""
    turned = (0.3093235285737289, 0.17118212879686487, -0.9342586873663707, -0.04665124362476148)
    assert math.hypot(*turned) < 1.0
    torso, *others, last = (body := parse_mjcf(tiny_body, "tiny")).limbs
    body = replace(body, limbs=(torso, *others, replace(last, orientation=turned)))
    assert parse_mjcf(emit_mjcf(body), "tiny") == body


def test_freejoint_element_is_a_free_joint(tiny_body):
    text = tiny_body.replace('<joint name="root" type="free"/>', "<freejoint/>")
    assert parse_mjcf(text, "tiny") == parse_mjcf(tiny_body, "tiny")


LIMB_1_GEOM = '<geom name="limb/1" fromto="0 0 0 0 -0.25 0" size="0.05" density="900"/>'
FREE = '<joint name="root" type="free"/>'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("</mujoco>", "", "XML_ERROR_PARSING"),
        ("<mujoco model", "<!DOCTYPE mujoco [<!ENTITY a 'b'>]><mujoco model", "document type"),
        ("mujoco", "robot", "starts with <robot>"),
        ("<body name=\"torso/0\" pos=\"0 0 0.5\">", "</worldbody><asset>", "XML_ERROR_MISMATCHED"),
        ("</worldbody>", '<body name="second"/></worldbody>', "2 bodies in its worldbody"),
        (FREE, "", "0 joints on its torso"),
        (FREE, FREE + FREE.replace("root", "second"), "2 joints on its torso"),
        ('type="free"', 'type="free" damping="1"', "damping on its free joint"),
        ('type="free"', 'type="free" stiffness="1"', "stiffness on its free joint"),
        ('type="free"', 'type="free" armature="1"', "armature on its free joint"),
        ('joint="limby/1"', 'joint="limby/9"', "'limby/9', which does not exist"),
        ('motor name="limby/1"', 'velocity name="limby/1"', "<velocity> actuator"),
        ('joint="limby/1" gear', 'tendon="t" gear', "<motor> actuator; only motors on joints"),
        ('gear="250"', 'gear="strong"', "bad format in attribute 'gear'"),
        ('gear="250"', 'gear="250" ctrlrange="0 1"', "control range (0.0, 1.0)"),
        ('gear="250"', 'gear="250" forcerange="-1 1"', "'forcerange' on the motor"),
        (LIMB_1_GEOM, "", "no geom in limb 'limb/1'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom type="mesh"'), "'mesh' geom"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom type="box"'), "box with 'fromto'"),
        (LIMB_1_GEOM, '<geom type="box" size="1 2"/>', "box with half sizes (1.0, 2.0, 0.0)"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom contype="-1"'), "contact bits"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom mass="3"'), "'mass' on the geom"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("-0.25", "nan"), "not finite"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("-0.25", "far"), "bad format in attribute 'fromto'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("0 -0.25 0", ""), "'fromto' does not have enough"),
        (LIMB_1_GEOM, '<geom pos="0 0 0" size="0.05 0.1"/>', "capsule without 'fromto'"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace('size="0.05"', ""), "radius 0.0"),
        (LIMB_1_GEOM, LIMB_1_GEOM.replace("<geom", '<geom type="sphere"'), "use 'pos'"),
        (LIMB_1_GEOM, LIMB_1_GEOM + "<inertial/>", "required attribute missing: 'pos'"),
        (LIMB_1_GEOM, LIMB_1_GEOM + '<inertial mass="1" pos="0 0 0" fullinertia="1 1 1 0 0 0"/>',
         "'fullinertia' on limb"),
        (LIMB_1_GEOM, LIMB_1_GEOM + "<composite/>", "has a <composite> element"),
        (LIMB_1_GEOM, LIMB_1_GEOM + "<freejoint name='f'/>", "'free' joint"),
        ('pos="0 -0.1 0"', 'pos="0 -0.1"', "attribute 'pos' does not have enough data"),
        ('pos="0 -0.1 0"', 'euler="0 0 90"', "'euler' on limb 'limb/1'"),
        ('pos="0 -0.1 0"', 'quat="0 0 0 0"', "zero quaternion"),
        ('<body name="limb/1"', "<body", "limb without a name"),
        ('joint name="limby/1"', "joint", "joint without a name in limb 'limb/1'"),
        ('class="normal" axis="0 0 -1"', 'class="norm"', "unknown default class"),
        ('class="normal" axis="0 0 -1"', 'axis="0 0 -1"', "no limits at joint 'limby/1'"),
        ('axis="0 0 -1"', 'type="ball"', "'ball' joint 'limby/1'"),
        ('axis="0 0 -1"', 'ref="1"', "'ref' on joint 'limby/1'"),
        ('axis="0 0 -1"', 'axis="0 0 0"', "zero axis"),
        ('axis="0 0 -1"', 'damping="1 2"', "higher powers of damping or stiffness"),
        ('axis="0 0 -1"', 'stiffness="1 2"', "higher powers of damping or stiffness"),
        ('angle="degree"', 'angle="turn"', "invalid keyword: 'turn'"),
        ('angle="degree"', 'settotalmass="3"', "'settotalmass' on <compiler>"),
        ('class="normal">', ">", "empty class name"),
        ("<contact>", '<equality><connect body1="limb/0" anchor="0 0 0"/></equality><contact>',
         "to ''; expected"),
        ("<contact>", '<equality><joint joint1="limby/0"/></equality><contact>',
         "has a <joint> constraint"),
        ("<contact>", '<equality><weld body1="limb/0" body2="limb/1" relpose="1 0 0 1 0 0 0"/>'
         "</equality><contact>", "'relpose' on the <weld>"),
        ("<contact>", '<equality><weld body1="limb/0" body2="limb/1" relpose="0 0 0 0 0 0 1"/>'
         "</equality><contact>", "'relpose' on the <weld>"),
        ("<contact>", '<equality><weld body1="limb/0" body2="limb/1" torquescale="2"/></equality>'
         "<contact>", "'torquescale' on the <weld>"),
        ("<contact>", "<tendon><fixed/></tendon><contact>", "has tendons"),
        ("<contact>", '<contact><exclude name="kept/" body1="x" body2="y"/></contact><contact>',
         "excludes contacts of a limb"),
        ("<contact>", '<contact><pair geom1="limb/0"/></contact><contact>', "has pairs"),
        ("<contact>", '<include file="other.xml"/><contact>', "<include> element"),
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
    for limbs, reason in ((MAX_LIMBS, "more than 256 limbs"), (50_000, "nesting is too deep")):
        with pytest.raises(MorphologyError, match=reason):
            parse_mjcf(_chain(limbs), "chain")


def test_deeply_nested_defaults_do_not_overflow_the_stack(tiny_body):
    nested = "".join(f'<default class="c{i}">' for i in range(5000)) + "</default>" * 5000
    text = tiny_body.replace("</default>\n  <worldbody>", f"{nested}</default>\n  <worldbody>")
    with pytest.raises(MorphologyError, match="nesting is too deep"):
        parse_mjcf(text, "tiny")


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_loops_are_read_back(tiny_body, kind):
    loop = Loop(first=2, second=1, anchor=(0.1, -0.2, 0.3), kind=kind)
    body = replace(parse_mjcf(tiny_body, "tiny"), loops=(loop,))
    assert parse_mjcf(emit_mjcf(body), "tiny") == body


def test_published_exclusions_are_left_out_and_kept_ones_read(tiny_body):
    body = parse_mjcf(tiny_body, "tiny")
    assert body.exclusions == ()
    kept = replace(body, exclusions=((1, 2),))
    assert parse_mjcf(emit_mjcf(kept), "tiny") == kept


def every_feature() -> Morphology:
    """A body that uses every field of every part."""
    turned = (0.5, 0.5, -0.5, 0.5)
    shapes = (
        Geom(kind="cylinder", radius=0.1, end=(0.0, 0.1, 0.3), density=1 / 3),
        Geom(
            kind="box", radius=0.3, start=(0.1, 0.2, 0.3), end=(0.1, 0.2, 0.3),
            half_sizes=(0.1, 0.2, 0.3), orientation=turned, contype=0, conaffinity=5,
        ),
        Geom(kind="ellipsoid", radius=0.2, half_sizes=(0.1, 0.2, 0.15)),
        Geom(kind="sphere", radius=0.05, start=(0.0, 0.3, 0.0), end=(0.0, 0.3, 0.0)),
    )  # fmt: skip
    joints = tuple(
        Joint(
            name=f"j{slot}", axis=(0.0, 0.6, 0.8), position=(0.0, 0.1, 0.0), range=(-0.1, 1 / 7),
            slot=slot, damping=0.1, stiffness=0.2, armature=0.3,
            kind="slide" if slot == 1 else "hinge", limited=slot != 2,
            spring_reference=0.05 * slot, friction_loss=0.01 * slot,
        )
        for slot in range(4)
    )  # fmt: skip
    inertia = Inertia(
        mass=1.5, centre=(0.01, 0.02, 0.03), moments=(0.01, 0.02, 0.025), orientation=turned
    )
    first = Limb(
        name="a", parent=0, position=(0.1, 0.0, 0.0), orientation=turned, geom=shapes[0],
        more_geoms=shapes[1:], inertia=inertia, joints=joints,
    )  # fmt: skip
    second = Limb(name="b", parent=0, position=(-0.1, 0.0, 0.0), geom=shapes[2])
    return Morphology(
        name="all",
        limbs=(
            Limb(name="t", parent=-1, position=(0.0, 0.0, 1.0), geom=shapes[1]),
            first,
            second,
            Limb(name="c", parent=2, position=(0.0, 0.0, -0.3), geom=shapes[3]),
        ),
        actuators=(
            Actuator(joint="j0", gear=10.0),
            Actuator(joint="j1", gear=1 / 3, bias=(0.1, -20.0, -0.7)),
            Actuator(joint="j3", gear=-5.0, torque_range=(-2.0, 4.0)),
        ),
        loops=(Loop(first=1, second=3, anchor=(0.0, 0.0, 0.1)),),
        exclusions=((0, 3), (1, 2)),
    )


def test_every_feature_of_a_body_is_read_back():
    body = every_feature()
    assert parse_mjcf(emit_mjcf(body), "all") == body


@pytest.mark.parametrize(
    "name", ["nan", "a nan b", "größe", "a\"b'c", "<include", "a&b", "a\nb\tc"]
)
def test_any_name_is_read_back(name):
    torso, first, *others = every_feature().limbs
    joint, *more = first.joints
    first = replace(first, name=name, joints=(replace(joint, name=name), *more))
    motor, *motors = every_feature().actuators
    body = replace(
        every_feature(),
        limbs=(torso, first, *others),
        actuators=(replace(motor, joint=name), *motors),
    )
    assert parse_mjcf(emit_mjcf(body), "all") == body


def test_every_feature_counts_in_the_hash():
    body = every_feature()
    limb, motors = body.limbs[1], body.actuators
    box, joint = limb.more_geoms[0], limb.joints[1]

    def with_limb(**changed):
        limbs = (body.limbs[0], replace(limb, **changed), *body.limbs[2:])
        return replace(body, limbs=limbs)

    def with_box(**changed):
        return with_limb(more_geoms=(replace(box, **changed), *limb.more_geoms[1:]))

    def with_joint(**changed):
        return with_limb(joints=(limb.joints[0], replace(joint, **changed), *limb.joints[2:]))

    others = [
        with_limb(inertia=None),
        with_limb(inertia=replace(limb.inertia, mass=1.6)),
        with_limb(inertia=replace(limb.inertia, centre=(0.01, 0.02, 0.04))),
        with_limb(inertia=replace(limb.inertia, moments=(0.01, 0.02, 0.026))),
        with_limb(inertia=replace(limb.inertia, orientation=(1.0, 0.0, 0.0, 0.0))),
        with_limb(more_geoms=limb.more_geoms[:-1]),
        with_box(half_sizes=(0.1, 0.25, 0.3)),
        with_box(orientation=(1.0, 0.0, 0.0, 0.0)),
        with_box(contype=1),
        with_box(conaffinity=4),
        with_joint(kind="hinge"),
        with_joint(limited=False),
        with_joint(spring_reference=0.06),
        with_joint(friction_loss=0.02),
        replace(body, exclusions=()),
        replace(body, actuators=(motors[0], replace(motors[1], bias=(0, -20, 0)), motors[2])),
        replace(body, actuators=(*motors[:2], replace(motors[2], torque_range=None))),
    ]
    assert len({body.digest, *(other.digest for other in others)}) == len(others) + 1
    assert replace(body, exclusions=body.exclusions[::-1]).digest == body.digest
    # Records and stored sets refer to robots by this hash, too.
    assert body.digest == DIGEST


DIGEST = "f0f09cb08955bb13cb315efff902771c7a25110386f818adc9a7594ca81c7a8e"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"geom": Geom(kind="box", radius=0.2, half_sizes=(0.1, 0.1, 0.1))}, "largest of them"),
        ({"geom": Geom(kind="box", radius=0.1, half_sizes=(0.1, 0.1, 0.0))}, "must be positive"),
        (
            {"geom": Geom(kind="sphere", radius=0.1, half_sizes=(0.1, 0.1, 0.1))},
            "only boxes and ellipsoids have",
        ),
        ({"geom": Geom(kind="cylinder", radius=0.1)}, "cylinder without length"),
        ({"geom": Geom(kind="sphere", radius=0.1, orientation=(0.0, 1.0, 0.0, 0.0))}, "only boxes"),
        ({"geom": Geom(kind="sphere", radius=0.1, contype=-1)}, "contact bits -1"),
        ({"geom": Geom(kind="sphere", radius=0.1, conaffinity=-1)}, "contact bits 1 and -1"),
        ({"geom": Geom(kind="sphere", radius=0.1, contype=2**31)}, "contact bits 2147483648 and"),
        ({"geom": Geom(kind="sphere", radius=0.1, conaffinity=2**31)}, "bits 1 and 2147483648"),
        ({"inertia": 5.0}, "has 5.0 as inertia of limb"),
        ({"inertia": Inertia(mass=0.0, centre=(0, 0, 0), moments=(1, 1, 1))}, "mass 0.0"),
        ({"inertia": Inertia(mass=math.nan, centre=(0, 0, 0), moments=(1, 1, 1))}, "not finite"),
    ],
)
def test_impossible_shapes_and_inertias_are_refused(change, reason):
    body = every_feature()
    limbs = (*body.limbs[:3], replace(body.limbs[3], **change))
    with pytest.raises(MorphologyError) as error:
        replace(body, limbs=limbs)
    assert reason in str(error.value)


@pytest.mark.parametrize("pair", [(1, 0), (1, 1), (0, every_feature().num_limbs), (-1, 2)])
def test_impossible_exclusions_are_refused(pair):
    with pytest.raises(MorphologyError, match="excludes contacts of the limbs"):
        replace(every_feature(), exclusions=(pair,))


def test_impossible_servos_are_refused():
    body = every_feature()
    first, *others = body.actuators
    for change in (
        {"bias": (math.inf, 0.0, 0.0)},
        {"torque_range": (1.0, -1.0)},
        {"torque_range": (1.0, 1.0)},
        {"torque_range": (-math.inf, 1.0)},
        {"torque_range": (-1.0, math.inf)},
    ):
        with pytest.raises(MorphologyError, match="must be finite, and the range must rise"):
            replace(body, actuators=(replace(first, **change), *others))
    with pytest.raises(MorphologyError, match=f"as bias at the motor of {first.joint!r}; expected"):
        replace(body, actuators=(replace(first, bias=(0.0, 0.0)), *others))
