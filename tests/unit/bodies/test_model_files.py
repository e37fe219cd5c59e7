import os
import re
import shutil
import time
from pathlib import Path

import pytest

from gmc_bench.bodies import model_files
from gmc_bench.bodies.model_files import collect_files, package_around, robots_among
from gmc_bench.core.errors import MorphologyError


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "robot"
    inside.mkdir()
    (tmp_path / "canary.stl").write_text("secret")
    return inside


def _collect(folder, text, name="robot.xml"):
    (folder / name).write_text(text)
    return collect_files(folder / name)


def test_collects_includes_meshes_and_what_includes_refer_to(folder):
    (folder / "parts" / "deep").mkdir(parents=True)
    (folder / "parts" / "legs.xml").write_text("<mujoco><mesh file='deep/leg.stl'/></mujoco>")
    (folder / "parts" / "deep" / "leg.stl").write_bytes(b"leg")
    (folder / "meshes").mkdir()
    (folder / "meshes" / "torso &.obj").write_bytes(b"torso")
    (folder / "unused.stl").write_bytes(b"unused")
    found = _collect(
        folder,
        '<mujoco><compiler meshdir="meshes/"/><include file="parts/legs.xml"/>'
        '<mesh file="torso &amp;.obj"/><mesh file="missing.stl"/></mujoco>',
    )
    assert set(found.files) == {"legs.xml", "leg.stl", "torso &.obj"}
    assert found.files["leg.stl"] == b"leg"
    assert (found.name, found.urdf) == ("robot", False)


@pytest.mark.parametrize(
    "uri", ["package://some/meshes/a.stl", "package://meshes/a.stl", "meshes/a.stl"]
)
def test_urdf_packages_are_looked_up_in_the_folder(folder, uri):
    (folder / "meshes").mkdir()
    (folder / "meshes" / "a.stl").write_bytes(b"a")
    found = _collect(
        folder, f"<?xml version='1.0'?><!-- <mujoco> --><robot><mesh filename='{uri}'/>"
    )
    assert found.files == {"a.stl": b"a"}
    assert found.urdf


@pytest.mark.parametrize(
    "reference",
    [
        "../canary.stl", "parts/../../canary.stl", "{parent}/canary.stl", "link.stl",
        "way/canary.stl", "..\\canary.stl", "C:\\canary.stl", "/etc/passwd", "//etc/passwd",
        "parts\\..\\..\\canary.stl", "\\\\host\\canary.stl",
        "&#46;&#46;/canary.stl", "file:///etc/passwd", "package://../canary.stl",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "element", ["include file=", "mesh file=", "mesh filename=", "texture fileup ="]
)
def test_refuses_references_out_of_the_folder(folder, reference, element):
    (folder / "parts").mkdir()
    (folder / "link.stl").symlink_to(folder.parent / "canary.stl")
    (folder / "way").symlink_to(folder.parent)
    reference = reference.format(parent=folder.parent)
    with pytest.raises(MorphologyError, match="outside its folder"):
        _collect(folder, f'<mujoco><{element}"{reference}"/></mujoco>')


@pytest.mark.parametrize("attribute", ["meshdir", "assetdir", "texturedir"])
def test_refuses_asset_folders_out_of_the_folder(folder, attribute):
    with pytest.raises(MorphologyError, match="outside its folder"):
        _collect(folder, f'<mujoco><compiler {attribute}=".."/><mesh file="canary.stl"/></mujoco>')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<?xml version='1.0'?><!-- <robot> --><package format='3'/>", False),
        ("<mujocoinclude/>", False),
        ("<!-- <package> --><robot name='a'/>", True),
        ("<mujoco>", True),
        ("", True),
        ("<!DOCTYPE a><package/>", True),
    ],
)
def test_files_of_other_kinds_are_no_robots(folder, text, expected):
    (folder / "a.xml").write_text(text)
    assert bool(robots_among([folder / "a.xml"])) is expected


def test_links_in_a_circle_are_refused(folder):
    (folder / "a.xml").symlink_to(folder / "a.xml")
    assert robots_among([folder / "a.xml"])
    with pytest.raises(MorphologyError, match="cannot read"):
        collect_files(folder / "a.xml")


def test_links_that_stay_inside_are_followed(folder):
    (folder / "real.stl").write_bytes(b"real")
    (folder / "link.stl").symlink_to("real.stl")
    assert _collect(folder, '<mujoco><mesh file="link.stl"/></mujoco>').files == {
        "link.stl": b"real"
    }


@pytest.mark.parametrize(
    "text",
    [
        r"<mujoco><mesh file='meshes\new\a.stl'/>",
        r"<mujoco><compiler meshdir='meshes\new\'/><mesh file='.\a.stl'/>",
        r"<robot><mesh filename='meshes\new\a.stl'/>",
        r"<robot><mesh filename='package://robot\meshes/new\a.stl'/>",
    ],
)
def test_backslashes_separate_folders(folder, text):
    (folder / "meshes" / "new").mkdir(parents=True)
    (folder / "meshes" / "new" / "a.stl").write_bytes(b"a")
    found = _collect(folder, text)
    assert (found.files, found.missing) == ({"a.stl": b"a"}, ())
    (folder / "meshes" / "new" / "a.stl").unlink()
    (missing,) = _collect(folder, text).missing
    assert missing.endswith("/a.stl")


def test_two_files_of_one_name_are_refused(folder):
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "part.stl").write_text(name)
    text = '<mujoco><mesh file="a/part.stl"/><mesh file="b/part.stl"/></mujoco>'
    with pytest.raises(MorphologyError, match=r"two different files called 'part\.stl'"):
        _collect(folder, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<!DOCTYPE mujoco [<!ENTITY a 'b'>]><mujoco/>", "document type"),
        ("".join(f'<mesh file="m{i}.stl"/>' for i in range(600)), "more than 500 files"),
        ("".join(f'<compiler meshdir="m{i}"/>' for i in range(20)), "16 folders"),
        ("<mujoco>" + " " * (1 << 23), "too large"),
    ],
)
def test_refuses_what_is_too_much(folder, text, reason):
    with pytest.raises(MorphologyError, match=reason):
        _collect(folder, text)


def test_files_may_have_so_many_bytes_together(folder, monkeypatch):
    monkeypatch.setattr(model_files, "_MAX_TOTAL", 100)
    for name in ("a.stl", "b.stl"):
        (folder / name).write_bytes(bytes(60))
    assert len(_collect(folder, '<mujoco><mesh file="a.stl"/></mujoco>').files) == 1
    with pytest.raises(MorphologyError, match=r"b\.stl is too large"):
        _collect(folder, '<mujoco><mesh file="a.stl"/><mesh file="b.stl"/></mujoco>')


def test_pipes_folders_and_missing_files_are_refused(folder):
    os.mkfifo(folder / "pipe.xml")
    with pytest.raises(MorphologyError, match="not a regular file"):
        collect_files(folder / "pipe.xml")
    with pytest.raises(MorphologyError, match="cannot read"):
        collect_files(folder / "nothing.xml")
    with pytest.raises(MorphologyError, match=r"not a regular file|cannot read"):
        collect_files(folder)
    (folder / "latin.xml").write_bytes(b"<mujoco model='\xe4'/>")
    with pytest.raises(MorphologyError, match="not UTF-8"):
        collect_files(folder / "latin.xml")
    shutil.make_archive(str(folder / "packed"), "zip", folder, "latin.xml")
    with pytest.raises(MorphologyError, match=r"packed\.zip is an archive; unpack it and give"):
        collect_files(folder / "packed.zip")


@pytest.mark.parametrize(
    "part",
    [
        "<robot><visual ",
        "<robot><visual>",
        "<robot><visual/>",
        "<!--",
        'file="',
        "<?",
        "file ",
        "<mesh ",
        "<robot><mesh ",
        '<robot><mesh filename="',
        "<robot><mesh filename ",
        "]]>",
        "<!--->",
    ],
)
def test_hostile_texts_take_no_time(folder, part):
    """Two megabytes in which every beginning would have to be looked for to the end."""
    text, start = part * (2_000_000 // len(part)), time.process_time()
    found = _collect(folder, text)
    assert time.process_time() - start < 10.0  # s of the processor; minutes if it were quadratic
    assert found.files == {}


def test_what_is_no_reference_of_the_robot_is_not_followed(folder):
    found = _collect(
        folder,
        '<robot><!-- <mesh filename="../old.stl"/> <xacro:x/> --><visual><geometry><mesh '
        'filename="/visual/part.stl"/></geometry></visual><gazebo><plugin '
        'filename="/opt/lib/control" name="p"/></gazebo><transmission><type file="/x/y"/>'
        '</transmission><material name="m"><texture filename="../../x.png"/></material>'
        '<mesh name="filename" filename="part.stl"/></robot>',
        "robot.urdf",
    )
    assert found.files == {}
    assert found.missing == ("part.stl",)
    with pytest.raises(MorphologyError, match="outside its folder"):
        _collect(
            folder,
            '<robot><mujoco><compiler discardvisual="false"/></mujoco>'
            '<visual><mesh filename="/visual/part.stl"/></visual></robot>',
        )


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<visual>", "</visual>"),
        ('<visual name="shell">', "</visual>"),
        ("<visual\n>", "</visual >"),
        ("<visual/><visual>", "</visual><visual name='a'/>"),
    ],
)
def test_shapes_for_the_eye_do_not_stand_in_the_way_of_those_for_contacts(folder, opening, closing):
    for kind in ("visual", "collision"):
        (folder / kind).mkdir()
        (folder / kind / "a.stl").write_text(kind)
    shapes = "".join(
        f'{before}<geometry><mesh filename="{kind}/a.stl"/></geometry>{after}'
        for kind, before, after in (
            ("visual", opening, closing),
            ("collision", "<collision>", "</collision>"),
        )
    )
    found = _collect(folder, f"<robot>{shapes}<mesh filename='visualized.stl'/></robot>")
    assert (found.files, found.missing) == ({"a.stl": b"collision"}, ("visualized.stl",))


@pytest.mark.parametrize(
    "reference",
    ["package://robot/meshes/a.stl", "package://meshes/a.stl", "../meshes/a.stl"],
)
def test_a_wider_root_opens_the_folders_of_a_package(folder, reference):
    for name in ("meshes", "urdf"):
        (folder / name).mkdir()
    (folder / "meshes" / "a.stl").write_bytes(b"a")
    path = folder / "urdf" / "robot.urdf"
    path.write_text(f'<robot><mesh filename="{reference}"/></robot>')
    assert collect_files(path, folder).files == {"a.stl": b"a"}
    found = collect_files(path, folder.parent).files  # the folder is the package `robot` there
    assert (found == {"a.stl": b"a"}) == (reference != "package://meshes/a.stl")


def test_a_folder_beside_that_of_the_model_holds_the_files_of_a_package(folder):
    """Seen from the root, `../meshes` would lead out; it is meant from where the model is."""
    for name in ("meshes", "urdf"):
        (folder / name).mkdir()
    (folder / "meshes" / "a.stl").write_bytes(b"a")
    path = folder / "urdf" / "robot.urdf"
    text = "<robot><mujoco><compiler meshdir='../meshes'/></mujoco>{}</robot>"
    path.write_text(text.format("<mesh filename='package://robot/meshes/a.stl'/>"))
    assert collect_files(path, folder).files == {"a.stl": b"a"}
    assert collect_files(path, folder.parent).files == {"a.stl": b"a"}
    assert collect_files(path).files == {"a.stl": b"a"}
    other = folder / "other" / "robot.urdf"  # no folder where packages keep their robots
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    with pytest.raises(MorphologyError, match="outside its folder"):
        collect_files(other)


@pytest.mark.parametrize(
    "reference",
    ["package://robot/meshes/a.stl", "package:///robot/meshes/a.stl", "../meshes/a.stl"],
)
def test_a_model_of_a_ros_package_finds_the_files_of_the_package(folder, reference):
    (folder / "package.xml").write_text("<package/>")
    (folder / "meshes").mkdir()
    (folder / "meshes" / "a.stl").write_bytes(b"a")
    path = folder / "urdf" / "arms" / "robot.urdf"
    path.parent.mkdir(parents=True)
    path.write_text(f'<robot><mesh filename="{reference.replace("..", "../..")}"/></robot>')
    found = collect_files(path)
    assert (found.files, found.root) == ({"a.stl": b"a"}, folder)
    path.write_text('<robot><mesh filename="../../../canary.stl"/></robot>')
    with pytest.raises(MorphologyError, match="outside its folder"):
        collect_files(path)
    far = folder / "a" / "b" / "c" / "d" / "e"
    far.mkdir(parents=True)
    assert package_around(far) == far
    assert package_around(far.parent) == folder


def test_folders_that_hold_more_than_a_robot_are_no_package(folder, monkeypatch):
    for name in ("robots", "meshes"):
        (folder / name).mkdir()
    assert package_around(folder / "robots") == folder
    (folder / "package.xml").write_text("<package/>")
    monkeypatch.setenv("HOME", str(folder))
    assert package_around(folder / "robots") == folder / "robots"
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert package_around(folder / "robots") == folder / "robots"
    assert package_around(Path("/robots")) == Path("/robots")


def test_endless_references_take_no_time(folder):
    reference = f"package://{'a/' * 100_000}x.stl"
    start = time.perf_counter()
    found = _collect(folder, f"<robot><mesh filename='{reference}'/></robot>", "robot.urdf")
    assert time.perf_counter() - start < 1.0
    assert found.missing == (reference,)


def test_files_of_one_name_that_a_urdf_refers_to_are_told_apart(folder):
    for name in ("a", "b", "c"):
        (folder / name).mkdir()
        (folder / name / "part.stl").write_text(name)
    (folder / "c" / "part.stl").write_text("a")  # the same as the first
    text = (
        "<robot><mesh filename='package://a/part.stl'/><mesh scale='1' filename=\"b/part.stl\"/>"
        "<mesh filename='c/part.stl'/><mesh filename='b/../b/part.stl'/>"
        "</robot>"
    )
    # A quote that a comment leaves open would hide the references after it.
    found = _collect(folder, f"<robot><!-- filename='b/part.stl -->{text[7:]}", "robot.urdf")
    assert found.files == {"part.stl": b"a", "part~2.stl": b"b"}
    assert found.text == text.replace('"b/part.stl"', '"part~2.stl"').replace(
        "'b/../b/part.stl'", '"part~2.stl"'
    )


def test_meshes_of_a_urdf_differ_in_what_the_engine_calls_them(folder):
    """It drops suffixes and ignores case; a mesh that is turned has another suffix."""
    names = ("p.obj", "p.stl", "P.STL", "q.ply", "q.ply.stl")
    for place, name in enumerate(names):
        (folder / str(place)).mkdir()
        (folder / str(place) / name).write_text(name)
    meshes = "".join(f"<mesh filename='{place}/{name}'/>" for place, name in enumerate(names))
    found = _collect(folder, f"<robot>{meshes}</robot>", "robot.urdf")
    assert found.files == {
        "p.obj": b"p.obj", "p~2.stl": b"p.stl", "P~3.STL": b"P.STL", "q.ply": b"q.ply",
        "q.ply~2.stl": b"q.ply.stl",
    }  # fmt: skip
    shown = ["0/p.obj", "p~2.stl", "P~3.STL", "q.ply.stl", "q.ply~2.stl"]
    assert re.findall(r"""filename=["']([^"']*)""", found.text) == shown


def test_an_include_may_name_the_folder_of_meshes(folder):
    (folder / "assets").mkdir()
    (folder / "assets" / "a.stl").write_bytes(b"a")
    (folder / "common.xml").write_text("<mujoco><compiler meshdir='assets'/></mujoco>")
    found = _collect(folder, "<mujoco><include file='common.xml'/><mesh file='a.stl'/></mujoco>")
    assert (set(found.files), found.missing) == ({"common.xml", "a.stl"}, ())


def test_attached_models_have_folders_of_their_own(folder):
    """They lie beside the attached model, and hide none of the others."""
    for name in ("parts", "meshes"):
        (folder / name / "meshes").mkdir(parents=True)
    (folder / "parts" / "meshes" / "a.stl").write_bytes(b"leg")
    (folder / "meshes" / "b.stl").write_bytes(b"torso")
    leg = "<mujoco><compiler meshdir='meshes'/><mesh file='a.stl'/></mujoco>"
    (folder / "parts" / "leg.xml").write_text(leg)
    text = (
        "<mujoco><compiler meshdir='meshes'/><model name='leg' file='parts/leg.xml'/>"
        "<mesh file='b.stl'/></mujoco>"
    )
    files = _collect(folder, text).files
    assert files == {"leg.xml": leg.encode(), "a.stl": b"leg", "b.stl": b"torso"}
    (folder / "parts" / "leg.xml").write_text(leg.replace("'meshes'", "'../../meshes'"))
    with pytest.raises(MorphologyError, match="outside its folder"):
        _collect(folder, text)


@pytest.mark.parametrize(
    "reference",
    ["../../canary.stl", "package://robot/../../canary.stl", "../way/canary.stl", "{parent}/a.stl"],
)
def test_nothing_outside_the_root_is_read(folder, reference):
    (folder / "urdf").mkdir()
    (folder / "way").symlink_to(folder.parent)
    path = folder / "urdf" / "robot.urdf"
    path.write_text(f'<robot><mesh filename="{reference.format(parent=folder.parent)}"/></robot>')
    with pytest.raises(MorphologyError, match="outside its folder"):
        collect_files(path, folder)


def test_a_link_to_a_model_must_stay_in_the_root(folder):
    (folder.parent / "other.xml").write_text("<mujoco/>")
    (folder / "link.xml").symlink_to("../other.xml")
    assert collect_files(folder / "link.xml").name == "link"
    with pytest.raises(MorphologyError, match=r"'link' leads to .*, which is outside of"):
        collect_files(folder / "link.xml", folder)
    with pytest.raises(MorphologyError, match="is no folder"):
        collect_files(folder / "link.xml", folder / "nothing")


def test_templates_are_refused_with_the_way_out(folder):
    with pytest.raises(MorphologyError, match="is a xacro template; expand it"):
        _collect(folder, '<robot><xacro:property name="m" value="1"/></robot>', "a.xacro")


def test_names_hold_no_control_characters(folder):
    assert _collect(folder, "<mujoco/>", "new\nline.xml").name == "new_line"


def test_included_texts_are_not_looked_for_where_meshes_are(tmp_path):
    robot = tmp_path / "robot"
    robot.mkdir()
    (robot / "legs.xml").write_text("<mujoco/>")
    head = '<mujoco><compiler meshdir="../meshes"/><include file="legs.xml"/>'
    (robot / "a.xml").write_text(f"{head}</mujoco>")
    assert list(collect_files(robot / "a.xml", robot).files) == ["legs.xml"]
    (robot / "a.xml").write_text(f'{head}<asset><mesh file="leg.stl"/></asset></mujoco>')
    with pytest.raises(MorphologyError, match=r"'\.\./meshes/leg\.stl', which is outside"):
        collect_files(robot / "a.xml", robot)
