"""Signatures of records, in minisign's format, and the list of those whose signatures count.

A signature is a file beside the record, named like it with `.minisig` behind. It is made over the
record's bytes, so that the program `minisign` makes and checks the same files. Nothing here needs
a server: public keys come from `signers.yaml` in the leaderboard's folder, a secret key is a file.
"""

import base64
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from gmc_bench.core.config import load_yaml
from gmc_bench.core.errors import ConfigError, RecordError, StorageError
from gmc_bench.records.parts import Name, Positive, RecordPart
from gmc_bench.records.store import first_problem, read_stored_record, write_atomic

SUFFIX = ".minisig"
SIGNERS_NAME = "signers.yaml"
EXTRA = "pip install 'gmc-bench[sign]'"
_LARGEST = 1 << 16  # bytes of a signature or a key
_KEY_ID = slice(2, 10)  # behind two letters that name the algorithm

PublicKey = Annotated[str, Field(pattern=r"^RW[QRST][A-Za-z0-9+/]{53}$")]
"""42 bytes: `Ed`, the key's id, the key."""


class Signers(RecordPart):
    """Whose signatures count in a leaderboard."""

    keys: dict[Name, PublicKey] = Field(default={}, description="Public keys by who has them.")
    required_from: Positive | None = Field(
        default=None,
        description="First line of the ledger from which records must be signed; null: none must.",
    )
    until: dict[Name, Positive] = Field(
        default={}, description="Last line of the ledger that a key counts for which was given up."
    )

    @model_validator(mode="after")
    def _given_up_keys_are_there(self) -> "Signers":
        # A wrong name would leave a key that was given up in force.
        if unknown := sorted(self.until.keys() - self.keys.keys()):
            raise ValueError(f"'until' names {', '.join(unknown)}, which 'keys' does not list")
        return self

    def keys_at(self, line: float) -> dict[str, str]:
        """Return the keys that count for a record in a line of the ledger, by who has them."""
        return {name: key for name, key in self.keys.items() if line <= self.until.get(name, line)}


def read_signers(root: Path) -> Signers:
    """Read whose signatures count in a leaderboard; without such a file, nobody's.

    Raises:
        ConfigError: the file is not such a list.
    """
    path = root / SIGNERS_NAME
    if not path.exists():
        return Signers()
    try:
        return Signers.model_validate(load_yaml(path))
    except ValidationError as error:
        raise ConfigError(
            f"{path} does not say who signs: {first_problem(error)}; it holds 'keys' (names, each "
            f"with the public key as minisign shows it), 'required_from' (a line of the ledger) "
            f"and 'until' (names, each with a line)"
        ) from error


def signature_file(record: Path) -> Path:
    """Return where the signature of a record's file lies."""
    return record.with_name(record.name + SUFFIX)


def signer_of(record: Path, signers: Signers, line: float = math.inf) -> str:
    """Return who signed a record's file.

    Args:
        record: the file.
        signers: whose signatures count.
        line: of the record in the ledger; behind its end for a record that is not listed.

    Raises:
        RecordError: the signature cannot be read, is not of these bytes, or of a key that does
            not count.
        ConfigError: the package that checks signatures is missing.
    """
    minisign = _library()
    path = signature_file(record)
    try:
        signature = minisign.Signature.from_bytes(_read(path))
    except minisign.Error as error:
        raise RecordError(
            f"{path} is no signature in minisign's format ({error}); sign the record again with "
            f"'gmc-bench leaderboard sign'"
        ) from error
    made_with = base64.b64decode(bytes(signature).splitlines()[1])[_KEY_ID]
    for name, key in signers.keys_at(line).items():
        if base64.b64decode(key)[_KEY_ID] != made_with:
            continue
        try:
            minisign.PublicKey.from_base64(key).verify(record.read_bytes(), signature)
        except minisign.Error as error:
            raise RecordError(
                f"{path} is not a signature of {record} by the key of {name}: one of the two was "
                f"changed, or made by somebody else; restore the files or sign again"
            ) from error
        except OSError as error:
            raise RecordError(f"cannot read the record {record}: {error.strerror}") from error
        return name
    raise RecordError(
        f"{path} was made with the key {made_with[::-1].hex().upper()}, which does "
        f"not count for it by {SIGNERS_NAME} of the leaderboard; whoever keeps the leaderboard can "
        f"add it under 'keys'"
    )


def sign(record: Path, key: Path, password: Callable[[], str]) -> Path:
    """Sign a record's file; the same key makes the same signature again.

    Args:
        record: the file; it must be a valid record.
        key: file of the secret key, as `minisign -G` or `make_key` made it.
        password: asks for the key's password, where it has one.

    Returns:
        The file written.

    Raises:
        RecordError: the record is not valid.
        ConfigError: the key cannot be read or used, or the package that signs is missing.
        StorageError: the signature could not be written.
    """
    minisign = _library()
    digest = read_stored_record(record).digest
    try:
        with minisign.SecretKey.from_bytes(_read(key.expanduser())) as secret:
            if secret.is_encrypted():
                secret.decrypt(password())
            comment = f"gmc-bench record {digest}"
            signature = secret.sign(record.read_bytes(), trusted_comment=comment)
    except RecordError as error:
        raise ConfigError(f"{error}; make a key with --new-key, or name one with --key") from error
    except minisign.Error as error:
        raise ConfigError(
            f"{key} cannot be used as minisign's secret key: {error}; give another with --key"
        ) from error
    write_atomic(signature_file(record), bytes(signature) + b"\n")
    return signature_file(record)


def make_key(path: Path, password: str) -> str:
    """Make a pair of keys: the secret one in a file that only its owner may read, `.pub` beside it.

    Args:
        path: of the secret key.
        password: of the secret key; empty for none.

    Returns:
        The public key, as `signers.yaml` wants it.

    Raises:
        ConfigError: there is a key already, or the package that makes keys is missing.
        StorageError: a file could not be written.
    """
    minisign, path = _library(), path.expanduser()
    beside = path.with_suffix(".pub")
    if beside == path or beside.exists():
        raise ConfigError(
            f"the public key would be written to {beside}, which is "
            f"{'the key itself' if beside == path else 'there already'}; give another --key"
        )
    pair = minisign.KeyPair.generate()
    public: bytes = bytes(pair.public_key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pair.secret_key as secret:
            if password:
                secret.encrypt(password)
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(bytes(secret) + b"\n")
    except FileExistsError as error:
        raise ConfigError(f"{path} exists already; use it without --new-key") from error
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    write_atomic(beside, public + b"\n")
    return public.splitlines()[1].decode()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _library() -> Any:
    try:
        import minisign
    except ImportError as error:
        raise ConfigError(
            f"signatures need the package 'py-minisign', which is not installed; install it with: "
            f"{EXTRA}"
        ) from error
    return minisign
