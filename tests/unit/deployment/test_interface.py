import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, UnknownNameError
from gmc_bench.deployment.adapter import Adapter, Readings
from gmc_bench.deployment.interface import Manifest, make_manifest, with_order
from gmc_bench.deployment.loop import Watch
from gmc_bench.robots import GO2
from gmc_bench.tasks import observations
from gmc_bench.tasks.quadruped_velocity import TASK
from gmc_bench.tasks.spec import ObservationTerm


def test_a_manifest_survives_json(subject):
    before = subject.manifest
    after = Manifest.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after.to_dict() == before.to_dict()
    assert after.origin == {"method": "recmorph", "task": "quadruped-velocity-v3", "seed": 4}
    for name, robot in before.robots.items():
        assert np.array_equal(after.robots[name].context, robot.context)
        assert after.robots[name].context.dtype == np.float32


def test_it_says_what_a_robot_needs(subject):
    content = subject.manifest.to_dict()
    assert (content["rate_hz"], content["num_tokens"], content["num_features"]) == (50.0, 14, 32)
    go2 = content["robots"]["go2"]
    assert go2["joint_names"][:3] == ["FR_hip_joint", "FR_thigh_joint", "FR_calf_joint"]
    assert go2["native"][:3] == [3, 4, 5]
    assert (go2["kp"], go2["kd"], go2["action_scale"]) == (25.0, 0.5, 0.25)
    assert go2["torque_limits"][2] == 45.43
    scales = {group["name"]: group["scale"] for group in content["observations"]}
    assert (scales["base_angular_velocity"], scales["joint_velocity"]) == (0.25, 0.05)


def test_numbers_of_a_token_have_the_names_of_their_groups(subject):
    layout = subject.manifest.layout
    names = [group["name"] for group in layout.features for _ in range(group["width"])]
    assert [layout.name_at(place) for place in range(layout.num_features)] == names


def test_joints_come_in_the_native_order_that_is_asked_for(subject):
    robot = with_order(subject.manifest.robot("go2"), GO2, "isaaclab")
    assert robot.joint_names[:4] == tuple(f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR"))
    assert robot.native[:4].tolist() == [0, 3, 6, 9]


def test_unknown_robots_and_descriptions_that_lack_a_part_are_refused(subject):
    with pytest.raises(UnknownNameError, match="no robot 'go3'; did you mean 'go"):
        subject.manifest.robot("go3")
    with pytest.raises(ConfigError, match="has the format None"):
        Manifest.from_dict({})
    content = subject.manifest.to_dict()
    del content["robots"]["go1"]["kp"]
    with pytest.raises(ConfigError, match="cannot be read"):
        Manifest.from_dict(content)


def _robot(**changes):
    return lambda content: content["robots"]["go1"].update(changes)


def _group(place=0, /, **changes):
    return lambda content: content["observations"][place].update(changes)


def _deep(content):
    for _ in range(10_000):
        content["seed"] = [content["seed"]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_robot(native=[0] * 12), "native of go1 must be an order of 12 joints"),
        (_robot(hard_limits=[]), "hard_limits of go1 must be finite, of the shape"),
        (_robot(context=[[0.0]] * 12), "context of go1 must be finite, of the shape"),
        (_robot(default_angles=[math.nan] * 12), "default_angles of go1 must be finite"),
        (_robot(soft_limits=[[1.0, -1.0]] * 12), "limits of go1 must rise"),
        (_robot(hard_limits=[[1.0, -1.0]] * 12), "limits of go1 must rise"),
        (_robot(torque_limits=[0.0] * 12), "those of torques be positive"),
        (_robot(kp=math.inf), "gains of go1 must be finite"),
        (_robot(kd=math.nan), "gains of go1 must be finite"),
        (_robot(joint_names=["FL_hip_joint"] * 12), "joint_names of go1 must be 12 different"),
        (_robot(joint_names=[]), "joint_names of go1 must be 12 different"),
        (_robot(name="go2"), "the robot 'go1' is named 'go2'"),
        (_robot(index=4), "indices must be 0 to 3, each once"),
        (_robot(index=0.0), "indices must be 0 to 3, each once"),
        (_group(start=1000), "'base_linear_velocity' do not follow those before them"),
        (_group(start=0.0), "'base_linear_velocity' do not follow those before them"),
        (_group(width=-3), "'base_linear_velocity' do not follow those before them"),
        (_group(kind="other"), "have no known kind"),
        (_group(kind="context"), "time-varying features must be base_linear_velocity, base_ang"),
        (_group(name="speed"), "time-varying features must be base_linear_velocity, base_ang"),
        (_group(name="gravity"), "time-varying features must be base_linear_velocity, base_ang"),
        (_group(-2, name="joint_velocity", kind="dynamic"), "time-varying features must be base"),
        (lambda content: content["observations"].pop(), "context of go1 must be finite"),
        (lambda content: content.update(num_features=20), "lie outside of a token"),
        (lambda content: content.update(num_features=31), "lie outside of a token"),
        (lambda content: content.update(num_tokens=11), "num_tokens must be 12 to 4096"),
        (lambda content: content.update(num_tokens=10**12), "num_tokens must be 12 to 4096"),
        (lambda content: content.update(num_features=10**12), "num_features at most 4096"),
        (lambda content: content.update(seed=math.nan), "no canonical JSON"),
        (_deep, "RecursionError"),
        (lambda content: content.update(method="\ud800"), "no canonical JSON"),
        (lambda content: content["observations"][0].pop("kind"), "KeyError.*'kind'"),
        (lambda content: content.update(rate_hz=0.0), "rate_hz and action_clip must be positive"),
    ],
)
def test_what_would_reach_a_robot_is_checked(subject, change, reason):
    content = json.loads(json.dumps(subject.manifest.to_dict()))
    change(content)
    with pytest.raises(ConfigError, match=rf"cannot be read \(.*{reason}"):
        Manifest.from_dict(content)


def use(manifest):
    """Do what a robot's computer does with what a file says."""
    for name in manifest.robots:
        adapter = Adapter(manifest, name)
        still, turned = np.zeros(3), np.zeros(12)
        readings = Readings(
            base_linear_velocity=still, base_angular_velocity=still, gravity=-still,
            joint_angles=turned, joint_velocities=turned, joint_torques=turned,
        )  # fmt: skip
        layout = manifest.layout
        tokens = adapter.tokens(readings, still)
        assert tokens.shape == (1, layout.num_tokens, layout.num_features)
        targets = adapter.targets(np.zeros(layout.num_tokens, np.float32))
        assert np.array_equal(np.sort(targets), np.sort(adapter.interface.default_angles))
        Watch(adapter, 1.0 / manifest.rate).check(readings, targets)


def places(value, path=()):
    """Return the paths to everything in a JSON value; of lists, to the first and the last."""
    yield path
    if isinstance(value, dict | list):
        found = value if isinstance(value, dict) else sorted({0, len(value) - 1})
        for key in found:
            yield from places(value[key], (*path, key))


STRANGE = (None, True, -1, 0.5, 1e308, 10**30, math.nan, "x", "\ud800", [], [[]], {}, {"name": 1})


def test_every_description_that_is_accepted_can_be_used(subject):
    """One value of it is replaced at a time."""
    content = json.loads(json.dumps(subject.manifest.to_dict()))
    content["robots"] = {"go1": content["robots"]["go1"]}
    use(Manifest.from_dict(content))
    accepted = refused = 0
    for *path, last in list(places(content))[1:]:
        for value in STRANGE:
            changed = copy.deepcopy(content)
            place = changed
            for key in path:
                place = place[key]
            place[last] = value
            try:
                found = Manifest.from_dict(changed)
            except ConfigError:
                refused += 1
                continue
            with np.errstate(over="ignore"):
                use(found)
            accepted += 1
    assert accepted > 50
    assert refused > 500


def _without(name):
    return tuple(term for term in TASK.observations if term.name != name)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"command": None}, "'quadruped-velocity-v3' commands no velocities"),
        ({"action_clip": None}, "'quadruped-velocity-v3' has no 'action_clip', which bounds"),
        ({"observations": _without("gravity")}, "adds the observation 'gravity', but a"),
        (
            {"observations": (*TASK.observations, ObservationTerm("mine", observations.gravity))},
            "adds the observation 'mine', but a robot's adapter makes exactly .* gravity, command,",
        ),
        (
            {
                "observations": (
                    *_without("gravity"), ObservationTerm("gravity", lambda moment: moment.command),
                )
            },
            "leaves out, changes or adds the observation 'gravity'",
        ),
    ],
)  # fmt: skip
def test_tasks_that_no_robot_can_do_are_refused(subject, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        make_manifest(replace(TASK, **changes), [GO2], subject.table.spec, {})


def test_other_scales_than_the_usual_are_in_the_file(subject):
    terms = [replace(term, scale=2.0) for term in TASK.observations]
    task = replace(TASK, observations=tuple(terms), action_clip=1.0)
    manifest = make_manifest(task, [GO2], subject.table.spec, {})
    assert manifest.action_clip == 1.0
    assert {manifest.layout.scale(name) for name in manifest.layout.slots} == {2.0}
