"""Meshes that the engine does not read: turned in the sandbox, with the packages that are there."""

import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.bodies import mesh_formats
from gmc_bench.bodies.model_files import collect_files
from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.core.errors import MorphologyError
from tests.unit.bodies import foreign_robots as robots

PLY = """ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
element face 4
property list uchar int vertex_indices
end_header
0 0 0
{x} 0 0
0 {y} 0
0 0 {z}
3 0 2 1
3 0 1 3
3 0 3 2
3 1 2 3
"""


def text_stl():
    """The same tetrahedron as `PLY`, in an STL of text."""
    points = ["0 0 0", "0.1 0 0", "0 0.2 0", "0 0 0.3"]
    loops = ("".join(f" vertex {points[int(i)]}\n" for i in corners) for corners in FACES.split())
    facets = "".join(f"facet normal 0 0 0\nouter loop\n{x}endloop\nendfacet\n" for x in loops)
    return f"solid part\n{facets}endsolid part\n"


FACES = "021 013 032 123"
END = "</geometry></collision></link></robot>"


def collada(size=0.1, unit=1.0, up="Z_UP", lift=0.0):
    """A tetrahedron at the end of a node that lifts it, in a file's own unit."""
    points = f"0 0 0 {size} 0 0 0 {2 * size} 0 0 0 {3 * size}"
    return f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="u" meter="{unit}"/><up_axis>{up}</up_axis></asset>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="pa" count="12">{points}</float_array><technique_common>
      <accessor source="#pa" count="4" stride="3"><param name="X" type="float"/>
      <param name="Y" type="float"/><param name="Z" type="float"/></accessor>
    </technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/>
      <p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node id="n">
    <translate>0 0 {lift}</translate><instance_geometry url="#g"/>
  </node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>"""


@pytest.fixture
def read(sandbox, tmp_path):
    """Read a robot whose arm has a mesh."""

    def read_one(name, content):
        (tmp_path / name).write_text(content)
        mesh = f'<mesh filename="package://any/{name}"/>'
        text = robots.looped_urdf().replace('<box size="0.05 0.05 0.1"/>', mesh)
        (tmp_path / "arm.urdf").write_text(text)
        return read_robot(tmp_path / "arm.urdf", sandbox, seconds=0.0)

    return read_one


def _corners(data):
    """The lowest and highest coordinates (2, 3) of a binary STL file, m."""
    record = np.dtype([("normal", "<f4", 3), ("points", "<f4", (3, 3)), ("more", "<u2")])
    points = np.frombuffer(data[84:], record)["points"].reshape(-1, 3)
    return np.array([points.min(axis=0), points.max(axis=0)])


@pytest.mark.parametrize("up", ["Z_UP", "Y_UP"])
def test_collada_is_turned_with_its_unit_and_nodes_and_without_its_upward_axis(up):
    data = collada(size=10.0, unit=0.01, up=up, lift=50.0).encode()
    corners = _corners(mesh_formats.to_stl("a.DAE", data))
    np.testing.assert_allclose(corners, [[0.0, 0.0, 0.5], [0.1, 0.2, 0.8]], atol=1e-6)


def test_other_formats_are_in_metres():
    data = PLY.format(x=0.1, y=0.2, z=0.3).encode()
    np.testing.assert_allclose(
        _corners(mesh_formats.to_stl("a.ply", data)), [[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]], atol=1e-6
    )


def test_gltf_is_read_without_files_beside_it():
    import trimesh

    mesh = trimesh.load_mesh(io.BytesIO(PLY.format(x=0.1, y=0.2, z=0.3).encode()), file_type="ply")
    corners = _corners(mesh_formats.to_stl("a.glb", mesh.export(file_type="glb")))
    np.testing.assert_allclose(corners, [[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]], atol=1e-6)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_the_process_that_turns_meshes_can_open_no_file(sandbox):
    mesh = "<mesh filename='arm.dae.stl'/>"
    text = f"<robot name='a'><link name='l'><collision><geometry>{mesh}{END}"
    sandbox.read(text, {"arm.dae": collada().encode()}, urdf=True)
    pid = sandbox._process.pid
    assert "--meshes" in Path(f"/proc/{pid}/cmdline").read_text()
    open_files = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft, hard = next(line.split()[3:5] for line in limits if line.startswith("Max open files"))
    assert soft == hard
    assert set(range(int(soft))) <= open_files


def test_a_robot_has_the_box_around_a_mesh_whatever_its_format(read):
    obj = robots.PART.replace("0 .1 0", "0 .2 0").replace("0 0 .1", "0 0 .3")
    plain = read("part.obj", obj).body
    assert [geom.kind for geom in plain.limbs[0].geoms] == ["box"]
    for name, content in (
        ("part.dae", collada()),
        ("part.ply", PLY.format(x=0.1, y=0.2, z=0.3)),
        ("part.STL", text_stl()),
    ):
        for limb, same in zip(read(name, content).body.limbs, plain.limbs, strict=True):
            assert limb.inertia == same.inertia
            np.testing.assert_allclose(limb.geom.half_sizes, same.geom.half_sizes, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nonsense", r"has the mesh file 'part\.dae', which cannot be read \("),
        (collada().replace("<p>0 2 1 0 1 3 0 3 2 1 2 3</p>", "<p></p>"), "holds no triangles"),
    ],
)
def test_files_that_hold_no_mesh_are_named(read, content, reason):
    with pytest.raises(MorphologyError, match=reason):
        read("part.dae", content)


def test_a_binary_stl_that_begins_like_text_is_left_alone():
    data = mesh_formats.to_stl("part.stl", text_stl().encode())
    binary = b"solid".ljust(80) + data[80:]
    assert not mesh_formats.needs_conversion("part.stl", binary)
    assert mesh_formats.needs_conversion("part.stl", b"\n" + text_stl().encode())
    assert not mesh_formats.needs_conversion("solid.obj", text_stl().encode())


def test_without_trimesh_an_stl_of_text_is_named(read, monkeypatch):
    monkeypatch.setattr(mesh_formats, "find_spec", lambda name: None)
    with pytest.raises(MorphologyError, match=r"'part\.stl', an STL of text, .*\[meshes\]'$"):
        read("part.stl", text_stl())


def test_without_the_packages_a_refusal_says_how_to_get_them(read, monkeypatch):
    def without_collada(name):
        return None if name == "collada" else find_spec(name)

    monkeypatch.setattr(mesh_formats, "find_spec", without_collada)
    with pytest.raises(MorphologyError) as error:
        read("part.dae", collada())
    assert str(error.value).endswith("let the import do it: pip install 'gmc-bench[meshes]'")
    assert read("part.ply", PLY.format(x=0.1, y=0.2, z=0.3)).body  # needs no other package


def test_only_urdf_has_meshes_that_are_turned(tmp_path):
    """MJCF refers to no such files, because its own programs cannot read them."""
    (tmp_path / "a.dae").write_text(collada())
    path = tmp_path / "robot.xml"
    path.write_text('<mujoco><mesh file="a.dae"/></mujoco>')
    found = collect_files(path)
    assert (found.files, found.missing) == ({}, ("a.dae",))
