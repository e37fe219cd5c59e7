"""Studies as evidence for claims: what is kept of them and which of their runs count."""

from pathlib import Path

import pytest

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.findings import evidence
from gmc_bench.leaderboard.findings.claims import Superiority
from gmc_bench.leaderboard.findings.cost import Costs
from gmc_bench.leaderboard.findings.evidence import Evidence, KeptFiles, read_evidence, require_once
from gmc_bench.leaderboard.findings.page import findings_page
from gmc_bench.leaderboard.findings.pools import PlannedRun, StudyPool
from gmc_bench.records.kept import BodySetId, KeptStudy, plain_numbers
from gmc_bench.records.store import seal
from tests.support.findings import (
    FULL,
    TEXTS,
    keep_all,
    make_board,
    make_scaling,
    make_study,
    with_changes,
)
from tests.support.records import digest_of, make_record, make_stored


def test_a_kept_study_is_evidence(tmp_path: Path) -> None:
    folder, board = tmp_path / "ordering_recmorph", tmp_path / "board"
    folder.mkdir()
    (folder / "study.json").write_bytes(seal(make_study()))
    (tmp_path / "run").mkdir()
    kept, others = keep_all([folder, tmp_path / "run"], board)
    assert (kept, others) == ([board / "studies" / "ordering_recmorph.json"], [tmp_path / "run"])
    evidence = read_evidence((), board)
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))
    found = pool.samples(evidence, "training_return")
    assert found["dfs"].values == (101.0, 102.0)
    assert found["dfs"].sources == ("studies/ordering_recmorph.json",) * 2
    claim = Superiority(
        **{**TEXTS, "pool": pool, "metric": "training_return"}, first="dfs", second="random"
    )
    (file,) = (board / "studies").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"dfs", b"bfs"))
    with pytest.raises(RecordError, match=r"ordering_recmorph\.json"):
        read_evidence((), board)
    file.write_bytes(whole)
    result = claim.find(evidence, {})
    assert result.verdict == "seen here"
    assert [run.seed for run in result.missing] == [3, 3]
    run = PlannedRun(suite="unimal-v1", task="unimal-ft-v1", method="recmorph", seed=3)
    assert Costs(evidence).hours([run, run]) == pytest.approx(2 * 1000 * 2e6 / FULL / 3600)
    assert Costs(Evidence((), {}, {})).hours([run]) is None
    assert Costs(Evidence((), {}, {})).hours([]) == 0.0


def test_a_study_is_kept_under_its_folders_name_from_inside_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, board = tmp_path / "ordering_recmorph", tmp_path / "board"
    folder.mkdir()
    (folder / "study.json").write_bytes(seal(make_study()))
    monkeypatch.chdir(folder)
    kept, _ = keep_all([Path()], board)
    assert kept == [board / "studies" / "ordering_recmorph.json"]
    monkeypatch.chdir(make_scaling(tmp_path / "costs"))
    kept, _ = keep_all([Path()], board)
    assert kept == [board / "scaling" / "costs.json"]


def test_a_study_costs_nothing_where_the_board_has_its_runs() -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    changes = {"method": "recmorph", "morphologies": bodies, "protocol_seeds": (1, 2, 3)}
    stored = [make_stored(make_record(seed=seed, **changes), f"{seed}.json") for seed in (1, 2)]
    tables, _ = aggregate(stored)
    board = Evidence(tuple(map(analyse, tables)), {}, {})
    assert board.board("unimal-v1", "unimal-ft-v1")
    arms = dict.fromkeys(("dfs", "random"), "recmorph")
    plain, ranked = (StudyPool("ordering", arms, ranked=names) for names in ((), ("dfs",)))
    whole, rest = (Costs(board).hours(pool.runs(()).values()) for pool in (plain, ranked))
    assert rest is not None
    assert whole == pytest.approx(6 * rest / 4)  # depth first, seeds 1 and 2, is there
    assert ranked.command(()).endswith("--threads 1 --reuse leaderboards")
    assert "--reuse" not in plain.command(())


def test_numbers_of_a_study_are_those_that_are_there() -> None:
    """Also of what was measured as a whole number; neither texts, truth values nor lists."""
    content = {"a": 1, "b": 2.5, "c": None, "d": float("nan"), "e": float("inf")}
    others = {"f": True, "g": "1", "h": [1.0]}
    assert plain_numbers(content | others) == {"a": 1.0, "b": 2.5, "c": None, "d": None, "e": None}


def test_runs_that_were_never_made_are_missing_beside_one_without_a_number(tmp_path: Path) -> None:
    study = make_study()
    first, *rest = study.runs
    lacking = first.model_copy(update={"numbers": {**first.numbers, "training_return": None}})
    evidence = Evidence((), {"s": study.model_copy(update={"runs": (lacking, *rest)})}, {})
    arms = dict.fromkeys(("dfs", "random", "bfs"), "recmorph")
    texts = {**TEXTS, "pool": StudyPool("ordering", arms), "metric": "training_return"}
    found = Superiority(**texts, first="dfs", second="random").find(evidence, {})
    assert found.here.startswith("the runs are there, but some have no such number (dfs: seed 1)")
    assert sorted((run.study, run.seed) for run in found.missing) == [
        *(("ordering bfs", seed) for seed in (1, 2, 3)),
        *((f"ordering {arm}", 3) for arm in ("dfs", "random")),
    ]
    others = Superiority(**texts, first="bfs", second="random").find(evidence, {})
    assert (others.verdict, others.here) == ("not run yet", "")


def test_runs_of_a_study_by_other_rules_are_no_evidence() -> None:
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))

    def arms(study: KeptStudy, board: Evidence | None = None) -> set[str]:
        evidence = Evidence(board.analyses if board else (), {"a": study}, {})
        assert bool(pool.links(evidence)) == bool(pool.samples(evidence, "training_return"))
        return set(pool.samples(evidence, "training_return"))

    assert arms(make_study()) == {"dfs", "random"}
    board = make_board(recmorph=(1.0, 2.0))
    assert arms(make_study(), board) == {"dfs", "random"}
    other = BodySetId(id="unimals_100", digest=digest_of("other"))
    assert arms(with_changes(make_study(), morphologies=other), board) == set()
    assert arms(make_study(status="incomplete")) == set()
    for changes in (
        {"protocol_digest": digest_of("x")}, {"task_digest": digest_of("x")}, {"preset": "paper"},
        {"method_version": 99}, {"changes": ("the protocol's ppo.lr was changed",)},
        {"git_dirty": True}, {"git_dirty": None},
    ):  # fmt: skip
        assert arms(with_changes(make_study(), **changes), board) == set(), changes
    for engine in ("1.2.2", "1.2.2, 1.2.3"):
        assert arms(make_study(versions={"mujoco": engine}), board) == set()
    # An older file does not say it: its ranked run, which the board has, does.
    old = with_changes(make_study(), protocol_digest=None)
    assert arms(old) == arms(old, board) == set()
    first = next(stored.digest for stored in board.stored())
    assert arms(with_changes(old, record_digest=first), board) == {"dfs", "random"}
    (newer,) = make_board(recmorph=(1.0,), version=99).stored()
    assert newer.record.method_version == 99
    of_newer = with_changes(old, record_digest=newer.digest)
    assert arms(of_newer, make_board(recmorph=(1.0,), version=99)) == set()


def test_one_study_is_not_added_twice_under_two_names(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_bytes(seal(make_study()))
    twice = r"studies/second.json and studies/first.json both hold dfs of recmorph, seed 1"
    with pytest.raises(RecordError, match=twice):
        keep_all([tmp_path / "first", tmp_path / "second"], tmp_path / "board")
    keep_all([tmp_path / "first"], tmp_path / "board")
    with pytest.raises(RecordError, match=twice):
        keep_all([tmp_path / "second"], tmp_path / "board")
    assert [path.name for path in (tmp_path / "board").rglob("*.json")] == ["first.json"]


def test_a_study_by_other_rules_is_no_second_one(tmp_path: Path) -> None:
    study = make_study()
    other = study.model_copy(
        update={
            "runs": tuple(run.model_copy(update={"method_version": 99}) for run in study.runs),
        }
    )
    require_once(KeptFiles({"studies/a.json": study, "studies/b.json": other}, {}, {}, {}))


def test_the_order_of_the_seeds_is_of_no_account(tmp_path: Path) -> None:
    study = make_study((1, 2, 3))
    turned = study.model_copy(update={"runs": tuple(reversed(study.runs))})
    pool = StudyPool("ordering", {"dfs": "recmorph"})
    one, other = (
        pool.samples(Evidence((), {"studies/a.json": item}, {}), "training_return")
        for item in (study, turned)
    )
    assert one == other
    assert one["dfs"].values == (101.0, 102.0, 103.0)


def test_names_of_files_are_no_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, name = tmp_path / "board", "x](y) <img src=x onerror=alert(1)> a_b+c"
    (tmp_path / name).mkdir()
    (tmp_path / name / "study.json").write_bytes(seal(make_study()))
    make_scaling(tmp_path / f"scaling {name}")
    for folder in (name, f"scaling {name}"):
        with pytest.raises(RecordError, match="must have a name of letters, digits and"):
            keep_all([tmp_path / folder], board)
    (board / "studies").mkdir(parents=True)
    (board / "studies" / f"{name}.json").write_bytes(seal(make_study()))
    with pytest.raises(RecordError, match="must have a name of letters, digits and"):
        findings_page((), board, tmp_path / "page.md")
    monkeypatch.setattr(evidence, "require_file_name", lambda path: path)
    page = findings_page((), board, tmp_path / "page.md").decode()
    label = r"x\](y) &lt;img src=x onerror=alert(1)&gt; a_b+c.json"
    link = "x%5D%28y%29%20%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%20a_b+c.json"
    assert f"[{label}](board/studies/{link})" in page
    assert "<img" not in page


def test_runs_of_unlike_studies_stand_beside_each_other() -> None:
    first = make_study(seeds=(1,))
    for changes in ({"study": "components"}, {"suite": "larger-bodies-v1"}, {"protocol": "paper"}):
        require_once(KeptFiles({"a": first, "b": first.model_copy(update=changes)}, {}, {}, {}))
    for run_changes in (
        {"seed": 2}, {"arm": "bfs"}, {"task": "unimal-vt-v1"}, {"method": "swat"},
        {"morphologies": BodySetId(id="another", digest=digest_of("b"))},
    ):  # fmt: skip
        other = first.model_copy(update={"runs": (first.runs[0].model_copy(update=run_changes),)})
        require_once(KeptFiles({"a": first, "b": other}, {}, {}, {}))
