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


@pytest.mark.parametrize(
    "moments", [(0.03, 0.02, 0.02, 0.004), (0.01, 0.01, 0.02), (1e-9, 0.01, 0.01)]
)
def test_inertias_that_a_body_has_stay_beside_one_that_none_has(read, moments):
    """Also those of a plate and of a rod, which are at the edge of what a body can have."""
    base = _inertia(*moments)
    mended, plain = (read(_urdf(arm, base)) for arm in (_inertia(0.008, 0.004, 0.002), _BALL))
    for limb, same in zip(mended.body.limbs[:1], plain.body.limbs[:1], strict=True):
        assert limb.inertia.moments == pytest.approx(same.inertia.moments, rel=1e-6, abs=1e-10)
    (doubt,) = (doubt for doubt in mended.doubts if "no rigid body" in doubt)
    assert ": arm;" in doubt
    assert not any("no rigid body" in doubt for doubt in plain.doubts)


@pytest.mark.parametrize("mended", [False, True])
def test_a_link_without_inertia_has_a_mass_only_where_nothing_fixed_to_it_has(read, mended):
    plain = _urdf(base=_inertia(0.008, 0.004, 0.002) if mended else _BALL)
    box = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
    tip = (
        f'<link name="tip">{box}</link><joint name="tip" type="fixed"><parent link="arm"/>'
        '<child link="tip"/></joint></robot>'
    )
    tipped = read(plain.replace("</robot>", tip))
    assert tipped.body.limbs[1].inertia == read(plain).body.limbs[1].inertia
    assert len(tipped.body.limbs[1].geoms) == 2
    assert not any("<inertial>" in note for note in tipped.notes)
    doubts = [doubt for doubt in tipped.doubts if "no rigid body has" in doubt]
    assert [doubt.partition(";")[0].endswith(": base") for doubt in doubts] == [True] * mended
    # Without the arm's inertia, neither of the two has a mass.
    given = f'<inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>{_BALL}</inertial>'
    assert given in plain
    bare = read(plain.replace(given, "").replace("</robot>", tip))
    assert bare.body.limbs[1].inertia is None
    assert {geom.density for geom in bare.body.limbs[1].geoms} == {1000.0}
    (note,) = (note for note in bare.notes if "<inertial>" in note)
    assert note.endswith("states one: arm, tip")


def test_a_plate_that_misses_equality_by_rounding_is_no_doubt(read):
    text = _urdf(_inertia(0.01, 0.013, 0.023)).replace('izz="0.023"', 'izz="0.02300000000001"')
    found = read(text)
    assert sorted(found.body.limbs[1].inertia.moments) == pytest.approx([0.01, 0.013, 0.023])
    assert not any("no rigid body" in doubt for doubt in found.doubts)


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
        ("<robot", "<robot xmlns='http://drake.mit.edu' xmlns:xi=\"http://www.w3.org\" xi:x='1'"),
        ("</robot>", "<!-- ---- left leg ---- --></robot>"),
        ("</robot>", "<gazebo><a b='1 & 2 &amp; 3'/></gazebo></robot>\nmore"),
        ('ixy="0" ixz="0" iyz="0"', ""),
    ],
)
def test_what_other_readers_let_pass_does_not_stop_an_import(read, old, new):
    plain = _urdf(_inertia(0.008, 0.004, 0.002))  # which has to be mended
    assert old in plain
    assert read(plain.replace(old, new)).body == read(plain).body


def test_what_is_no_xml_is_called_so(read):
    with pytest.raises(MorphologyError, match=r"'two' is no well-formed XML \(mismatched tag"):
        read(_urdf().replace("</link>", "</lnk>", 1))


def test_meshes_without_volume_stand_for_their_surfaces(read, tmp_path):
    size = 1e-5  # m; the volume is less than the engine takes for some
    names = ("speck.obj", "my speck.obj")
    for name in names:
        (tmp_path / name).write_text(robots.PART.replace(".1", f"{size:g}"))
    mesh = '<collision><geometry><mesh filename="{}"/></geometry></collision>'
    body = read(_urdf(more="".join(map(mesh.format, names)))).body
    assert [geom.kind for geom in body.limbs[1].geoms] == ["sphere", "box", "box"]
    assert body.limbs[1].inertia.mass == 0.5


def test_joints_whose_limits_are_both_zero_are_named_where_nothing_else_moves(read):
    text = _urdf().replace('lower="-1" upper="1"', 'lower="0" upper="0"')
    reason = r"holds nothing that moves \(joints are fixed whose limits are both 0: swing\); expect"
    with pytest.raises(MorphologyError, match=reason):
        read(text)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("package://two/arm.fbx", "the file 'two/arm.fbx', whose format MuJoCo does not read; "
         "convert it (meshes to .obj or .stl) and name the new file in the robot's"),
        ("package://two/meshes/arm.dae", "the file 'two/meshes/arm.dae', which is not in /"),
        ("package://arm.stl", "the file 'arm.stl', which is not in /"),
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


class _Stub:
    """Trials that end as told for each armature."""

    def __init__(self, sandbox, speeds):
        self.read = sandbox.read
        self._speeds = speeds

    def roll_out(self, text, *, steps, seed):
        armature = float(re.search(r'armature="([^"]+)"', text)[1]) if "armature" in text else 0.0
        speed = self._speeds.get(armature)
        return {
            "warnings": [] if speed else ["mjWARN_BADQACC"],
            "time": 0.1,
            "speeds": {"swing": speed},
        }


@pytest.mark.parametrize(
    ("speeds", "effort", "advice"),
    [
        ({0.001: 900.0, 0.01: 100.0, 0.1: 10.0}, 5, "it simulates with --armature 0.01,"),
        ({0.001: 900.0, 0.01: 800.0, 0.1: 700.0}, 5, "it simulates with --armature 0.1,"),
        ({0.01: 900.0}, 0.001, "it simulates with --armature 0.01,"),  # weak motors are no reason
        ({0.001: 900.0}, 5000, "correct what its file says: motors are very strong for 2.5 kg"),
        ({}, 5, "check masses, gears, gains and ranges, or add damping and armature"),
    ],
)
def test_advice_is_what_the_trials_say(sandbox, tmp_path, speeds, effort, advice):
    (tmp_path / "two.urdf").write_text(_urdf().replace('effort="5"', f'effort="{effort}"'))
    with pytest.raises(MorphologyError) as error:
        read_robot(tmp_path / "two.urdf", _Stub(sandbox, speeds))
    assert f"mjWARN_BADQACC; {advice}" in str(error.value)


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
