from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest

from gmc_bench.bodies.store import imported_sets, load_set
from gmc_bench.cli.main import main
from tests.unit.bodies import foreign_robots as robots

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))


def _import(*argv):
    return main(["morphologies", "import", *map(str, argv), "--seconds", "0.1"])


def test_a_file_is_kept_under_its_own_name_or_another(capsys):
    assert _import(ASSETS / "hopper.xml") == 0
    shown = capsys.readouterr().out
    assert "slot 0: hinge foot_joint, -0.785 to 0.785 rad, motor 200" in shown
    assert "use it with  --morphologies hopper" in shown
    assert _import("one", ASSETS / "hopper.xml") == 0
    assert _import(ASSETS / "hopper.xml", "--as", "two") == 0
    assert imported_sets() == ["hopper", "one", "two"]
    digests = {load_set(name).split("test")[0].digest for name in imported_sets()}
    assert len(digests) == 1


def test_options_reach_the_import(capsys, monkeypatch):
    asked = []

    def note(path, *names, **options):
        asked.append((path, names, options))
        return SimpleNamespace(text="kept")

    monkeypatch.setattr("gmc_bench.bodies.robot_import.import_bodies", note)
    options = ("--keyframe", "sit", "--seconds", "2.5", "--root", "above", "--armature", "0.01")
    assert main(["morphologies", "import", "mine", "robot.urdf", *options]) == 0
    assert main(["morphologies", "import", "robot.urdf"]) == 0
    assert capsys.readouterr().out == "kept\n" * 2
    assert asked == [
        ("robot.urdf", ("mine",),
         {"keyframe": "sit", "seconds": 2.5, "root": "above", "armature": 0.01}),
        ("robot.urdf", (), {"keyframe": None, "seconds": None, "root": None, "armature": None}),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_folder_is_one_set(capsys, tmp_path):
    folder = tmp_path / "robots"
    folder.mkdir()
    for name in ("hopper.xml", "walker2d.xml"):
        (folder / name).write_text((ASSETS / name).read_text())
    assert _import("both", folder) == 0
    assert [body.name for body in load_set("both").split("train")] == ["hopper", "walker2d"]

    (folder / "z.xml").write_text("<mujoco/>")
    (folder / "y.xml").write_text("<mujoco>")
    assert _import("both", folder) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "'z' holds nothing that moves" in lines[1]
    assert lines[2].endswith("(and 1 more problem)")


@pytest.mark.slow
def test_a_package_is_imported_by_its_folder_or_a_file_of_it(tmp_path, capsys):
    package = tmp_path / "pkg"
    (package / "urdf").mkdir(parents=True)
    (package / "meshes").mkdir()
    (package / "meshes" / "part.obj").write_text(robots.PART)
    mesh = '<mesh filename="../meshes/part.obj"/>'
    text = robots.looped_urdf().replace('<box size="0.05 0.05 0.1"/>', mesh, 1)
    (package / "urdf" / "robot.urdf").write_text(text)
    assert _import(package) == 0
    assert _import("two", package / "urdf" / "robot.urdf") == 0
    assert load_set("pkg").split("test") == load_set("two").split("test")
    other = package / "models" / "robot.urdf"
    (package / "urdf").rename(other.parent)
    capsys.readouterr()
    assert _import("three", other) == 2
    assert "name a folder above with --root" in capsys.readouterr().err
    assert _import("three", other, "--root", package) == 0
    assert load_set("pkg").split("test") == load_set("three").split("test")
    (package / "package.xml").write_text("<package/>")
    assert _import("four", other) == 0


def test_links_out_of_a_folder_are_refused(tmp_path, capsys):
    folder = tmp_path / "robots"
    folder.mkdir()
    (folder / "one.xml").write_text((ASSETS / "hopper.xml").read_text())
    (folder / "two.xml").symlink_to("one.xml")
    assert _import(folder) == 0
    assert [body.name for body in load_set("robots").split("test")] == ["one", "two"]
    (folder / "three.xml").symlink_to(ASSETS / "hopper.xml")
    assert _import("more", folder) == 2
    assert "'three' leads to" in capsys.readouterr().err
    assert imported_sets() == ["robots"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["nothing.xml"], "there is no file or folder nothing.xml"),
        (["a", "b", "c"], "expected the name of a set and one path"),
        (["a", "b", "--as", "c"], "expected the name of a set and one path"),
        (["x", "nothing"], "there is no file or folder nothing"),
        ([""], "PATH: got an empty value; give another or leave it out"),
        (["~nobody-here/x.xml"], "there is no file or folder ~nobody-here/x.xml"),
        ([ASSETS / "hopper.xml", "--as", ""], "--as: got an empty value"),
        ([ASSETS / "hopper.xml", "--root", ""], "--root: got an empty value"),
        ([ASSETS / "hopper.xml", "--root", "~nobody-here"], "~nobody-here is no folder"),
        (["/dev/null"], "is not a regular file"),
        (
            ["unimals_100", ASSETS / "hopper.xml"],
            "from a folder with 'train' and 'test' in it, which",
        ),
        (["gmc-x", ASSETS / "hopper.xml"], "reserved for generated sets"),
        (["A B", ASSETS / "hopper.xml"], "cannot be the id of a set"),
        ([ASSETS / "swimmer.xml"], "no shape that could touch the ground"),
        ([ASSETS / "hopper.xml", "--keyframe", "sit"], "has no keyframe 'sit'; it has none"),
        ([ASSETS / "hopper.xml", "--seconds", "900"], "must be 0 to 60 seconds, got '900'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(capsys, argv, reason):
    command = ["morphologies", "import", *map(str, argv)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert len(error.splitlines()) == 1
    assert imported_sets() == []
