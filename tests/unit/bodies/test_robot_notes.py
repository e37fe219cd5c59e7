"""What an import says of a robot: each change of a plain one, what is said of it, what it does."""

from dataclasses import replace

import pytest

from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.bodies.robot_lint import find_doubts
from gmc_bench.bodies.schema import Actuator, Inertia
from gmc_bench.conformance.morphologies import biped
from tests.unit.bodies import foreign_robots as robots

MOTOR = '<motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/>'
LOOP = '<connect body1="bar" body2="r" anchor="0 -.3 0"/>'
BAR = '<geom type="capsule" fromto="0 0 0 0 -.3 0" size=".02" mass=".3"/>'
LEG = '<geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".3"/>'
TORSO = '<geom type="box" size=".1 .2 .05" mass="3"/>'
GHOST = '<geom contype="0" conaffinity="0"'
BEADS = "".join(f'<geom size="{0.01 + 0.0001 * k:.4f}" mass=".001"/>' for k in range(70))
WHEEL = '<body name="wheel"><joint name="wheel"/><geom size=".1"/></body>'
ROCK = '<body name="rock" pos="9 0 9"><freejoint/><geom size=".1"/></body>'


@pytest.fixture
def read(sandbox, tmp_path):
    def read_one(*changes, seconds=0.05):
        text = robots.FOUR_BAR
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "robot.xml").write_text(text)
        return read_robot(tmp_path / "robot.xml", sandbox, seconds=seconds)

    return read_one


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ([(MOTOR, f'{MOTOR}<motor joint="l" gear="7"/>')],
         "further actuators of the same joint are left out: l"),
        ([("<motor", '<general dyntype="filter" dynprm=".1"')],
         "filters of actuators are left out: l"),
        ([(LOOP, f'{LOOP}<weld body1="r" body2="bar"/>')],
         "of several loops of the same limbs one is kept: 'r' and 'bar'"),
        ([(BAR, f'{GHOST} size=".3" mass="0"/>{BAR}')], None),
        ([("<freejoint/>", '<geom type="plane" size="1 1 1"/>')],
         "planes, height fields and the like are left out: t"),
        ([("<freejoint/>", "")], "the torso moves freely now; it was fixed to the world"),
        ([("<freejoint/>", '<joint type="free" damping="1"/>')],
         "damping, friction and armature of the free joint are left out"),
        ([(TORSO, TORSO.replace("<geom", '<geom name="A"')),
          (BAR, BAR.replace("<geom", '<geom name="B"')),
          ("<equality>", '<contact><pair geom1="A" geom2="B"/></contact><equality>')],
         "contact pairs are left out: 1 of them"),
        ([("<equality>",
           '<tendon><fixed><joint joint="l" coef="1"/></fixed></tendon><equality>')],
         "tendons are left out: 1 of them"),
        ([("</worldbody>", f"{ROCK}</worldbody>")],
         "objects beside the robot are left out: rock"),
        ([("</worldbody>", f"{WHEEL}</worldbody>"),
          ("</actuator>", '<motor joint="wheel"/></actuator>')],
         "objects beside the robot are left out: wheel"),
    ],
)  # fmt: skip
def test_what_is_left_out_leaves_the_body_as_it_is(read, changes, note):
    plain, found = read(), read(*changes)
    assert found.body == plain.body
    assert set(found.notes) - set(plain.notes) >= ({note} if note else set())


@pytest.mark.parametrize(
    ("changes", "note", "effect", "expected"),
    [
        ([(MOTOR, MOTOR.replace("/>", ' forcerange="0 .3"/>') + '<motor joint="r" gear="3"/>'),
          ('name="l" axis', 'name="l" actuatorfrcrange="-5 -4" axis')],
         "actuators with an empty force range are left out: l",
         lambda body: {motor.joint: motor.gear for motor in body.actuators}, {"r": 3.0}),
        ([(LOOP, LOOP.replace("/>", ' active="false"/>'))],
         "loops that are switched off are left out: 'bar' and 'r'", lambda body: body.loops, ()),
        ([(LOOP, '<connect body1="l" body2="bar" anchor="0 0 0"/>')],
         "loops within a limb, or with its parent, are left out: 'l' and 'bar'",
         lambda body: body.loops, ()),
        ([(LOOP, '<connect body1="l" body2="world" anchor="0 0 0"/>')],
         "a connect to something that is not part of the robot is left out",
         lambda body: body.loops, ()),
        ([(BAR, BAR + BEADS)], "shapes beyond the 64 largest are left out: bar",
         lambda body: sorted(geom.radius for geom in body.limbs[2].geoms),
         [0.0107 + 0.0001 * k for k in range(63)] + [0.02]),
    ],
)  # fmt: skip
def test_what_is_left_out_is_missing(read, changes, note, effect, expected):
    plain, found = read(), read(*changes)
    assert note in set(found.notes) - set(plain.notes)
    assert effect(found.body) == pytest.approx(expected)
    assert effect(plain.body) != expected


@pytest.mark.parametrize(
    ("changes", "seconds", "doubt"),
    [
        ([(TORSO, TORSO.replace("<geom", f'{GHOST} pos=".1 0 0"')),
          (LEG, LEG.replace("<geom", GHOST))], 1.5,
         "its torso sank below the ground in the trial; give the torso shapes that collide"),
        ([(LOOP, ""),
          ('axis="1 0 0" range="-40 40" damping="1"',
           'axis="0 1 0" range="-170 170" damping=".1"')],
         1.5, "its torso sank to 0."),
        ([("<geom", '<geom contype="2" conaffinity="2"')], 1.2,
         "it did not touch the ground in the trial; do its shapes collide with contype 1?"),
        ([(LEG, LEG.replace("<geom", '<geom contype="2" conaffinity="2"'))], 0.05,
         "shapes of 'r' never touch the ground (their contact bits differ)"),
        ([('gear="10"', 'gear="200"')], 0.2, "a loop opened by 0.0"),
        ([(BAR, BAR.replace('mass=".3"', 'mass=".0003"'))], 0.05,
         "the limb 'bar' weighs 0.0003 kg, next to nothing"),
        ([(BAR, f'{BAR}<inertial pos="0 -.15 0" mass=".1" diaginertia="3e-8 3e-8 3e-8"/>')], 0.05,
         "the limb 'bar' has nearly no inertia; a little armature steadies it"),
        ([('gear="10"', 'gear="400"')], 0.05, "motors are very strong for 3.9 kg: l (400 N m)"),
        ([('gear="10"', 'gear="400"'),
          ('name="r" axis="1 0 0" range="-40 40"', 'name="r" type="slide" range="0 1"'),
          ("</actuator>", '<motor joint="r" gear="500"/></actuator>')], 0.05,
         "motors are very strong for 3.9 kg: l, r (400 N m and 500 N)"),
        ([("<worldbody>", '<option density="1.2"/><worldbody>')], 0.05,
         "the model's fluid is left out"),
        ([('<body name="bar"', '<body name="bar" gravcomp="1"')], 0.05,
         "gravity compensation is left out"),
    ],
)  # fmt: skip
def test_what_may_be_a_mistake_is_a_warning(read, changes, seconds, doubt):
    plain, found = read(seconds=seconds), read(*changes, seconds=seconds)
    assert any(said.startswith(doubt) for said in found.doubts)
    assert not any(said.startswith(doubt) for said in plain.doubts)


def doubts_of(body, **trial):
    """What looks like a mistake in a body of a sound file, whose trial went as `trial` says."""
    model = {
        "joints": [], "actuators": [], "bodies": [], "stated": [], "mended": [],
        "disabled": [], "fluid": False, "gravity": [0.0, 0.0, -9.81],
    }  # fmt: skip
    usual = {
        "speeds": {joint.name: 0.0 for limb in body.limbs for joint in limb.joints},
        "touching": [], "height": 1.0, "lowest": 0.9, "time": 4.0, "landed": True, "opening": 0.0,
    }  # fmt: skip
    return set(find_doubts(body, model, usual | trial))


def test_limbs_overlap_by_their_deepest_point_and_not_with_the_ground():
    body = biped()
    names = [limb.name for limb in body.limbs]
    touching = [[1, 3, 0.02], [3, 1, 0.03], [1, 3, 0.01], [0, 2, 0.5], [2, 4, 0.004]]
    (told,) = doubts_of(body, touching=touching) - doubts_of(body)
    assert told == f"the limbs {names[0]!r} and {names[2]!r} overlap by 0.03 m at the start"


@pytest.mark.parametrize(("lowest", "sank"), [(0.41, False), (0.39, True)])
def test_a_torso_sank_that_is_at_half_its_standing_height(lowest, sank):
    """It starts 1 m up, of which 0.2 m are air."""
    told = doubts_of(biped(), lowest=lowest)
    assert any("standing height of 0.80 m" in doubt for doubt in told) is sank


@pytest.mark.parametrize(
    ("gear", "limit", "spring", "strong"),
    [(1.0, 1e6, 0.0, False), (1e6, 1.0, 0.0, False), (1.0, 1e6, -1.0, True)],
)
def test_a_motor_is_as_strong_as_gear_and_limits_let_it_be(gear, limit, spring, strong):
    """The control of a servo is a target, so its gear is no limit."""
    body, kg = biped(), 20.0
    motors = tuple(
        Actuator(
            joint=motor.joint,
            gear=gear * kg,
            bias=(0.0, spring, 0.0),
            torque_range=(-limit * kg, limit * kg),
        )
        for motor in body.actuators
    )
    told = doubts_of(replace(body, actuators=motors))
    assert any("motors are very strong" in doubt for doubt in told) is strong


@pytest.mark.parametrize("armature", [0.0, 1.0])
def test_armature_is_inertia_too(armature):
    body = biped()
    torso, limb, *others = body.limbs
    tiny = Inertia(mass=1.0, centre=(0.0, 0.0, 0.0), moments=(1e-8, 1e-8, 1e-8))
    joints = tuple(replace(joint, armature=armature) for joint in limb.joints)
    limbs = (torso, replace(limb, inertia=tiny, joints=joints), *others)
    told = doubts_of(replace(body, limbs=limbs))
    assert any("has nearly no inertia" in doubt for doubt in told) is (armature == 0.0)
