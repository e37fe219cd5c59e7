"""The claims that are told apart, and their words."""

import re
from pathlib import Path

import pytest

from gmc_bench.core.config import load_yaml
from gmc_bench.experiments.grid import Grid
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import (
    AboveThreshold,
    Claim,
    Equivalence,
    Lead,
    Superiority,
)
from gmc_bench.leaderboard.findings.plan import BOARDS, FIRST_METHODS
from gmc_bench.leaderboard.findings.pools import BoardPool, StudyPool
from gmc_bench.methods import METHODS

PAPER = Path(__file__).parents[5] / "shared" / "paper"


def test_ids_are_told_apart_and_parts_come_before_the_whole() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids)
    for place, claim in enumerate(CLAIMS):
        assert set(getattr(claim, "parts", ())) <= set(ids[:place])


def test_what_was_tuned_for_one_variant_is_said_where_variants_are_compared() -> None:
    """Variants of a method train with its own values, which were found with the ranked one."""
    assert METHODS.get("recmorph").tuned["unimal-v1/unimal-ft-v1/lite"]
    compared = [
        claim
        for claim in CLAIMS
        if isinstance(claim, Superiority | Equivalence)
        and isinstance(claim.pool, StudyPool)
        and len(set(claim.pool.arms.values())) == 1
        and claim.pool.task == "ft"
    ]
    assert {claim.pool.study for claim in compared} == {
        "attributes", "components", "ordering", "siblings",
    }  # fmt: skip
    assert [claim.id for claim in compared if "tuned" not in claim.remark] == []


def test_the_sweep_of_boards_is_the_plan() -> None:
    content = load_yaml(Path(__file__).parents[4] / "examples" / "boards.yaml")
    specs = Grid.from_dict(content).specs().values()
    found = {(spec.method, spec.suite, spec.task, spec.seed) for spec in specs}
    assert found == {
        (run.method, run.suite, run.task, run.seed)
        for _, suite, task in BOARDS
        for run in BoardPool(suite, task).runs(FIRST_METHODS).values()
        if run.seed in content["seeds"]
    }


@pytest.mark.skipif(not PAPER.is_dir(), reason="needs the paper's text")
@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.printed], ids=lambda claim: claim.id)
def test_the_papers_numbers_are_printed_there(claim: Claim) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PAPER.glob("*.txt"))
    for number in re.findall(r"-?\d+(?:\.\d+)?", claim.printed.replace("R2", "")):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", text), number


AVERAGED = {"siblings-tail", "siblings-canonical"}
"""Claims whose size is that of the means of two tasks."""
PAIR = re.compile(
    r"(-?\d+(?:\.\d+)?)(?: (?:%|m/s|m|degrees))?,? (?:against|to|the next) (-?\d+(?:\.\d+)?)"
)
PAIRS = [
    (claim, *map(float, found.groups()))
    for claim in CLAIMS
    if isinstance(claim, Superiority | Lead | AboveThreshold)
    and claim.id not in AVERAGED
    and claim.id != "probe-ch"  # an index that grows with the number of rows
    and (found := PAIR.search(claim.printed))
]


def test_sizes_of_claims_follow_from_the_papers_means() -> None:
    assert len(PAIRS) >= 30
    for claim, one, other in PAIRS:
        if isinstance(claim, AboveThreshold):  # of a change, percentages as shares
            size = abs(one - other) / (100.0 if "%" in claim.printed else 1.0)
        else:
            better, worse = sorted((one, other), reverse=not claim.lower_is_better)
            size = abs(better / worse - 1.0)
        assert claim.size == pytest.approx(size, abs=0.0005), claim.id
