"""What the page of one record shows."""

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gmc_bench.leaderboard.escape import one_line
from gmc_bench.leaderboard.site import numbers
from gmc_bench.leaderboard.site.charts import curve_chart
from gmc_bench.leaderboard.tables import NONE
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.records.store import StoredRecord

LISTED_ELSEWHERE = {"returns", "learning_curve", "config", "unofficial_reasons"}
MAX_LISTED_EPISODES = 3  # more are given as a range


def record_view(
    stored: StoredRecord,
    *,
    verified: bool,
    refusal: str | None,
    board: str | None,
    method_page: str,
    set_page: str | None,
) -> dict[str, Any]:
    """Return what the page of a record shows.

    Args:
        stored: the record.
        verified: its row is marked as verified.
        refusal: why no table uses it although it is valid, e.g. it is a duplicate; or `None`.
        board: page of its table; `None` when it is in none.
        method_page: page of its method.
        set_page: page of its bodies, if there is one.
    """
    record = stored.record
    points = [p for p in record.learning_curve if p.mean_return is not None]
    return {
        "record": record,
        "path": stored.path,
        "digest": stored.digest,
        "verified": verified,
        "refusal": refusal,
        "board": board,
        "method_page": method_page,
        "set_page": set_page,
        "run_command": run_command(record),
        "verify_command": _verify_command(stored.path),
        "fields": _fields(record),
        # Escapes every character beyond ASCII, so that no invisible one can hide in settings.
        "config": json.dumps(record.config, indent=2, sort_keys=True, ensure_ascii=True),
        "curve": curve_chart(
            [float(p.env_steps) for p in points],
            [float("nan") if p.mean_return is None else p.mean_return for p in points],
        ),
        **_bodies(record),
    }


def run_command(record: RunRecord) -> str:
    """Return the command that repeats an official run."""
    return shlex.join(
        [
            *("gmc-bench", "run", "--method", record.method, "--suite", record.suite),
            *("--task", record.task, "--protocol", record.protocol),
            *("--morphologies", record.morphologies.id, "--seed", str(record.seed)),
        ]
    )


def _verify_command(path: str) -> str:
    # A path with invisible characters is not offered for pasting into a shell.
    plain = path if path == one_line(path) else "record.json"
    return shlex.join(["gmc-bench", "leaderboard", "verify", f"./{plain}"])


def _fields(record: RunRecord) -> list[tuple[str, str]]:
    content = record.model_dump(mode="json", exclude=LISTED_ELSEWHERE)
    return [(name, value) for name, value in _flat(content, "")]


def _flat(content: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield f"{prefix}{name}", ", ".join(map(str, value)) or "none"
        elif value is None:
            yield f"{prefix}{name}", "not given"
        elif isinstance(value, bool):
            yield f"{prefix}{name}", "yes" if value else "no"
        else:
            yield f"{prefix}{name}", str(value)


def _bodies(record: RunRecord) -> dict[str, Any]:
    found: dict[tuple[str, str], dict[str, BodyReturns]] = {}
    for item in record.returns:
        found.setdefault((item.split, item.body), {})[item.mode] = item
    digits = numbers.digits_for(item.mean_return for item in record.returns)
    # Two modes need two columns; most records have one.
    modes = tuple(
        mode
        for mode in ("deterministic", "stochastic")
        if any(mode in entry for entry in found.values())
    )
    rows = []
    for (split, body), entry in found.items():
        shown = entry[modes[0]] if modes[0] in entry else next(iter(entry.values()))
        rows.append(
            {
                "body": body,
                "split": split,
                "seen": split == "test" and shown.seen_in_train,
                "means": [
                    (numbers.number(entry[m].mean_return, digits), repr(entry[m].mean_return))
                    if m in entry
                    else (NONE, "")
                    for m in modes
                ],
                "returns": _returns([e.episode_return for e in shown.episodes], digits),
                "length": f"{_mean([e.length for e in shown.episodes]):.0f}",
                "ended": _ended(shown),
            }
        )
    return {"modes": modes, "bodies": rows}


def _returns(values: Sequence[float], digits: int) -> str:
    if len(values) <= MAX_LISTED_EPISODES:
        return "; ".join(numbers.number(value, digits) for value in values)
    low, high = numbers.number(min(values), digits), numbers.number(max(values), digits)
    return f"{low} to {high} in {len(values)} episodes"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _ended(item: BodyReturns) -> str:
    ways = Counter(episode.ended for episode in item.episodes)
    if len(ways) == 1:
        return next(iter(ways))
    return ", ".join(f"{name} {times}" for name, times in sorted(ways.items()))
