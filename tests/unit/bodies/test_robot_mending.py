"""Robots whose files need help: inertias, meshes and motors that the engine or the trial refuse."""

import re

import pytest

from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.core.errors import ConfigError, MorphologyError
from tests.unit.bodies import foreign_robots as robots


@pytest.fixture
def read(sandbox, tmp_path):
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "part.obj").write_text(robots.PART)

    def read_one(text, name="two.urdf", seconds=0.5, **options):
        (tmp_path / name).write_text(text)
        return read_robot(tmp_path / name, sandbox, seconds=seconds, **options)

    return read_one


def _inertia(*moments):
    names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    numbers = (*moments, 0.0, 0.0, 0.0)[:6]
    pairs = (f'{name}="{number:g}"' for name, number in zip(names, numbers, strict=True))
    return f"<inertia {' '.join(pairs)}/>"


_BALL = _inertia(0.02, 0.02, 0.02)


def _urdf(inertia=_BALL, base=_BALL, more=""):
    """A base of 2 kg and an arm that swings below it."""
    box = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
    ball = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    return (
        f'<robot name="two"><link name="base"><inertial><mass value="2"/>{base}</inertial>{box}'
        f'</link><link name="arm"><inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>{inertia}'
        f'</inertial>{ball}{more}</link><joint name="swing" type="revolute"><parent link="base"/>'
        '<child link="arm"/><origin xyz="0.2 0 0"/><axis xyz="0 1 0"/>'
        '<limit lower="-1" upper="1" effort="5" velocity="9"/></joint></robot>'
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # Second moments are -1, 3 and 5 g m^2; the negative one becomes a thousandth of the last.
        ((0.008, 0.004, 0.002), (0.003005, 0.005005, 0.008)),
        ((0.008, 0.004, 0.003), (0.0035045, 0.0045045, 0.008)),
        ((1e-6,) * 6, (1.5015e-6, 1.5015e-6, 3e-6)),
    ],
)
def test_inertias_that_no_body_has_become_those_of_a_similar_one(read, given, expected):
    found = read(_urdf(_inertia(*given)))
    arm = found.body.limbs[1].inertia
    assert arm.mass == 0.5
    assert sorted(arm.moments) == pytest.approx(expected, rel=1e-6)
    (doubt,) = (doubt for doubt in found.doubts if "no rigid body has" in doubt)
    assert doubt.startswith("inertias that no rigid body has are replaced by similar ones: arm;")


def test_inertias_that_a_body_has_stay_beside_one_that_none_has(read):
    base = _inertia(0.03, 0.02, 0.02, 0.004)
    found = [read(_urdf(arm, base)) for arm in (_inertia(0.008, 0.004, 0.002), _BALL)]
    assert found[0].body.limbs[0].inertia == found[1].body.limbs[0].inertia
    assert not any("no rigid body" in doubt for doubt in found[1].doubts)


def test_shapes_for_the_eye_that_the_engine_cannot_read_do_not_matter(read):
    material = '<material name="a"><color rgba="1 0 0 1"/></material>'
    visual = f'<visual><geometry><sphere radius="1"/></geometry>{2 * material}</visual>'
    plain = read(_urdf()).body
    assert read(_urdf(more=visual)).body == plain
    kept = '<robot name="two"><mujoco><compiler discardvisual="false"/></mujoco>'
    found = read(_urdf(more=visual).replace('<robot name="two">', kept))
    assert found.body.limbs[1] == plain.limbs[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<robot", "\n<!-- made by hand -->\n<?xml version='1.0' encoding='utf-8'?>\n<robot"),
        ("</robot>", "<sensor:camera name='eye'><sensor:rate/></sensor:camera></robot>"),
        ('ixy="0" ixz="0" iyz="0"', ""),
    ],
)
def test_what_other_readers_let_pass_does_not_stop_an_import(read, old, new):
    assert old in _urdf()
    assert read(_urdf().replace(old, new)).body == read(_urdf()).body


def test_a_mesh_without_volume_stands_for_its_surface(read, tmp_path):
    size = 1e-5  # m; the volume is less than the engine takes for some
    (tmp_path / "speck.obj").write_text(robots.PART.replace(".1", f"{size:g}"))
    mesh = '<collision><geometry><mesh filename="speck.obj"/></geometry></collision>'
    body = read(_urdf(more=mesh)).body
    assert [geom.kind for geom in body.limbs[1].geoms] == ["sphere", "box"]
    assert body.limbs[1].inertia.mass == 0.5


def test_joints_whose_limits_are_both_zero_are_named_where_nothing_else_moves(read):
    text = _urdf().replace('lower="-1" upper="1"', 'lower="0" upper="0"')
    reason = r"holds nothing that moves \(joints are fixed whose limits are both 0: swing\); expect"
    with pytest.raises(MorphologyError, match=reason):
        read(text)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("package://two/meshes/arm.dae", "the file 'two/meshes/arm.dae', whose format MuJoCo does "
         "not read; convert it (meshes to .obj or .stl)"),
        ("package://two/deep/meshes/arm.stl", "the file 'deep/meshes/arm.stl', which is not in "),
    ],
)  # fmt: skip
def test_files_that_are_not_there_are_told_from_those_that_cannot_be_read(read, name, reason):
    mesh = f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'
    with pytest.raises(MorphologyError) as error:
        read(_urdf(more=mesh))
    assert reason in str(error.value)


def _rushing_urdf(effort):
    """An arm that is so light for its motor that nothing but a rotor's inertia steadies it."""
    light = _urdf(_inertia(1e-7, 1e-7, 1e-7)).replace('mass value="0.5"', 'mass value="0.001"')
    return light.replace('effort="5"', f'effort="{effort:g}"')


def test_a_robot_that_needs_armature_is_told_how_much(read):
    with pytest.raises(MorphologyError) as error:
        read(_rushing_urdf(effort=100))
    advice = re.search(r"mjWARN_BADQACC; it simulates with --armature (\S+), the", str(error.value))
    armature = float(advice[1])
    found = read(_rushing_urdf(effort=100), armature=armature)
    assert found.body.limbs[1].joints[0].armature == armature
    assert f"joints got an armature of {armature:g}: swing" in found.notes
    assert not any("moved at up to" in doubt for doubt in found.doubts)


def test_motors_that_no_armature_tames_are_named(read):
    advice = "; correct what its file says: .*motors are very strong .*: swing"
    with pytest.raises(MorphologyError, match=advice):
        read(_rushing_urdf(effort=5e4))


def test_armature_is_raised_and_never_lowered(read):
    armatures = [
        [joint.armature for limb in found.body.limbs for joint in limb.joints]
        for found in (read(robots.SERVO, "a.xml"), read(robots.SERVO, "a.xml", armature=0.03))
    ]
    assert armatures[1] == [max(value, 0.03) for value in armatures[0]]
    assert min(armatures[0]) < 0.03 < max(armatures[0])
    for wrong in (-1.0, float("nan"), "much"):
        with pytest.raises(ConfigError, match="the armature of a robot's joints must be a finite"):
            read(robots.SERVO, "a.xml", armature=wrong)
