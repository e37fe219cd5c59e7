"""Replay of a run: recorded evaluation episodes in one HTML file that any browser plays.

What is shown is what was recorded: an episode whose return or length is not that of the record is
left out, and a sentence on the page says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.escape import file_name
from gmc_bench.evaluation.evaluate import Observer, Scoring
from gmc_bench.experiments.events import Listener, counter
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.scoring import recorded_lengths, scoring_of
from gmc_bench.experiments.session import Session, torch_state
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.records.store import write_atomic
from gmc_bench.rendering.scene import SQUARE
from gmc_bench.rendering.web.episodes import EpisodeKeeper, PlayedEpisode, ReturnAndLength, model_of
from gmc_bench.rendering.web.motion import follow_states, frames_of
from gmc_bench.rendering.web.page import make_page
from gmc_bench.rendering.web.shapes import describe_model, packed
from gmc_bench.tasks.spec import Task

FILE = "replay.html"
"""Of a run's best, median and worst body, in its folder."""
_SPLITS, _MODES = ("test", "train"), ("deterministic", "stochastic")
"""What is shown of several, the first one that was scored."""
_PAGES = (".html", ".htm")
_RANKS = ("best", "median", "worst")


@dataclass(frozen=True, kw_only=True)
class ReplayChoice:
    """Which episodes of a run's evaluation are shown: the first one of each of these bodies.

    Raises:
        ConfigError: bodies are named and all are asked for.
    """

    bodies: tuple[str, ...] = ()
    """Names; none for the best, the median and the worst one by mean return."""
    everything: bool = False
    """All bodies."""
    split: str | None = None
    """Default test, or train where no test bodies were scored."""
    mode: str | None = None
    """Default deterministic, or what was scored."""

    def __post_init__(self) -> None:
        if self.bodies and self.everything:
            raise ConfigError(
                "some bodies were named and all were asked for; leave one of them out"
            )


@dataclass(frozen=True, kw_only=True)
class WrittenReplay:
    """A replay that was written."""

    path: Path
    shown: int
    """Episodes in it."""
    remarks: tuple[str, ...]
    """A sentence for each episode that is missing."""


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """One body of a record, and why it is shown."""

    item: BodyReturns
    index: int
    """Among the bodies of its split."""
    rank: str = ""
    """What it is among them, e.g. `best of 24`."""

    @property
    def number(self) -> int:
        """Of its first episode, see `Observer`."""
        return self.index * len(self.item.episodes)

    @property
    def expected(self) -> ReturnAndLength:
        """Return and length of its first episode in the record."""
        first = self.item.episodes[0]
        return first.episode_return, first.length


def write_replay(
    experiment: Experiment,
    choice: ReplayChoice,
    path: Path | None = None,
    *,
    listener: Listener = lambda _: None,
) -> WrittenReplay:
    """Play recorded episodes of a run again, and write those that equal the record.

    See `describe_replay`.

    Args:
        experiment: the finished run.
        choice: the bodies.
        path: the file; by default in the run's folder.
        listener: told of progress.

    Raises:
        GmcBenchError: there is no record, no such body in it, no episode equals the record, or the
            file's name is not that of a page.
    """
    if path is not None and (path.suffix not in _PAGES or path.is_dir()):
        raise ConfigError(f"a replay is an HTML page, got {path}; give a file that ends in .html")
    title, data = describe_replay(experiment, choice, listener=listener)
    if not data["episodes"]:
        raise ConfigError(f"nothing can be replayed: {data['remarks'][0]}")
    return _write(path or experiment.folder.path / _file_name(choice), title, data)


def describe_replay(
    experiment: Experiment, choice: ReplayChoice, *, listener: Listener = lambda _: None
) -> tuple[str, dict[str, Any]]:
    """Play recorded episodes of a run again, and describe those that equal the record.

    Only these episodes are simulated, first with fewer rows for the policy than it was scored on,
    and with all of them where the outcome is not the recorded one, see `EpisodeKeeper.play`. Unless
    bodies were asked for, longer episodes are left once one comes out otherwise with all rows, too.

    Args:
        experiment: the finished run.
        choice: the bodies.
        listener: told of progress.

    Returns:
        Title and data of a page; without any episode where none equals the record.

    Raises:
        GmcBenchError: there is no record, or no such body in it.
    """
    session, record = experiment.session, experiment.record
    shown = _choose(record, choice)
    split, mode = shown[0].item.split, shown[0].item.mode
    scoring = scoring_of(session, split, mode)
    names = [body.name for body in scoring.bodies]
    recorded = [item.body for item in record.returns if (item.split, item.mode) == (split, mode)]
    if names != recorded:
        raise ConfigError(f"the record has other {split} bodies than the run's set")
    # How many threads step decides how fast, not what comes out; a few bodies need no second one.
    scoring = replace(scoring, num_threads=1)
    expected = {item.number: item.expected for item in shown}
    keeper = EpisodeKeeper(
        scoring, expected, counter(listener, "replay", "step", scoring.task.horizon)
    )
    with torch_state(session).in_use():  # as for the score
        played = keeper.play(
            experiment.policy,
            lengths=recorded_lengths(record, split, mode),
            expected=expected,
            give_up=not (choice.bodies or choice.everything),
        )
    return _title(record, session), _describe(session, shown, played)


def _file_name(choice: ReplayChoice) -> str:
    bodies = "all" if choice.everything else file_name("_".join(choice.bodies))
    parts = filter(None, (Path(FILE).stem, bodies, choice.split, choice.mode))
    return f"{'_'.join(parts)}{Path(FILE).suffix}"


def _choose(record: RunRecord, choice: ReplayChoice) -> list[_Shown]:
    """Return the bodies to show, in order."""
    part = _part(record, choice)
    places = {item.body: index for index, item in enumerate(part)}
    if choice.bodies:
        for name in choice.bodies:
            if name not in places:
                raise ConfigError(
                    f"the record has no {part[0].split} body {name!r}"
                    f"{did_you_mean(name, list(places))}"
                )
        return [_Shown(item=part[places[name]], index=places[name]) for name in choice.bodies]
    if choice.everything:
        return [_Shown(item=item, index=index) for index, item in enumerate(part)]
    return _best_median_worst(part)


def _part(record: RunRecord, choice: ReplayChoice) -> list[BodyReturns]:
    """Return the part of a record that is shown."""
    for split in [choice.split] if choice.split else _SPLITS:
        for mode in [choice.mode] if choice.mode else _MODES:
            found = [x for x in record.returns if (x.split, x.mode) == (split, mode) and x.episodes]
            if found:
                return found
    wanted = " ".join(filter(None, (choice.mode, choice.split)))
    raise ConfigError(f"the record holds no {wanted + ' ' if wanted else ''}evaluation episodes")


def _best_median_worst(part: Sequence[BodyReturns]) -> list[_Shown]:
    unseen = [index for index, item in enumerate(part) if not item.seen_in_train]
    order = sorted(unseen or range(len(part)), key=lambda index: -part[index].mean_return)
    count = len(order)
    if count <= len(_RANKS):
        return [_Shown(item=part[index], index=index) for index in order]
    places = (0, count // 2, count - 1)
    return [
        _Shown(item=part[order[place]], index=order[place], rank=f"{rank} of {count}")
        for rank, place in zip(_RANKS, places, strict=True)
    ]


def _describe(
    session: Session,
    shown: Sequence[_Shown],
    played: Mapping[int, PlayedEpisode],
) -> dict[str, Any]:
    """Return the data of the page."""
    episodes, remarks, left = [], [], []
    for entry in shown:
        item, expected = entry.item, entry.item.episodes[0]
        found = played.get(entry.number)
        if found is None:
            left.append(
                f"{item.body} is not shown: it was not played to its end, because a shorter "
                f"episode came out unlike the record."
            )
            continue
        if found.outcome != entry.expected:
            remarks.append(
                f"{item.body} is not shown: replayed, its return is {found.episode_return:.6g} "
                f"after {found.length} steps, the record has {expected.episode_return:.6g} after "
                f"{expected.length}; another processor or other versions give other numbers."
            )
            continue
        title = {"title": item.body, "rank": entry.rank, "facts": _facts(entry)}
        episodes.append(describe_episode(found, session.task) | title)
    return {"episodes": episodes, "remarks": [*remarks, *left]}


def _facts(entry: _Shown) -> str:
    """Return what is said below the name of a body."""
    item = entry.item
    parts = [
        entry.rank and f"{entry.rank} by mean return {item.mean_return:.2f}",
        f"{item.split} body, {item.mode}, episode 1 of {len(item.episodes)}",
        f"return of this episode {item.episodes[0].episode_return:.2f}",
    ]
    return " · ".join(filter(None, parts))


def describe_episode(episode: PlayedEpisode, task: Task) -> dict[str, Any]:
    """Return an episode as the player takes it, without title and facts."""
    model = model_of(episode)
    control_dt = float(model.opt.timestep) * task.scene.num_substeps
    steps = frames_of(episode.length, control_dt)
    motion = follow_states(model, episode.states, steps).packed()
    return {
        **describe_model(model, task.grid.cell_size if task.grid else SQUARE),
        "control_dt": control_dt,
        "total": episode.episode_return,
        "ended": episode.ended,
        "motion": motion | {"returns": packed(episode.returns[steps])},
    }


def _title(record: RunRecord, session: Session) -> str:
    method = session.method.title or record.method
    untrained = " untrained" if record.untrained else ""
    return f"{method}{untrained} - {session.task.title} ({session.task.id}), seed {record.seed}"


def _write(path: Path, title: str, data: Mapping[str, Any]) -> WrittenReplay:
    page = make_page(title, data)
    write_atomic(path, page.encode())
    return WrittenReplay(path=path, shown=len(data["episodes"]), remarks=tuple(data["remarks"]))


class RunReplay:
    """Keeps episodes while a run is scored, and writes its replay afterwards.

    A run is neither stopped nor changed by it: what goes wrong becomes a sentence.

    Args:
        experiment: the run; `experiment.watch` this before it is run.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._keeper: EpisodeKeeper | None = None
        self._failure = ""

    def __call__(self, split: str, scoring: Scoring) -> Observer | None:
        """Return who watches a part of the evaluation, if it is the one that is shown."""
        session = self._experiment.session
        rules = session.config.protocol.evaluation
        splits = ("train",) if session.method.capabilities.per_body else rules.splits
        if split != min(splits, key=_SPLITS.index) or scoring.mode != min(
            rules.modes, key=_MODES.index
        ):
            return None
        self._keeper = EpisodeKeeper(scoring)
        return _Guard(self, self._keeper)

    def give_up(self, error: Exception) -> None:
        """Take notice of what went wrong."""
        self._keeper, self._failure = None, " ".join(f"{type(error).__name__}: {error}".split())

    def write(self, record: RunRecord) -> tuple[Path | None, str]:
        """Write `replay.html` into the run's folder.

        Args:
            record: of the run.

        Returns:
            The file, or `None`; and a sentence on what is missing, or nothing.
        """
        if self._keeper is not None:
            try:
                shown = _choose(record, ReplayChoice())
                session = self._experiment.session
                data = _describe(session, shown, self._keeper.episodes)
                path = self._experiment.folder.path / FILE
                found = _write(path, _title(record, session), data)
                return found.path, " ".join(found.remarks)
            except Exception as error:  # noqa: BLE001 - a picture is no reason to fail a run
                self.give_up(error)
        return None, f"no replay was written ({self._failure})" if self._failure else ""


class _Guard(Observer):
    """Lets an observer look until it fails, and then no more."""

    def __init__(self, owner: RunReplay, observer: Observer) -> None:
        self._owner = owner
        self._observer: Observer | None = observer

    def started(self, *seen: Any) -> None:
        self._tell("started", seen)

    def stepped(self, *seen: Any) -> None:
        self._tell("stepped", seen)

    def _tell(self, what: str, seen: tuple[Any, ...]) -> None:
        if self._observer is None:
            return
        try:
            getattr(self._observer, what)(*seen)
        except Exception as error:  # noqa: BLE001 - a picture is no reason to fail a run
            self._observer = None
            self._owner.give_up(error)
