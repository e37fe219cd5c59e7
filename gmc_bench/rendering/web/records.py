"""Replays of a leaderboard's records: played from the kept weights once, then read from a cache.

Playing takes as long as the policy takes for the rows of its whole evaluation (see
`evaluation.chosen`), some 20 s of processor time for a usual record; reading takes milliseconds.
What is kept follows from the record, the sources that play and describe it, the versions of the
libraries and the processor, and is looked up by the digest of all of these. The method's own code
is not among them: what was found equal to the record once is what the record says.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gmc_bench
from gmc_bench.bodies.store import data_dir
from gmc_bench.core.config import json_digest
from gmc_bench.experiments.events import Listener
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.store import StoredRecord, write_atomic
from gmc_bench.rendering.web.page import linked_files, make_page

CACHE = "replays"
"""Below the user's data; it may be deleted at any time."""
_UNCONCERNED = {"cli", "conformance", "deployment", "leaderboard", "profiling", "studies"}
"""Packages on which no episode and no drawing of it depends."""


@dataclass(frozen=True, kw_only=True)
class RecordReplay:
    """What can be shown of a record."""

    title: str
    data: Mapping[str, Any]
    """What the player takes."""

    @property
    def episodes(self) -> list[dict[str, Any]]:
        """Those that equal the record; `title` is the body's name, `total` the return."""
        return list(self.data["episodes"])

    @property
    def remarks(self) -> list[str]:
        """A sentence for each episode that is missing."""
        return list(self.data["remarks"])

    def page(self, static: str, back: str) -> bytes:
        """Return a page that loads the player from `linked_files`.

        Args:
            static: where these are, relative to the page.
            back: the page of the record, relative to this one.
        """
        return make_page(self.title, self.data, static=static, back=back).encode()


class RecordReplays:
    """Replays of the records of one leaderboard.

    Args:
        root: the leaderboard.
        listener: told of progress.
        cache: folder of finished replays; by default below the user's data.
    """

    def __init__(
        self, root: Path, listener: Listener = lambda _: None, cache: Path | None = None
    ) -> None:
        self._root, self._listener = root, listener
        self._cache = cache or data_dir() / CACHE

    @property
    def files(self) -> Mapping[str, bytes]:
        """What all pages load, by name."""
        return linked_files()

    def of(self, stored: StoredRecord) -> RecordReplay:
        """Return the replay of the best, the median and the worst unseen body of a record.

        Raises:
            GmcBenchError: its weights are missing or changed, or the method or the bodies are not
                here.
        """
        # They load torch and MuJoCo, which a site without replays does not need.
        from gmc_bench.experiments.experiment import Experiment
        from gmc_bench.rendering.web.replay import ReplayChoice, describe_replay

        experiment = Experiment.open(self._root / stored.path)
        experiment.folder.read_policy()  # whatever is in the cache, the weights must be there
        path = self._cache / f"{self._key(stored)}.json.z"
        try:
            content = json.loads(zlib.decompress(path.read_bytes()))
            return RecordReplay(title=content["title"], data=content["data"])
        except (OSError, ValueError, KeyError, zlib.error):  # none yet, or a damaged one
            pass
        title, data = describe_replay(experiment, ReplayChoice(), listener=self._listener)
        text = json.dumps({"title": title, "data": data}, sort_keys=True)
        write_atomic(path, zlib.compress(text.encode(), 6))
        return RecordReplay(title=title, data=data)

    def _key(self, stored: StoredRecord) -> str:
        hardware = collect_hardware(1)
        parts = {
            "record": stored.digest,
            "sources": self._sources,
            "versions": collect_versions(),
            "processor": [hardware.cpu, hardware.instructions],
        }
        return json_digest(parts)

    @cached_property
    def _sources(self) -> str:
        assert gmc_bench.__file__ is not None
        return _digest_of(Path(gmc_bench.__file__).parent)


def _digest_of(folder: Path) -> str:
    """Return a digest of the sources below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix in {".py", ".json", ".js", ".html"} and name.parts[0] not in _UNCONCERNED:
            found.update(f"{name.as_posix()}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
