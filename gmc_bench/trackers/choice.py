"""Choice of a tracker: what `NAME[:PROJECT]` means, and whether it can be used here."""

from importlib.util import find_spec

from gmc_bench.core.errors import ConfigError
from gmc_bench.trackers import TRACKERS, Tracker


def choose_tracker(text: str) -> tuple[Tracker, str | None]:
    """Return the tracker that a text names, and the project in it.

    Args:
        text: `NAME` or `NAME:PROJECT`, e.g. `wandb:walkers`.

    Raises:
        UnknownNameError: there is no such tracker.
        PluginError: it cannot be loaded.
        ConfigError: its package is not installed, or the project is missing or too much.
    """
    name, colon, project = text.partition(":")
    tracker = TRACKERS.get(name)
    if colon and not project:
        raise ConfigError(f"{text!r} names no project after the colon; leave the colon out")
    if colon and not tracker.has_projects:
        raise ConfigError(f"the tracker {name!r} has no projects, got {project!r}; give {name}")
    if project.endswith("/"):
        raise ConfigError(f"the project {project!r} of {text!r} ends with a slash; name it in full")
    if tracker.package is not None and not _is_installed(tracker.package):
        raise ConfigError(
            f"tracking with {tracker.title} needs the package {tracker.package}, which is not "
            f"installed; run: {tracker.install}"
        )
    return tracker, project or None


def _is_installed(package: str) -> bool:
    found = find_spec(package)
    # A folder without Python, such as the one that W&B itself writes into, is no package.
    return found is not None and found.origin is not None
