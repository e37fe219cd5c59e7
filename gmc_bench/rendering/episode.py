"""Video of an evaluation episode of a finished run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmc_bench.core.errors import ConfigError, UnknownNameError, did_you_mean
from gmc_bench.core.escape import file_name
from gmc_bench.core.types import Mode, Split
from gmc_bench.evaluation.one_episode import WantedEpisode
from gmc_bench.experiments.events import Listener, counter
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.scoring import recorded_lengths, scoring_of
from gmc_bench.experiments.session import Session, limb_task, torch_state
from gmc_bench.records.schema import Episode, RunRecord
from gmc_bench.records.store import make_folder
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.replay import Replay, replay_episode
from gmc_bench.rendering.video import (
    VideoSettings,
    film_of,
    load_encoder,
    write_video,
)

SUFFIX = ".mp4"


@dataclass(frozen=True, kw_only=True)
class EpisodeChoice:
    """Which episode of a run's evaluation is shown."""

    body: str
    """Name."""
    split: Split | None = None
    """Where to look for the body; `None` is test, then train."""
    mode: Mode = "deterministic"
    episode: int = 1
    """From 1."""
    seconds: float | None = None
    """Only so much of its start; `None` is all of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownEpisode:
    """An episode whose video was written."""

    title: str
    replay: Replay
    recorded: Episode | None
    """The same episode in the run's record; `None` if it has none."""
    path: Path
    """Of the video."""

    @property
    def is_recorded(self) -> bool:
        """Whether it is the recorded one, to the last bit."""
        return self.recorded is not None and (
            (self.replay.episode_return, self.replay.length)
            == (self.recorded.episode_return, self.recorded.length)
        )


def require_video() -> None:
    """Raise unless videos can be drawn and encoded here: before the long part, not after it.

    Raises:
        ConfigError: what is missing.
    """
    load_encoder()
    Canvas(64, 64).close()


def render_episode(
    experiment: Experiment,
    wanted: EpisodeChoice,
    path: Path | None = None,
    settings: VideoSettings | None = None,
    *,
    listener: Listener = lambda _: None,
) -> ShownEpisode:
    """Play an episode of a run again, and write its video.

    Args:
        experiment: the run; without a record its latest policy is shown.
        wanted: the episode.
        path: the video, which ends in `.mp4`; by default in the run's folder `videos`.
        settings: size and pictures per second, by default the usual ones.
        listener: told of progress.

    Raises:
        GmcBenchError: there is no such episode, pictures cannot be drawn here, or the video cannot
            be put there.
    """
    if path is not None and (path.suffix != SUFFIX or path.is_dir()):
        raise ConfigError(f"a video is an MP4 file, got {path}; give a file that ends in {SUFFIX}")
    require_video()
    settings = settings or VideoSettings()
    session, folder = experiment.session, experiment.folder
    task = limb_task(session)
    record = folder.find_record()
    split, index = _find_body(session, wanted)
    _check_episode(session, wanted.episode)
    plain = file_name(f"{wanted.body}_{split}_{wanted.mode}_{wanted.episode}")
    path = path or folder.path / "videos" / f"{plain}{SUFFIX}"
    make_folder(path.parent)  # what cannot be made is said before the long part
    scoring = scoring_of(session, split, wanted.mode)
    lengths = None if record is None else recorded_lengths(record, split, wanted.mode)
    with torch_state(session).in_use():  # as for the score
        replay = replay_episode(
            experiment.policy,
            WantedEpisode(
                scoring=scoring,
                body=index,
                episode=wanted.episode - 1,
                lengths=lengths,
                seconds=wanted.seconds,
            ),
            counter(listener, "replay", "step", task.horizon),
        )
    title = f"{wanted.body}, {split}, {wanted.mode} #{wanted.episode}"
    film = film_of(replay, task, title, settings)
    frames = len(film.frame_steps(settings.fps))
    write_video(path, film, settings, on_frame=counter(listener, "draw", "frame", frames))
    recorded = _recorded(record, split, wanted)
    return ShownEpisode(title=title, replay=replay, recorded=recorded, path=path)


def _find_body(session: Session, wanted: EpisodeChoice) -> tuple[Split, int]:
    """Return the split of the body that was named, and its index there."""
    splits: tuple[Split, ...] = (wanted.split,) if wanted.split else ("test", "train")
    if session.method.capabilities.per_body:
        if wanted.split == "test":
            raise ConfigError(
                f"the method {session.method.id!r} has one policy for each training body and "
                f"cannot control the split 'test'; use --split train"
            )
        splits = ("train",)
    known: list[str] = []
    for split in splits:
        names = [body.name for body in session.bodies.split(split)]
        if wanted.body in names:
            return split, names.index(wanted.body)
        known += names
    raise no_such_body(wanted.body, splits, session.bodies.id, known)


def no_such_body(
    name: str, splits: Sequence[str], bodies: str, known: Sequence[str]
) -> UnknownNameError:
    """Return what to raise where a set has no body of a name."""
    close = did_you_mean(name, known)
    if "did you mean" not in close:  # there may be hundreds
        close = f"; there are {len(known)}, such as {known[0]!r}"
    return UnknownNameError(
        f"the {' and '.join(splits)} bodies of {bodies} have none named {name!r}{close}"
    )


def _check_episode(session: Session, episode: int) -> None:
    count = session.config.protocol.evaluation.episodes
    if not 1 <= episode <= count:
        raise ConfigError(
            f"--episode is {episode}, but the run is scored on {count} per body and mode; give a "
            f"number from 1 to {count}"
        )


def _recorded(record: RunRecord | None, split: Split, wanted: EpisodeChoice) -> Episode | None:
    for item in record.returns if record else ():
        if (item.split, item.mode, item.body) == (split, wanted.mode, wanted.body):
            number = wanted.episode
            return item.episodes[number - 1] if number <= len(item.episodes) else None
    return None
