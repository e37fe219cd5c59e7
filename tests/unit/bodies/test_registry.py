import math
import re
import sys
from dataclasses import replace

import pytest

from gmc_bench.bodies.importer import check_free_id
from gmc_bench.bodies.registry import BODY_SETS, ROBOT_FILES, BodySet, RobotFile
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import build_set, list_sets, load_morphologies, resolve_set
from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import (
    ConfigError,
    MorphologyError,
    MorphologySetError,
    PluginError,
    UnknownNameError,
)
from gmc_bench.generation.released import build_released

MINI = "gmc-unimal-mini-v2"

CRAWLER = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 0.3">
      <freejoint/>
      <geom type="sphere" size="0.1"/>
      <body name="leg" pos="0.1 0 0">
        <joint name="hip" axis="0 1 0" range="-40 40" limited="true" damping="1" armature="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 -0.1" size="0.03"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="hip" gear="20" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>
"""


@pytest.fixture(autouse=True)
def _own_data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))


def few(set_id="outside-v1"):
    bodies = build_released(MINI)
    return replace(bodies, id=set_id, splits={k: v[:2] for k, v in bodies.splits.items()})


@pytest.fixture
def outside():
    with BODY_SETS.temporarily("outside-v1", BodySet(build=few)):
        yield


@pytest.mark.usefixtures("outside")
def test_a_set_of_another_package_is_like_any_other():
    assert load_morphologies("outside") == few()
    assert load_morphologies("outside-v1:1").split("train") == few().split("train")[:1]
    assert len(load_morphologies("outside+damping-v1").split("test")) == 8
    assert [info.status for info in list_sets() if info.id == "outside-v1"] == ["installed"]
    with pytest.raises(MorphologySetError, match="'outside-v1' is that of a set that a package"):
        check_free_id("outside-v1")
    reason = "'outside' is that of a set that a package offers, 'outside-v1', without its version;"
    with pytest.raises(MorphologySetError, match=reason):
        check_free_id("outside")
    check_free_id("outside-v2")


def test_the_newest_version_is_taken_by_number():
    names = [f"gmc-unimal-mini-v{version}" for version in (3, 10)]
    older, newer = (BODY_SETS.temporarily(name, BodySet(build=few)) for name in names)
    with newer, older:
        assert resolve_set("gmc-unimal-mini") == names[1]
    assert resolve_set("gmc-unimal-mini") == MINI


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: 1 / 0, "could not be built: ZeroDivisionError: division by zero [test_registry"),
        (lambda: sys.exit("two\nlines"), "built: SystemExit: two lines [test_registry"),
        (lambda: [few()], "building the morphology set 'outside-v1' gave list; expected a Morph"),
        (lambda: few("other"), "gave 'other'; expected a MorphologySet whose id is the name of"),
    ],
)
def test_a_set_that_breaks_its_promise_ends_in_one_sentence(build, reason):
    broken = BODY_SETS.temporarily("outside-v1", BodySet(build=build))
    with broken, pytest.raises(PluginError, match=re.escape(reason)):
        build_set("outside-v1")


@pytest.mark.parametrize("origin", ["mine", None, ["generated"]])
def test_the_origin_of_a_set_is_a_known_one(origin):
    with pytest.raises(ConfigError, match="origin of a set of bodies must be one of generated, bu"):
        BodySet(build=few, origin=origin)


def with_torso(origin="installed", **changes):
    def build():
        body = biped()
        torso = replace(body.limbs[0], **changes)
        odd = replace(body, limbs=(torso, *body.limbs[1:]))
        return MorphologySet(
            id="outside-v1", splits={"train": (chain(3),), "test": (odd,)}, source="made for tests"
        )

    return BODY_SETS.temporarily("outside-v1", BodySet(build=build, origin=origin))


def test_bodies_that_start_too_high_or_have_names_of_the_ground_are_refused():
    height = biped().limbs[0].position[2]
    high = with_torso(position=(0.0, 0.0, 1.0))
    reason = (
        rf"'biped' starts .* {1.2 - height:.3g} m above .*, expected 0.2 m, .* z = {height:.4g} "
    )
    with high, pytest.raises(MorphologyError, match=reason):
        load_morphologies("outside")
    named = with_torso(name="box/0")
    with named, pytest.raises(MorphologyError, match="limb named 'box/0'"):
        load_morphologies("outside")
    # What a package says of itself does not count.
    for origin in ("generated", "built in"):
        with with_torso(origin, name="box/0"), pytest.raises(MorphologyError, match="'box/0'"):
            load_morphologies("outside")
    with with_torso(position=(0.0, 0.0, height + 0.09)):
        assert load_morphologies("outside").split("test")[0].num_limbs == 5


def test_a_set_may_say_itself_why_there_is_none():
    def fail():
        raise MorphologySetError("no bodies today")

    broken = BODY_SETS.temporarily("outside-v1", BodySet(build=fail))
    with broken, pytest.raises(MorphologySetError, match="no bodies today"):
        load_morphologies("outside")


def test_a_package_that_does_not_import_is_listed_as_broken(monkeypatch):
    monkeypatch.setattr(
        BODY_SETS, "items", lambda: [("outside-v1", PluginError("'x' could not be imported"))]
    )
    found = [info for info in list_sets() if info.id == "outside-v1"]
    assert [(info.status, info.hint) for info in found] == [("broken", "'x' could not be imported")]


def test_a_robot_of_a_package_is_a_set_of_one_body(tmp_path):
    path = tmp_path / "crawler.xml"
    path.write_text(CRAWLER)
    robot = RobotFile(path=path, source="Drawn for this test.", licence="MIT")
    names = ("outside-drag-v2", "outside-drag-v10")
    older, newer = (ROBOT_FILES.temporarily(name, robot) for name in names)
    with older, newer:
        assert load_morphologies("outside-drag") is load_morphologies(names[1])
        with pytest.raises(UnknownNameError, match="did you mean 'outside-drag-v"):
            load_morphologies("outside-drags")
    with ROBOT_FILES.temporarily("outside-crawler", robot):
        bodies = load_morphologies("outside-crawler")
        assert bodies is load_morphologies("outside-crawler")
        assert [info.status for info in list_sets() if info.id == bodies.id] == ["robot"]
    (body,) = bodies.split("test")
    assert bodies.split("train") == (body,)
    assert (body.num_limbs, [motor.gear for motor in body.actuators]) == (2, [20.0])
    assert (bodies.source, bodies.licence) == ("Drawn for this test.", "MIT")


def test_a_robot_of_a_package_has_the_start_pose_and_the_folder_that_are_stated(tmp_path):
    actuators = CRAWLER.index("<actuator>")
    (tmp_path / "motors.xml").write_text(f"<mujoco>{CRAWLER[actuators:]}")
    pose = '<keyframe><key name="bent" qpos="0 0 0.3 1 0 0 0 0.5"/></keyframe>'
    path = tmp_path / "xml" / "crawler.xml"
    path.parent.mkdir()
    path.write_text(f'{CRAWLER[:actuators]}<include file="../motors.xml"/>{pose}</mujoco>')
    robot = RobotFile(path=path, keyframe="bent", root=tmp_path)
    with ROBOT_FILES.temporarily("outside-crawler", robot):
        (body,) = load_morphologies("outside-crawler").split("train")
    limit = math.radians(40)
    assert body.limbs[1].joints[0].range == pytest.approx((-limit - 0.5, limit - 0.5))


def test_a_robot_that_cannot_be_used_says_why(tmp_path):
    path = tmp_path / "statue.xml"
    path.write_text("<mujoco><worldbody><body><geom size='1'/></body></worldbody></mujoco>")
    statue = ROBOT_FILES.temporarily("outside-statue", RobotFile(path=path))
    with statue, pytest.raises(MorphologySetError, match="robot 'statue' holds"):
        load_morphologies("outside-statue")
    assert RobotFile(path=str(path), root=str(tmp_path)) == RobotFile(path=path, root=tmp_path)
    with pytest.raises(ConfigError, match="the file of a robot must be named by text or a path"):
        RobotFile(path=None)
