"""Replays of a leaderboard's records: played from the kept weights once, then read from a cache.

Playing takes some seconds of processor time, see `evaluation.episode_subset`; reading takes
milliseconds. What is kept is looked up by the digest of the record, the title of its method and the
sources that describe episodes, not those that play them: what was found equal to the record once is
what the record says. Where an episode was not, it is tried again with other sources, libraries or
another processor.
"""

import hashlib
import json
import logging
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gmc_bench
from gmc_bench.bodies.store import data_dir
from gmc_bench.core.config import json_digest
from gmc_bench.core.errors import GmcBenchError, StorageError
from gmc_bench.experiments.events import Listener
from gmc_bench.methods import METHODS
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.store import StoredRecord, write_atomic
from gmc_bench.rendering.web.page import linked_files, make_page

_LOG = logging.getLogger(__name__)
_SOURCES = Path(gmc_bench.__path__[0])
CACHE = "replays"
"""Below the user's data; it may be deleted at any time."""
_DESCRIBING = {"bodies", "core", "envs", "rendering", "robots", "sim", "tasks", "tokens"}
"""Packages on which the description of an episode depends."""
_UNCONCERNED = {"cli", "conformance", "deployment", "leaderboard", "profiling", "studies"}
"""Packages on which neither an episode nor its description depends."""


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
        parts = {"record": stored.digest, "sources": self._describing}
        key = json_digest(parts | {"method": _title_of(stored.record.method)})
        path = self._cache / f"{key}.json.z"
        try:
            content = json.loads(zlib.decompress(path.read_bytes()))
            if content["played_with"] == self._playing or not content["data"]["remarks"]:
                return RecordReplay(title=content["title"], data=content["data"])
        except (OSError, ValueError, KeyError, TypeError, zlib.error):  # none yet, or damaged
            pass
        title, data = describe_replay(experiment, ReplayChoice(), listener=self._listener)
        content = {"title": title, "data": data, "played_with": self._playing}
        text = json.dumps(content, sort_keys=True)
        try:
            write_atomic(path, zlib.compress(text.encode(), 6))
        except StorageError as error:  # what was played is shown all the same
            _LOG.warning("the replay of %s is not kept for another time: %s", stored.path, error)
        return RecordReplay(title=title, data=data)

    @cached_property
    def _describing(self) -> str:
        """Digest of what describes an episode."""
        return _digest_of(_DESCRIBING)

    @cached_property
    def _playing(self) -> str:
        """Digest of what an episode's last bits may depend on."""
        hardware = collect_hardware(1)
        packages = {path.name for path in _SOURCES.iterdir() if path.is_dir()} - _UNCONCERNED
        parts = {
            "sources": _digest_of(packages),
            "versions": collect_versions(),
            "processor": [hardware.cpu, hardware.instructions],
        }
        return json_digest(parts)


def _title_of(method: str) -> str:
    """Return the title of a registered method, which may change while its records stay."""
    try:
        return METHODS.get(method).title
    except GmcBenchError:  # of a file, whose digest is in the record
        return ""


def _digest_of(packages: Collection[str]) -> str:
    """Return a digest of the sources of some packages of gmc-bench."""
    found = hashlib.sha256()
    for path in sorted(path for name in packages for path in (_SOURCES / name).rglob("*")):
        if path.suffix in {".py", ".json"}:  # the player itself is put in afresh
            found.update(f"{path.relative_to(_SOURCES).as_posix()}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
