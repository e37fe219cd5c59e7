"""Velocity commands from given random numbers, worked out by hand."""

import math

import numpy as np
import pytest

from gmc_bench.tasks.commands import VelocityCommand

HEADING = 1.5

# Random numbers of forward, lateral and yaw velocity, standing, kind and held; what they give.
DRAWS = {
    "straight": ((0.5, 0.25, 0.75, 0.9, 0.1, 0.9), (0.7, 0.0), HEADING),
    "barely not standing": ((0.5, 0.25, 0.75, 0.06, 0.01, 0.9), (0.7, 0.0), HEADING),
    "backward": ((0.5, 0.25, 0.75, 0.9, 0.3, 0.9), (-0.6, 0.0), HEADING),
    "sideways": ((0.5, 0.25, 0.75, 0.9, 0.4, 0.9), (0.0, -0.2), HEADING),
    "turning": ((0.5, 0.25, 0.75, 0.9, 0.6, 0.1), (0.0, 0.0, 0.4), math.nan),
    "any, held": ((0.5, 0.25, 0.75, 0.9, 0.7, 0.4), (0.1, -0.2), HEADING),
    "any, free": ((0.5, 0.25, 0.75, 0.1, 0.7, 0.6), (0.1, -0.2, 0.4), math.nan),
    "standing": ((0.5, 0.25, 0.75, 0.04, 0.1, 0.1), (0.0, 0.0, 0.0), math.nan),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_a_command_has_its_own_random_numbers(kind):
    uniform, expected, kept = DRAWS[kind]
    command, heading = VelocityCommand().draw(np.array([uniform]), np.array([HEADING]))
    # The yaw rate of a command that holds a heading is that of steering.
    np.testing.assert_allclose(command[0, : len(expected)], expected, atol=1e-12)
    np.testing.assert_array_equal(heading, [kept])


def test_commands_are_steered_by_what_is_missing_up_to_a_limit():
    command = np.array([[0.5, 0.1, 0.3]] * 5)
    kept = np.array([1.0, 1.0, -1.0, 3.0, math.nan])
    heading = np.array([0.6, -2.0, 1.0, -3.0, 1.0])
    found = VelocityCommand().steer(command, kept, heading)
    # 0.5 times 0.4, 3 and -2, of which the limit leaves 0.8; from 3 to -3 rad it is a short way.
    expected = [0.2, 0.8, -0.8, 0.5 * (6.0 - 2.0 * math.pi), 0.3]
    np.testing.assert_allclose(found[:, 2], expected)
    np.testing.assert_array_equal(found[:, :2], command[:, :2])
    np.testing.assert_array_equal(command[:, 2], 0.3)
