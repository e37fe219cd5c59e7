"""Turn models whose coordinates are global ones into local ones; used inside the worker.

Engines up to MuJoCo 2.3.3 read MJCF with `<compiler coordinate="global">`: what is inside a body is
then placed in the world, in the pose in which the model is written. Bodies of older work in this
field (those of NerveNet, and of modular-rl, on which SMR, Amorpheus and SWAT were trained) are
written so.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import mujoco
import numpy as np
import numpy.typing as npt

from gmc_bench.bodies.worker_urdf import RefusalError

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INSIDE = r"((?:\"[^\"]*\"|'[^']*'|[^>\"'])*?)"
_COMPILER = re.compile(rf"<compiler\b{_INSIDE}\scoordinate\s*=\s*[\"'](global|local)[\"']")
_BODY = re.compile(rf"<body\b(?={_INSIDE}>)")
_PLACED = re.compile(r"\spos\s*=")
_NOWHERE = 1e9  # m; where bodies are put that state no place
_NEWER = re.compile(r"<(frame|replicate|composite|flexcomp|attach)\b")
_AS_QUATERNION = mujoco.mjtOrientation.mjORIENTATION_QUAT

_Vector = npt.NDArray[np.float64]


class Frame(NamedTuple):
    """A place in the world, m, and an orientation there, a quaternion."""

    position: _Vector
    turn: _Vector

    @classmethod
    def of(cls, position: Any, turn: Any) -> Self:
        """Return a frame of any numbers."""
        turn = np.array(turn, dtype=float)
        return cls(np.array(position, dtype=float), turn / max(float(np.linalg.norm(turn)), 1e-9))

    def direction(self, vector: Any) -> _Vector:
        """Return a direction of the world in this frame."""
        turned: _Vector = self._matrix().T @ np.array(vector, dtype=float)
        return turned

    def point(self, point: Any) -> _Vector:
        """Return a point of the world in this frame."""
        return self.direction(np.array(point, dtype=float) - self.position)

    def tensor(self, moments: Any) -> _Vector:
        """Return an inertia tensor (xx, yy, zz, xy, xz, yz), given in world axes, in this frame's.

        Its reference point stays the same.
        """
        xx, yy, zz, xy, xz, yz = moments
        world = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        here: _Vector = self._matrix().T @ world @ self._matrix()
        return here[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]

    def within(self, other: "Frame") -> "Frame":
        """Return this frame of the world as one of another frame."""
        back, turn = np.empty(4), np.empty(4)
        mujoco.mju_negQuat(back, other.turn)
        mujoco.mju_mulQuat(turn, back, self.turn)
        return Frame(other.point(self.position), turn)

    def _matrix(self) -> _Vector:
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, self.turn)
        return matrix.reshape(3, 3)


def are_global(error: Exception) -> bool:
    """Return whether an error of the engine says that coordinates are global."""
    return "global coordinates" in str(error)


def parse_global(text: str, files: Mapping[str, bytes]) -> Any:
    """Parse MJCF with global coordinates as if they were local ones, for `to_local`.

    Args:
        text: the model.
        files: what it includes and refers to.

    Returns:
        The model, an `MjSpec`.

    Raises:
        RefusalError: only some of its files have global coordinates, or it has elements that
            engines with global coordinates did not have.
        ValueError: the engine refuses it.
    """
    text = _COMMENT.sub("", text)
    included = {
        name: _COMMENT.sub("", data.decode(errors="replace"))
        for name, data in files.items()
        if name.lower().endswith(".xml")
    }
    texts = [text, *included.values()]
    if len({found for each in texts for _, found in _COMPILER.findall(each)}) > 1:
        raise RefusalError(
            "has global coordinates by one <compiler> and local ones by another; state one of them"
        )
    for newer in filter(None, map(_NEWER.search, texts)):
        raise RefusalError(
            f"has global coordinates together with <{newer[1]}>, for which they are not "
            f"converted; write its bodies out"
        )
    whole = {**files} | {name: _without(each).encode() for name, each in included.items()}
    return mujoco.MjSpec.from_string(_without(text), include=whole, assets=whole)


def to_local(spec: Any, literal: Any) -> None:
    """Convert the coordinates of a model's parts from the world's frame to those of their bodies.

    Those of cameras and lights, which nothing here reads, are left.

    Args:
        spec: what `parse_global` returned; changed.
        literal: the same, compiled.
    """
    frames: dict[int, Frame] = {0: Frame.of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))}
    for body in sorted(spec.bodies, key=lambda body: int(body.id)):
        if body.id:
            frame = _stated(spec, body)
            if frame.position[0] == _NOWHERE:
                # Without a place a body has that of its centre of mass, and the principal axes.
                frame = Frame.of(literal.body_ipos[body.id], literal.body_iquat[body.id])
            frames[body.id] = frame
            _place(body, frame.within(frames[body.parent.id]))
            if body.explicitinertial:
                _place_inertia(spec, body, frame)
        for joint in body.joints:
            joint.pos = frames[body.id].point(joint.pos)
            joint.axis = frames[body.id].direction(joint.axis)
        for kind, parts in (("geom", body.geoms), ("site", body.sites)):
            for part in parts:
                frame = _stated(spec, part)
                if not np.isnan(part.fromto[0]):
                    found = getattr(literal, kind)(part.id)
                    frame = Frame.of(found.pos, found.quat)
                    part.size = found.size
                    part.fromto = np.full(6, np.nan)
                _place(part, frame.within(frames[body.id]))
    for tie in spec.equalities:
        if tie.objtype != mujoco.mjtObj.mjOBJ_BODY:
            continue
        if tie.type == mujoco.mjtEq.mjEQ_CONNECT:
            body = tie.name1
        elif tie.type == mujoco.mjtEq.mjEQ_WELD and tie.data[:3].any():
            body = tie.name2 or "world"
        else:  # no point, or that of a weld which states none: the place of its second body
            continue
        tie.data[:3] = frames[spec.body(body).id].point(tie.data[:3])


def _without(text: str) -> str:
    """Return a text without its statement on coordinates, every body of it with a place."""
    text = _COMPILER.sub(r"<compiler\1", text)
    return _BODY.sub(
        lambda m: m[0] if _PLACED.search(m[1]) else f'<body pos="{_NOWHERE} 0 0"', text
    )


def _stated(spec: Any, part: Any) -> Frame:
    return Frame.of(part.pos, _turn(spec, part.quat, part.alt))


def _turn(spec: Any, quaternion: Any, other: Any) -> Any:
    """Return an orientation as a quaternion, however the file states it."""
    if other.type == _AS_QUATERNION:
        return quaternion
    compiler = spec.compiler
    return spec.resolve_orientation(
        degree=compiler.degree, sequence=compiler.eulerseq, orientation=other
    )


def _place(part: Any, frame: Frame) -> None:
    part.pos, part.quat = frame
    part.alt.type = _AS_QUATERNION


def _place_inertia(spec: Any, body: Any, frame: Frame) -> None:
    stated = Frame.of(body.ipos, _turn(spec, body.iquat, body.ialt)).within(frame)
    body.ipos = stated.position
    if np.isnan(body.fullinertia[0]):
        body.iquat = stated.turn
        body.ialt.type = _AS_QUATERNION
    else:
        body.fullinertia = frame.tensor(body.fullinertia)
