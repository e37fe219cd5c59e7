"""The objects inside a run record: episodes, learning curve, bodies, time and machine.

All of them are frozen, refuse unknown fields and refuse numbers that are not finite, or so large
that sums and squares of them would not be, so that a record either means what its field
descriptions say or does not load.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from gmc_bench.core.names import NAME, REASON, VERSIONED_NAME
from gmc_bench.core.types import Mode, Split

Controller = Literal["shared", "single_robot"]

WIDEST_INTEGER = 2**53 - 1
"""Beyond it, integers are not all doubles, so canonical JSON has floats only."""
Count = Annotated[int, Field(strict=True, ge=0, le=WIDEST_INTEGER)]
Positive = Annotated[int, Field(strict=True, ge=1, le=WIDEST_INTEGER)]
LARGEST = 1e30
"""Absolute value of a number at most: far above what any unit of a record comes to."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(min_length=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Kin = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
"""Short digest that bodies with something in common share."""
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]
VersionedName = Annotated[str, Field(pattern=rf"^{VERSIONED_NAME}$")]

MAX_DEPTH = 64
"""Objects and lists inside each other at most, the record itself included."""
_TOO_DEEP = f"objects and lists are nested more than {MAX_DEPTH} levels deep; make them flatter"
AHEAD = "forward"
"""Name of the direction straight ahead."""
TIMER_TOLERANCE = 0.01
"""Share of the total by which the parts of the wall clock may miss it."""


_OPTIONAL = (
    *("loops", "loops_opened", "limbs", "friction", "direction", "tuning", "untrained"),
    *("tree", "geometry", "metres_per_return", "processes", "remarks", "counted", "rounded"),
)
"""Fields that are left out where there is nothing to say: records without keep their digests."""


class RecordPart(BaseModel):
    """Base of everything in a record: frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        content = write(self)
        return {
            name: value
            for name, value in content.items()
            if value is not None or name not in _OPTIONAL
        }


class Episode(RecordPart):
    """One finished evaluation episode."""

    episode_return: Number = Field(description="Undiscounted sum of the task's raw rewards.")
    length: Positive = Field(description="Control steps until the episode ended.")
    ended: Annotated[str, Field(pattern=rf"^{REASON}$")] = Field(
        description="Why it ended: `fell`, `time_limit`, `diverged` or another reason of the task."
    )


class LoopResiduals(RecordPart):
    """How far the closed loops of one body came open; shares of the shorter limb's length."""

    largest: Amount = Field(description="Largest distance between the two limbs of a loop.")
    median: Amount = Field(description="Median over control steps and loops, up to 8 % too large.")
    percentile_99_9: Amount = Field(description="99.9th percentile, up to 8 % too large.")
    largest_angle: Amount = Field(description="rad, of welds; 0 without any.")
    opened: Count = Field(description="How often a loop came open by more than 2 %.")
    samples: Positive = Field(description="Control steps counted, times the loops of the body.")


class BodyReturns(RecordPart):
    """Evaluation episodes of one body in one mode."""

    split: Split = Field(description="Split the body belongs to.")
    mode: Mode = Field(description="`deterministic`: mean action; `stochastic`: sampled action.")
    body: Text = Field(description="Name of the body, unique inside its split.")
    body_digest: Digest = Field(description="Content hash of the body; names do not count.")
    seen_in_train: Flag = Field(description="The same body content was trained on.")
    episodes: tuple[Episode, ...] = Field(min_length=1, description="Episodes in the order run.")
    limbs: Positive | None = Field(
        default=None, description="Limbs of the body, torso included; absent in older records."
    )
    loops: LoopResiduals | None = Field(
        default=None, description="Of its closed loops; absent where the body has none."
    )
    tree: Kin | None = Field(
        default=None,
        description="Digest of its limb tree: which limb hangs on which; absent in older records.",
    )
    geometry: Kin | None = Field(
        default=None,
        description="Digest of its limb tree with places and shapes of limbs, without joints, "
        "motors and masses; absent likewise.",
    )

    @model_validator(mode="after")
    def _train_bodies_are_seen(self) -> "BodyReturns":
        if self.split == "train" and not self.seen_in_train:
            raise ValueError(f"train body {self.body!r} must have seen_in_train true")
        return self

    def __repr__(self) -> str:
        return (
            f"<{len(self.episodes)} {self.mode} episodes of the {self.split} body {self.body!r}, "
            f"mean return {self.mean_return:g}>"
        )

    __str__ = __repr__

    @property
    def mean_return(self) -> float:
        """Mean return over the episodes."""
        return math.fsum(item.episode_return for item in self.episodes) / len(self.episodes)


class TrialResult(RecordPart):
    """One choice of settings that was tried for a method."""

    settings: dict[str, Number] = Field(description="By dotted name.")
    returns: dict[str, Number | None] = Field(
        description="Training return by seed; null where no body finished an episode."
    )


class TunedSettings(RecordPart):
    """What a method keeps of its trials, and the trials."""

    settings: dict[str, Number] = Field(description="By dotted name, as the run has them.")
    morphologies: Text | None = Field(description="Bodies of the trials; null if not known.")
    morphologies_digest: Digest | None = Field(description="Content hash of these bodies.")
    env_steps: Positive | None = Field(description="Control steps asked for in each run.")
    trials: tuple[TrialResult, ...] = Field(description="In their order; empty if not known.")

    def __repr__(self) -> str:
        return f"<{len(self.settings)} tuned settings of {len(self.trials)} trials>"

    __str__ = __repr__


class FrictionResult(RecordPart):
    """How one robot followed one command on one friction of its feet."""

    robot: Text = Field(description="Name of the robot.")
    robot_digest: Digest = Field(description="Content hash of the robot.")
    robot_origin: Text = Field(description="`built-in`, or the file its body was read from.")
    friction: Name = Field(description="Name of the pair of coefficients, e.g. `low`.")
    static: Amount = Field(description="Coefficient of feet at rest.")
    dynamic: Amount = Field(description="Coefficient of feet that slide.")
    rule: Name = Field(description="How the pair becomes the engine's one coefficient.")
    cone: Name = Field(description="The engine's friction cone.")
    impratio: Amount = Field(description="The engine's ratio of friction to normal impedance.")
    sim_dt: Amount = Field(description="Physics step, s.")
    direction: Name | None = Field(
        default=None, description="Name of the command, e.g. `left`; absent: straight ahead."
    )
    command: tuple[Number, Number, Number] = Field(
        description="Forward and lateral velocity, m/s, and yaw rate, rad/s."
    )
    heading: Name = Field(description="`held`: a yaw rate turns back to the start's; or `free`.")
    seconds: Amount = Field(description="Time that each environment ran, s.")
    num_envs: Positive = Field(description="Environments.")
    restarts: dict[Name, Number | None] = Field(
        description="Metrics over all steps, with a new start after each fall: velocity_rmse and "
        "forward_rmse (m/s), turn_rmse (rad/s), progress (m), tilt_rms (degrees), fall_rate (% of "
        "finished episodes), walked and slipped (m), slip, and counts of episodes, falls and "
        "diverged."
    )
    single_life: dict[Name, Number | None] = Field(
        description="The same metrics if the first fall were the end."
    )

    @property
    def went(self) -> str:
        """Name of the direction."""
        return self.direction or AHEAD


class CurvePoint(RecordPart):
    """Online training statistics after one iteration."""

    env_steps: Count = Field(description="Control steps so far, summed over all environments.")
    mean_return: Number | None = Field(
        description="Mean over bodies of the mean of their training episodes that finished in the "
        "last iterations up to here, `protocol.return_window` of all, or of their last one; in "
        "records without that setting, of their last 10. Null until every train body has finished "
        "an episode."
    )
    mean_length: Amount | None = Field(
        description="The same mean for episode lengths, in control steps; null likewise."
    )
    episodes: Count = Field(description="Training episodes finished so far, all bodies together.")


class Morphologies(RecordPart):
    """The set of bodies a run used."""

    id: Name = Field(description="Id of the set, e.g. `gmc-unimal-mini-v1`.")
    digest: Digest = Field(description="Content hash of the set: split, name, body, in order.")
    source: Text = Field(description="Where the bodies come from.")
    licence: Text = Field(description="Licence of the bodies; `unknown` when not stated.")
    num_train: Positive = Field(description="Bodies trained on, as listed (repeats count).")
    num_test: Positive = Field(description="Bodies tested on, as listed (repeats count).")


class WallClock(RecordPart):
    """Seconds of a training run by what they were spent on; evaluation is not included."""

    total: Amount = Field(description="s, training from start to end, summed over resumed parts.")
    simulation: Amount = Field(description="s, stepping the engine, rewards and observations.")
    policy: Amount = Field(description="s, choosing actions during rollouts.")
    update: Amount = Field(description="s, learning from the collected steps.")
    other: Amount = Field(description="s, everything else: logging, checkpoints, start-up.")

    @model_validator(mode="after")
    def _parts_make_the_total(self) -> "WallClock":
        parts = self.simulation + self.policy + self.update + self.other
        if not math.isclose(parts, self.total, rel_tol=TIMER_TOLERANCE, abs_tol=TIMER_TOLERANCE):
            raise ValueError(f"the parts add up to {parts:g} s but the total is {self.total:g} s")
        return self


class Hardware(RecordPart):
    """The machine a run was made on."""

    cpu: Text = Field(description="Processor model.")
    cores: Positive = Field(description="Logical cores the process may use.")
    threads: Positive = Field(description="Threads the run was given, each of its processes.")
    processes: Positive | None = Field(
        default=None,
        description="Processes that shared the environments; absent where there was one.",
    )
    memory_gib: Amount | None = Field(description="Main memory, GiB; null when not known.")
    gpu: Text | None = Field(description="Device that ran the networks; null for the CPU.")
    instructions: Text | None = Field(
        description="Instruction sets of the processor that change the last bits of results, e.g. "
        "`avx2 avx512f`; null when not known."
    )
    platform: Text = Field(description="Operating system and architecture.")


def require_plain(value: Any, where: str = "config", depth: int = 2) -> None:
    """Check that a value survives JSON unchanged.

    Args:
        value: nested dicts with string keys, lists, strings, finite numbers, booleans and None.
        where: dotted name for messages.
        depth: levels down to the value if it is a dict or a list, itself included.

    Raises:
        ValueError: something else is inside, e.g. a tuple, NaN or a text that is not Unicode; or
            there are more than `MAX_DEPTH` levels.
    """
    if isinstance(value, dict | list) and depth > MAX_DEPTH:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise ValueError(f"the key {key!r} in {where} is not a string")
            require_plain(key, f"a key of {where}")
            require_plain(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            require_plain(item, f"{where}.{place}", depth + 1)
    elif type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}, which is not finite")
    elif type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{where} is not valid Unicode text") from None
    elif value is not None and type(value) not in (bool, int):
        raise ValueError(f"{where} is a {type(value).__name__}, which JSON cannot hold")


def require_shallow(value: Any) -> None:
    """Check that JSON data has no more than `MAX_DEPTH` levels.

    Raises:
        ValueError: it has; what reads it could exhaust the stack.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        parts = [item for item in level if isinstance(item, dict | list)]
        if not parts:
            return
        level = [
            item for part in parts for item in (part.values() if isinstance(part, dict) else part)
        ]
    raise ValueError(_TOO_DEEP)
