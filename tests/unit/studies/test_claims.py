"""What the leaderboard's claims and plans repeat of studies, which it does not import."""

import pytest

from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import Pooled
from gmc_bench.leaderboard.findings.plan import BOARDS, BODY_COUNTS
from gmc_bench.leaderboard.findings.pools import HORIZON, StudyPool
from gmc_bench.studies.catalogue import STUDIES
from gmc_bench.studies.request import EQUAL, PER_BODY, Request
from gmc_bench.tasks import TASKS

POOLS = {
    claim.id: claim.pool
    for claim in CLAIMS
    if isinstance(claim, Pooled) and isinstance(claim.pool, StudyPool)
}


def test_claims_are_about_studies() -> None:
    assert {pool.study for pool in POOLS.values()} >= {"components", "siblings", "cells", "gait"}


@pytest.mark.parametrize("claim", POOLS)
def test_a_claim_names_the_variants_of_its_study_and_their_methods(claim: str) -> None:
    pool = POOLS[claim]
    request = Request.make(pool.study, [pool.asked] if pool.asked else [])
    (asked,) = request.methods
    assert pool.arms == {arm.name: arm.method or asked for arm in STUDIES[pool.study].arms}


@pytest.mark.parametrize(("steps", "suffix"), [(EQUAL, ""), (PER_BODY, "-per-body")])
def test_plans_name_the_variants_of_the_study_of_bodies(steps: str, suffix: str) -> None:
    assert STUDIES["bodies"].body_counts == BODY_COUNTS
    arms = Request.make("bodies", ["recmorph"], steps=steps).arms
    assert [arm.name for arm in arms] == [f"recmorph-{count}{suffix}" for count in BODY_COUNTS]
    expected = [count / 100 if suffix else 1.0 for count in BODY_COUNTS]
    assert [float(arm.budget) for arm in arms] == expected


def test_plans_name_the_variants_of_the_study_of_budgets() -> None:
    arms = Request.make("budget", ["recmorph"], budgets=("1", "10")).arms
    assert [(arm.name, arm.budget) for arm in arms] == [("recmorph-x1", 1), ("recmorph-x10", 10)]


def test_episodes_of_every_board_are_as_long_as_plans_assume() -> None:
    assert {TASKS.get(task).horizon for _, _, task in BOARDS} == {HORIZON}
