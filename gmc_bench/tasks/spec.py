"""Tasks: a scene plus named, pure terms of observation, reward, termination, event and metric."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np

from gmc_bench.bodies.body import Parts
from gmc_bench.bodies.clearance import CLEARANCE
from gmc_bench.bodies.mjcf import SIM_DT
from gmc_bench.core.arguments import (
    require_count,
    require_instance,
    require_number,
    require_vector,
)
from gmc_bench.core.config import definition_digest, shown
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.names import REASON, VERSIONED_NAME, require_name
from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.sim.height_map import num_heights
from gmc_bench.sim.model import Scene
from gmc_bench.sim.terrain import BEYOND, CELLS_PER_METRE
from gmc_bench.tasks.motion import Motion, SensorNoise
from gmc_bench.tokens.spec import TokenSpec

Range = tuple[float, float]
CUT_OFF = "cut_off"
"""Name of the reward term that lifts negative sums to zero."""
FAILURE = "failure"
"""Name of the reward term that holds the cost of failures."""
TIME_LIMIT = "time_limit"
DIVERGED = "diverged"
"""Names of the other two ends of an episode: the horizon, and a simulation that broke."""


def _nothing() -> DoubleArray:
    return np.zeros((0, 0))


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What observation terms may look at: B environments at one moment.

    Args:
        torso_position: (B, 3) float64, m, world.
        action: (B, N) float64, the latest action of each action slot as it was applied: clipped to
            the task's `action_clip`, and for bodies made of limbs to [-1, 1], as the engine clamps
            it; zero where there is no actuator.
        command: (B, C) float64, what is asked of the body; C = 0 without a command.
        driven: how bodies with joint drives move, as their sensors tell it; see `motion`.
    """

    torso_position: DoubleArray
    action: DoubleArray = field(default_factory=_nothing)
    command: DoubleArray = field(default_factory=_nothing)
    driven: Motion | None = None

    @property
    def motion(self) -> Motion:
        """How bodies with joint drives move.

        Raises:
            ConfigError: the task's bodies have no drives.
        """
        if self.driven is None:
            raise ConfigError(
                "a term of the task reads 'motion', which only bodies with joint drives have; use "
                "'torso_position' and 'action' for bodies made of limbs"
            )
        return self.driven


@dataclass(frozen=True, kw_only=True)
class Transition:
    """What terms may look at after one control step of B environments.

    Args:
        torso_before: (B, 3) float64, torso position before the step, m, world.
        torso_after: (B, 3) float64, the same after it.
        standing_height: (B,) float64, height of the torso above the ground at the start, less
            the task's clearance, about that when the body's lowest point touches it, m.
        ground_height: height of the ground under the torso after the step, m, world; one number
            where it is the same everywhere, else (B,) float64.
        control_dt: duration of the control step, s.
        new_cells: (B,) float64, cells of the task's grid visited for the first time; zero for
            tasks without a grid.
        num_cells: (B,) float64, cells visited since the episode began; zero likewise.
        after: command, action and true motion after the step; the command is that of the step.
        previous_action: (B, N) float64, the action before that of this step; only for bodies with
            drives.
        joint_velocity_before: (B, A) float64, rad/s, before the step; only with drives.
    """

    torso_before: DoubleArray
    torso_after: DoubleArray
    standing_height: DoubleArray
    ground_height: DoubleArray | float
    control_dt: float
    new_cells: DoubleArray | float = 0.0
    num_cells: DoubleArray | float = 0.0
    after: Moment = field(default_factory=lambda: Moment(torso_position=_nothing()))
    previous_action: DoubleArray = field(default_factory=_nothing)
    joint_velocity_before: DoubleArray = field(default_factory=_nothing)

    @property
    def motion(self) -> Motion:
        """True motion after the step, see `Moment.motion`."""
        return self.after.motion

    @property
    def command(self) -> DoubleArray:
        """(B, C) float64, what was asked for during the step."""
        return self.after.command

    @property
    def action(self) -> DoubleArray:
        """(B, N) float64, see `Moment.action`."""
        return self.after.action


Reward = Callable[[Transition], DoubleArray]


def speed(term: Reward) -> Reward:
    """Mark a reward term as a speed in m/s, so that returns can be given in metres.

    Raises:
        ConfigError: it is no function.
    """
    if not inspect.isfunction(term):
        raise ConfigError(
            f"only functions can be marked as speeds, got {shown(term)}; write one that calls it"
        )
    setattr(term, _SPEED, True)
    return term


def is_speed(term: Reward) -> bool:
    """Say whether a reward term is marked as a speed."""
    return inspect.isfunction(term) and _SPEED in vars(term)


_SPEED = "_is_speed"


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """A weighted part of the reward."""

    name: str
    weight: float
    function: Reward
    """Returns (B,) float64, unweighted."""


@dataclass(frozen=True, slots=True)
class TerminationTerm:
    """A condition that ends an episode as a failure."""

    name: str
    function: Callable[[Transition], BoolArray]
    """Returns (B,) bool."""


@dataclass(frozen=True, slots=True)
class ObservationTerm:
    """A group of time-varying numbers in the tokens.

    Groups that a token layout has by itself are filled by the term of their name; others are added
    at the end of the tokens, with what the term says of them.
    """

    name: str
    function: Callable[[Moment], DoubleArray]
    """Returns (B, T, width) float64 in SI units. T is the number of token slots, or of the tokens
    that the largest body of the environment has; T = 1 gives all tokens of a body the same.
    `Moment.action` has J values per token slot for bodies made of limbs, and one per token for
    those with drives."""
    scale: float = 1.0
    """Factor from SI units to features."""
    width: int = 1
    unit: str = "1"
    """Of the feature."""
    frame: str = "-"


@dataclass(frozen=True, slots=True)
class Draw:
    """Random numbers for K environments, each from its own stream."""

    uniform: Callable[[int], DoubleArray]
    """Returns (K, count) float64 in [-1, 1)."""
    num_rows: int
    """K."""
    num_joints: int
    """A, driven joints."""


Target = Literal[
    "friction", "strength", "base_mass", "position", "heading", "base_velocity", "joint_angle"
]
"""What an event changes. Set for the rest of the episode: `friction` of the feet (K, 2), static and
dynamic; `strength` (K,), factor on torques; `base_mass` (K,), factor on mass and inertia, only at
resets. Added: `position` (K, up to 3), m, `heading` (K,), rad, and `joint_angle` (K, A), rad, to
those of the start, only at resets; `base_velocity` (K, up to 6), m/s in the world, then rad/s."""


@dataclass(frozen=True, slots=True)
class EventTerm:
    """Something random that changes a body or its world, at resets or from time to time.

    Raises:
        ConfigError: the target is not known, or `every` is not two times in order, from 0.
    """

    name: str
    target: Target
    function: Callable[[Draw], DoubleArray]
    """Returns values for `target`."""
    every: Range | None = None
    """Range of the seconds between two such events, drawn uniformly each time; `None` = at every
    reset."""

    def __post_init__(self) -> None:
        if self.target not in get_args(Target):
            raise ConfigError(
                f"the event {self.name!r} changes {self.target!r}, which is not known"
                f"{did_you_mean(self.target, get_args(Target))}"
            )
        if self.every is not None:
            require_vector(self.every, 2, f"'every' of the event {self.name!r}")
            low, high = self.every
            require_number(low, f"the first time of 'every' of the event {self.name!r}", low=0.0)
            require_number(high, f"the second time of 'every' of the event {self.name!r}", low=low)


class Command(Protocol):
    """What is asked of bodies, drawn anew from time to time."""

    @property
    def num_values(self) -> int:
        """C, numbers of one command."""

    @property
    def num_draws(self) -> int:
        """Random numbers for one command."""

    @property
    def resample_s(self) -> float:
        """Seconds between two draws."""

    def draw(self, uniform: DoubleArray, heading: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Return new commands.

        Args:
            uniform: (K, num_draws) float64 in [0, 1).
            heading: (K,) float64, of the bodies, rad; zero for bodies without drives, whose
                commands hold none.

        Returns:
            (K, C) float64 commands, and (K,) float64 the headings they hold, rad, nan for none.
        """

    def steer(self, command: DoubleArray, kept: DoubleArray, heading: DoubleArray) -> DoubleArray:
        """Return commands (K, C) that turn bodies from `heading` (K,) to `kept` (K,), rad.

        A command whose `kept` is nan stays as it is.
        """


@dataclass(frozen=True, slots=True)
class MetricTerm:
    """A number that says how far an episode has come, for people to read."""

    name: str
    unit: str
    function: Callable[[Transition], DoubleArray]
    """Returns (B,) float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitGrid:
    """Cells that count when a torso stands on them for the first time.

    Raises:
        ConfigError: a number is not finite, or the shape or the cell size is not positive.
    """

    low: tuple[float, float]
    """x and y where the grid begins, m, world."""
    shape: tuple[int, int]
    """Cells along x and along y."""
    cell_size: float
    """Side of a cell, m."""

    def __post_init__(self) -> None:
        require_number(self.cell_size, "the cell_size of a grid", above=0.0)
        require_vector(self.low, 2, "the low end of a grid")
        require_vector(self.shape, 2, "the shape of a grid")
        for count in self.shape:
            require_count(count, "the shape of a grid", "cells along x and along y")


@dataclass(frozen=True, kw_only=True, slots=True)
class Slope:
    """Ground that rises along x, whose height is looked up in cells of 0.1 m.

    Raises:
        ConfigError: a number is not finite, or a length is not positive.
    """

    rise: float
    """Height gained per metre of x."""
    half_length: float
    """Its ends along x, m, world; beyond them and beside it the ground is at -10 m."""
    half_width: float
    """Its sides along y, m, world."""

    def __post_init__(self) -> None:
        require_number(self.rise, "the rise of a slope")
        for name in ("half_length", "half_width"):
            require_number(getattr(self, name), f"the {name} of a slope", above=0.0)

    def height(self, position: DoubleArray, height: float) -> DoubleArray:
        """Return the ground's height under places.

        Args:
            position: (B, 3) float64, m, world.
            height: of the ground at x = 0, m.

        Returns:
            (B,) float64, m: that of the low edge of the cell, rounded to millimetres.
        """
        x, y = position[:, 0], position[:, 1]
        inside = (np.abs(x) < self.half_length) & (np.abs(y) < self.half_width)
        low = np.floor(CELLS_PER_METRE * x) / CELLS_PER_METRE
        found: DoubleArray = np.where(inside, np.round(height + self.rise * low, 3), BEYOND)
        return found


@dataclass(frozen=True, kw_only=True)
class Task:
    """What bodies have to do, as a scene and named terms. A released task never changes.

    Raises:
        ConfigError: a number is out of range, a field has another type, `parts` is not known, or
            the names of terms repeat or are those that the environment reports itself, or the id,
            a list of terms or the name of a termination is not what records can hold.
    """

    id: str
    """Lower-case id with a version, e.g. `unimal-ft-v1`."""
    title: str
    description: str
    scene: Scene
    rewards: tuple[RewardTerm, ...]
    terminations: tuple[TerminationTerm, ...]
    ground_height: float
    """Height of the floor's surface, m, world; at x = 0 where it slopes. Random terrain says
    itself how high the ground is."""
    horizon: int = 1000
    """Control steps after which an episode is truncated."""
    source: str = ""
    metrics: tuple[MetricTerm, ...] = ()
    floor_clearance: float = CLEARANCE
    """Height that a limbed body's lowest point is taken to have above the floor at its start, m."""
    reset_noise: float = 0.005
    """Half width of the uniform noise on every position and velocity coordinate at reset, of
    bodies without drives."""
    slope: Slope | None = None
    grid: VisitGrid | None = None
    parts: Parts = "limbs"
    """What tokens stand for, and so which bodies the task is for: `actuators` have joint drives."""
    observations: tuple[ObservationTerm, ...] = ()
    """What tokens hold beside the simulator's readings of limbs."""
    sensor_noise: SensorNoise = SensorNoise()  # noqa: RUF009 - frozen
    """Noise on the motion that observation terms see."""
    command: Command | None = None
    events: tuple[EventTerm, ...] = ()
    reward_rates: bool = False
    """Whether reward terms are rates: multiplied by the control step, s."""
    only_positive: bool = False
    """Clip the reward at zero from below, by a term `cut_off`: nobody gains by falling early."""
    failure_cost: float = 0.0
    """Taken from the reward once where a failure ends an episode, by a term `failure`, after the
    reward is clipped."""
    action_clip: float | None = None
    """Largest absolute value of an action, to which actions are clipped; `None` leaves that to the
    engine, which clamps those of bodies made of limbs to [-1, 1]. Terms see clipped actions."""

    def __post_init__(self) -> None:
        require_name(self.id, VERSIONED_NAME, "the id of a task")
        self._require_terms()
        self._require_types()
        self._require_numbers()
        if self.parts not in get_args(Parts):
            raise ConfigError(
                f"the parts of the task {self.id!r} must be {' or '.join(get_args(Parts))}, got "
                f"{self.parts!r}"
            )
        names = [*(term.name for term in self.rewards), *self.termination_names]
        for kind in (self.metrics, self.observations, self.events):
            _require_unique(self.id, [term.name for term in kind])
        _require_unique(self.id, names)
        reported = {TIME_LIMIT, DIVERGED}
        reported |= {CUT_OFF} if self.only_positive else set()
        reported |= {FAILURE} if self.failure_cost else set()
        taken = sorted(reported.intersection(names))
        if taken:
            raise ConfigError(
                f"the task {self.id!r} has a term named {taken[0]!r}, which the environment "
                f"reports itself; give the term another name"
            )

    def _require_terms(self) -> None:
        for name, kind in _TERMS.items():
            terms = getattr(self, name)
            if not isinstance(terms, tuple) or any(not isinstance(term, kind) for term in terms):
                raise ConfigError(
                    f"{name!r} of the task {self.id!r} must be a tuple of {kind.__name__}, got "
                    f"{shown(terms)}; write ({kind.__name__}(...),) with a comma"
                )
            for term in terms:
                if not callable(term.function):
                    raise ConfigError(
                        f"the term {term.name!r} in {name!r} of the task {self.id!r} needs a "
                        f"function, got {shown(term.function)}; give one, without calling it"
                    )
        for reason in self.termination_names:
            require_name(reason, REASON, f"the name of a termination of the task {self.id!r}")

    def _require_types(self) -> None:
        of = f"of the task {self.id!r}"
        for name in ("title", "description", "source"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(
                    f"{name!r} {of} must be text, got {shown(getattr(self, name))}; write it in "
                    f"quotes"
                )
        for name, kind in _PARTS.items():
            part = getattr(self, name)
            if part is not None or name not in _OPTIONAL:
                fix = f"write {name}={kind.__name__}(...)"
                require_instance(part, kind, f"{name!r} {of}", fix)
        for name in ("reward_rates", "only_positive"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(
                    f"{name!r} {of} must be True or False, got {shown(getattr(self, name))}"
                )
        if self.command is None:
            return
        for member in _COMMAND:
            if not hasattr(self.command, member):
                raise ConfigError(
                    f"the command {of} needs {member!r}, which {shown(self.command)} lacks; give "
                    f"it all that gmc_bench.tasks.spec.Command has"
                )

    def _require_numbers(self) -> None:
        of = f"of the task {self.id!r}"
        require_count(self.horizon, f"the horizon {of}", "control steps")
        for name in ("ground_height", "floor_clearance"):
            require_number(getattr(self, name), f"the {name} {of}")
        for name in ("reset_noise", "failure_cost"):
            require_number(getattr(self, name), f"the {name} {of}", low=0.0)
        if self.action_clip is not None:
            require_number(self.action_clip, f"the action_clip {of}", above=0.0)
        if self.command is not None:
            require_number(self.command.resample_s, f"the command's resample_s {of}", above=0.0)
        for term in self.rewards:
            require_number(term.weight, f"the weight of the reward {term.name!r} {of}")
        for observed in self.observations:
            where = f"of the observation {observed.name!r} {of}"
            require_count(observed.width, f"the width {where}", "features")
            require_number(observed.scale, f"the scale {where}")

    @property
    def digest(self) -> str:
        """`definition_digest` of the task, 64 hex digits.

        Raises:
            ConfigError: a function of its terms captures what has none.
        """
        try:
            return definition_digest(self)
        except TypeError as error:
            raise ConfigError(
                f"the task {self.id!r} cannot be told from a changed one ({error}); let the "
                f"functions of its terms capture numbers, text and sequences of them only"
            ) from error

    @property
    def num_heights(self) -> int:
        """G, numbers of the height map in observations; 0 unless terrain is random."""
        return num_heights() if self.scene.terrain else 0

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weight of every reward term, by name."""
        weights = {term.name: term.weight for term in self.rewards}
        if self.only_positive:
            weights[CUT_OFF] = 1.0
        if self.failure_cost:
            weights[FAILURE] = -self.failure_cost
        return weights

    @property
    def metres_per_return(self) -> float | None:
        """Metres moved per unit of return, where every reward is a speed and nothing else.

        The sum of speeds times the control step is the distance between the first and the last
        place of the torso along the reward's direction, but for a last step on which a simulation
        broke, whose reward is 0. `None` where a return is no distance.
        """
        other = self.only_positive or self.reward_rates or self.failure_cost
        if other or len(self.rewards) != 1:
            return None
        (term,) = self.rewards
        if not is_speed(term.function) or term.weight <= 0.0:
            return None
        return self.scene.num_substeps * SIM_DT / term.weight

    def control_steps(self, seconds: float) -> int:
        """Return how many control steps fill a time, at least one."""
        return max(1, round(seconds / (self.scene.num_substeps * SIM_DT)))

    @property
    def termination_names(self) -> tuple[str, ...]:
        """Reasons that end an episode as a failure."""
        return tuple(term.name for term in self.terminations)

    def token_spec(self, max_limbs: int, joints_per_limb: int, **options: Any) -> TokenSpec:
        """Return the layout of tokens on this task.

        Args:
            max_limbs: token slots.
            joints_per_limb: joint slots per token.
            options: more arguments of `TokenSpec`.
        """
        plain = TokenSpec(max_limbs, joints_per_limb, parts=self.parts)
        known = {group.name for group in plain.slices}
        added = tuple(
            (term.name, term.width, term.unit, term.frame)
            for term in self.observations
            if term.name not in known
        )
        return TokenSpec(
            max_limbs,
            joints_per_limb,
            num_heights=self.num_heights,
            parts=self.parts,
            observed=added,
            **options,
        )


_TERMS = {
    "rewards": RewardTerm,
    "terminations": TerminationTerm,
    "metrics": MetricTerm,
    "observations": ObservationTerm,
    "events": EventTerm,
}
_PARTS = {"scene": Scene, "slope": Slope, "grid": VisitGrid, "sensor_noise": SensorNoise}
_OPTIONAL = ("slope", "grid")
_COMMAND = ("num_values", "num_draws", "resample_s", "draw", "steer")


def _require_unique(task: str, names: list[str]) -> None:
    for name in names:
        if not (isinstance(name, str) and name and name.isprintable()):
            raise ConfigError(
                f"the task {task!r} has a term named {name!r}; a name must be text of one line"
            )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"the task {task!r} has two terms named {twice[0]!r}; names must be unique"
        )
