from dataclasses import replace

import pytest

from gmc_bench.core.errors import MorphologyError, UnknownNameError
from gmc_bench.robots import GO1, ROBOTS, SHARED_JOINTS, get_robot
from gmc_bench.robots.parts import Base, Shape
from gmc_bench.robots.validation import SOURCE_GROUPS


def test_ids():
    assert list(ROBOTS) == ["go1", "go2", "anymal-b", "anymal-c"]
    assert get_robot("anymal-c") is ROBOTS["anymal-c"]


def test_unknown_id_names_the_closest():
    with pytest.raises(UnknownNameError, match="did you mean 'anymal-c'"):
        get_robot("anymalc")


def test_shared_order_is_depth_first(robot):
    assert SHARED_JOINTS[:4] == ("FL_hip", "FL_thigh", "FL_calf", "FR_hip")
    parents = tuple(link.parent for link in robot.links)
    assert parents == (-1, 0, 1, -1, 3, 4, -1, 6, 7, -1, 9, 10)


def test_shared_order_is_front_left_first(robot):
    hips = [robot.links[3 * leg].position for leg in range(4)]
    assert [(hip[0] > 0, hip[1] > 0) for hip in hips] == [
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    ]


def test_every_group_names_its_source(robot):
    assert set(robot.sources) == set(SOURCE_GROUPS)


def test_soft_ranges_shrink_about_the_middle():
    # Calf of Go1: -2.818 .. -0.888, factor 0.9: middle -1.853, half 0.965 * 0.9 = 0.8685.
    assert GO1.soft_ranges[2] == pytest.approx((-2.7215, -0.9845))


def test_unknown_order_names_the_closest():
    with pytest.raises(MorphologyError, match="did you mean 'isaaclab'"):
        GO1.native_order("isaac-lab")


def _with_link(place, **changes):
    links = list(GO1.links)
    links[place] = replace(links[place], **changes)
    return {"links": tuple(links)}


def _with_joint(place, **changes):
    return _with_link(place, joint=replace(GO1.links[place].joint, **changes))


_INERTIAL = GO1.base.inertial
_BALL = Shape(kind="sphere", start=(0.0, 0.0, 0.0), radius=0.1)
_PILL = Shape(kind="capsule", start=(0.0, 0.0, 0.0), end=(0.0, 0.0, 0.1), radius=0.1)
_POINT = (0.0, 0.0, 0.1)
INF, NAN = float("inf"), float("nan")


def _with_inertial(place, **changes):
    return _with_link(place, inertial=replace(_INERTIAL, **changes))


def _with_shape(shape, **changes):
    return _with_link(0, shapes=(GO1.base.shapes[0], replace(shape, **changes)))


def _with_foot(**changes):
    return {"feet": (*GO1.feet[:3], replace(GO1.feet[3], **changes))}


def _with_pose(**changes):
    return {"pose": replace(GO1.pose, **changes)}


def _with_gains(**changes):
    return {"gains": replace(GO1.gains, **changes)}


FLAWS = [
    ("has 11 links", {"links": GO1.links[:11]}),
    ("has parent 5", _with_link(1, parent=5)),
    ("has parent -1", _with_link(1, parent=-1)),
    ("has the position .* use finite numbers", _with_link(1, position=(0.0, NAN, 0.0))),
    ("link name 'trunk' twice", _with_link(0, name="trunk")),
    ("joint name 'FR_hip_joint' twice", _with_joint(0, name="FR_hip_joint")),
    ("has mass -1.0 kg", _with_inertial(0, mass=-1.0)),
    ("has mass 0.0 kg", _with_inertial(0, mass=0.0)),
    (
        "not finite at link 'b'",
        {"base": Base(name="b", inertial=replace(_INERTIAL, mass=NAN), shapes=())},
    ),
    ("not finite at link", _with_inertial(0, com=(0.0, INF, 0.0))),
    ("not finite at link", _with_inertial(0, inertia=(1.0, 1.0, 1.0, 0.0, 0.0, NAN))),
    (
        "moments 1, 1, 2.1 kg .* sum of the others",
        _with_inertial(2, inertia=(1.0, 1.0, 2.1, 0, 0, 0)),
    ),
    ("moments 0, 1, 1 kg .* must be positive", _with_inertial(2, inertia=(1.0, 0.0, 1.0, 0, 0, 0))),
    ("moments 0.1, 1, 1.9 kg", _with_inertial(2, inertia=(1.0, 1.0, 1.0, 0.9, 0, 0))),
    ("a box with the wrong sizes", _with_shape(Shape(kind="box", start=_POINT), radius=0.1)),
    ("a sphere with the wrong sizes", _with_shape(_BALL, end=_POINT)),
    ("a sphere with the wrong sizes", _with_shape(_BALL, half_extents=(0.1, 0.1, 0.1))),
    ("a capsule with the wrong sizes", _with_shape(_PILL, end=None)),
    (
        "a box with the wrong sizes at link 'trunk'",
        {"base": replace(GO1.base, shapes=(Shape(kind="box", start=_POINT),))},
    ),
    ("a sphere without extent", _with_shape(_BALL, radius=0.0)),
    ("a sphere without extent", _with_shape(_BALL, radius=INF)),
    ("a capsule without extent", _with_shape(_PILL, start=_POINT)),
    ("a capsule without extent", _with_shape(_PILL, end=(NAN, 0.0, 0.0))),
    ("lower must be below upper", _with_joint(4, range=(1.0, -1.0))),
    ("lower must be below upper", _with_joint(4, range=(1.0, 1.0))),
    ("both finite", _with_joint(4, range=(-INF, 4.501))),
    ("both finite", _with_joint(4, range=(-0.686, INF))),
    ("feature range", _with_joint(4, feature_range=(-9.0, 4.0))),
    ("feature range", _with_joint(4, feature_range=(-0.5, 9.0))),
    ("feature range", _with_joint(4, feature_range=(0.8, 0.8))),
    ("length 1", _with_joint(4, axis=(0.0, 2.0, 0.0))),
    ("length 1", _with_joint(4, axis=(0.0, 0.5, 0.0))),
    ("torques and velocity", _with_joint(4, torque_limit=0.0)),
    ("torques and velocity", _with_joint(4, velocity_limit=0.0)),
    ("torques and velocity", _with_joint(4, saturation_torque=INF)),
    ("saturation torque", _with_joint(4, saturation_torque=1.0)),
    ("none may be negative", _with_joint(4, armature=-0.1)),
    ("none may be negative", _with_joint(4, damping=-0.1)),
    ("none may be negative", _with_joint(4, frictionloss=-0.1)),
    ("armature, damping and dry friction", _with_joint(4, damping=INF)),
    ("expected the calves", {"feet": GO1.feet[::-1]}),
    ("use a positive radius", _with_foot(radius=0.0)),
    ("use a positive radius", _with_foot(radius=INF)),
    ("has a foot of radius 0.023 at", _with_foot(position=(0.0, NAN, 0.0))),
    ("stance of 3 angles", _with_pose(angles=(0.0, 0.0, 0.0))),
    ("stands with 2.0 rad", _with_pose(angles=(2.0, *GO1.pose.angles[1:]))),
    ("stands with -2.0 rad", _with_pose(angles=(-2.0, *GO1.pose.angles[1:]))),
    ("stands with 0.1 rad", _with_joint(0, feature_range=(-0.05, 0.05))),
    ("has the heights", _with_pose(base_height=0.0)),
    ("has the heights", _with_pose(spawn_height=0.0)),
    ("has the heights", _with_pose(spawn_height=INF)),
    ("gains and action scale", _with_gains(kp=0.0)),
    ("gains and action scale", _with_gains(kd=0.0)),
    ("gains and action scale", _with_gains(action_scale=0.0)),
    ("gains and action scale", _with_gains(kp=INF)),
    ("soft limit factor 0.0", {"soft_limit_factor": 0.0}),
    ("soft limit factor 1.5", {"soft_limit_factor": 1.5}),
    ("joint order 'urdf'", {"native_orders": {"urdf": GO1.joint_names[:11]}}),
    ("joint order 'sdk'", {"native_orders": {"sdk": (*GO1.joint_names, GO1.joint_names[0])}}),
    ("no source for the group 'gains'", {"sources": {**GO1.sources, "gains": " "}}),
    ("no source for the group 'base'", {"sources": {}}),
]


@pytest.mark.parametrize(("message", "changes"), FLAWS)
def test_a_flaw_is_named(message, changes):
    with pytest.raises(MorphologyError, match=message) as caught:
        replace(GO1, **changes)
    assert str(caught.value).startswith("robot 'go1' ")


def test_what_is_just_possible_is_no_flaw():
    plate = replace(_INERTIAL, inertia=(1.0, 1.0, 2.0, 0.0, 0.0, 0.0))
    replace(GO1, base=replace(GO1.base, inertial=plate), soft_limit_factor=1.0)


def test_names_and_sources_are_no_part_of_the_digest():
    renamed = replace(GO1, name="go", title="Go", sources=dict.fromkeys(GO1.sources, "elsewhere"))
    assert renamed.digest == GO1.digest
    assert replace(GO1, soft_limit_factor=0.8).digest != GO1.digest
