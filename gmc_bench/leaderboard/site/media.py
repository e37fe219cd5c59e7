"""Pictures of bodies and videos of methods, copied into the site when there are any."""

from dataclasses import dataclass
from pathlib import Path

from gmc_bench.core.errors import StorageError
from gmc_bench.core.escape import one_line
from gmc_bench.leaderboard.site.names import safe_name

VIDEOS = "videos"
VIDEO_SUFFIXES = (".mp4", ".webm")


@dataclass(frozen=True, slots=True)
class Video:
    """A video of a method: its caption (the file's name) and its place in the site."""

    caption: str
    path: str


class Media:
    """What a folder of media holds; `files` collects what pages use.

    Pictures are `<set id>/<body digest>.png`, videos `videos/<method id>/<caption>.mp4` or
    `.webm`.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.files: dict[str, bytes] = {}

    def picture(self, set_id: str, body_digest: str) -> str | None:
        """Return where the site holds the still picture of a body, or `None`."""
        if self._folder is None:
            return None
        source = self._folder / set_id / f"{body_digest}.png"
        if not source.is_file():
            return None
        return self._copy(source, f"pictures/{safe_name(set_id, set_id)}/{body_digest}.png")

    def videos(self, method: str) -> tuple[Video, ...]:
        """Return the videos of a method, by file name."""
        if self._folder is None or not (self._folder / VIDEOS / method).is_dir():
            return ()
        return tuple(
            Video(
                one_line(path.stem),
                self._copy(
                    path,
                    f"{VIDEOS}/{safe_name(method, method)}/"
                    f"{safe_name(path.stem, path.name)}{path.suffix}",
                ),
            )
            for path in sorted((self._folder / VIDEOS / method).iterdir())
            if path.suffix in VIDEO_SUFFIXES and path.is_file()
        )

    def _copy(self, source: Path, name: str) -> str:
        try:
            self.files[name] = source.read_bytes()
        except OSError as error:
            raise StorageError(
                f"cannot read {source}: {error.strerror}; make it readable or remove it"
            ) from error
        return name
