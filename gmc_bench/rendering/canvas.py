"""Draws a model in a state; one canvas draws many models of the same picture size."""

from typing import Any, Self

import mujoco
import numpy as np

from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.rendering.backend import open_context
from gmc_bench.rendering.camera import View
from gmc_bench.rendering.sight import Tiles

_TILE = np.array([0.97, 0.80, 0.45, 1.0], np.float32)  # red, green, blue, opacity
_TILE_HEIGHT = 0.004  # m
_MAX_TILES = 1000


class Canvas:
    """A picture buffer of a fixed size.

    Args:
        width: pixels.
        height: pixels.

    Raises:
        ConfigError: nothing can be drawn on this machine.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._gl = open_context(width, height)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._model: Any = None
        self._scene: Any = None
        self._context: Any = None

    @property
    def aspect(self) -> float:
        """Width / height."""
        return self.width / self.height

    def show(self, model: Any) -> None:
        """Draw this model from now on.

        Args:
            model: from `drawing_model`, with its terrain: height fields are taken over here. Its
                picture size is set.
        """
        self._release()
        model.vis.global_.offwidth, model.vis.global_.offheight = self.width, self.height
        self._gl.make_current()
        self._model = model
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 16 + _MAX_TILES)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)

    def draw(
        self,
        data: Any,
        point: DoubleArray,
        distance: float,
        view: View,
        tiles: Tiles | None = None,
    ) -> Array:
        """Draw one picture.

        Args:
            data: `mujoco.MjData` of the model, with positions set; the places of its bodies are
                computed here.
            point: (3,) float64, what the camera looks at, m, world.
            distance: of the camera from it, m.
            view: direction.
            tiles: squares to colour on the ground; at most 1000 are drawn.

        Returns:
            (height, width, 3) uint8, red, green, blue, top row first.
        """
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)
        self._camera.lookat[:] = point
        self._camera.distance = distance
        self._camera.azimuth, self._camera.elevation = view.azimuth, view.elevation
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value, self._scene,
        )  # fmt: skip
        if tiles is not None:
            self._lay(tiles)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._context)
        return np.ascontiguousarray(pixels[::-1])  # OpenGL starts with the bottom row

    def _lay(self, tiles: Tiles) -> None:
        size = np.array([tiles.half_side, tiles.half_side, _TILE_HEIGHT])
        for center in tiles.centers[:_MAX_TILES]:
            geom = self._scene.geoms[self._scene.ngeom]
            box = mujoco.mjtGeom.mjGEOM_BOX.value
            mujoco.mjv_initGeom(geom, box, size, center, np.eye(3).ravel(), _TILE)
            self._scene.ngeom += 1

    def close(self) -> None:
        """Free the buffer; drawing is over."""
        self._release()
        if self._gl is not None:
            self._gl.free()
            self._gl = None

    def _release(self) -> None:
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
