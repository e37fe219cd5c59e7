"""Boards as evidence for claims: which tables and rows count."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard import overview
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.findings.claims import Finding, Superiority
from gmc_bench.leaderboard.findings.evidence import Evidence, read_evidence
from gmc_bench.leaderboard.findings.page import findings_page
from gmc_bench.leaderboard.findings.pools import BoardPool, StudyPool, read_metric
from gmc_bench.leaderboard.keeping import study_file
from gmc_bench.leaderboard.tables import file_names
from gmc_bench.records.kept import BodySetId, KeptStudy
from gmc_bench.records.store import seal
from gmc_bench.suites import SUITES
from tests.support.findings import FULL, POOL, TEXTS, make_board, make_study, with_changes
from tests.support.records import (
    UNTRAINED,
    digest_of,
    make_friction,
    make_record,
    make_returns,
    make_stored,
)


def test_seeds_added_where_a_table_was_close_decide_no_claim() -> None:
    found = POOL.samples(make_board(swat=(1.0, 2.0, 3.0, 100.0)), "test_score")["swat"]
    assert (found.seeds, found.values) == ((1, 2, 3), (1.0, 2.0, 3.0))
    assert len(found.sources) == 3


def test_runs_without_the_first_seed_decide_no_claim() -> None:
    (table,) = make_board(swat=(1.0, 2.0, 3.0), bot=(1.0, 2.0, 3.0)).analyses
    runs = [run for row in table.table.all_rows for run in row.runs]
    tables, _ = aggregate([r for r in runs if (r.record.method, r.record.seed) != ("swat", 1)])
    assert set(POOL.samples(Evidence(tuple(map(analyse, tables)), {}, {}), "test_score")) == {"bot"}


def test_metrics_are_of_mean_actions_on_bodies_that_were_not_trained_on() -> None:
    looped = [
        item.model_copy(update={"loops": 1})
        for item in make_returns("test", {"c": [40.0, 42.0], "d": [60.0]})
    ]
    record = make_record(
        training_return=7.0,
        morphologies={**make_record().morphologies.model_dump(), "num_test": 4},
        returns=[
            *make_returns("train", {"a": [10.0], "b": [12.0]}),
            *make_returns("train", {"a": [0.0], "b": [0.0]}, "stochastic"),
            *looped,
            *make_returns("test", {"e": [5.0]}),
            *make_returns("test", {"b": [900.0]}, seen=["b"]),
            *make_returns("test", {"c": [0.0], "d": [0.0], "e": [0.0]}, "stochastic"),
        ],
    )
    expected = {
        "training_return": 7.0, "train_score": 11.0, "test_score": (41.0 + 60.0 + 5.0) / 3,
        "looped_score": (41.0 + 60.0) / 2,
    }  # fmt: skip
    assert {name: read_metric(record, name) for name in expected} == pytest.approx(expected)


def test_of_two_engine_versions_the_table_with_most_rows_counts() -> None:
    same = (1.0, 2.0, 3.0)
    old, new = make_board(swat=same), make_board(swat=same, bot=same)
    (table,) = old.analyses
    for engine in ("1.0.0", "3.10.0"):
        key = replace(table.table.key, mujoco=engine)
        older = replace(table, table=replace(table.table, key=key))
        for analyses in ((older, *new.analyses), (*new.analyses, older)):
            assert Evidence(analyses, {}, {}).board(POOL.suite, POOL.task) is new.analyses[0]


def test_links_lead_to_the_table_that_the_runs_belong_to(tmp_path: Path) -> None:
    more = make_board(swat=(1.0, 2.0, 3.0), recmorph=(4.0, 5.0, 6.0))
    (table,) = make_board(swat=(1.0, 2.0, 3.0)).analyses
    key = replace(table.table.key, mujoco="3.10.0")
    other = replace(table, table=replace(table.table, key=key))
    for analyses in ((other, *more.analyses), (*more.analyses, other)):
        page = findings_page(analyses, tmp_path, tmp_path / "docs" / "findings.md").decode()
        (name,) = set(re.findall(r"\]\(\.\./tables/([^)]+)\.md\)", page))
        named = dict(zip(file_names(analyses), analyses, strict=True))
        assert named[name] is more.analyses[0]


@pytest.mark.parametrize("scores", [(10.0, 20.0), (20.0, 10.0)])
@pytest.mark.parametrize("current", [1, 2, 3])
def test_which_reference_of_a_method_counts_does_not_depend_on_its_score(
    scores: tuple[float, float], current: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the installed version, or else the newest."""
    monkeypatch.setattr(overview, "is_current", lambda row: row.key.method_version == current)
    references = [
        make_stored(
            make_record(
                method="mlp", controller="single_robot", seed=1, protocol_seeds=(1,),
                method_version=version, returns=make_returns("train", {"a": [score], "b": [score]}),
                morphologies={**make_record().morphologies.model_dump(), "id": "unimals_100"},
            ),
            f"{version}.json",
        )
        for version, score in enumerate(scores, 1)
    ]  # fmt: skip
    tables, _ = aggregate(references)
    (sample,) = POOL.samples(Evidence(tuple(map(analyse, tables)), {}, {}), "train_score").values()
    assert sample.sources == ("1.json" if current == 1 else "2.json",)


def test_frictions_by_another_rule_decide_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = SUITES.get("quadruped-friction-v3")
    pool = BoardPool(suite.id, suite.tasks[0])
    protocol = suite.protocol(None, suite.tasks[0])
    rule = suite.measurements[protocol.name]
    by_rule = {"seconds": rule.seconds, "num_envs": rule.num_envs}
    bodies = {**make_record().morphologies.model_dump(), "id": suite.default_morphologies[0]}

    def found(measured: dict[str, Any], changed: tuple[int, ...] = protocol.seeds) -> Finding:
        stored = [
            make_stored(
                make_record(
                    suite=suite.id, task=suite.tasks[0], seed=seed, protocol_seeds=protocol.seeds,
                    protocol_digest=config_digest(protocol), morphologies=bodies, method=method,
                    friction=[
                        {**item, **by_rule, **(change if seed in changed else {})}
                        for item in make_friction(1)
                    ],
                    config={"protocol": {"evaluation": {"splits": ["train"]}}},
                ),
                f"{method}{seed}.json",
            )
            for method, change in (("recmorph", {}), ("bot", measured))
            for seed in protocol.seeds
        ]  # fmt: skip
        tables, _ = aggregate(stored)
        texts = {**TEXTS, "pool": pool, "metric": "low/Progress (m)"}
        board = Evidence(tuple(map(analyse, tables)), {}, {})
        return Superiority(**texts, first="recmorph", second="bot").find(board, {})

    assert found({}).here.startswith("recmorph 2.000 (3 seeds) against bot 2.000 (3 seeds)")
    other = found({"seconds": 2 * rule.seconds})
    assert other.verdict == "cannot be decided with these runs"
    assert other.here.endswith("some have no such number (bot: seed 1, 2, 3)")
    one = found({"seconds": 2 * rule.seconds}, (2,))
    assert one.here.endswith("some have no such number (bot: seed 2)")
    assert other.missing == ()


def test_who_is_idle_is_judged_by_the_row_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by that of another version, which decides nothing."""
    monkeypatch.setattr(overview, "is_current", lambda row: row.key.method_version == 2)
    low, high = (4.0, 4.1, 4.2), (90.0, 91.0, 92.0)
    boards = [
        make_board(version=1, swat=low, bot=high, **{"zero-action": (5.0, 5.1, 5.2)}),
        make_board(version=2, swat=high, bot=low),
    ]
    runs = [
        run
        for board in boards
        for row in board.analyses[0].table.all_rows
        for run in row.runs
    ]  # fmt: skip
    tables, _ = aggregate(runs)
    both = Evidence(tuple(map(analyse, tables)), {}, {})
    assert POOL.idle(both) == {"bot"}


def test_who_does_no_better_than_nothing_is_named() -> None:
    idle, high, low = (5.0, 5.1, 5.2), (90.0, 91.0, 92.0), (4.0, 4.1, 4.2)
    board = make_board(swat=high, bot=low, **{"zero-action": idle})
    claim = Superiority(**TEXTS, first="swat", second="bot")
    found = claim.find(board, {})
    assert found.here.endswith("; by mean return, bot does no better than no action at all")
    assert found.idle == ("bot",)
    without_floor = claim.find(make_board(swat=high, bot=low), {})
    assert "no action" not in without_floor.here
    assert without_floor.idle == ()
    both = make_board(swat=idle, bot=low, **{"zero-action": idle})
    assert claim.find(both, {}).here.endswith(
        "; by mean return, bot, swat do no better than no action at all"
    )


def test_nothing_is_what_no_action_reaches_on_the_same_bodies() -> None:
    """A policy for each body has no other bodies; initial weights are not nothing."""
    board = make_board(swat=(90.0, 91.0, 92.0), **{"zero-action": (5.0, 5.1, 5.2)})
    (table,) = board.analyses
    sets = {"morphologies": table.table.rows[0].runs[0].record.morphologies}
    returns = {
        name: make_returns("train", {"a": [score], "b": [score]}) for name, score in
        {"mlp": 4.0, "gcnt": 200.0}.items()
    }  # fmt: skip
    further = [
        make_record(method="mlp", controller="single_robot", protocol_seeds=(1,), seed=1,
                    returns=returns["mlp"], **sets),
        make_record(**UNTRAINED, method="gcnt", protocol_seeds=(1,), seed=1,
                    returns=returns["gcnt"] + make_returns("test", {"c": [200.0]}), **sets),
    ]  # fmt: skip
    stored = [make_stored(item, f"{item.method}.json") for item in further]
    tables, _ = aggregate([*(run for row in table.table.all_rows for run in row.runs), *stored])
    assert POOL.idle(Evidence(tuple(map(analyse, tables)), {}, {})) == {"mlp"}


def test_tables_of_earlier_rules_are_no_evidence(tmp_path: Path) -> None:
    (today,) = make_board(swat=(1.0,)).analyses
    key = replace(today.table.key, protocol_digest=digest_of("earlier"))
    earlier = replace(today, table=replace(today.table, key=key))
    assert read_evidence((earlier, today), tmp_path).analyses == (today,)


def test_what_does_not_decide_is_told_beside_what_does() -> None:
    board = make_board(
        swat=(90.0, 91.0, 92.0), bot=(4.0, 4.1, 4.2), smr=(95.0, 95.0, 95.0),
        **{"zero-action": (5.0, 5.1, 5.2)},
    )  # fmt: skip
    plain = Superiority(**TEXTS, first="swat", second="bot").find(board, {})
    found = Superiority(
        **TEXTS, first="swat", second="bot", also=("smr", "gcnt"), shows_floor=True, unit="m",
        also_metric=("train_score", "on the train bodies"),
    ).find(board, {})  # fmt: skip
    assert (found.verdict, found.missing) == (plain.verdict, plain.missing)
    assert found.here.endswith(
        "; not in the paper's comparison: smr 95.0 m; on the train bodies: swat 91.0 m, "
        "bot 4.100 m; no action at all: 5.100 m"
    )
    assert found.samples == plain.samples
    assert [sample.label for sample in plain.samples] == ["swat", "bot"]
    nothing = Superiority(**TEXTS, first="swat", second="gcnt", shows_floor=True).find(board, {})
    assert (nothing.verdict, nothing.here) == ("not run yet", "")
    assert nothing.links == plain.links != ()
    assert Superiority(**TEXTS, first="bigru", second="gcnt").find(board, {}).links == ()


def test_what_somebody_could_have_chosen_is_no_evidence(tmp_path: Path) -> None:
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))
    late = Evidence((), {"a": make_study(seeds=(2, 3))}, {})
    assert pool.samples(late, "training_return") == {}
    long = Evidence(
        (), {"a": make_study(seeds=tuple(range(1, 9)))}, {}
    )  # the protocol asks for five
    assert pool.samples(long, "training_return")["dfs"].seeds == (1, 2, 3, 4, 5)
    other = Evidence((), {"a": make_study(protocol="smoke")}, {})
    assert pool.samples(other, "training_return") == {}
    short = Evidence((), {"a": make_study(steps=FULL - 4096)}, {})
    assert pool.samples(short, "training_return") == {}
    for name in "ab":
        (tmp_path / "studies").mkdir(exist_ok=True)
        (tmp_path / "studies" / f"{name}.json").write_bytes(seal(make_study()))
    with pytest.raises(RecordError, match=r"both hold dfs of recmorph, seed 1; keep the study"):
        read_evidence((), tmp_path)
    (tmp_path / "study.json").write_bytes(seal(make_study(status="incomplete")))
    with pytest.raises(RecordError, match="is not complete"):
        study_file(tmp_path, tmp_path)
    (tmp_path / "study.json").write_bytes(seal(make_study(versions={"mujoco": "3.1, 3.2"})))
    with pytest.raises(RecordError, match=r"several versions of MuJoCo \(3.1, 3.2\), so that"):
        study_file(tmp_path, tmp_path)
    rules = ("method_version", "preset", "protocol_digest", "changes")
    unclean = {"git_dirty": "was not made from a clean clone"} | dict.fromkeys(rules, "by which")
    for name, problem in unclean.items():  # none is known
        (tmp_path / "study.json").write_bytes(seal(with_changes(make_study(), **{name: None})))
        with pytest.raises(RecordError, match=f"run dfs, seed 1, in .* {problem}"):
            study_file(tmp_path, tmp_path)


def test_a_study_that_no_finding_counts_is_added_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def added(study: KeptStudy) -> list[str]:
        caplog.clear()
        (tmp_path / "study.json").write_bytes(seal(study))
        assert list(study_file(tmp_path, tmp_path).values()) == [study]
        return [message.partition(" for no finding: ")[2] for message in caplog.messages]

    assert added(make_study()) == []
    fewer = "the protocol's env_steps was changed"
    assert added(with_changes(make_study(), changes=(fewer,))) == [fewer]
    other = BodySetId(id="gmc-unimal-mini", digest=digest_of("mini"))
    bodies = with_changes(make_study(protocol="smoke"), morphologies=other)
    assert added(bodies) == [
        "its protocol is smoke, expected lite; its bodies are gmc-unimal-mini, expected unimals_100"
    ]
    assert added(make_study(suite="other-v1")) == ["the suite other-v1 is not installed"]
