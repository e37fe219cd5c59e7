"""Pending runs of boards and studies, in order of priority, with their cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import Finding, Pooled
from gmc_bench.leaderboard.findings.cost import Costs, distinct
from gmc_bench.leaderboard.findings.evidence import Evidence, is_set
from gmc_bench.leaderboard.findings.pools import (
    HORIZON,
    SEEDS,
    BoardPool,
    PlannedRun,
    follows_todays_rules,
)
from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.today import is_current
from gmc_bench.records.kept import KeptStudy, StudyNumbers
from gmc_bench.records.parts import Morphologies
from gmc_bench.suites import SUITES

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
TRAIN_BODIES = "gmc-unimal-1k-v1.first"
"""What the names of their sets begin with."""
MODES = ("deterministic",)
"""Modes that the study `bodies` scores its policies in."""
SPECIALIST = "mlp"
"""One policy per body, the ceiling of a board."""
BUDGET_SEEDS = (1, 2)
"""Of the study `budget`."""


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
    left: tuple[PlannedRun, ...]
    """The missing runs."""


def pending_runs(
    evidence: Evidence, findings: dict[str, Finding], costs: Costs
) -> list[PendingRuns]:
    """Return boards, what claims need beside them, boards of further methods, and references."""
    pools = [(name, BoardPool(suite, task)) for name, suite, task in BOARDS]
    first = [_board(evidence, costs, name, pool, FIRST_METHODS) for name, pool in pools]
    later = [
        _board(evidence, costs, f"{name}, further methods", pool, LATER_METHODS)
        for name, pool in pools
    ]
    ends = [
        end(evidence, costs, f"{name}, {what}", pool)
        for what, end in (("specialist", _ceiling), ("initial weights", _floor))
        for name, pool in pools
    ]
    found = [*first, *_claim_runs(findings, costs), *_other_runs(evidence, costs), *later, *ends]
    return [item for item in found if item.done < item.wanted]


def _board(
    evidence: Evidence, costs: Costs, name: str, pool: BoardPool, methods: Sequence[str]
) -> PendingRuns:
    table = evidence.board(pool.suite, pool.task)
    seeds = _seeds_of(table.table.rows if table else ())
    wanted = pool.runs(methods)
    missing = [run for place, run in wanted.items() if place not in seeds]
    absent = list(dict.fromkeys(run.method for run in missing))
    return _pending(name, wanted, missing, costs, pool.command(absent))


def _pending(
    what: str, wanted: Sized, left: Sequence[PlannedRun], costs: Costs | None, command: str
) -> PendingRuns:
    """Return what is left of the runs that are wanted; without costs, these are unknown."""
    hours = costs.hours(left) if costs else None
    return PendingRuns(what, len(wanted) - len(left), len(wanted), hours, command, tuple(left))


def _ceiling(evidence: Evidence, costs: Costs, name: str, pool: BoardPool) -> PendingRuns:
    """Return the specialist, whose budget and seeds are its own."""
    suite, bodies = SUITES.get(pool.suite), _bodies(evidence, pool)
    shared = suite.protocol(None, pool.task)
    rules = suite.specialists.get(suite.default_protocol)
    own = rules.on(shared, bodies.num_train) if rules and bodies else shared
    wanted = [
        PlannedRun(suite=pool.suite, task=pool.task, method=SPECIALIST, seed=seed,
                   steps=own.env_steps / shared.env_steps)
        for seed in own.seeds
    ]  # fmt: skip
    table = evidence.board(pool.suite, pool.task)
    there = _seeds_of(table.table.references if table else ())
    left = [run for run in wanted if (run.method, run.seed) not in there]
    command = pool.command([SPECIALIST], own.seeds)
    return _pending(name, wanted, left, costs if bodies else None, command)


def _floor(evidence: Evidence, costs: Costs, name: str, pool: BoardPool) -> PendingRuns:
    """Return the scores of initial weights and of no action at all."""
    rules = SUITES.get(pool.suite).protocol(None, pool.task).evaluation
    bodies = _bodies(evidence, pool)
    number = bodies.num_train + bodies.num_test if bodies else 0
    steps = number * rules.episodes * len(rules.modes) * HORIZON
    steps += _measured_steps(pool, bodies.num_train if bodies else 0)
    methods = (NO_ACTION, *FIRST_METHODS)
    wanted = {
        place: replace(run, evaluated=steps, study="untrained")
        for place, run in pool.runs(methods).items()
    }
    table = evidence.board(pool.suite, pool.task)
    there = _seeds_of(table.table.untrained if table else ())
    left = [run for place, run in wanted.items() if place not in there]
    absent = list(dict.fromkeys(run.method for run in left))
    command = f"{pool.command(absent)} --untrained"
    return _pending(name, wanted, left, costs if bodies else None, command)


def _measured_steps(pool: BoardPool, robots: int) -> int:
    """Return the control steps on frictions, where the suite measures these beside episodes."""
    suite = SUITES.get(pool.suite)
    measured = suite.measurements.get(suite.default_protocol)
    if measured is None:
        return 0
    from gmc_bench.tasks import TASKS  # loads what tasks are made of

    return measured.control_steps(TASKS.get(pool.task), robots)


def _seeds_of(rows: Iterable[Row]) -> set[tuple[str, int]]:
    return {(row.key.method, seed) for row in rows if is_current(row) for seed in row.seeds}


def _bodies(evidence: Evidence, pool: BoardPool) -> Morphologies | None:
    """Return the set of a board, as records of its suite describe it."""
    wanted = SUITES.get(pool.suite).default_morphologies[0]
    sets = (item.morphologies for item in evidence.records())
    return next((item for item in sets if item.id == wanted), None)


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
        yield _pending(name, runs, left, costs, command)


def _other_runs(evidence: Evidence, costs: Costs) -> Iterator[PendingRuns]:
    """Yield what no claim of the paper needs: more train bodies, and longer trainings."""
    suite, task = "unimal-v1", "unimal-ft-v1"
    four = (*FIRST_METHODS[:3], "nervenet")
    seeds = SUITES.get(suite).protocol("standard", task).seeds
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
        if (item.table.key.suite, item.table.key.task, item.table.key.protocol)
        == (suite, task, "standard")
        and item.table.key.morphologies == SUITES.get(suite).default_morphologies[0]
        for row in item.table.rows
        if is_current(row)
        for run in row.runs
    }
    left = [run for run in long if (run.method, run.seed) not in there]
    command = BoardPool(suite, task).command(four, seeds) + " --protocol standard"
    yield _pending("Flat terrain, standard", long, left, costs, command)
    yield _of_ten_budgets(evidence, costs, four)


def _of_ten_budgets(evidence: Evidence, costs: Costs, methods: Sequence[str]) -> PendingRuns:
    """Return the part of the study `budget` that trains ten times as long."""
    runs = {
        (f"{method}-x10", seed): PlannedRun(
            suite="unimal-v1", task="unimal-ft-v1", method=method, seed=seed,
            study="budget x10", steps=10.0,
        )
        for method in methods
        for seed in BUDGET_SEEDS
    }  # fmt: skip
    there = _finished(evidence, "budget", runs)
    left = [run for place, run in runs.items() if place not in there]
    command = (
        f"gmc-bench study budget --method {' '.join(methods)} --seeds "
        f"{' '.join(map(str, BUDGET_SEEDS))} --threads 1 --budgets 1 10 --reuse leaderboards"
    )
    return _pending("study budget, ten times", runs, left, costs, command)


def _finished(
    evidence: Evidence, study: str, wanted: Mapping[tuple[str, int], PlannedRun]
) -> set[tuple[str, int]]:
    """Return variant and seed of the wanted runs of a study that are there, by today's rules."""
    return {
        place
        for item in evidence.studies.values()
        if item.study == study
        for run in item.runs
        for place in ((run.arm, run.seed),)
        if place in wanted and _is_as_planned(evidence, item, run, wanted[place])
    }


def _is_as_planned(
    evidence: Evidence, study: KeptStudy, run: StudyNumbers, planned: PlannedRun
) -> bool:
    """Say whether a run is finished, and would be the same if it were made now."""
    suite, task = SUITES.get(planned.suite), planned.task
    found = (study.suite, study.protocol, run.task, run.method)
    if found != (suite.id, suite.default_protocol, task, planned.method):
        return False
    if run.record_digest is None or run.git_dirty is not False:
        return False
    steps = round(planned.steps * suite.protocol(None, task).env_steps)
    changes: dict[str, Any] = {"env_steps": steps}
    if study.study == "bodies":
        changes["evaluation"] = {"modes": MODES}
        bodies = run.morphologies is not None and run.morphologies.id.startswith(TRAIN_BODIES)
    else:
        bodies = is_set(evidence, run.morphologies, suite.default_morphologies[0])
    engine = evidence.has_engine_of(suite.id, task, study.versions)
    return bodies and engine and follows_todays_rules(evidence, study, run, changes)


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
    there = _finished(evidence, "bodies", runs)
    left = [run for place, run in runs.items() if place not in there]
    named = f" --method {' '.join(methods)}" if option else ""
    command = (
        f"gmc-bench study bodies{named}{option} --seeds {' '.join(map(str, seeds))} --threads 1"
    )
    return _pending(f"study bodies{option}", runs, left, costs, command)
