"""Interface of an exported policy on a robot: joint order, pose, gains, token layout."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from gmc_bench.core.errors import ConfigError, UnknownNameError, did_you_mean
from gmc_bench.core.types import DoubleArray, FloatArray, IntArray
from gmc_bench.records.store import canonical_json
from gmc_bench.robots.schema import SHARED_JOINTS, Robot
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks import observations
from gmc_bench.tasks.commands import velocity_command
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.actuators import NUM_ACTUATORS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

FORMAT = "gmc-bench-policy-1"
"""Version of the layout of `Manifest.to_dict`."""
OBSERVED: Mapping[str, int] = MappingProxyType(
    {
        group.name: group.width
        for group in TokenSpec(NUM_ACTUATORS, 1, parts="actuators").slices
        if group.kind == "dynamic"
    }
)
"""Width of every time-varying group by name: what an adapter makes of a robot's readings."""
_MOST = 4096  # tokens, and features of one: a file with more only fills the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotInterface:
    """One robot's side of a policy; values per joint are in the shared order."""

    name: str
    """Id of the robot."""
    index: int
    """Its number among the robots of the policy."""
    order: str
    """Name of the native joint order."""
    joint_names: tuple[str, ...]
    """Twelve names in the native order."""
    native: IntArray
    """(12,) int64, native slot i holds the joint of shared slot `native[i]`."""
    default_angles: DoubleArray
    """(12,) float64, rad."""
    soft_limits: DoubleArray
    """(12, 2) float64, rad, as in the features."""
    hard_limits: DoubleArray
    """(12, 2) float64, rad; beyond them is an emergency."""
    torque_limits: DoubleArray
    """(12,) float64, N m."""
    kp: float
    """N m/rad, of the drive below the policy."""
    kd: float
    """N m s/rad."""
    action_scale: float
    """rad per unit of action."""
    context: FloatArray
    """(12, Fc) float32, features fixed by the robot, in token order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenFormat:
    """Where each number stands in a token."""

    num_tokens: int
    """L."""
    num_features: int
    """F."""
    features: tuple[Mapping[str, Any], ...]
    """Name, start, width, unit, frame, kind and scale of every group, in token order."""

    @property
    def slots(self) -> dict[str, slice]:
        """Places of the time-varying groups by name."""
        return {
            str(group["name"]): slice(group["start"], group["start"] + group["width"])
            for group in self.features
            if group["kind"] == "dynamic"
        }

    @property
    def context_places(self) -> IntArray:
        """(Fc,) int64, places of the features fixed by the robot."""
        found = [
            place
            for group in self.features
            if group["kind"] == "context"
            for place in range(group["start"], group["start"] + group["width"])
        ]
        return np.array(found, np.int64)

    def name_at(self, place: int) -> str:
        """Return the name of the group that a number of a token belongs to."""
        starts = {group["start"]: str(group["name"]) for group in self.features}
        return starts[max(start for start in starts if start <= place)]

    def scale(self, name: str) -> float:
        """Return the factor from SI units to the features of a group."""
        return next(float(group["scale"]) for group in self.features if group["name"] == name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Manifest:
    """Everything about a policy but its weights."""

    layout: TokenFormat
    robots: Mapping[str, RobotInterface]
    """By id."""
    action_clip: float
    """Actions beyond it are cut off."""
    rate: float
    """Hz."""
    origin: Mapping[str, Any]
    """Where the policy comes from: method, suite, task, protocol, seed, digests, version."""

    def robot(self, name: str) -> RobotInterface:
        """Return a robot's side.

        Raises:
            UnknownNameError: the policy was not trained on it.
        """
        if name not in self.robots:
            raise UnknownNameError(
                f"the policy controls no robot {name!r}{did_you_mean(name, self.robots)}"
            )
        return self.robots[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which `from_dict` reads back without loss."""
        return {
            "format": FORMAT,
            **self.origin,
            "rate_hz": self.rate,
            "action_clip": self.action_clip,
            "shared_joint_order": list(SHARED_JOINTS),
            "num_tokens": self.layout.num_tokens,
            "num_features": self.layout.num_features,
            "num_active_tokens": NUM_ACTUATORS,
            "observations": [dict(group) for group in self.layout.features],
            "robots": {name: _plain(robot) for name, robot in self.robots.items()},
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Manifest":
        """Read what `to_dict` made.

        Raises:
            ConfigError: something is missing, or the format is another one.
        """
        if content.get("format") != FORMAT:
            raise ConfigError(
                f"the policy file has the format {content.get('format')!r}, expected {FORMAT!r}; "
                f"export the run again with this version of gmc-bench"
            )
        try:
            found = cls(
                layout=TokenFormat(
                    num_tokens=int(content["num_tokens"]),
                    num_features=int(content["num_features"]),
                    features=tuple(content["observations"]),
                ),
                robots={name: _robot(value) for name, value in content["robots"].items()},
                action_clip=float(content["action_clip"]),
                rate=float(content["rate_hz"]),
                origin={name: content[name] for name in content if name not in _OWN},
            )
            _require_sound(found)
            return found
        except (
            KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
        ) as error:  # fmt: skip
            raise ConfigError(
                f"the policy file's description cannot be read ({error!r}); export the run again"
            ) from error


def _require_sound(manifest: Manifest) -> None:
    """Check what decides what is sent to joints: whoever writes a file can write its digest.

    Raises:
        ValueError: something is out of its range or has another shape.
        KeyError: a group of features lacks a part.
    """
    if not (0.0 < manifest.rate < math.inf and 0.0 < manifest.action_clip < math.inf):
        raise ValueError("rate_hz and action_clip must be positive")
    _require_sound_layout(manifest.layout)
    width = len(manifest.layout.context_places)
    for name, robot in manifest.robots.items():
        if robot.name != name:
            raise ValueError(f"the robot {name!r} is named {robot.name!r}")
        _require_sound_robot(robot, width)
    indices = [robot.index for robot in manifest.robots.values()]
    if {*map(type, indices)} - {int} or sorted(indices) != list(range(len(indices))):
        raise ValueError(f"the robots' indices must be 0 to {len(indices) - 1}, each once")
    canonical_json(manifest.to_dict())  # reports repeat what it says, after the last trial


def _require_sound_layout(layout: TokenFormat) -> None:
    if not (NUM_ACTUATORS <= layout.num_tokens <= _MOST and 0 < layout.num_features <= _MOST):
        raise ValueError(
            f"num_tokens must be {NUM_ACTUATORS} to {_MOST}, num_features at most {_MOST}"
        )
    place = 0
    for group in layout.features:
        start, width = group["start"], group["width"]
        if type(start) is not int or type(width) is not int or start != place or width < 1:
            raise ValueError(f"the features {group['name']!r} do not follow those before them")
        place += width
        if place > layout.num_features:
            raise ValueError(f"the features {group['name']!r} lie outside of a token")
        if group["kind"] not in ("dynamic", "context") or not math.isfinite(group["scale"]):
            raise ValueError(f"the features {group['name']!r} have no known kind or scale")
    widths = {name: part.stop - part.start for name, part in layout.slots.items()}
    names = [group["name"] for group in layout.features]
    if widths != OBSERVED or len({*names}) != len(names):
        raise ValueError(f"time-varying features must be {', '.join(OBSERVED)}, as in training")


def _require_sound_robot(robot: RobotInterface, width: int) -> None:
    name = robot.name
    shapes = {
        "native": (NUM_ACTUATORS,), "default_angles": (NUM_ACTUATORS,),
        "soft_limits": (NUM_ACTUATORS, 2), "hard_limits": (NUM_ACTUATORS, 2),
        "torque_limits": (NUM_ACTUATORS,), "context": (NUM_ACTUATORS, width),
    }  # fmt: skip
    for part, shape in shapes.items():
        value = getattr(robot, part)
        if value.shape != shape or not np.isfinite(value).all():
            raise ValueError(f"{part} of {name} must be finite, of the shape {shape}")
    if sorted(robot.native.tolist()) != list(range(NUM_ACTUATORS)):
        raise ValueError(f"native of {name} must be an order of {NUM_ACTUATORS} joints")
    if len({*robot.joint_names}) != NUM_ACTUATORS or len(robot.joint_names) != NUM_ACTUATORS:
        raise ValueError(f"joint_names of {name} must be {NUM_ACTUATORS} different ones")
    rising = np.diff([robot.soft_limits, robot.hard_limits], axis=2)
    if not (rising > 0.0).all() or not (robot.torque_limits > 0.0).all():
        raise ValueError(f"limits of {name} must rise, and those of torques be positive")
    if not all(math.isfinite(gain) for gain in (robot.kp, robot.kd, robot.action_scale)):
        raise ValueError(f"gains of {name} must be finite")


_OWN = (
    "format", "rate_hz", "action_clip", "shared_joint_order", "num_tokens", "num_features",
    "num_active_tokens", "observations", "robots", "digest",
)  # fmt: skip
_ARRAYS: dict[str, type] = {
    "native": np.int64,
    "default_angles": np.float64,
    "soft_limits": np.float64,
    "hard_limits": np.float64,
    "torque_limits": np.float64,
    "context": np.float32,
}


def require_deployable(task: Task) -> None:
    """Raise unless a robot can be shown what a task shows, and told what is asked of its bodies.

    Raises:
        ConfigError: it commands no velocities, leaves actions unbounded, or observes anything but
            what an adapter makes of a robot's readings.
    """
    velocity_command(task)
    if task.action_clip is None:
        raise ConfigError(
            f"the task {task.id!r} has no 'action_clip', which bounds what is sent to a robot's "
            f"joints; deploy a policy of a task that has one"
        )
    shown = {term.name: term.function for term in task.observations}
    usual = {name: getattr(observations, name) for name in OBSERVED}
    other = [name for name in usual | shown if shown.get(name) is not usual.get(name)]
    if other:
        raise ConfigError(
            f"the task {task.id!r} leaves out, changes or adds the observation {other[0]!r}, but a "
            f"robot's adapter makes exactly those of quadruped-velocity: {', '.join(OBSERVED)}; "
            f"deploy a policy of a task that has these"
        )


def make_manifest(
    task: Task,
    bodies: Sequence[Robot],
    spec: TokenSpec,
    origin: Mapping[str, Any],
) -> Manifest:
    """Describe a policy for quadrupeds.

    Args:
        task: what it was trained for, see `require_deployable`.
        bodies: the robots, in the order of training.
        spec: its token layout.
        origin: see `Manifest.origin`.

    Raises:
        ConfigError: see `require_deployable`.
        TokenOverflowError: the layout is not one of actuators.
    """
    require_deployable(task)
    models = compile_models(bodies, replace(task.scene, rough=None))
    table = build_table(models, spec)
    scales = {term.name: term.scale for term in task.observations}
    layout = TokenFormat(
        num_tokens=spec.max_limbs,
        num_features=spec.num_features,
        features=tuple(
            {
                "name": group.name,
                "start": group.start,
                "width": group.width,
                "unit": group.unit,
                "frame": group.frame,
                "kind": group.kind,
                "scale": scales[group.name] if group.kind == "dynamic" else 1.0,
            }
            for group in spec.slices
        ),
    )
    robots = {
        body.name: interface_of(body, table.context[index, :NUM_ACTUATORS], index)
        for index, body in enumerate(bodies)
    }
    assert task.action_clip is not None
    return Manifest(
        layout=layout,
        robots=robots,
        action_clip=task.action_clip,
        rate=1.0 / models[0].control_dt,
        origin=origin,
    )


def interface_of(robot: Robot, context: FloatArray, index: int) -> RobotInterface:
    """Return a robot's side of a policy, in the first of its native orders.

    Args:
        robot: the robot.
        context: (12, Fc) float32, see `RobotInterface.context`.
        index: its number among the robots of the policy.
    """
    order = next(iter(robot.native_orders))
    joints = [link.joint for link in robot.links]
    return RobotInterface(
        name=robot.name,
        index=index,
        order=order,
        joint_names=robot.native_order(order),
        native=robot.native_places(order),
        default_angles=np.array(robot.pose.angles),
        soft_limits=np.array(robot.soft_ranges),
        hard_limits=np.array([joint.range for joint in joints]),
        torque_limits=np.array([joint.torque_limit for joint in joints]),
        kp=robot.gains.kp,
        kd=robot.gains.kd,
        action_scale=robot.gains.action_scale,
        context=context.copy(),
    )


def with_order(interface: RobotInterface, robot: Robot, order: str) -> RobotInterface:
    """Return the same robot in another of its native orders.

    Raises:
        MorphologyError: it has no such order.
    """
    native = robot.native_places(order)
    return replace(interface, order=order, joint_names=robot.native_order(order), native=native)


def _plain(robot: RobotInterface) -> dict[str, Any]:
    values = {name: getattr(robot, name) for name in robot.__dataclass_fields__}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in {**values, "joint_names": list(robot.joint_names)}.items()
    }


def _robot(content: Mapping[str, Any]) -> RobotInterface:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which is refused
        values = {
            name: np.array(value, _ARRAYS[name]) if name in _ARRAYS else value
            for name, value in content.items()
        }
    return RobotInterface(**{**values, "joint_names": tuple(values["joint_names"])})
