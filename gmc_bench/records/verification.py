"""The record of one verification: episodes of a recorded run, run again and compared."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gmc_bench.core.table import number
from gmc_bench.core.types import Mode, Split
from gmc_bench.records.parts import (
    Amount,
    Count,
    Digest,
    Episode,
    Flag,
    Hardware,
    Number,
    Positive,
    RecordPart,
    Text,
)
from gmc_bench.records.schema import Commit, utc_time
from gmc_bench.records.store import read_part

CONFIDENCE = 0.999
"""Joint confidence level, on another engine or hardware class, of all limits on a part's mean
differences, and again of the test of its bodies' outcomes: each of the two fails one honest part in
a thousand, so up to two in all."""

Exactness = Literal["exact", "interval"]
"""How equal episodes that are run again must be: to the last bit, or within chance."""

ROUNDING = 1e-9
"""Part of a return (of 1 where it is smaller) that its rounding stays below: libraries add up, and
take exponentials, in another order or way on another instruction set, although motions are equal.
The errors seen are 1e-16 to 1e-13; motions that drift apart soon exceed the limit."""

Chance = Annotated[float, Field(ge=0.0, le=1.0)]


class DifferingEpisode(RecordPart):
    """An episode that came out differently."""

    split: Split = Field(description="Split of the body.")
    mode: Mode = Field(description="How actions were chosen.")
    body: Text = Field(description="Name of the body.")
    episode: Positive = Field(description="Which of the body's episodes, counted from 1.")
    recorded: Episode = Field(description="What the record says.")
    found: Episode = Field(description="What came out now.")

    @property
    def is_rounding(self) -> bool:
        """Only the last bits of the return differ."""
        old, new = self.recorded, self.found
        if (old.length, old.ended) != (new.length, new.ended):
            return False
        return math.isclose(
            old.episode_return, new.episode_return, rel_tol=ROUNDING, abs_tol=ROUNDING
        )


class VerifiedPart(RecordPart):
    """All episodes of one split and mode."""

    split: Split = Field(description="Split of the bodies.")
    mode: Mode = Field(description="How actions were chosen.")
    episodes: Positive = Field(description="Episodes compared.")
    differing: Count = Field(description="Episodes whose return, length or end differs.")
    rounded: Count | None = Field(
        default=None,
        description="Those of them of which only the last bits of the return differ; null where "
        "episodes must be equal, and in verifications that did not look at it.",
    )
    mean_difference: Number = Field(
        description="Mean of found - recorded return: over all episodes, or, where only the mean "
        "that the score is lies outside its margin, over the bodies that count."
    )
    margin: Amount | None = Field(
        description="Half width of the interval that mean_difference must lie in; null where "
        "episodes must be equal."
    )
    chance: Chance | None = Field(
        default=None,
        description="How likely bodies' returns, lengths and ends differ as much by chance; null "
        "where episodes must be equal, and in verifications that did not look at it.",
    )
    counted: Flag | None = Field(
        default=None,
        description="Whether returns count something (as cells on exploration), so that they may "
        "be equal although episodes are not; left out where they do not.",
    )
    passed: Flag = Field(
        description="Equal; or inside the margin, and likely enough, unless the other episodes "
        "show that all must be equal but for rounding."
    )

    @property
    def is_equal(self) -> bool:
        """No episode differs by more than rounding, where that is allowed."""
        return self.differing == (self.rounded or 0)

    @property
    def is_near(self) -> bool:
        """The mean difference is inside the margin."""
        return self.margin is not None and abs(self.mean_difference) <= self.margin

    @property
    def is_likely(self) -> bool:
        """The outcomes of bodies do not differ by more than chance."""
        return self.chance is None or self.chance >= 1.0 - CONFIDENCE


class VerifiedFriction(RecordPart):
    """Every robot on every friction in every direction, as far as the suite measures it."""

    results: Positive = Field(description="Robots times conditions compared.")
    differing: Count = Field(description="Those of which a metric differs.")
    chance: Chance | None = Field(
        description="How likely metrics differ as much by chance; null where they must be equal."
    )
    first_difference: Text | None = Field(description="The first metric that differs.")
    passed: Flag = Field(description="Equal, or likely enough.")


class Verification(RecordPart):
    """Outcome of running a record's episodes again from its weights."""

    verification_version: Literal[1] = Field(default=1, description="Version of this layout.")
    record_digest: Digest = Field(description="Digest of the record that was verified.")
    weights_digest: Digest = Field(description="SHA-256 of the policy file that was run.")
    created: str = Field(description="When, UTC.")
    comparison: Exactness = Field(
        description="`exact`: same engine and hardware class, so every episode must be equal; "
        "`interval`: another one, so means must agree within chance."
    )
    parts: tuple[VerifiedPart, ...] = Field(min_length=1, description="What was run again.")
    first_difference: DifferingEpisode | None = Field(description="The first episode that differs.")
    friction: VerifiedFriction | None = Field(
        default=None,
        description="The frictions of the record, measured again; null where there are none, or "
        "only what decides the rank was run, and in verifications that did not look at them.",
    )
    passed: Flag = Field(description="Every part passed, and the frictions.")
    hardware: Hardware = Field(description="The machine.")
    versions: dict[str, Text] = Field(description="Version of each package that moves numbers.")
    git_commit: Commit | None = Field(description="Commit of the checkout; null if none.")
    git_dirty: Flag | None = Field(description="The checkout had changes; null if none.")

    @model_validator(mode="after")
    def _fields_agree(self) -> "Verification":
        utc_time(self.created)
        friction_passed = self.friction is None or self.friction.passed
        if self.passed != (friction_passed and all(part.passed for part in self.parts)):
            raise ValueError("passed is not whether all parts passed")
        if len({(part.split, part.mode) for part in self.parts}) != len(self.parts):
            raise ValueError("parts lists one split and mode twice")
        for part in self.parts:
            if part.differing > part.episodes:
                raise ValueError(f"more episodes differ in {part.split}, {part.mode} than were run")
            if (part.margin is None) != (self.comparison == "exact"):
                raise ValueError("a margin belongs to an interval comparison and only there")
            if (part.rounded or 0) > (part.differing if self.comparison == "interval" else 0):
                raise ValueError(f"rounded of {part.split}, {part.mode} contradicts its numbers")
            inside = part.is_near and part.is_likely
            strict = self.comparison == "exact" or computes_alike(self.parts)
            if part.passed != (part.is_equal if strict else inside):
                raise ValueError(f"passed of {part.split}, {part.mode} contradicts its numbers")
        if self.friction is not None:
            _require_agreement(self.friction, self.comparison)
        if (self.first_difference is not None) != any(part.differing for part in self.parts):
            raise ValueError("first_difference must be given exactly when an episode differs")
        return self

    @property
    def outcome(self) -> str:
        """What came out, as the end of a sentence."""
        failed = next((part for part in self.parts if not part.passed), None)
        first, friction = self.first_difference, self.friction
        if failed is None and friction is not None and not friction.passed:
            return (
                f"{friction.differing} of {friction.results} results on friction differ; the first "
                f"is {friction.first_difference}"
            )
        if failed is None:
            return self._how_equal
        part = f"{failed.split}, {failed.mode}"
        count = f"{failed.differing} of {failed.episodes} episodes of {part} differ"
        if failed.margin is not None and computes_alike(self.parts):
            differing, episodes = self._counts
            count = (
                f"{differing} of {episodes} episodes differ, but so many are equal to the last bit "
                f"that this machine computes like the record's, and all must be equal but for "
                f"rounding"
            )
        elif failed.margin is not None and not failed.is_near:
            count = (
                f"mean return of {part} is {number(failed.mean_difference)} off, more than chance "
                f"allows ({number(failed.margin)})"
            )
        elif failed.margin is not None:
            count = (
                f"returns, lengths or ends of the bodies of {part} differ from those found by more "
                f"than chance allows (probability {failed.chance:.1g})"
            )
        assert first is not None
        return (
            f"{count}; the first is episode {first.episode} of {first.split} body {first.body!r}, "
            f"{first.mode}: recorded return {first.recorded.episode_return!r} after "
            f"{first.recorded.length} steps ({first.recorded.ended}), found "
            f"{first.found.episode_return!r} after {first.found.length} ({first.found.ended})"
        )

    @property
    def _counts(self) -> tuple[int, int]:
        """How many episodes differ, and how many there are."""
        return sum(part.differing for part in self.parts), sum(part.episodes for part in self.parts)

    @property
    def _how_equal(self) -> str:
        """How equal episodes and frictions are that passed."""
        differing, episodes = self._counts
        results = "" if self.friction is None else f"{self.friction.results} results on friction"
        if self.comparison == "exact":
            return f"{episodes} episodes{results and f' and {results}'} equal"
        within = "rounding" if differing and computes_alike(self.parts) else "chance"
        return (
            f"{episodes - differing} episodes equal, {differing} within {within}"
            f"{results and f', {results} within chance'} (another machine)"
        )


def computes_alike(parts: Iterable[VerifiedPart]) -> bool:
    """Say whether so many episodes are equal that this machine computes like the record's.

    Where the last bits of arithmetic differ, hardly an episode comes out equal. So if half of those
    of a part do, differences in the others are not due to chance, but at most to rounding of sums
    (`ROUNDING`). Parts whose returns count something (`counted`) are no evidence.
    """
    return any(2 * part.differing <= part.episodes for part in parts if not part.counted)


def _require_agreement(friction: VerifiedFriction, comparison: Exactness) -> None:
    if friction.differing > friction.results:
        raise ValueError("more results on friction differ than were compared")
    if (friction.first_difference is not None) != bool(friction.differing):
        raise ValueError("first_difference must be given exactly when a friction differs")
    if (friction.chance is None) != (comparison == "exact"):
        raise ValueError("the chance of frictions belongs to an interval comparison and only there")
    likely = friction.chance is not None and friction.chance >= 1.0 - CONFIDENCE
    if friction.passed != (likely if friction.chance is not None else not friction.differing):
        raise ValueError("passed of friction contradicts its numbers")


def read_verification(path: Path) -> tuple[Verification, str]:
    """Read a verification and its digest.

    Raises:
        RecordError: the file is missing, was changed, or is no verification.
    """
    return read_part(path, Verification, "verify the record again")
