from dataclasses import replace

import pytest

from gmc_bench.core.errors import MorphologyError, UnknownNameError
from gmc_bench.robots import GO1, PARENTS, ROBOTS, SHARED_JOINTS, get_robot
from gmc_bench.robots.parts import Base, Inertial, Shape
from gmc_bench.robots.validation import SOURCE_GROUPS


def test_ids():
    assert list(ROBOTS) == ["go1", "go2", "anymal-b", "anymal-c"]
    assert get_robot("anymal-c") is ROBOTS["anymal-c"]


def test_unknown_id_names_the_closest():
    with pytest.raises(UnknownNameError, match="did you mean 'anymal-c'"):
        get_robot("anymalc")


def test_shared_order_is_depth_first(robot):
    assert SHARED_JOINTS[:4] == ("FL_hip", "FL_thigh", "FL_calf", "FR_hip")
    assert PARENTS == (-1, 0, 1, -1, 3, 4, -1, 6, 7, -1, 9, 10)
    assert tuple(link.parent for link in robot.links) == PARENTS


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
FLAWS = {
    "has 11 links": {"links": GO1.links[:11]},
    "has parent 5": _with_link(1, parent=5),
    "link name 'trunk' twice": _with_link(0, name="trunk"),
    "joint name 'FR_hip_joint' twice": _with_joint(0, name="FR_hip_joint"),
    "has mass -1.0 kg": _with_link(0, inertial=replace(_INERTIAL, mass=-1.0)),
    "not finite at link": {
        "base": Base(name="b", inertial=replace(_INERTIAL, mass=float("nan")), shapes=())
    },
    "sum of the others": _with_link(
        2, inertial=Inertial(mass=1.0, com=(0, 0, 0), inertia=(1.0, 1.0, 2.1, 0, 0, 0))
    ),
    "wrong sizes": _with_link(0, shapes=(Shape(kind="box", start=(0, 0, 0), radius=0.1),)),
    "without extent": _with_link(0, shapes=(Shape(kind="sphere", start=(0, 0, 0), radius=0.0),)),
    "lower must be below upper": _with_joint(4, range=(1.0, -1.0)),
    "feature range": _with_joint(4, feature_range=(-9.0, 9.0)),
    "length 1": _with_joint(4, axis=(0.0, 2.0, 0.0)),
    "torques and velocity": _with_joint(4, torque_limit=0.0),
    "saturation torque": _with_joint(4, saturation_torque=1.0),
    "none may be negative": _with_joint(4, damping=-0.1),
    "expected the calves": {"feet": GO1.feet[::-1]},
    "stance of 3 angles": {"pose": replace(GO1.pose, angles=(0.0, 0.0, 0.0))},
    "stands with 2.0 rad": {"pose": replace(GO1.pose, angles=(2.0, *GO1.pose.angles[1:]))},
    "has the heights": {"pose": replace(GO1.pose, base_height=0.0)},
    "gains and action scale": {"gains": replace(GO1.gains, kp=0.0)},
    "soft limit factor 1.5": {"soft_limit_factor": 1.5},
    "joint order 'urdf'": {"native_orders": {"urdf": GO1.joint_names[:11]}},
    "no source for the group 'gains'": {"sources": {**GO1.sources, "gains": " "}},
}


@pytest.mark.parametrize("message", FLAWS)
def test_a_flaw_is_named(message):
    with pytest.raises(MorphologyError, match=message) as caught:
        replace(GO1, **FLAWS[message])
    assert str(caught.value).startswith("robot 'go1' ")
