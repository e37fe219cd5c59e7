"""The drive in plain numpy against sums by hand."""

import numpy as np
import pytest

from gmc_bench.robots import GO1, ROBOTS
from tests.support.actuation import drive_of


def test_pd_law_by_hand():
    drive = drive_of(GO1)
    angles = drive.stance + 0.1
    velocities = np.full(12, 2.0)
    torques = drive.torques(drive.targets(np.zeros(12)), angles, velocities)
    np.testing.assert_allclose(torques, 25 * -0.1 - 0.5 * 2.0)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_target_is_the_stance_plus_a_quarter_of_the_action(robot):
    np.testing.assert_allclose(
        drive_of(robot).targets(np.ones(12)), np.array(robot.pose.angles) + 0.25
    )


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
def test_torques_are_clipped(robot):
    drive = drive_of(robot)
    far = drive.stance + 100.0
    limits = [link.joint.torque_limit for link in robot.links]
    still = np.zeros((5, 12))
    np.testing.assert_array_equal(drive.torques(far, drive.stance, still), np.tile(limits, (5, 1)))
    np.testing.assert_array_equal(
        drive.torques(-far, drive.stance, still), -np.tile(limits, (5, 1))
    )
