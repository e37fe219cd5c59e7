"""Trackio: a database on this machine, or the server or Space that its variables name."""

from collections.abc import Mapping
from importlib import import_module

from gmc_bench.trackers.tracker import PROJECT, Connection, TrackedRun, Tracker


class TrackioRun(Connection):
    """A run of Trackio; `env_steps` are its steps.

    Args:
        run: what is tracked.
    """

    def __init__(self, run: TrackedRun) -> None:
        trackio = import_module("trackio")
        for name in ("trackio", "trackio.run", "trackio.utils"):
            # It prints to stdout, which holds the results of the command line and nothing else.
            vars(import_module(name))["print"] = _say_nothing
        project = run.project or PROJECT
        self._run = trackio.init(
            project,
            name=f"{run.name}-{run.id}",  # runs are found again by name
            resume="allow",
            config=dict(run.settings),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.place = self._run.url or f"trackio show --project {project}"

    def write(self, scalars: Mapping[str, float], env_steps: int) -> None:
        """Send numbers of training."""
        self._run.log(dict(scalars), step=env_steps)

    def finish(self, scores: Mapping[str, float], facts: Mapping[str, str], env_steps: int) -> None:
        """Send scores and facts as what was logged last."""
        self._run.log({**scores, **facts}, step=env_steps)

    def close(self, *, finished: bool) -> None:
        """Wait until what is left is stored."""
        self._run.finish()


def _say_nothing(*words: object, **options: object) -> None:
    """Stand in for `print`."""


TRACKER = Tracker(
    id="trackio",
    title="Trackio",
    connect=TrackioRun,
    package="trackio",
    install="pip install 'gmc-bench[trackio]'",
)
