"""Page of one record: commands, learning curve, returns of every body and all fields."""

import json
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from gmc_bench.core.config import look_up
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.escape import one_line
from gmc_bench.leaderboard.site import numbers
from gmc_bench.leaderboard.site.charts import curve_chart
from gmc_bench.methods import METHODS
from gmc_bench.methods.tuning import tuning_key
from gmc_bench.records.breakdown import (
    DIRECTION_METRICS,
    FRICTION_METRICS,
    by_direction,
    straight_ahead,
)
from gmc_bench.records.schema import BodyReturns, FrictionResult, RunRecord
from gmc_bench.records.store import StoredRecord

LISTED_ELSEWHERE = {
    "returns", "learning_curve", "config", "unofficial_reasons", "friction", "tuning",
}  # fmt: skip
MAX_LISTED_EPISODES = 3  # more are given as a range


def record_context(stored: StoredRecord) -> dict[str, Any]:
    """Return what the page of a record shows of the record itself."""
    record = stored.record
    points = [
        (p.env_steps, p.mean_return) for p in record.learning_curve if p.mean_return is not None
    ]
    found: dict[tuple[str, str], dict[str, BodyReturns]] = {}
    for item in record.returns:
        found.setdefault((item.split, item.body), {})[item.mode] = item
    # Two modes need two columns; most records have one.
    ran = {item.mode for item in record.returns}
    modes = [mode for mode in ("deterministic", "stochastic") if mode in ran]
    digits = numbers.digits_for(item.mean_return for item in record.returns)
    results = record.friction or ()
    return {
        "record": record,
        "stored": stored,
        "run_command": run_command(record),
        "verify_command": _verify_command(stored.path),
        "fields": list(_flat(record.model_dump(mode="json", exclude=LISTED_ELSEWHERE), "")),
        # Escapes every character beyond ASCII, so that no invisible one can hide in settings.
        "config": json.dumps(record.config, indent=2, sort_keys=True, ensure_ascii=True),
        "curve": curve_chart([float(step) for step, _ in points], [value for _, value in points]),
        "modes": modes,
        "digits": digits,
        "bodies": [_body(entry, modes, digits) for entry in found.values()],
        "tuning": record.tuning,
        "trials": [
            {"settings": _settings(item.settings), "returns": list(item.returns.values())}
            for item in (record.tuning.trials if record.tuning else ())
        ],
        "kept": _settings(record.tuning.settings) if record.tuning else "",
        "friction_headings": list(FRICTION_METRICS),
        "frictions": [
            {"result": item, "metrics": _metrics(item, FRICTION_METRICS)}
            for item in straight_ahead(results)
        ],
        "direction_headings": list(DIRECTION_METRICS),
        "directions": [
            {"result": item, "metrics": _metrics(item, DIRECTION_METRICS)}
            for item in by_direction(results)
        ],
    }


def _settings(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def _metrics(item: FrictionResult, metrics: Mapping[str, str]) -> list[float | None]:
    return [item.restarts.get(name) for name in metrics.values()]


def run_command(record: RunRecord) -> str:
    """Return the command that repeats an official run, bit for bit on a machine like its own."""
    machine = record.hardware
    return shlex.join(
        [
            *("gmc-bench", "run", "--method", record.method_argument, "--suite", record.suite),
            *("--task", record.task, "--protocol", record.protocol),
            *("--morphologies", record.morphologies.id, "--seed", str(record.seed)),
            *("--threads", str(machine.threads)),
            *(("--processes", str(machine.processes)) if machine.processes else ()),
            *(("--device", "cuda") if machine.gpu else ()),
            *(("--untrained",) if record.untrained else ()),
            *_own_settings(record),
        ]
    )


def _own_settings(record: RunRecord) -> Iterator[str]:
    """Yield options for what the record has otherwise than its method is tuned to here.

    Without them, the command would run with the tuned values.
    """
    try:
        method = METHODS.get(record.method)
    except GmcBenchError:
        return  # nobody here knows what it is tuned to
    kept = method.tuned.get(tuning_key(record.suite, record.task, record.protocol), {})
    for name, value in kept.items():
        found = _setting(record.config, name, value)
        if found != value and isinstance(found, (int, float, NoneType)):
            yield from (f"--{name.replace('_', '-')}", f"{found}".lower())


def _setting(config: Mapping[str, Any], name: str, otherwise: float) -> Any:
    """Return a setting of a record by dotted name, or `otherwise` where it has none."""
    group, _, rest = name.partition(".")
    place = f"method_config.{rest}" if group == "model" else f"protocol.{name}"
    return look_up(config, place, otherwise)


def _verify_command(path: str) -> str:
    # A path with invisible characters is not offered for pasting into a shell.
    plain = path if path == one_line(path) else "record.json"
    return shlex.join(["gmc-bench", "leaderboard", "verify", f"./{plain}"])


def _flat(content: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    words = {None: "not given", True: "yes", False: "no"}
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield f"{prefix}{name}", ", ".join(map(str, value)) or "none"
        else:
            special = value is None or isinstance(value, bool)
            yield f"{prefix}{name}", words[value] if special else str(value)


def _body(by_mode: Mapping[str, BodyReturns], modes: Sequence[str], digits: int) -> dict[str, Any]:
    """Return the line of a body; its episodes are those of the first mode that it ran in."""
    shown = next(by_mode[mode] for mode in modes if mode in by_mode)
    values = [episode.episode_return for episode in shown.episodes]
    texts = [numbers.number(value, digits) for value in values]
    if len(values) > MAX_LISTED_EPISODES:
        ends = (numbers.number(end, digits) for end in (min(values), max(values)))
        texts = [f"{' to '.join(ends)} in {len(values)} episodes"]
    ways = Counter(episode.ended for episode in shown.episodes)
    ended = [name if len(ways) == 1 else f"{name} {times}" for name, times in sorted(ways.items())]
    return {
        "body": shown,
        "means": [by_mode[mode].mean_return if mode in by_mode else None for mode in modes],
        "returns": "; ".join(texts),
        "length": f"{statistics.fmean(episode.length for episode in shown.episodes):.0f}",
        "ended": ", ".join(ended),
    }
