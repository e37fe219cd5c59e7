"""An operator's outer loop: walking straight although robots turn by themselves.

A robot has no compass. It adds up what its own gyroscope says, with all the noise of that, and is
told to turn against what it believes to have turned.

Source:
    Yaw rate = gain x heading error, limited: leggedrobotics/legged_gym and isaac-sim/IsaacLab
    (0.5 rad/s per rad).
"""

import math

import numpy as np

from gmc_bench.deployment.adapter import Readings


class HeadingHold:
    """Yaw rates that lead a robot back to the heading of its first reading.

    Args:
        period: s between two readings.
        gain: rad/s per rad.
        limit: largest yaw rate, rad/s.
    """

    def __init__(self, period: float, gain: float, limit: float) -> None:
        self._period, self._gain, self._limit = period, gain, limit
        self._rate: float | None = None  # of the reading before
        self.turned = 0.0
        """Believed angle since the first reading, rad, positive to the left."""

    def yaw_rate(self, readings: Readings) -> float:
        """Take in the next readings, and return the yaw rate to command, rad/s."""
        rate = heading_rate(readings)
        if self._rate is not None:
            self.turned += self._period * (self._rate + rate) / 2.0
        self._rate = rate
        missing = math.remainder(-self.turned, 2.0 * math.pi)
        return min(max(self._gain * missing, -self._limit), self._limit)


def heading_rate(readings: Readings) -> float:
    """Return how fast the horizontal part of the base's forward axis turns, rad/s.

    With the world's vertical u in the base frame and angular velocity w:
    (u_y w_y + u_z w_z) / (1 - u_x^2).
    """
    up, turn = -np.asarray(readings.gravity), readings.base_angular_velocity
    level = max(1.0 - float(up[0]) ** 2, 1e-3)  # 0 for a robot that stands on its nose
    return float(up[1] * turn[1] + up[2] * turn[2]) / level
