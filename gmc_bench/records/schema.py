"""The record of one finished (or stopped) training run: one method, one suite, one seed.

A record is a measurement: it is written once, never edited, and holds everything a table needs,
so that tables can be built without the engine, the networks or the bodies.
"""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Mode, Split
from gmc_bench.records.kinship import mean_return, scored
from gmc_bench.records.parts import (
    Amount,
    BodyReturns,
    Controller,
    Count,
    CurvePoint,
    Digest,
    Episode,
    Flag,
    FrictionResult,
    Hardware,
    LoopResiduals,
    Morphologies,
    Name,
    Number,
    Positive,
    RecordPart,
    Text,
    TrialResult,
    TunedSettings,
    VersionedName,
    WallClock,
    require_plain,
)
from gmc_bench.records.seeds import further_seeds

__all__ = [
    "CHANGED",
    "REQUIRED_VERSIONS",
    "RESIZED",
    "SCHEMA_VERSION",
    "STATED_VERSIONS",
    "BodyReturns",
    "Controller",
    "CurvePoint",
    "Episode",
    "FrictionResult",
    "Hardware",
    "LoopResiduals",
    "Mode",
    "Morphologies",
    "RunRecord",
    "Split",
    "TrialResult",
    "TunedSettings",
    "WallClock",
]

SCHEMA_VERSION = 2
REQUIRED_VERSIONS = (
    "gmc-bench",
    "python",
    "mujoco",
    "torch",
    "tianshou",
    "numpy",
    "numba",
    "gymnasium",
)
"""Software whose version every record states."""
STATED_VERSIONS = (*REQUIRED_VERSIONS, "scipy")
"""Software whose version new records state. SciPy brings the BLAS that RecMorph trains with."""
RATE_TOLERANCE = 0.05
"""Share by which the stated throughput may miss steps / seconds; short runs round coarsely."""

RESIZED = "the number of {what} changed while the run was under way"
"""Beginning of a remark, with `threads` or `processes`."""

CHANGED = "{what} changed while the run was under way"
"""Beginning of a remark, and why a run is not official."""

Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


def utc_time(text: str) -> str:
    """Return a text that is a UTC time in ISO 8601.

    Raises:
        ValueError: it is not.
    """
    if datetime.fromisoformat(text).utcoffset() != timedelta(0):
        raise ValueError(f"{text!r} is not a UTC time such as 2025-01-31T23:59:59Z")
    return text


class RunRecord(RecordPart):
    """Everything the leaderboard knows about one training run."""

    schema_version: Literal[2] = Field(default=2, description="Version of this layout.")
    status: Literal["complete", "incomplete"] = Field(
        description="`complete`: all planned steps trained and evaluated; otherwise `incomplete`."
    )
    created: str = Field(description="When the record was made, UTC, e.g. 2025-01-31T23:59:59Z.")

    method: Name = Field(description="Id of the controller.")
    method_version: Positive = Field(description="Version of the controller.")
    preset: Text = Field(description="Named settings of the controller.")
    controller: Controller = Field(
        description="`shared`: one policy drives all bodies; `single_robot`: separate weights for "
        "each train body, so that only train bodies are scored and the run serves as a reference."
    )
    parameters: Count = Field(
        description="Trainable parameters of actor and critic together; 0 for no action at all."
    )
    untrained: Flag | None = Field(
        default=None,
        description="True where nothing was trained: the policy has the weights, and the "
        "observation statistics, that training starts from. Absent in records of training.",
    )

    suite: VersionedName = Field(description="Full id of the suite, e.g. `unimal-v1`.")
    suite_digest: Digest | None = Field(
        description="Hash of the suite's definition; null in records older than schema 2."
    )
    task: VersionedName = Field(description="Full id of the task, e.g. `unimal-ft-v1`.")
    task_digest: Digest | None = Field(
        description="Hash of the task's definition: scene, terms, weights, horizon; null likewise."
    )
    protocol: Name = Field(description="Name of the suite's protocol, e.g. `smoke` or `lite`.")
    protocol_digest: Digest = Field(description="Hash of the protocol's rules.")
    protocol_seeds: tuple[Count, ...] = Field(
        default=(),
        description="Seeds the protocol asks for; empty when it leaves them open. "
        "A method is not ranked until all of them are there; as many more may follow.",
    )
    morphologies: Morphologies = Field(description="The bodies trained and tested on.")
    metres_per_return: Amount | None = Field(
        default=None,
        description="Metres along the task's direction per unit of return; absent where the "
        "return is no distance, and in older records.",
    )
    seed: Count = Field(description="Seed of the run.")
    env_steps: Count = Field(description="Control steps trained, summed over all environments.")
    env_steps_planned: Count = Field(
        description="Control steps the run set out to train, rounded to whole rollouts; 0 where "
        "nothing was trained."
    )
    config: dict[str, Any] = Field(
        description="Resolved settings without the seed and without machine settings (threads, "
        "folders), so that the seeds of one row share them."
    )
    config_digest: Digest = Field(description="SHA-256 of `config`.")

    returns: tuple[BodyReturns, ...] = Field(description="Evaluation results, one per body, mode.")
    learning_curve: tuple[CurvePoint, ...] = Field(description="Training, by rising env_steps.")
    training_return: Number | None = Field(
        description="Final online training return: `mean_return` of the learning curve at the end "
        "of training; null if some body finished none."
    )
    diverged_episodes: Count = Field(
        description="Training episodes ended because the engine warned or a number was not finite."
    )
    loops_opened: Count | None = Field(
        default=None,
        description="How often in training a closed loop came open by more than 2 % of its "
        "shorter limb's length; absent where no train body has loops.",
    )

    friction: tuple[FrictionResult, ...] | None = Field(
        default=None,
        min_length=1,
        description="What the suite measures on frictions, one entry per friction, direction and "
        "robot; absent where it measures none.",
    )

    tuning: TunedSettings | None = Field(
        default=None,
        description="What the method brings along that it was tuned to, with the trials; absent "
        "where it was not tuned, or where the run has other values.",
    )

    wall_clock_s: WallClock = Field(description="Seconds of training by purpose.")
    env_steps_per_s: Amount = Field(description="env_steps / wall_clock_s.total.")
    hardware: Hardware = Field(description="The machine.")
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")
    weights_digest: Digest | None = Field(
        description="SHA-256 of the final policy file; null when an incomplete run has none."
    )
    git_commit: Commit | None = Field(description="Commit of the checkout; null if none.")
    git_dirty: Flag | None = Field(description="The checkout had changes; null if none.")

    remarks: tuple[Text, ...] | None = Field(
        default=None,
        description="What else a reader should know about how the run was made, a sentence each; "
        "absent where there is nothing.",
    )
    official: Flag = Field(description="Follows the protocol; only such records are ranked.")
    unofficial_reasons: tuple[Text, ...] = Field(description="Why not; empty when official.")

    @field_validator("created")
    @classmethod
    def _created_is_utc(cls, value: str) -> str:
        return utc_time(value)

    @field_validator("config")
    @classmethod
    def _config_is_plain(cls, value: dict[str, Any]) -> dict[str, Any]:
        require_plain(value)
        return value

    @field_validator("versions")
    @classmethod
    def _versions_are_named(cls, value: dict[str, str]) -> dict[str, str]:
        missing = [name for name in REQUIRED_VERSIONS if name not in value]
        if missing:
            raise ValueError(f"the version of {', '.join(missing)} is missing")
        return value

    @model_validator(mode="after")
    def _fields_agree(self) -> "RunRecord":
        problem = next(self._contradictions(), None)
        if problem:
            raise ValueError(problem)
        return self

    def __repr__(self) -> str:
        what = "untrained " if self.untrained else ""
        return (
            f"<record of {what}{self.method} on {self.task}, {self.protocol}, seed {self.seed}: "
            f"{self.status}, {self.env_steps:,} env steps, {len(self.returns)} body scores>"
        )

    __str__ = __repr__

    @property
    def core_seconds(self) -> float:
        """Seconds of training times the threads that all of its processes were given.

        Those at the end of training: of a run that is `resized`, the number is wrong.
        """
        return self.wall_clock_s.total * self.all_threads

    @property
    def all_threads(self) -> int:
        """Threads that all processes of a training were given together, at its end."""
        return self.hardware.threads * (self.hardware.processes or 1)

    @property
    def method_argument(self) -> str:
        """What `--method` was: the method's id, or the file or module that it is defined in."""
        given = self.config.get("method")
        return given if isinstance(given, str) and ":" in given else self.method

    @property
    def resized(self) -> bool:
        """Whether training went on with another number of threads or processes."""
        begins = tuple(RESIZED.format(what=what) for what in ("threads", "processes"))
        return any(remark.startswith(begins) for remark in self.remarks or ())

    def _contradictions(self) -> Iterator[str]:
        if self.config_digest != config_digest(self.config):
            yield "config_digest is not the digest of config"
        yield from self._status_contradictions()
        yield from self._returns_contradictions()
        yield from self._training_contradictions()

    def _training_contradictions(self) -> Iterator[str]:
        if self.untrained is False:
            yield "untrained is true or absent"
        if bool(self.untrained) != (self.env_steps_planned == 0):
            yield "untrained must be true exactly when no env steps were planned"
        if self.untrained and (self.learning_curve or self.training_return is not None):
            yield "an untrained policy has no learning_curve and no training_return"
        if not (self.untrained or self.parameters):
            yield "training needs parameters"
        seconds = self.wall_clock_s.total
        if seconds and not math.isclose(
            self.env_steps_per_s * seconds, self.env_steps, rel_tol=RATE_TOLERANCE
        ):
            yield "env_steps_per_s is not env_steps / wall_clock_s.total"
        if any(later.env_steps <= earlier.env_steps for earlier, later in self._curve_pairs()):
            yield "env_steps of the learning_curve do not rise"
        if any(later.episodes < earlier.episodes for earlier, later in self._curve_pairs()):
            yield "episodes of the learning_curve fall"
        if self.learning_curve and self.learning_curve[-1].env_steps > self.env_steps:
            yield "the learning_curve goes beyond env_steps"
        if self.status == "complete" and not self.untrained:
            last = self.learning_curve[-1] if self.learning_curve else None
            if last is None or last.env_steps != self.env_steps:
                yield "the learning_curve of a complete run does not end at env_steps"
            elif last.mean_return != self.training_return:
                yield "training_return is not the mean_return at the end of the learning_curve"

    def _status_contradictions(self) -> Iterator[str]:
        if self.official == bool(self.unofficial_reasons):
            yield "official must be true exactly when unofficial_reasons is empty"
        if self.status == "incomplete" and self.official:
            yield "an incomplete run cannot be official"
        if self.status == "complete" and self.env_steps < self.env_steps_planned:
            yield f"a complete run has {self.env_steps} of {self.env_steps_planned} planned steps"
        if self.status == "complete" and self.weights_digest is None:
            yield "a complete run has no weights_digest"
        allowed = (*self.protocol_seeds, *further_seeds(self.protocol_seeds))
        if self.official and allowed and self.seed not in allowed:
            yield f"an official run has seed {self.seed}, which is not one of protocol_seeds"
        if len(set(self.protocol_seeds)) != len(self.protocol_seeds):
            yield "protocol_seeds repeat"
        if (self.git_commit is None) != (self.git_dirty is None):
            yield "git_commit and git_dirty must both be given or both be null"

    def _returns_contradictions(self) -> Iterator[str]:
        digests: dict[tuple[str, str], str] = {}
        trained = {item.body_digest for item in self.returns if item.split == "train"}
        places: set[tuple[str, str, str]] = set()
        for item in self.returns:
            place = (item.split, item.mode, item.body)
            if place in places:
                yield f"returns lists {item.split} body {item.body!r} twice as {item.mode}"
            places.add(place)
            if digests.setdefault((item.split, item.body), item.body_digest) != item.body_digest:
                yield f"returns gives {item.split} body {item.body!r} two body_digests"
            if item.body_digest in trained and not item.seen_in_train:
                yield f"test body {item.body!r} is a train body but seen_in_train is false"
        if self.controller == "single_robot" and any(i.split == "test" for i in self.returns):
            yield "a single_robot run has no weights for test bodies but returns lists some"
        places_of_friction = [
            (item.friction, item.went, item.robot) for item in self.friction or ()
        ]
        if len(set(places_of_friction)) != len(places_of_friction):
            yield "friction lists a robot twice on one friction in one direction"
        for split in ("train", "test"):
            listed = len({body for place, body in digests if place == split})
            if listed > self._num_bodies(split):
                yield f"returns has {listed} {split} bodies, more than morphologies states"

    def _curve_pairs(self) -> Iterator[tuple[CurvePoint, CurvePoint]]:
        return pairwise(self.learning_curve)

    def _num_bodies(self, split: str) -> int:
        return self.morphologies.num_train if split == "train" else self.morphologies.num_test

    @property
    def ranked_split(self) -> Split:
        """Split whose score decides about a place: `train` where no test bodies are scored."""
        rules = self.config.get("protocol", {}).get("evaluation", {})
        tested = self.controller == "shared" and "test" in rules.get("splits", ("test",))
        return "test" if tested else "train"

    def score(self, split: Split, mode: Mode) -> float | None:
        """Return the mean over bodies of the mean return over episodes.

        A body that the set lists more than once, under several names, counts once; test bodies
        that were trained on do not count, so that the test score is a zero-shot score.

        Args:
            split: `train` or `test`.
            mode: how actions were chosen.

        Returns:
            The score in units of the task's return; `None`, never a mean of what happens to be
            there, when the run is incomplete, when a body of the split has no episodes in this
            mode, or when no body is left to count.

        Raises:
            ConfigError: there is no such split or mode.
        """
        if split not in get_args(Split) or mode not in get_args(Mode):
            raise ConfigError(
                f"a score has the split 'train' or 'test' and the mode 'deterministic' or "
                f"'stochastic', got {split!r} and {mode!r}"
            )
        results = [item for item in self.returns if (item.split, item.mode) == (split, mode)]
        if self.status != "complete" or len(results) != self._num_bodies(split):
            return None
        return mean_return(scored(results, split, mode))
