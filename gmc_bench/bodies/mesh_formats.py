"""Turn meshes that the engine does not read into ones that it does, with trimesh.

Parsing happens in the worker process. `readable` is for the other side, which collects the files.
"""

import importlib
import io
from importlib.util import find_spec
from pathlib import PurePosixPath

EXTRA = "pip install 'gmc-bench[meshes]'"
FORMATS = {".dae": ("trimesh", "collada"), ".glb": ("trimesh",), ".ply": ("trimesh",)}
"""Suffixes of meshes that can be converted, and the packages that this takes."""

_TRIANGLE = b"""ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
3 0 1 2
"""


def readable(name: str) -> bool:
    """Return whether a file is a mesh that the installed packages can convert."""
    packages = FORMATS.get(suffix_of(name))
    return packages is not None and all(find_spec(package) for package in packages)


def suffix_of(name: str) -> str:
    """Return the suffix of a file, in lower case."""
    return PurePosixPath(name.lower()).suffix


def stl_name(name: str) -> str:
    """Return the name of the STL file that a mesh is converted to."""
    return name if suffix_of(name) == ".stl" else f"{name}.stl"


def needs_conversion(name: str, data: bytes) -> bool:
    """Return whether the engine can read a mesh only when `to_stl` has converted it.

    Raises:
        ValueError: it is an ASCII STL, and trimesh is not installed.
    """
    if not _is_text_stl(name, data):
        return readable(name)
    if not find_spec("trimesh"):
        raise ValueError(
            f"has the mesh file {name!r}, an STL of text, which MuJoCo does not read; convert it "
            f"to a binary one, or let the import do it: {EXTRA}"
        )
    return True


def _is_text_stl(name: str, data: bytes) -> bool:
    """Return whether a file is an ASCII STL, which the engine takes for a damaged binary one.

    A binary one may begin with the same word, but its length follows from its number of triangles.
    """
    if suffix_of(name) != ".stl" or data.lstrip()[:5].lower() != b"solid":
        return False
    return len(data) != 84 + 50 * int.from_bytes(data[80:84], "little")


def load_packages() -> None:
    """Import what there is of the packages, with all that they import late.

    For a process that can open no files afterwards.
    """
    for package in sorted({package for needed in FORMATS.values() for package in needed}):
        if find_spec(package):
            importlib.import_module(package)
    if find_spec("trimesh"):
        to_stl("triangle.ply", _TRIANGLE)


def to_stl(name: str, data: bytes) -> bytes:
    """Return a mesh as a binary STL file, m.

    COLLADA states its unit; its up axis is ignored, as it is in ROS. Other formats are in metres.

    Args:
        name: of the file, which tells its format.
        data: what the file holds.

    Raises:
        ValueError: it cannot be read, or has no triangles.
    """
    import trimesh

    kind = suffix_of(name)
    try:
        scene = trimesh.load_scene(io.BytesIO(data), file_type=kind.removeprefix("."))
        if kind == ".dae":
            scene = scene.convert_units("meters")
        mesh = scene.to_mesh()
    except Exception as error:  # a reader of strangers' files
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f"has the mesh file {name!r}, which cannot be read ({reason})") from error
    if not len(mesh.faces):
        raise ValueError(f"has the mesh file {name!r}, which holds no triangles")
    stl: bytes = mesh.export(file_type="stl")
    return stl
