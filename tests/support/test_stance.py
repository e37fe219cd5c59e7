"""Tilt by hand, and what the search for a stance at rest refuses."""

import math

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import GO1
from gmc_bench.robots.model import compile_robot
from tests.support.stance import settle, tilt_of


def test_tilt_by_hand():
    quaternions = np.array(
        [[1, 0, 0, 0], [math.cos(0.1), math.sin(0.1), 0, 0], [math.cos(0.3), 0, 0, math.sin(0.3)]]
    )
    np.testing.assert_allclose(tilt_of(quaternions), [0.0, 0.2, 0.0], atol=1e-12)


def test_settling_needs_time():
    with pytest.raises(ConfigError, match="positive time"):
        settle(compile_robot(GO1), seconds=0.0)
