import math
from itertools import chain

import pytest

from gmc_bench.bodies import design

DIAGONAL = math.sqrt(0.5)


def test_directions_of_the_published_grid():
    assert design.unit_direction(0, 90) == (1.0, 0.0, 0.0)
    assert design.unit_direction(90, 90) == (0.0, 1.0, 0.0)
    assert design.unit_direction(225, 180) == (0.0, 0.0, -1.0)
    assert design.unit_direction(0, 135) == pytest.approx((DIAGONAL, 0.0, -DIAGONAL))
    assert design.unit_direction(45, 135) == pytest.approx((0.5, 0.5, -DIAGONAL))


@pytest.mark.parametrize("azimuth", design.AZIMUTHS)
@pytest.mark.parametrize("inclination", design.INCLINATIONS)
def test_opposite_azimuths_are_exact_mirror_images(azimuth, inclination):
    x, y, z = design.unit_direction(azimuth, inclination)
    assert design.unit_direction((360 - azimuth) % 360, inclination) == (x, -y, z)
    assert math.hypot(x, y, z) == pytest.approx(1.0, abs=1e-11)
    assert z <= 0.0


def test_lengths_are_rounded_to_centimetres():
    # 0.45 sin(45 deg) = 0.3182 -> 0.32, as in the published diagonal limbs.
    assert design.along(design.unit_direction(180, 135), 0.45) == (-0.32, 0.0, -0.32)
    assert design.add((0.1, 0.0, -0.18), (0.2, 0.0, -0.05)) == (0.3, 0.0, -0.23)


def test_axes_of_a_hanging_and_of_a_forward_limb():
    # Straight down: the capsule's frame is the limb's.
    assert design.hinge_axis("x", (0.0, 0.0, -0.25)) == (1.0, 0.0, 0.0)
    assert design.hinge_axis("y", (0.0, 0.0, -0.25)) == (0.0, 1.0, 0.0)
    # Forward: z turns to -x about y, which takes x to +z.
    assert design.hinge_axis("x", (0.25, 0.0, 0.0)) == (0.0, 0.0, 1.0)
    assert design.hinge_axis("y", (0.25, 0.0, 0.0)) == (0.0, 1.0, 0.0)


@pytest.mark.slow
def test_axes_and_values_are_those_of_the_published_bodies(published):
    ranges = {tuple(math.radians(side) for side in pair) for pair in design.JOINT_RANGES}
    num_joints = 0
    for body in chain.from_iterable(published.splits.values()):
        assert body.limbs[0].geom.radius == design.TORSO_RADIUS
        assert {actuator.gear for actuator in body.actuators} <= set(design.GEARS)
        for limb in body.limbs[1:]:
            assert limb.geom.radius == design.LIMB_RADIUS
            assert limb.geom.density in design.DENSITIES
            for joint in limb.joints:
                axis = design.hinge_axis("x" if joint.slot == 0 else "y", limb.geom.end)
                assert axis == pytest.approx(joint.axis, abs=1e-9)
                assert joint.range in ranges
                num_joints += 1
    assert num_joints == 1070 + 1015
