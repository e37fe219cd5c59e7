"""Held-out bodies, grown from a secret: its hash is published first, and it is revealed later.

The test bodies of a held-out set are descendants of a released set's train bodies by mutations.
Everything but the secret is fixed beforehand: the set that they descend from, how many there are
and how they mutate. Whoever knows the secret can grow them, and whoever has the hash can check
that it is this secret.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import store_set
from gmc_bench.bodies.summary import describe_set, render_set
from gmc_bench.core.errors import (
    ConfigError,
    MorphologyError,
    MorphologySetError,
    UnknownNameError,
    did_you_mean,
)
from gmc_bench.generation.lineage import grow_descendant
from gmc_bench.generation.released import RELEASED, build_released

MUTATIONS = 3
"""Mutations between a train body and a held-out body."""

_WORD = re.compile(r"[0-9a-f]{32,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """What is kept secret until a set is revealed.

    Raises:
        ConfigError: seed or salt is not written as at least 32 hexadecimal digits.
    """

    seed: str
    """Seed of the bodies, lower-case hexadecimal digits."""
    salt: str
    """Digits that keep the seed from being guessed, likewise."""

    def __post_init__(self) -> None:
        for name in ("seed", "salt"):
            word: Any = getattr(self, name)
            if not isinstance(word, str) or not _WORD.fullmatch(word):
                raise ConfigError(
                    f"the {name} of a held-out set must be at least 32 lower-case hexadecimal "
                    f"digits, got {word!r}"
                )

    @property
    def commitment(self) -> str:
        """SHA-256 of `SEED:SALT`, 64 hex digits."""
        return hashlib.sha256(f"{self.seed}:{self.salt}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutSet:
    """A set whose test bodies are not known yet, or were not for a time."""

    id: str
    commitment: str
    """Hash of the secret, see `Secret.commitment`."""
    base: str
    """Released set from evolution; its train bodies are the ancestors, and the train split."""
    test: int
    """Test bodies."""
    secret: Secret | None
    """`None` until it is revealed."""


def _held_out(set_id: str, row: Mapping[str, Any]) -> HeldOutSet:
    secret = Secret(**row["secret"]) if row["secret"] else None
    return HeldOutSet(id=set_id, **{**row, "secret": secret})


HELD_OUT = {
    set_id: _held_out(set_id, row)
    for set_id, row in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}
"""Held-out sets by id. Commitments never change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revealed:
    """A held-out set whose secret is the one that was committed to."""

    bodies: MorphologySet
    commitment: str
    folder: Path
    """Where the set is stored."""

    @property
    def text(self) -> str:
        """What was revealed, for people."""
        return (
            f"{render_set(describe_set(self.bodies))}\n"
            f"commitment  {self.commitment}, kept by this secret\n\n"
            f"kept in  {self.folder}"
        )


def draw_secret() -> Secret:
    """Return a secret for a new commitment; keep it, and publish `commitment`."""
    return Secret(seed=secrets.token_hex(16), salt=secrets.token_hex(32))


def read_secret(path: Path) -> Secret:
    """Read a secret: JSON with `seed` and `salt`.

    Raises:
        ConfigError: the file cannot be read or is something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Secret(seed=content["seed"], salt=content["salt"])
    except OSError as error:
        raise ConfigError(f"cannot read the secret {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{path} holds no secret; expected JSON with 'seed' and 'salt'"
        ) from error


def reveal(set_id: str, path: Path | None = None) -> Revealed:
    """Check a secret against the commitment, grow the bodies and keep them as a set.

    Args:
        set_id: id of the held-out set.
        path: file of the secret; `None` takes the one that was revealed with this release.

    Raises:
        UnknownNameError: no such set.
        ConfigError: the secret is not the one that was committed to, or not revealed yet.
        StorageError: the set cannot be stored.
    """
    if set_id not in HELD_OUT:
        raise UnknownNameError(f"unknown held-out set {set_id!r}{did_you_mean(set_id, HELD_OUT)}")
    held = HELD_OUT[set_id]
    secret = read_secret(path) if path else held.secret
    if secret is None:
        raise ConfigError(
            f"the secret of {set_id!r} is not revealed yet (commitment {held.commitment}); give "
            f"its file if you have it"
        )
    if secret.commitment != held.commitment:
        raise ConfigError(
            f"this is not the secret of {set_id!r}: its hash is {secret.commitment}, but "
            f"{held.commitment} was committed to"
        )
    bodies = grow_held_out(held, secret)
    return Revealed(bodies=bodies, commitment=held.commitment, folder=store_set(bodies))


def grow_held_out(held: HeldOutSet, secret: Secret) -> MorphologySet:
    """Grow a held-out set from its secret.

    Candidate k is a random ancestor after `MUTATIONS` mutations, all drawn from the secret and k.
    A candidate that finds no room, or is equal to an earlier one or to any body of the set that
    they descend from, is left out.
    """
    base = build_released(held.base)
    known = {body.digest for members in base.splits.values() for body in members}
    test: list[Morphology] = []
    for body in _candidates(held, secret):
        if body.digest not in known:
            known.add(body.digest)
            test.append(body)
        if len(test) == held.test:
            break
    return MorphologySet(
        id=held.id,
        splits={"train": base.split("train"), "test": tuple(test)},
        source=(
            f"Test bodies grown by gmc-bench from a seed that was committed to before "
            f"({held.commitment[:12]}), {MUTATIONS} mutations from train bodies of {held.base}."
        ),
        licence="same as gmc-bench",
    )


def _candidates(held: HeldOutSet, secret: Secret) -> Iterator[Morphology]:
    pinned = RELEASED[held.base]
    if pinned.evolution is None:
        raise MorphologySetError(f"the bodies of {held.base!r} have no lineages to go on from")
    ancestors = pinned.lineages
    for number in count(1):
        seed, name = (int(secret.seed, 16), number), f"heldout-{number:05d}"
        try:
            yield grow_descendant(pinned.evolution, ancestors, seed, MUTATIONS, name)
        except MorphologyError:
            continue
