"""Requests for a sweep, made by a file and by options, and the sweep that they come to."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gmc_bench.core.config import coerce, fields_of, load_yaml
from gmc_bench.core.errors import ConfigError, reject_unknown
from gmc_bench.experiments.cell_state import CellState
from gmc_bench.experiments.estimate import describe_plan, measured_here
from gmc_bench.experiments.grid import FIELDS, VARIED, Grid
from gmc_bench.experiments.resolve import LOCKED
from gmc_bench.experiments.run_folder import is_free
from gmc_bench.experiments.spec import GROUPS, flatten
from gmc_bench.experiments.sweep import REUSE, Sweep, SweepResult
from gmc_bench.experiments.sweep_launch import Launch, read_launch
from gmc_bench.suites.protocol import Protocol

RECORDS = (Path("leaderboards"), Path("runs"))
"""Where records may be that tell how long runs take."""
_LAUNCH = ("launcher", "jobs", "retries")
_IN_FILE = ("launch", "out", "reuse")
"""What a file has beside the fields of a grid."""
_SETTINGS = {*fields_of(Protocol), *GROUPS}
"""First parts of the names of settings."""
SETTING_OPTIONS = tuple(f"--{name.replace('_', '-')}" for name in sorted(_SETTINGS - LOCKED))
"""Options that settings are, or that stand for a group of them."""
_PREFIX = "launch."


class SweepRequest(NamedTuple):
    """A sweep and who shall run it."""

    sweep: Sweep
    launch: Launch

    def run(self) -> SweepResult:
        """Begin or continue the sweep.

        Raises:
            GmcBenchError: nothing, or nothing more, can be run.
        """
        return self.sweep.resume(**self.launch.content())

    def preview(self) -> str:
        """Return the runs, hours and memory as text, from the records that are at hand.

        Raises:
            GmcBenchError: the folder holds something else, or is damaged.
        """
        sweep, launch = self
        sweep.require_fit()
        states: Mapping[str, CellState] = dict.fromkeys(sweep.runs, CellState())
        if sweep.path is not None and not is_free(sweep.path):
            states = sweep.overview().states
        states = {
            name: CellState(phase="finished") if sweep.will_take(name) else state
            for name, state in states.items()
        }
        measured = measured_here([*RECORDS, *([sweep.path] if sweep.path else [])])
        measured.add_states(sweep.runs, states)
        return describe_plan(sweep.runs, states, measured, launch.jobs)


def request_sweep(
    given: Mapping[str, Any],
    argv: Sequence[str],
    *,
    config: Path | None = None,
    out: Path | None = None,
) -> SweepRequest:
    """Return a sweep from a YAML file and options; the latter win.

    Args:
        given: fields of `Grid` and of `Launch` by name, and `reuse` (see `Sweep`); of `protocol`,
            `preset`, `bodies` and `precision` a list, which is varied if it has several values.
        argv: further options, see `settings_of`.
        config: the file: fields of `Grid`, those of `Launch` and options of the launcher under
            `launch`, `out` and `reuse`.
        out: folder of the sweep.

    Raises:
        GmcBenchError: an option is unknown or does not fit.
    """
    file = {} if config is None else _read(config)
    launched = file.pop("launch", {})
    out = out or coerce(file.get("out"), str | None, "out")
    reuse = given.get("reuse") or coerce(file.get("reuse"), str | None, "reuse")
    said, argv = launch_options(given, argv)
    single, varied = settings_of(argv)
    for name in (*single, *varied):
        if name in FIELDS:
            raise ConfigError(f"a sweep has no option --{name}; give --{FIELDS[name]}")
    launch = Launch.from_dict(launched | said)
    grid = {name: file[name] for name in file if name not in _IN_FILE}
    grid |= {name: given[name] for name in fields_of(Grid) if name in given}
    for name in VARIED:
        values = given.get(name)
        if isinstance(values, list) and len(values) == 1:
            grid[name] = values[0]
        elif isinstance(values, list):
            varied[name] = values
            del grid[name]
    here = {*single, *varied, *given}
    for name, content in (("settings", single), ("vary", varied)):
        if name in grid or content:
            of_file = flatten(grid.get(name, {}), what=name)
            kept = {item: value for item, value in of_file.items() if item not in here}
            grid[name] = kept | content
    sweep = Sweep.grid(Grid.from_dict(grid), out=out, elsewhere=launch.elsewhere, reuse=reuse)
    return SweepRequest(sweep, launch)


def continued_sweep(
    path: Path,
    given: Mapping[str, Any],
    argv: Sequence[str],
    *,
    config: Path | None = None,
    out: Path | None = None,
) -> SweepRequest:
    """Return the sweep in a folder, launched as before but for what is given.

    Args:
        path: the folder.
        given: fields of `Launch` by name.
        argv: options of the launcher, `--launch.NAME VALUE`.
        config: must be `None`: the folder lists the runs.
        out: must be `None`, likewise.

    Raises:
        ConfigError: something else is given, or does not fit.
        RunFolderError: it is not the folder of a sweep.
    """
    files = [name for name, value in (("config", config), ("out", out)) if value is not None]
    said = launch_alone({**dict.fromkeys(files), **given}, argv)
    return SweepRequest(Sweep.open(path), continued_launch(path, said) or Launch())


def continued_launch(path: Path, said: Mapping[str, Any]) -> Launch | None:
    """Return who goes on with the sweep in a folder: as before but for what is said.

    Args:
        path: the folder.
        said: what `Launch.from_dict` takes.

    Returns:
        None if nothing is said, nor was before.

    Raises:
        ConfigError: an option does not fit, or what was said before is damaged.
    """
    before = read_launch(path)
    before.pop(REUSE, None)  # the sweep's own
    if said.get("launcher", before.get("launcher")) != before.get("launcher"):
        # The options are those of the other launcher; how often a run is tried again is not.
        before = {name: before[name] for name in ("retries",) if name in before}
    content = {**before, **said}
    return Launch.from_dict(content) if content else None


def _read(path: Path) -> dict[str, Any]:
    """Return what a file asks for; a name without a value counts as left out.

    Raises:
        ConfigError: the file cannot be read, or a name is unknown.
    """
    file = {name: value for name, value in load_yaml(path).items() if value is not None}
    for name in _LAUNCH:
        if name in file:
            raise ConfigError(
                f"{path} has {name!r} beside the runs; write it under 'launch', as launch: "
                f"{{{name}: {file[name]}}}"
            )
    for name in file:
        group = str(name).partition(".")[0].replace("-", "_")
        if group in _SETTINGS and name not in fields_of(Grid):
            raise ConfigError(
                f"{path} has {name!r} beside the runs; write it under 'settings', as settings: "
                f"{{{name}: {file[name]}}}"
            )
    if "morphologies" in file:  # the option's name of it
        raise ConfigError(f"{path} has 'morphologies'; in files it is called 'bodies'")
    reject_unknown(file, [*fields_of(Grid), *_IN_FILE], "a sweep")
    if not isinstance(launched := file.get("launch", {}), dict):
        raise ConfigError(f"'launch' in {path} must hold options, got {launched!r}")
    return file


def launch_options(
    given: Mapping[str, Any], argv: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return what options say of the launch, and the arguments that are about something else.

    Args:
        given: values of options by name, of which those of `Launch` count.
        argv: further options; `--launch.NAME VALUE` is one of the launcher.

    Raises:
        ConfigError: an option of the launcher is given twice, or has no value.
    """
    found = {name: given[name] for name in _LAUNCH if name in given}
    own: list[str] = []
    further: list[str] = []
    for group in _groups(argv):
        (own if group[0].startswith(f"--{_PREFIX}") else further).extend(group)
    single, varied = settings_of(own)
    for name, value in (single | varied).items():
        if (short := name.removeprefix(_PREFIX)) in found:
            raise ConfigError(f"--{short} and --{name} are the same option; keep one of them")
        found[short] = value
    return found, further


def launch_alone(given: Mapping[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    """Return what options beside `--resume` say of the launch, as `launch_options` does.

    Raises:
        ConfigError: there are others.
    """
    said, further = launch_options(given, argv)
    if other := [*(name for name in given if name not in _LAUNCH), *further]:
        raise ConfigError(
            f"--resume continues the runs in a folder and takes options of the launch only, got "
            f"{other[0]!r}; leave it out, or begin in another folder"
        )
    return said


def further_options(argv: Sequence[str], take: Callable[[list[str]], list[str]]) -> list[str]:
    """Return the options of a command line that are not taken, with their values.

    Args:
        argv: arguments of the command line.
        take: is given each option with the arguments up to the next one; returns what it leaves of
            them, all where it does not know the option.

    Raises:
        ConfigError: an option that is taken leaves an argument, which would become the value of
            another one.
    """
    further: list[str] = []
    for group in _groups(argv):
        left = take(list(group))
        if left and left != group:
            option, equals, _ = group[0].partition("=")
            most = "one value" if equals or len(group) - len(left) > 1 else "no value"
            raise ConfigError(
                f"{option} takes {most}, got also {left[0]!r}; leave it out, or put its own option "
                f"before it"
            )
        further += left
    return further


def _groups(argv: Sequence[str]) -> list[list[str]]:
    """Return the arguments of a command line, each option with all up to the next one."""
    groups: list[list[str]] = []
    for argument in argv:
        if argument.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(argument)
    return groups


def unknown_options(argv: Sequence[str]) -> list[str]:
    """Return the options that can be neither settings nor the launcher's.

    Names with a dot are left to whoever knows the settings of the method, or the launcher.

    Args:
        argv: options that a command line does not take itself, with their values.
    """
    found: list[str] = []
    for option, *_ in _groups(argv):
        name = option.partition("=")[0].removeprefix("--").replace("-", "_")
        known = "." in name or name in _SETTINGS or name in FIELDS
        if option.startswith("--") and not known:
            found.append(option)
    return found


def settings_of(argv: Sequence[str]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the settings that options on a command line give, and those they vary.

    Args:
        argv: `--NAME VALUE`, or `--NAME VALUE VALUE ...` for a setting that varies.

    Raises:
        ConfigError: an argument is no option, or an option has no value.
    """
    given: dict[str, list[Any]] = {}
    name = ""
    for argument in argv:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            name = name.replace("-", "_")
            if name in given:
                raise ConfigError(f"--{name} is given more than once; keep one of them")
            given[name] = [value] if equals else []
        elif name:
            given[name].append(argument)
        else:
            raise ConfigError(f"unknown argument {argument!r}; see 'gmc-bench sweep --help'")
    for name, values in given.items():
        if not values:
            raise ConfigError(f"--{name.replace('_', '-')} needs a value; give one or several")
    single = {name: values[0] for name, values in given.items() if len(values) == 1}
    return single, {name: values for name, values in given.items() if len(values) > 1}
