"""File names of pages: safe on every system, stable, and never taken from free text as it is."""

import hashlib
import re
from dataclasses import astuple

from gmc_bench.leaderboard.aggregate import ComparisonKey

MAX_NAME = 80  # characters; far below the 255 bytes of common file systems
DIGEST_DIGITS = 10
_UNSAFE = re.compile(r"[^a-z0-9_-]+")


def safe_name(text: str, identity: str) -> str:
    """Return a file name without suffix.

    Args:
        text: what the name should resemble; anything but lower-case letters, digits, `_` and `-`
            becomes `-`.
        identity: what must differ for two names to differ; a digest of it ends the name, so that
            names never clash and none is reserved by a system (`con`, `nul`).

    Returns:
        At most 80 + 11 characters.
    """
    digest = hashlib.sha256(identity.encode()).hexdigest()[:DIGEST_DIGITS]
    stem = _UNSAFE.sub("-", text.lower())[:MAX_NAME].strip("-")
    return f"{stem}-{digest}" if stem else digest


def board_page(key: ComparisonKey) -> str:
    """Return the page of a table."""
    return f"boards/{_table_name(key)}.html"


def body_page(identity: tuple[str, str], split: str, body: str) -> str:
    """Return the page of a body of a set, which is named by its id and digest."""
    return f"body/{safe_name(body, ' '.join((*identity, split, body)))}.html"


def drawing_file(digest: str) -> str:
    """Return the drawing of a body; `digest` is the body's."""
    return f"drawings/{digest}.svg"


def compare_page(key: ComparisonKey) -> str:
    """Return the page that compares the methods of a table."""
    return f"compare/{_table_name(key)}.html"


def method_page(method: str) -> str:
    """Return the page of a method."""
    return f"methods/{safe_name(method, method)}.html"


def record_page(method: str, digest: str) -> str:
    """Return the page of a record; `digest` is the record's."""
    return f"records/{safe_name(method, digest)}.html"


def replay_page(method: str, digest: str) -> str:
    """Return the page with the replay of a record; `digest` is the record's."""
    return f"replays/{safe_name(method, digest)}.html"


def set_page(set_id: str, digest: str) -> str:
    """Return the page of a body set."""
    return f"bodies/{safe_name(set_id, f'{set_id} {digest}')}.html"


def _table_name(key: ComparisonKey) -> str:
    text = "-".join((key.task, key.protocol, key.morphologies))
    return safe_name(text, "\n".join(astuple(key)))
