"""Pending runs of boards and studies, in order of priority, with their cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import Finding, Pooled
from gmc_bench.leaderboard.findings.cost import Costs, distinct
from gmc_bench.leaderboard.findings.evidence import SEEDS, BoardPool, Evidence, PlannedRun
from gmc_bench.leaderboard.today import is_current

FIRST_METHODS = ("recmorph", "metamorph-star", "modumorph", "swat", "nervenet", "gcnt")
"""Of every board."""
LATER_METHODS = (
    *("metamorph", "bot", "mi-hgnn", "smr"),
    *("recmorph-bigru", "recmorph-bilstm", "recmorph-bimamba2"),
)
BOARDS = (
    ("Flat terrain", "unimal-v1", "unimal-ft-v1"),
    ("Larger bodies", "larger-bodies-v1", "unimal-ft-v1"),
    ("Closed loops", "closed-loop-v1", "unimal-ft-v1"),
    ("Quadrupeds", "quadruped-friction-v3", "quadruped-velocity-v3"),
    ("Variable terrain", "unimal-v1", "unimal-vt-v1"),
    ("Incline", "unimal-v1", "unimal-incline-v1"),
    ("Obstacles", "unimal-v1", "unimal-obstacles-v1"),
    ("Exploration", "unimal-v1", "unimal-exploration-v1"),
)
"""In order of priority."""
BODY_COUNTS = (10, 30, 100, 300, 1000)
"""Train bodies of the study `bodies`."""
_SPECIALIST = {"Quadrupeds": ("mlp",)}
"""Specialists that claims are about."""


@dataclass(frozen=True)
class PendingRuns:
    """A board or study that lacks runs."""

    what: str
    """Its name."""
    done: int
    """Runs that are there."""
    wanted: int
    hours: float | None
    """Core hours of the missing runs; `None` where nothing was measured yet."""
    command: str


def pending_runs(
    evidence: Evidence, findings: dict[str, Finding], costs: Costs
) -> list[PendingRuns]:
    """Return boards, what claims need beside them, and then boards of further methods."""
    first = [
        _board(evidence, costs, name, BoardPool(suite, task), (*FIRST_METHODS, *more))
        for name, suite, task in BOARDS
        for more in (_SPECIALIST.get(name, ()),)
    ]
    later = [
        _board(evidence, costs, f"{name}, further methods", BoardPool(suite, task), LATER_METHODS)
        for name, suite, task in BOARDS
    ]
    found = [*first, *_claim_runs(findings, costs), *_other_runs(evidence, costs), *later]
    return [item for item in found if item.done < item.wanted]


def _board(
    evidence: Evidence, costs: Costs, name: str, pool: BoardPool, methods: Sequence[str]
) -> PendingRuns:
    table = evidence.board(pool.suite, pool.task)
    rows = (*table.table.rows, *table.table.references) if table else ()
    seeds = {(row.key.method, seed) for row in rows if is_current(row) for seed in row.seeds}
    wanted = pool.runs(methods)
    missing = [run for place, run in wanted.items() if place not in seeds]
    absent = list(dict.fromkeys(run.method for run in missing))
    done = len(wanted) - len(missing)
    return PendingRuns(name, done, len(wanted), costs.hours(missing), pool.command(absent))


def _claim_runs(findings: dict[str, Finding], costs: Costs) -> Iterator[PendingRuns]:
    """Yield the evaluations and studies that claims need, by command."""
    asked: dict[str, tuple[list[PlannedRun], list[PlannedRun]]] = {}
    for claim in CLAIMS:
        if isinstance(claim, Pooled) and not isinstance(claim.pool, BoardPool):
            wanted, missing = asked.setdefault(claim.command(), ([], []))
            wanted += claim.pool.runs(claim.labels()).values()
            missing += findings[claim.id].missing
    for command, (wanted, missing) in asked.items():
        runs, left = distinct(wanted), distinct(missing)
        name = command.removeprefix("gmc-bench ").split(" --seeds")[0].split(" --json")[0]
        yield PendingRuns(name, len(runs) - len(left), len(runs), costs.hours(left), command)


def _other_runs(evidence: Evidence, costs: Costs) -> Iterator[PendingRuns]:
    """Yield what no claim of the paper needs: more train bodies, and longer trainings."""
    suite, task = "unimal-v1", "unimal-ft-v1"
    four = (*FIRST_METHODS[:3], "nervenet")
    seeds = range(1, SEEDS + 1)
    yield _of_bodies(evidence, costs, four, "")
    yield _of_bodies(evidence, costs, four[:2], " --steps per-body")
    long = [
        PlannedRun(suite=suite, task=task, method=method, seed=seed, study="standard", steps=10.0)
        for method in four
        for seed in seeds
    ]
    there = {
        (run.record.method, run.record.seed)
        for item in evidence.analyses
        if (item.table.key.task, item.table.key.protocol) == (task, "standard")
        for row in item.table.rows
        for run in row.runs
    }
    left = [run for run in long if (run.method, run.seed) not in there]
    command = BoardPool(suite, task).command(four) + " --protocol standard"
    yield PendingRuns(
        "Flat terrain, standard", len(long) - len(left), len(long), costs.hours(left), command
    )


def _of_bodies(
    evidence: Evidence, costs: Costs, methods: Sequence[str], option: str
) -> PendingRuns:
    """Return the study of numbers of train bodies, at equal steps or at equal steps per body."""
    seeds = range(1, SEEDS + 1)
    suffix = "-per-body" if option else ""
    runs = {
        (f"{method}-{count}{suffix}", seed): PlannedRun(
            suite="unimal-v1", task="unimal-ft-v1", method=method, seed=seed,
            study=f"bodies {count}{suffix}", steps=count / 100 if option else 1.0,
        )
        for method in methods
        for count in BODY_COUNTS
        for seed in seeds
    }  # fmt: skip
    there = {
        (run.arm, run.seed)
        for study in evidence.studies.values()
        if study.study == "bodies"
        for run in study.runs
        if run.record_digest is not None
    }
    left = [run for place, run in runs.items() if place not in there]
    named = f" --method {' '.join(methods)}" if option else ""
    command = (
        f"gmc-bench study bodies{named}{option} --seeds {' '.join(map(str, seeds))} --threads 1"
    )
    return PendingRuns(
        f"study bodies{option}", len(runs) - len(left), len(runs), costs.hours(left), command
    )
