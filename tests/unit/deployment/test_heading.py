"""Estimating and holding a heading."""

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.deployment.adapter import Readings
from gmc_bench.deployment.heading import HeadingHold, heading_rate

STILL = Readings(
    base_linear_velocity=np.zeros(3),
    base_angular_velocity=np.zeros(3),
    gravity=np.array([0.0, 0.0, -1.0]),
    joint_angles=np.zeros(12),
    joint_velocities=np.zeros(12),
    joint_torques=np.zeros(12),
)


def test_the_rate_is_that_of_the_heading_of_a_tilted_base():
    rng = np.random.default_rng(0)
    for _ in range(20):
        quaternion = np.array([1.0, *rng.uniform(-0.5, 0.5, 3)])
        quaternion /= np.linalg.norm(quaternion)
        spin = rng.normal(size=3)  # base frame, as the engine's free joint
        headings, axes = [], np.empty(9)
        for seconds in (-1e-5, 1e-5):
            turned = quaternion.copy()
            mujoco.mju_quatIntegrate(turned, spin, seconds)
            mujoco.mju_quat2Mat(axes, turned)
            headings.append(math.atan2(axes[3], axes[0]))
        mujoco.mju_quat2Mat(axes, quaternion)
        readings = replace(STILL, base_angular_velocity=spin, gravity=-axes[6:])
        assert heading_rate(readings) == pytest.approx(np.diff(headings)[0] / 2e-5, abs=1e-5)


def test_the_rate_of_a_robot_on_its_nose_stays_small():
    """Where it points nowhere, next to no angle would count as any."""
    for degrees in (89.9, 89.999, 90.0):
        tilt = math.radians(degrees)
        gravity = -np.array([math.sin(tilt), 0.0, math.cos(tilt)])
        spinning = replace(STILL, base_angular_velocity=np.ones(3), gravity=gravity)
        assert abs(heading_rate(spinning)) <= 1e-3**-0.5


def test_what_was_turned_is_turned_back_at_most_so_fast():
    hold = HeadingHold(0.02, gain=0.5, limit=0.8)
    turning = replace(STILL, base_angular_velocity=np.array([0.0, 0.0, 1.0]))
    assert hold.yaw_rate(turning) == 0.0
    rates = [hold.yaw_rate(turning) for _ in range(50)]
    assert hold.turned == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(-0.5)
    for _ in range(50):
        rate = hold.yaw_rate(turning)
    assert rate == -0.8


def test_a_rate_that_changes_counts_with_its_mean():
    hold = HeadingHold(0.02, gain=0.5, limit=0.8)
    for rate in (1.0, 2.0, 4.0):
        hold.yaw_rate(replace(STILL, base_angular_velocity=np.array([0.0, 0.0, rate])))
    assert hold.turned == pytest.approx(0.02 * (1.5 + 3.0))


def test_a_robot_takes_the_shorter_way_round():
    hold = HeadingHold(0.02, gain=0.5, limit=0.8)
    hold.yaw_rate(STILL)
    hold.turned = 1.5 * math.pi
    assert hold.yaw_rate(STILL) == pytest.approx(0.25 * math.pi)
