"""Grown sets on disk, so that a set grows once per machine and not once per run."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.bodies.schema import Morphology
from gmc_bench.bodies.store import data_dir
from gmc_bench.core.errors import GmcBenchError

Splits = Mapping[str, Sequence[Morphology]]


def load_grown(digest: str) -> dict[str, tuple[Morphology, ...]] | None:
    """Return the splits that were kept under a hash.

    Args:
        digest: hash of the set; the caller compares the content with it.

    Returns:
        Bodies by split; `None` where nothing usable is kept.
    """
    try:
        content = json.loads(_path(digest).read_text(encoding="utf-8"))
        return {split: tuple(map(_read, rows)) for split, rows in content.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, GmcBenchError):
        return None  # it can always be grown again


def keep_grown(digest: str, splits: Splits) -> None:
    """Keep the splits of a set; a folder that cannot be written costs time and nothing else."""
    path = _path(digest)
    content = {
        split: [
            {"name": body.name, "symmetric_limbs": body.symmetric_limbs, "mjcf": emit_mjcf(body)}
            for body in bodies
        ]
        for split, bodies in splits.items()
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=path.parent, prefix=".grown-", ignore_cleanup_errors=True
        ) as folder:
            draft = Path(folder) / path.name
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(path)
    except OSError:
        return


def _path(digest: str) -> Path:
    return data_dir() / "grown" / f"{digest}.json"


def _read(row: dict[str, Any]) -> Morphology:
    pairs = tuple((int(first), int(second)) for first, second in row["symmetric_limbs"])
    return replace(parse_mjcf(row["mjcf"], row["name"]), symmetric_limbs=pairs)
