"""Claims about the growth of costs, from studies of scaling."""

from dataclasses import replace
from pathlib import Path

import pytest

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard import keeping
from gmc_bench.leaderboard.findings.evidence import Evidence, is_installed, read_evidence
from gmc_bench.leaderboard.findings.speed_claims import LinearCost
from gmc_bench.methods import METHODS
from gmc_bench.records.store import seal
from tests.support.findings import keep_all, make_scaling

LINEAR = LinearCost(
    id="x", says="x", printed="", source="x", method="recmorph", key="act-time/act_ms",
    beside="metamorph-star",
)  # fmt: skip


def test_the_growth_of_a_cost_is_at_most_linear_or_not(tmp_path: Path) -> None:
    for low, high, verdict in (
        (0.8, 1.05, "seen here"),
        (0.8, 1.3, "cannot be decided with these runs"),
        (1.05, 1.3, "cannot be decided with these runs"),
        (1.2, 1.4, "not seen here"),
    ):
        (path,), _ = keep_all([make_scaling(tmp_path / "s", low=low, high=high)], tmp_path)
        found = LINEAR.find(read_evidence((), tmp_path), {})
        assert (found.verdict, found.links) == (verdict, (f"scaling/{path.name}",))
        assert found.here == f"exponent recmorph 0.90 ({low:.2f} to {high:.2f})"
        path.unlink()
    assert LINEAR.find(Evidence((), {}, {}), {}).verdict == "not run yet"


def test_the_command_measures_what_the_claim_is_about() -> None:
    command = "gmc-bench study scaling --method recmorph metamorph-star --part"
    assert LINEAR.command() == f"{command} time"
    assert replace(LINEAR, part="memory").command() == f"{command} memory"


def test_a_cost_is_measured_once_and_on_the_networks_of_the_runs(tmp_path: Path) -> None:
    """Else the file whose name comes first would count."""
    board = tmp_path / "board"
    keep_all([make_scaling(tmp_path / "a", preset="paper")], board)
    keep_all([make_scaling(tmp_path / "other", kind="train-time")], board)
    assert LINEAR.find(read_evidence((), board), {}).verdict == "not run yet"
    keep_all([make_scaling(tmp_path / "b", high=1.3)], board)
    assert LINEAR.find(read_evidence((), board), {}).links == ("scaling/b.json",)
    with pytest.raises(RecordError, match=r"b\.json is there and says something else"):
        keep_all([make_scaling(tmp_path / "b", high=1.0)], board)
    with pytest.raises(
        RecordError, match=r"c\.json and .*b\.json both hold act-time/act_ms of rec"
    ):
        keep_all([make_scaling(tmp_path / "c", high=1.0)], board)


def test_a_later_version_is_measured_again_beside_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = tmp_path / "board"
    keep_all([make_scaling(tmp_path / "a", high=1.3)], board)
    newer = METHODS.get("recmorph").version + 1
    monkeypatch.setattr(keeping, "_require_installed", lambda *_: None)
    keep_all([make_scaling(tmp_path / "b", method_version=newer)], board)
    assert LINEAR.find(read_evidence((), board), {}).links == ("scaling/a.json",)


def test_an_exponent_of_smaller_sizes_than_the_claim_is_about_is_refused(tmp_path: Path) -> None:
    small = make_scaling(tmp_path / "s", sizes=[16, 512])
    with pytest.raises(RecordError, match=r"up to a size of 512, but the claims .* up to 1,024"):
        keep_all([small], tmp_path / "board")


def test_an_exponent_is_that_of_the_installed_version_and_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = tmp_path / "board"
    (path,), _ = keep_all([make_scaling(tmp_path / "a")], board)
    kept = read_evidence((), board).scalings["scaling/a.json"]
    assert (kept.git_commit, kept.git_dirty) == ("0" * 40, False)
    (exponent,) = kept.exponents

    def verdict(version: int | None) -> str:
        changed = exponent.model_copy(update={"method_version": version})
        path.write_bytes(seal(kept.model_copy(update={"exponents": (changed,)})))
        return LINEAR.find(read_evidence((), board), {}).verdict

    assert not is_installed("no-such-method", 1)
    # Older files do not state it; they are of the first version.
    assert [verdict(version) for version in (1, None, 2)] == ["seen here"] * 2 + ["not run yet"]
    with monkeypatch.context() as later:
        newer = replace(METHODS.get("recmorph"), version=2)
        later.setattr(METHODS, "get", lambda name: newer)
        assert [is_installed("recmorph", version) for version in (None, 1, 2)] == [
            False,
            False,
            True,
        ]
    nobodys = {"method": "", "method_version": None, "kind": "tokens"}  # of no controller
    (other,), _ = keep_all([make_scaling(tmp_path / "c", **nobodys)], board)
    assert other.name == "c.json"
    for changes, problem in (
        ({"method_version": 99}, "has version 99 of recmorph, 1 is installed; run the study again"),
        ({"method_version": None}, "has version None of recmorph, 1 is installed"),
        ({"git_dirty": True}, "was not made from a clean clone, or at several commits"),
        ({"git_commit": None, "git_dirty": None}, "was not made from a clean clone"),
        ({"git_commit": ...}, r"holds no result of a study of scaling \(KeyError\('git_commit'"),
    ):
        with pytest.raises(RecordError, match=problem):
            keep_all([make_scaling(tmp_path / "b", **changes)], board)
