import json
import math

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, UnknownNameError
from gmc_bench.deployment.interface import Manifest, with_order
from gmc_bench.robots import GO2


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


def test_orders_can_be_changed(subject):
    robot = with_order(subject.manifest.robot("go2"), GO2, "isaaclab")
    assert robot.joint_names[:4] == tuple(f"{leg}_hip_joint" for leg in ("FL", "FR", "RL", "RR"))
    assert robot.native[:4].tolist() == [0, 3, 6, 9]


def test_what_it_refuses(subject):
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


def _group(**changes):
    return lambda content: content["observations"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_robot(native=[0] * 12), "native of go1 must be an order of 12 joints"),
        (_robot(hard_limits=[]), "hard_limits of go1 must be finite, of the shape"),
        (_robot(context=[[0.0]] * 12), "context of go1 must be finite, of the shape"),
        (_robot(default_angles=[math.nan] * 12), "default_angles of go1 must be finite"),
        (_robot(soft_limits=[[1.0, -1.0]] * 12), "limits of go1 must rise"),
        (_robot(kp=math.inf), "gains of go1 must be finite"),
        (_group(start=1000), "lie outside of a token"),
        (_group(kind="other"), "have no known kind"),
        (lambda content: content["observations"][0].pop("kind"), "KeyError.*'kind'"),
        (lambda content: content.update(rate_hz=0.0), "rate_hz and action_clip must be positive"),
    ],
)
def test_what_would_reach_a_robot_is_checked(subject, change, reason):
    content = json.loads(json.dumps(subject.manifest.to_dict()))
    change(content)
    with pytest.raises(ConfigError, match=rf"cannot be read \(.*{reason}"):
        Manifest.from_dict(content)
