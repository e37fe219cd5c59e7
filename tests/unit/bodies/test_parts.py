import mujoco
import pytest

from gmc_bench.bodies.parts import (
    Actuator,
    Geom,
    Inertia,
    Limb,
    scale_mass,
    scale_torque,
)

BOX = Geom(kind="box", radius=0.3, half_sizes=(0.1, 0.2, 0.3))


@pytest.mark.parametrize(
    ("geom", "size"),
    [
        (Geom(kind="sphere", radius=0.2), "0.2"),
        (Geom(kind="capsule", radius=0.2, end=(0.0, 0.0, 0.5)), "0.2 0.25"),
        (Geom(kind="cylinder", radius=0.2, end=(0.0, 0.3, 0.4)), "0.2 0.25"),
        (BOX, "0.1 0.2 0.3"),
        (Geom(kind="ellipsoid", radius=0.3, half_sizes=(0.1, 0.2, 0.3)), "0.1 0.2 0.3"),
    ],
)
def test_volumes_are_the_engines(geom, size):
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body><freejoint/><geom type="{geom.kind}" size="{size}" '
        f'density="1"/></body></worldbody></mujoco>'
    )
    assert geom.volume == pytest.approx(model.body_mass[1])


def test_scaling_the_mass_scales_all_that_has_mass():
    inertia = Inertia(mass=2.0, centre=(0.0, 0.0, 0.1), moments=(1.0, 2.0, 2.5))
    limb = Limb(
        name="a", parent=0, position=(0.0, 0.0, 0.0), geom=BOX, more_geoms=(BOX,), inertia=inertia
    )
    heavy = scale_mass(limb, 1.5)
    assert [geom.density for geom in heavy.geoms] == [1500.0, 1500.0]
    assert heavy.inertia is not None
    assert (heavy.inertia.mass, heavy.inertia.moments) == (3.0, (1.5, 3.0, 3.75))
    assert heavy.inertia.centre == inertia.centre


def test_scaling_the_torque_scales_servos_and_their_bounds():
    servo = Actuator(joint="j", gear=8.0, bias=(1.0, -10.0, -0.5), torque_range=(-2.0, 4.0))
    strong = scale_torque(servo, 2.0)
    assert (strong.gear, strong.bias, strong.torque_range) == (
        16.0,
        (2.0, -20.0, -1.0),
        (-4.0, 8.0),
    )
    assert scale_torque(Actuator(joint="j", gear=3.0), 1 / 3) == Actuator(
        joint="j", gear=3.0 * (1 / 3)
    )


@pytest.mark.parametrize(
    ("bias", "kind"),
    [
        ((0, 0, 0), "motor"),
        ((1, 0, 0), "motor"),
        ((0, 0, -1), "velocity"),
        ((0, -1, -1), "position"),
    ],
)
def test_what_a_control_commands(bias, kind):
    assert Actuator(joint="j", gear=1.0, bias=bias).kind == kind
