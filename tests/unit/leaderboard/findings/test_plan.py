"""What is left to run, and what it costs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gmc_bench.core.config import config_digest, nest, with_overrides
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.findings import plan
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import Pooled
from gmc_bench.leaderboard.findings.cost import Costs, made_once
from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.page import find_all, findings_page
from gmc_bench.leaderboard.findings.plan import BOARDS, PendingRuns, pending_runs
from gmc_bench.leaderboard.findings.pools import BoardPool, PlannedRun, StudyPool, VariantPool
from gmc_bench.records.kept import BodySetId, KeptStudy
from gmc_bench.records.schema import RunRecord
from gmc_bench.studies.request import Request
from gmc_bench.suites import SUITES
from tests.support.findings import POOL, make_board, make_study, with_changes
from tests.support.records import AFTER_TUNING, digest_of, make_record, make_returns, make_stored


def test_runs_cost_what_the_nearest_ones_took() -> None:
    """Core seconds per step, of runs with 2000 steps on two threads."""

    def run(method: str, task: str, seconds: float, acting: float, **changes: object) -> RunRecord:
        parts = {"simulation": acting / 2, "policy": acting / 2, "update": seconds - acting}
        bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
        return make_record(
            method=method, task=task, morphologies=bodies, env_steps_per_s=2000.0 / seconds,
            wall_clock_s={**parts, "other": 0.0, "total": seconds}, **changes,
        )  # fmt: skip

    flat, incline, rough = ("unimal-ft-v1", "unimal-incline-v1", "unimal-vt-v1")
    train = make_returns("train", {"a": [1.0], "b": [1.0]})
    alone = {"controller": "single_robot", "returns": train}
    records = [
        run("recmorph", flat, 10.0, 4.0),
        run("recmorph", incline, 30.0, 8.0),
        run("swat", flat, 14.0, 6.0),
        run("mlp", flat, 500.0, 400.0, **alone),
    ]
    tables, _ = aggregate(make_stored(item, f"{k}.json") for k, item in enumerate(records))
    costs = Costs(Evidence(tuple(map(analyse, tables)), {}, {}))

    def seconds(method: str, task: str, **changes: Any) -> float:
        planned = PlannedRun(suite="unimal-v1", task=task, method=method, seed=1, **changes)
        hours = costs.hours([planned])
        assert hours is not None
        per_step = hours * 3600.0 / (planned.evaluated or planned.steps * steps[task])
        return 2000.0 * per_step / 2.0

    steps = {t: SUITES.get("unimal-v1").protocol(None, t).env_steps for t in (flat, incline, rough)}
    assert seconds("recmorph", flat) == pytest.approx(10.0)
    assert seconds("recmorph", flat, steps=10.0) == pytest.approx(10.0)
    assert seconds("recmorph", incline) == pytest.approx(30.0)
    assert seconds("recmorph", rough) == pytest.approx(20.0)  # of the method elsewhere
    assert seconds("gcnt", flat) == pytest.approx(12.0)  # of all methods on the board
    assert seconds("gcnt", rough) == pytest.approx(14.0)  # of all that share a policy
    assert seconds("mlp", rough) == pytest.approx(500.0)
    # Who is only scored learns nothing.
    assert seconds("recmorph", incline, evaluated=777) == pytest.approx(8.0)
    assert seconds("gcnt", flat, evaluated=777) == pytest.approx(5.0)


def test_runs_with_the_values_before_tuning_count_for_costs() -> None:
    stored = [make_stored(make_record(**tuned), f"{k}.json")
              for k, tuned in enumerate(({}, AFTER_TUNING))]  # fmt: skip
    tables, _ = aggregate(stored)
    evidence = Evidence(tuple(map(analyse, tables)), {}, {})
    assert {item.digest for item in evidence.stored()} == {item.digest for item in stored}


def test_boards_ask_for_the_seeds_of_their_protocol() -> None:
    assert POOL.seeds == (1, 2, 3, 4, 5)
    assert [seed for _, seed in POOL.runs(["swat"])] == [1, 2, 3, 4, 5]
    assert POOL.command(["swat"]).endswith("--tasks unimal-ft-v1 --seeds 1 2 3 4 5")
    assert BoardPool("unimal-v1", "unimal-vt-v1").seeds == (1, 2, 3)
    scores = VariantPool("dynamics-v1", 1600).runs(["swat"])
    rules = SUITES.get("unimal-v1").protocol(None, "unimal-ft-v1").evaluation
    steps = 1600 * rules.episodes * len(rules.modes) * 1000
    assert [(place, run.evaluated) for place, run in scores.items()] == [
        (("swat", seed), steps) for seed in (1, 2, 3)
    ]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> tuple[Evidence, dict[str, PendingRuns]]:
    """A board with one run of a method and three of no action, and by name what is left to run."""
    monkeypatch.setattr(plan, "is_current", lambda row: True)
    board = make_board(swat=(1.0,), **{"zero-action": (5.0, 5.1, 5.2)})
    return board, {item.what: item for item in pending_runs(board, find_all(board), Costs(board))}


LITE = PlannedRun(suite="unimal-v1", task="unimal-ft-v1", method="swat", seed=1)
"""A run by the rules of `lite`, with 2,000,000 steps."""


def _hours(board: Evidence, run: PlannedRun) -> float:
    hours = Costs(board).hours([run])
    assert hours is not None
    return hours


def test_references_are_left_to_be_run_as_methods_are(
    begun: tuple[Evidence, dict[str, PendingRuns]],
) -> None:
    board, pending = begun
    (table,) = board.analyses
    bodies = table.table.rows[0].runs[0].record.morphologies.num_train
    ceiling = pending["Flat terrain, specialist"]
    floor = pending["Flat terrain, initial weights"]
    assert (ceiling.done, ceiling.wanted) == (0, 1)  # of one seed, with steps of its own
    assert ceiling.hours == pytest.approx(
        bodies * 500_000 / 2_000_000 * _hours(board, LITE), rel=0.01
    )
    assert " --methods mlp " in ceiling.command
    assert ceiling.command.endswith(" --seeds 1")
    assert (floor.done, floor.wanted) == (3, 35)
    assert floor.command.endswith("--seeds 1 2 3 4 5 --untrained")
    assert "zero-action" in floor.command  # two of its five seeds are missing
    assert pending["Variable terrain, specialist"].hours is not None  # the same bodies
    assert pending["Larger bodies, specialist"].hours is None  # nobody has seen them
    # Initial weights are scored on all bodies of the board.
    rules = SUITES.get("unimal-v1").protocol(None, "unimal-ft-v1").evaluation
    steps = (bodies + 1) * rules.episodes * len(rules.modes) * 1000
    assert floor.hours == pytest.approx(32 * _hours(board, replace(LITE, evaluated=steps)))


def test_what_is_left_to_run_costs_as_many_steps_as_it_has(
    begun: tuple[Evidence, dict[str, PendingRuns]],
) -> None:
    board, pending = begun
    long, ten = pending["Flat terrain, standard"], pending["study budget, ten times"]
    assert [(item.done, item.wanted) for item in (long, ten)] == [(0, 20), (0, 8)]
    assert pending["Flat terrain"].wanted == 30
    one = _hours(board, LITE)
    # Ten times the steps; of 10 to 1000 bodies, as many for each as for one of 100.
    assert long.hours == pytest.approx(20 * 10 * one)
    assert ten.hours == pytest.approx(8 * 10 * one)
    assert pending["study bodies"].hours == pytest.approx(4 * 5 * 3 * one)
    assert pending["study bodies --steps per-body"].hours == pytest.approx(2 * 3 * 14.4 * one)


def test_boards_come_first_and_further_methods_after_what_claims_need(
    begun: tuple[Evidence, dict[str, PendingRuns]],
) -> None:
    _, pending = begun
    order = list(pending)
    names = [name for name, _, _ in BOARDS]
    assert order[: len(names)] == names
    further = next(place for place, what in enumerate(order) if "further methods" in what)
    assert {"study bodies", "study budget, ten times"} <= set(order[len(names) : further])
    assert not any(what.startswith("sweep") for what in pending)


def test_runs_of_other_rules_are_left_to_be_made() -> None:
    board = make_board(swat=(1.0, 2.0, 3.0))  # no rules of today
    pending = {item.what: item for item in pending_runs(board, find_all(board), Costs(board))}
    assert (pending["Flat terrain"].done, pending["Flat terrain"].wanted) == (0, 30)


@pytest.fixture
def of_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what neither boards nor claims need is planned."""
    monkeypatch.setattr(plan, "BOARDS", ())
    monkeypatch.setattr(plan, "CLAIMS", ())


@pytest.mark.usefixtures("of_no_claim")
def test_longer_runs_on_other_bodies_or_by_other_rules_are_none_of_the_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (table,) = make_board(recmorph=(1.0, 2.0, 3.0)).analyses
    for bodies, current, done in (
        ("unimals_100", True, 3), ("gmc-unimal-mini-v2", True, 0), ("unimals_100", False, 0),
    ):  # fmt: skip
        monkeypatch.setattr(plan, "is_current", lambda row, current=current: current)
        key = replace(table.table.key, protocol="standard", morphologies=bodies)
        long = Evidence((replace(table, table=replace(table.table, key=key)),), {}, {})
        pending = pending_runs(long, {}, Costs(long))
        (found,) = (item for item in pending if item.what == "Flat terrain, standard")
        assert (found.done, found.wanted) == (done, 20)


def test_runs_that_plans_share_are_made_once(tmp_path: Path) -> None:
    arms = dict.fromkeys(("dfs", "random"), "recmorph")
    study = [*StudyPool("ordering", arms, ranked=("dfs",)).runs(()).values()]
    board = [*POOL.runs(["recmorph"]).values()]
    assert made_once([*study, *study]) == study
    assert made_once([*study, *board]) == [*study[3:], *board]
    assert {run.study for run in study[3:]} == {"ordering random"}
    evidence = make_board(swat=(1.0,))
    costs = Costs(evidence)
    pending = pending_runs(evidence, find_all(evidence), costs)
    known = [item for item in pending if item.hours is not None]
    total = costs.hours(made_once([run for item in known for run in item.left]))
    text = findings_page(evidence.analyses, tmp_path, tmp_path / "page.md").decode()
    assert f" Together {total:,.1f} core hours, with runs that several lines share counted" in text
    assert total is not None
    assert total < sum(item.hours or 0.0 for item in known) - 1e-3


def test_the_runs_of_a_study_are_planned_once() -> None:
    nothing = Evidence((), {}, {})
    pending = {
        item.command: item for item in pending_runs(nothing, find_all(nothing), Costs(nothing))
    }
    wanted: dict[str, set[PlannedRun]] = {}
    claims = [c for c in CLAIMS if isinstance(c, Pooled) and not isinstance(c.pool, BoardPool)]
    for claim in claims:
        wanted.setdefault(claim.command(), set()).update(claim.pool.runs(claim.labels()).values())
    assert len(wanted) < len(claims)
    assert {command: pending[command].wanted for command in wanted} == {
        command: len(runs) for command, runs in wanted.items()
    }


def _made_now(study: str, arm: str, **options: str) -> KeptStudy:
    """Return two runs of a study's variant by the rules that it has now."""
    request = Request.make(study, **options)
    (variant,) = (item for item in request.arms if item.name == arm)
    plain = ExperimentSpec(method="recmorph", suite="unimal", protocol="lite")
    settings = request.variant(plain, variant).settings
    rules = SUITES.get("unimal-v1").protocol("lite", "unimal-ft-v1")
    digest = config_digest(with_overrides(rules, nest(settings)))
    return with_changes(make_study(study=study), arm=arm, protocol_digest=digest)


BOARD = make_board(recmorph=(1.0,))


@pytest.mark.usefixtures("of_no_claim")
@pytest.mark.parametrize(
    ("what", "made", "bodies"),
    [
        ("study budget, ten times", ("budget", "recmorph-x10"), "unimals_100"),
        ("study bodies", ("bodies", "recmorph-30"), "gmc-unimal-1k-v1.first30"),
        (
            "study bodies --steps per-body",
            ("bodies", "recmorph-30-per-body"),
            "gmc-unimal-1k-v1.first30from31",
        ),
    ],
)
def test_only_finished_runs_of_clean_checkouts_by_todays_rules_are_done(
    what: str, made: tuple[str, str], bodies: str
) -> None:
    trained_on = BodySetId(id=bodies, digest=digest_of("set"))
    options = {"steps": "per-body"} if what.endswith("per-body") else {}
    study = with_changes(_made_now(*made, **options), morphologies=trained_on)
    other = trained_on.model_copy(update={"id": "gmc-unimal-mini-v2"})
    others = [
        with_changes(study, **changes)
        for changes in (
            {"git_dirty": True}, {"record_digest": None}, {"morphologies": other},
            {"method": "metamorph-star"}, {"method_version": 99}, {"changes": ("ppo.lr",)},
            {"protocol_digest": digest_of("x")}, {"protocol_digest": None},
        )
    ]  # fmt: skip
    others.append(study.model_copy(update={"versions": {"mujoco": "1.2.2"}}))

    def done(*found: KeptStudy) -> int:
        evidence = Evidence(BOARD.analyses, dict(zip("abcdefghij", found, strict=False)), {})
        pending = pending_runs(evidence, {}, Costs(evidence))
        return next(item for item in pending if item.what == what).done

    assert (done(study), done(*others)) == (2, 0)


def test_first_weights_of_quadrupeds_are_measured_on_frictions_too() -> None:
    (table,) = make_board(bodies="quadrupeds-v1", swat=(1.0,)).analyses
    suite = SUITES.get("quadruped-friction-v3")
    key = replace(table.table.key, suite=suite.id, task=suite.tasks[0])
    board = Evidence((replace(table, table=replace(table.table, key=key)),), {}, {})
    pending = {item.what: item for item in pending_runs(board, find_all(board), Costs(board))}
    floor = pending["Quadrupeds, initial weights"]
    bodies = table.table.rows[0].runs[0].record.morphologies
    episodes = suite.protocol(None).evaluation.episodes * len(suite.protocol(None).evaluation.modes)
    # 16 of each robot for 20 s at 50 Hz: on three frictions and in five directions.
    steps = (bodies.num_train + bodies.num_test) * episodes * 1_000
    steps += bodies.num_train * 8 * 16 * 1_000
    one = PlannedRun(suite=suite.id, task=key.task, method="swat", seed=1, evaluated=steps)
    assert floor.hours == pytest.approx(7 * 3 * (Costs(board).hours([one]) or 0.0))
