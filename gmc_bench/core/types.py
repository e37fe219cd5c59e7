"""Array aliases, and the dimensions that all docstrings name alike.

Dimensions: `B` environments, `L` token slots (limbs and padding), `J` joint slots per limb,
`F` features per token (`Fd` time-varying, `Fc` fixed by the body), `T` time steps,
`M` morphologies of a set or rows of a table, `U` different bodies of a batch, `P` real limbs of a
batch (packed rows), `H` attention heads, `S` width of a policy's recurrent state per token, `G`
heights of a height map. Others are named where they occur, and so is every frame.

Masks are boolean with `True` = padding (as torch's `key_padding_mask`).
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]
"""Unit quaternion, order w x y z."""
UNIT_TOLERANCE = 1e-6
"""How far the length of what must be of unit length may be from 1."""

Split = Literal["train", "test"]
"""Bodies that a policy is trained on, or others."""
Mode = Literal["deterministic", "stochastic"]
"""How actions are chosen: the mean of their distribution, or a sample of it."""
