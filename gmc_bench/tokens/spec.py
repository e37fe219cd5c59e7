"""Layout of a token: named feature slices with widths, units and frames.

Source:
    Gupta et al. 2022 (MetaMorph), arXiv:2203.11931; order as in agrimgupta92/metamorph
    (52 numbers per limb with two joint slots).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from gmc_bench.bodies.body import Parts
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.integers import is_count
from gmc_bench.core.types import IntArray

Kind = Literal["dynamic", "context"]
Tree = Literal["kinematic", "breadth-first"]
"""Spanning tree of a body with closed loops."""


@dataclass(frozen=True, slots=True)
class FeatureSlice:
    """One named group of numbers in a token."""

    name: str
    start: int
    width: int
    unit: str
    frame: str
    kind: Kind
    """`dynamic` changes at every step; `context` is fixed by the body."""

    @property
    def stop(self) -> int:
        """Index after the last number."""
        return self.start + self.width


_Row = tuple[str, int, str, str, Kind]
Observed = tuple[str, int, str, str]
"""Name, width, unit and frame of a time-varying group that a task adds."""

_LIMB: tuple[_Row, ...] = (
    ("body_xpos", 3, "m", "world; x relative to the torso, y and z absolute", "dynamic"),
    ("body_xvelp", 3, "m/s", "world", "dynamic"),
    ("body_xvelr", 3, "rad/s", "world", "dynamic"),
    ("body_xquat", 4, "1", "world, w x y z", "dynamic"),
    ("body_pos", 3, "m", "parent limb; torso: start position in the world", "context"),
    ("body_ipos", 3, "m", "limb", "context"),
    ("body_iquat", 4, "1", "limb, w x y z", "context"),
    ("geom_quat", 4, "1", "limb, w x y z", "context"),
    ("body_mass", 1, "kg", "-", "context"),
    ("body_shape", 2, "m", "radius, half length", "context"),
)
_JOINT: tuple[_Row, ...] = (
    ("qpos", 1, "(q - lower) / (upper - lower)", "joint", "dynamic"),
    ("qvel", 1, "rad/s", "joint", "dynamic"),
    ("jnt_pos", 3, "m", "limb", "context"),
    ("joint_range", 2, "rad", "joint", "context"),
    ("joint_axis", 3, "1", "limb", "context"),
    ("gear", 1, "N m", "joint", "context"),
)
_ACTUATOR: tuple[_Row, ...] = (
    ("base_linear_velocity", 3, "m/s", "base", "dynamic"),
    ("base_angular_velocity", 3, "4 rad/s", "base", "dynamic"),
    ("gravity", 3, "1", "base, unit vector", "dynamic"),
    ("command", 3, "m/s, m/s, rad/s", "base, yaw only", "dynamic"),
    ("joint_offset", 1, "rad", "from the default angle", "dynamic"),
    ("joint_velocity", 1, "20 rad/s", "joint", "dynamic"),
    ("previous_action", 1, "1", "joint", "dynamic"),
    ("above_lower_limit", 1, "share of the soft range", "joint", "dynamic"),
    ("below_upper_limit", 1, "share of the soft range", "joint", "dynamic"),
    ("joint_limits", 2, "pi rad", "joint", "context"),
    ("default_angle", 1, "pi rad", "joint", "context"),
    ("joint_anchor", 3, "0.5 m", "base, default pose", "context"),
    ("joint_axis", 3, "1", "base, default pose", "context"),
    ("torque_limit", 1, "weight x leg length", "joint", "context"),
    ("velocity_limit", 1, "30 rad/s", "joint", "context"),
    ("link_mass", 1, "a tenth of the robot's", "-", "context"),
    ("link_length", 1, "thigh + calf", "-", "context"),
    ("reserved", 1, "0", "-", "context"),
    ("active", 1, "1", "-", "context"),
)
"""32 numbers per actuator, in a layout of ours.

The RecMorph paper lists base motion, gravity, command, joint state, previous action, joint-limit
features and the mask. What else describes the joint and its link is an addition: default angle,
anchor, axis, limits of torque and velocity, mass and length.
"""
_LOOP: _Row = ("in_loop", 1, "1 on a closed loop, else 0", "-", "context")


@dataclass(frozen=True)
class TokenSpec:
    """Shape and meaning of the tokens of one environment.

    Args:
        max_limbs: L, token slots; at least the limbs (torso included) of the largest body.
        joints_per_limb: J, joint slots and so actions per token.
        num_heights: G, numbers of the height map that comes with the tokens of an environment; 0
            for tasks without random terrain.
        without: groups of context features that are left out, e.g. `body_pos`; a joint's group is
            named without its slot and left out of all of them.
        parts: tokens stand for limbs with their joints, or for single actuators.
        loops: the last feature says whether a limb is part of a closed loop.
        tree: which spanning tree the limbs of a body with closed loops are read along.
        observed: time-varying groups that a task adds to those of `parts`; they come last.

    Raises:
        ConfigError: a size is out of range, a field has another type, `parts`, `tree` or a group
            that is left out is not known, or closed loops are marked on actuators.
    """

    max_limbs: int
    joints_per_limb: int = 2
    num_heights: int = 0
    without: tuple[str, ...] = ()
    parts: Parts = "limbs"
    loops: bool = False
    tree: Tree = "kinematic"
    observed: tuple[Observed, ...] = ()

    def __post_init__(self) -> None:
        sizes = (self.max_limbs, self.joints_per_limb, self.num_heights or 1)
        if not all(map(is_count, sizes)):
            raise ConfigError(
                f"a token layout needs at least one limb and one joint slot, and no negative "
                f"number of heights, all of them integers, got {self.max_limbs!r}, "
                f"{self.joints_per_limb!r} and {self.num_heights!r}"
            )
        for name, known in (("parts", get_args(Parts)), ("tree", get_args(Tree))):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"{name!r} of a token layout must be {' or '.join(known)}, got "
                    f"{getattr(self, name)!r}"
                )
        if not isinstance(self.loops, bool):
            raise ConfigError(
                f"'loops' of a token layout must be True or False, got {shown(self.loops)}"
            )
        if self.loops and self.parts != "limbs":
            raise ConfigError(
                f"closed loops are marked on limbs, but the tokens stand for {self.parts}; leave "
                f"out 'loops'"
            )
        self._require_groups()
        rows = _ACTUATOR if self.parts == "actuators" else (*_LIMB, *_JOINT)
        context = [row[0] for row in rows if row[4] == "context"]
        for name in self.without:
            if name not in context:
                raise ConfigError(
                    f"{name!r} is no group of context features{did_you_mean(name, context)}"
                )

    def _require_groups(self) -> None:
        if not isinstance(self.without, tuple):
            raise ConfigError(
                f"'without' of a token layout must be a tuple of names, got {shown(self.without)}"
            )
        groups = self.observed if isinstance(self.observed, tuple) else (None,)
        if not all(map(_is_observed, groups)):
            raise ConfigError(
                f"'observed' of a token layout must be a tuple of (name, width, unit, frame), got "
                f"{shown(self.observed)}; the method token_spec of a task returns such a layout"
            )

    @cached_property
    def slices(self) -> tuple[FeatureSlice, ...]:
        """All feature groups in order; joint groups are named `qpos/0`, `qpos/1`, ..."""
        rows = [*_ACTUATOR]
        if self.parts == "limbs":
            rows = [*_LIMB]
            for slot in range(self.joints_per_limb):
                rows += [(f"{row[0]}/{slot}", *row[1:]) for row in _JOINT]
            rows += [_LOOP] if self.loops else []
        rows += [(*group, "dynamic") for group in self.observed]
        found: list[FeatureSlice] = []
        start = 0
        for name, width, unit, frame, kind in rows:
            if name.partition("/")[0] in self.without:
                continue
            found.append(FeatureSlice(name, start, width, unit, frame, kind))
            start += width
        return tuple(found)

    def slice(self, name: str) -> FeatureSlice:
        """Return one feature group by name.

        Raises:
            ConfigError: unknown name.
        """
        for group in self.slices:
            if group.name == name:
                return group
        raise ConfigError(
            f"unknown feature {name!r}{did_you_mean(name, [g.name for g in self.slices])}"
        )

    def name_at(self, place: int) -> str:
        """Return the name of the feature group at a place of a token."""
        return next(group.name for group in self.slices if place < group.stop)

    @property
    def num_features(self) -> int:
        """F, numbers per token: 52 for limbs with two joint slots, 32 for actuators.

        `without` takes some away; `loops` and `observed` add others.
        """
        return self.slices[-1].stop

    @property
    def actions_per_token(self) -> int:
        """Actions each token puts out: one per joint slot."""
        return self.joints_per_limb

    @cached_property
    def dynamic_indices(self) -> IntArray:
        """(Fd,) int64, places of the time-varying features inside a token, in token order."""
        return self._indices("dynamic")

    @cached_property
    def context_indices(self) -> IntArray:
        """(Fc,) int64, places of the features fixed by the body inside a token, in token order."""
        return self._indices("context")

    def _indices(self, kind: str) -> IntArray:
        places = [i for g in self.slices if g.kind == kind for i in range(g.start, g.stop)]
        return np.asarray(places, dtype=np.int64)

    @property
    def num_dynamic(self) -> int:
        """Fd, time-varying numbers per token: 17 for limbs with two joint slots, 17 for actuators.

        `observed` adds others.
        """
        return len(self.dynamic_indices)

    @property
    def num_context(self) -> int:
        """Fc, numbers per token fixed by the body.

        They are 35 for limbs with two joint slots, 15 for actuators; see also `num_features`.
        """
        return len(self.context_indices)


def _is_observed(group: Any) -> bool:
    if not isinstance(group, tuple) or len(group) != len(get_args(Observed)):
        return False
    name, width, *texts = group
    return is_count(width) and all(isinstance(text, str) for text in (name, *texts))
