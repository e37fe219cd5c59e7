"""What the reference for friction of feet refuses."""

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import GO1
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.robots.model import compile_robot
from tests.support.friction import FrictionStepper


def test_feet_that_are_no_spheres_are_refused():
    model = compile_robot(GO1).model
    with pytest.raises(ConfigError, match="is no sphere"):
        FrictionStepper(model, [model.geom("floor").id], FRICTION_PAIRS["low"])
