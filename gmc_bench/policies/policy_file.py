"""File of a policy: weights and statistics with the description that rebuilds them."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmc_bench.core.arguments import as_path
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import CheckpointError, ConfigError
from gmc_bench.core.types import Array
from gmc_bench.policies.tensors import decode_tensors, encode_tensors, read_description
from gmc_bench.records.ledger import leaderboard_of, require_registered
from gmc_bench.records.store import write_atomic
from gmc_bench.records.weights import kept_at

FORMAT = 1
"""Version of the description."""


@dataclass(frozen=True)
class PolicyFile:
    """What a file holds, as it was written."""

    description: dict[str, Any]
    data: bytes
    """Weights and statistics, safetensors."""
    origin: Path
    """The file with the description, for messages."""


def write_policy_file(
    path: str | Path, tensors: dict[str, Array], description: dict[str, Any]
) -> None:
    """Write weights and statistics with their description.

    Args:
        path: `NAME.safetensors`.
        tensors: the weights and statistics.
        description: what rebuilds the policy for them, of JSON values, with the `FORMAT`.

    Raises:
        ConfigError: the name has another ending.
        StorageError: the file could not be written.
    """
    path = _weights_file(path)
    content = description | {"weights_digest": _digest_of(tensors)}
    content["digest"] = config_digest(content)
    write_atomic(path, encode_tensors(tensors, content))


def read_policy_file(path: str | Path) -> PolicyFile:
    """Read a file that `write_policy_file` wrote, or one with the bytes of `Policy.actor_bytes`.

    Args:
        path: `NAME.safetensors`; in a leaderboard it must be the one that was added.

    Raises:
        CheckpointError: a file is missing or damaged, or is of another version.
        RecordError: it lies in a leaderboard whose ledger is damaged, or lies in a leaderboard and
            names a method that is a file or module instead of a registered one.
        ConfigError: the name has another ending.
    """
    path = _weights_file(path)
    try:
        kept = kept_at(path)
        data = path.read_bytes() if kept is None else kept.read()
        content = read_description(data, path)
        described = path if content is not None else path.with_suffix(".json")
        with complete_description(described):
            if content is None:  # of a version that wrote the description into a second file
                content, found = json.loads(described.read_bytes()), _sha256(data)
            elif "weights_digest" in content:
                found = _digest_of(decode_tensors(data, path))
            else:  # of `Policy.actor_bytes`
                found = None
            _require_unchanged(content, found, path, described)
            if leaderboard_of(path) is not None:
                require_registered(content, path)  # also where no line lists it
    except OSError as error:
        if isinstance(error, FileNotFoundError) and Path(error.filename).suffix == ".json":
            raise CheckpointError(
                f"{path} does not say of which method its weights are; give the folder of the "
                f"run, or a file of Policy.save"
            ) from error
        raise CheckpointError(
            f"{error.filename} cannot be read ({error.strerror}); give a file of Policy.save"
        ) from error
    return PolicyFile(content, data, described)


@contextmanager
def complete_description(origin: Path) -> Iterator[None]:
    """Raise `CheckpointError` where the description that is read inside is incomplete or wrong."""
    try:
        yield
    except MemoryError as error:
        raise CheckpointError(
            f"there is too little memory to read {origin}; free some, or allow more (ulimit -v)"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{origin} describes no policy ({error}); give a file of Policy.save"
        ) from error


def _require_unchanged(
    content: dict[str, Any], found: str | None, path: Path, described: Path
) -> None:
    """Raise unless description and weights are as they were written, in today's format.

    Args:
        content: the description, which loses its digest.
        found: digest of the weights; `None` for `Policy.actor_bytes`, which state none.
        path: the file of the weights, for messages.
        described: that of the description, likewise.
    """
    stated = content.pop("digest", None)  # none before there were digests
    if stated is not None and stated != config_digest(content):
        raise CheckpointError(
            f"{described} was changed after it was written (its digest is not that of its "
            f"content); restore the file"
        )
    if found is not None and found != content["weights_digest"]:
        raise CheckpointError(
            f"{path} is not the file that {described.name} describes; restore both"
            if described != path
            else f"{path} was changed after it was written (its weights are not those that it "
            f"describes); restore the file"
        )
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{described} has format {content['format']}, but this version of gmc-bench reads "
            f"{FORMAT}; load it with the version that wrote it"
        )


def _digest_of(tensors: dict[str, Array]) -> str:
    """Return the SHA-256 of weights and statistics as safetensors."""
    return _sha256(encode_tensors(tensors))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _weights_file(path: str | Path) -> Path:
    path = as_path(path, "the file of a policy")
    if path.suffix != ".safetensors":
        raise ConfigError(f"a policy is saved as NAME.safetensors, got {path}")
    return path
