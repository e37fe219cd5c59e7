"""Overview of several runs: their list at the start, one table at the end."""

from collections.abc import Iterable, Mapping, Sequence

from gmc_bench.core.table import aligned, number
from gmc_bench.experiments.eta import ETA, planned
from gmc_bench.experiments.method import method_of
from gmc_bench.records.kinship import mean_return, scored
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.summary import ends
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest
from gmc_bench.training.run_config import RunConfig

HEADINGS = (
    "task",
    "training return",
    "train",
    "test",
    "length",
    "ended early",
    "env steps/s",
    "seconds",
)
_MOST_NAMES = 6


def describe_runs(runs: Mapping[str, RunConfig], states: Mapping[str, str], eta: ETA) -> str:
    """Return runs as text: one line for all, one for each, and why they are unofficial.

    Args:
        runs: settings by name.
        states: of each run, e.g. `to do`.
        eta: knows the times.
    """
    steps = sum(map(planned, runs.values()))
    shared = ", ".join(_shared(list(runs.values())))
    lines = [f"{len(runs)} runs: {shared}, {steps:,} env steps"]
    rows = [
        [
            name,
            _digest(config)[:12],
            f"{planned(config):,}",
            states[name],
            "-" if states[name] in ("finished", "failed") else eta.time_of(name),
        ]
        for name, config in runs.items()
    ]
    lines.append(aligned(("run", "protocol", "env steps", "state", "time"), rows))
    return "\n".join([*lines, *describe_unofficial(runs)])


def _shared(configs: Sequence[RunConfig]) -> list[str]:
    """Return what all runs have in common, in words."""
    values = [
        (f"method {method_of(config).id}", f"preset {config.protocol.preset}",
         f"suite {config.suite}", f"protocol {config.protocol.name}",
         f"bodies {config.morphologies}", f"seed {config.seed}")
        for config in configs
    ]  # fmt: skip
    return [names[0] for names in zip(*values, strict=True) if len(set(names)) == 1]


def _digest(config: RunConfig) -> str:
    method, suite = method_of(config), SUITES.get(config.suite)
    return protocol_digest(config.protocol, method, suite, config.task)


def describe_unofficial(runs: Mapping[str, RunConfig]) -> list[str]:
    """Return why runs are unofficial: a line for each reason, with the runs unless it is all."""
    found: dict[str, list[str]] = {}
    for name, config in runs.items():
        for reason in config.unofficial_reasons:
            found.setdefault(reason, []).append(name)
    lines = []
    for reason, names in found.items():
        which = f" ({named(names)})" if len(names) < len(runs) else ""
        lines.append(f"unofficial: {reason}{which}")
    return lines


def named(runs: Sequence[str]) -> str:
    """Return the names of runs as text, or how many there are if they would fill a page."""
    return ", ".join(runs) if len(runs) <= _MOST_NAMES else f"{len(runs):,} runs"


def describe_results(
    names: Iterable[str], records: Mapping[str, RunRecord], failures: Mapping[str, str]
) -> str:
    """Return the table of several runs: numbers where one is finished, else only a word.

    Args:
        names: of the runs.
        records: of the finished ones, by name.
        failures: why others failed, by name.
    """
    rows = [_row(name, records.get(name), name in failures) for name in names]
    tested = any(scored(record.returns, "test") for record in records.values())
    lines = [aligned(HEADINGS, rows), ""]
    if records:
        lines += [
            "train, test: mean return of the deterministic policy; test counts bodies that were "
            "not trained on.",
            f"length, ended early: of the {'test' if tested else 'train'} episodes. seconds: of "
            f"training, without scoring.",
        ]
    lines.append("Returns of different tasks measure different things and are not averaged.")
    lines += [f"failed: {name}: {reason}" for name, reason in failures.items()]
    return "\n".join(lines)


def _row(name: str, record: RunRecord | None, failed: bool) -> list[str]:
    if record is None:
        rest = len(HEADINGS) - 2
        return [name, "failed" if failed else "incomplete", *["-"] * rest]
    train, test = scored(record.returns, "train"), scored(record.returns, "test")
    shown = test or train
    length, early = ends(shown) if shown else (None, None)
    return [
        name,
        number(record.training_return),
        number(mean_return(train)),
        number(mean_return(test)),
        number(length, 0),
        "-" if early is None else f"{100 * early:.0f} %",
        number(record.env_steps_per_s, 0),
        number(record.wall_clock_s.total, 0),
    ]
