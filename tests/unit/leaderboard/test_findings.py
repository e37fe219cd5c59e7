"""Verdicts about claims, worked out from made-up runs."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import config_digest, load_yaml
from gmc_bench.core.errors import RecordError, UnknownNameError
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.experiments.grid import Grid
from gmc_bench.leaderboard import overview
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.findings import plan
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import (
    AboveThreshold,
    Claim,
    Conjunction,
    Equivalence,
    Finding,
    Lead,
    Pooled,
    Superiority,
    figure,
)
from gmc_bench.leaderboard.findings.cost import Costs, made_once
from gmc_bench.leaderboard.findings.evidence import (
    Evidence,
    Kept,
    is_installed,
    read_evidence,
    require_once,
)
from gmc_bench.leaderboard.findings.page import find_all, findings_page
from gmc_bench.leaderboard.findings.plan import BOARDS, FIRST_METHODS, PendingRuns, pending_runs
from gmc_bench.leaderboard.findings.pools import (
    BoardPool,
    PlannedRun,
    Sample,
    StudyPool,
    VariantPool,
    read_metric,
)
from gmc_bench.leaderboard.findings.power import power_text, seeds_needed
from gmc_bench.leaderboard.findings.speed_claims import LinearCost
from gmc_bench.leaderboard.keeping import files_to_keep, keep, require_policies, study_file
from gmc_bench.leaderboard.rules import rules_of_variants
from gmc_bench.leaderboard.tables import file_names
from gmc_bench.methods import METHODS
from gmc_bench.records.kept import (
    BodySetId,
    KeptEvaluation,
    KeptStudy,
    StudyNumbers,
    plain_numbers,
    seal,
)
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import sealed
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from tests.support.records import (
    AFTER_TUNING,
    UNTRAINED,
    digest_of,
    make_friction,
    make_record,
    make_returns,
    make_stored,
)

PAPER = Path(__file__).parents[4] / "shared" / "paper"
POOL = BoardPool("unimal-v1", "unimal-ft-v1")
TEXTS = {"id": "x", "says": "x", "printed": "", "source": "x", "pool": POOL, "metric": "test_score"}


ENGINE = {"mujoco": "1.2.3"}
"""As in all made-up records."""
FULL = 1_998_848.0
"""Control steps of a whole run: 2,000,000 in whole rollouts of 256 x 16."""


def keep_all(paths: Sequence[Path], board: Path) -> tuple[list[Path], list[Path]]:
    """Keep what can be kept; return the new files and the other paths."""
    files, others = files_to_keep(paths, board)
    return keep(files), others


def _samples(**values: tuple[float, ...]) -> dict[str, Sample]:
    return {
        name: Sample(name, tuple(range(1, len(each) + 1)), each, ("file",) * len(each))
        for name, each in values.items()
    }


@pytest.mark.parametrize(
    ("a", "verdict"),
    [
        ((20.0, 21.0, 22.0), "seen here"),
        ((1.0, 2.0, 3.0), "not seen here"),
        ((9.0, 12.0, 15.0), "cannot be decided with these runs"),
        ((20.0,), "not run yet"),
    ],
)
def test_the_interval_of_a_gap_decides(a: tuple[float, ...], verdict: str) -> None:
    claim = Superiority(**TEXTS, first="a", second="b", size=0.1)
    found = claim.decide(_samples(a=a, b=(10.0, 11.0, 12.0)))
    assert found.verdict == verdict
    assert bool(found.power) == verdict.startswith("cannot")
    turned = Superiority(**TEXTS, first="a", second="b", lower_is_better=True)
    opposite = {"seen here": "not seen here", "not seen here": "seen here"}
    assert turned.decide(_samples(a=a, b=(10.0, 11.0, 12.0))).verdict == opposite.get(
        verdict, verdict
    )


def test_a_gap_must_show_without_pooled_variances_too() -> None:
    """Pooled, the interval of the gap of 4 is 1.2 to 6.8; by Welch's test, -0.6 to 8.6."""
    values = _samples(a=(12.0, 14.0, 16.0), b=(9.5, 10.0, 10.5))
    found = Superiority(**TEXTS, first="a", second="b").decide(values)
    assert found.verdict == "cannot be decided with these runs"
    assert found.here.endswith("higher by +40.0 % (-6.1 to +86.1)")
    lead = Lead(**TEXTS, ours=("a",), others=("b",)).decide(values)
    assert lead.verdict == "cannot be decided with these runs"
    assert "significantly ahead of 0 of 1" in lead.here


def test_a_gap_says_what_it_compares() -> None:
    claim = Superiority(**TEXTS, first="a", second="b")
    here = claim.decide(_samples(a=(20.0, 22.0), b=(10.0, 10.5))).here
    assert here.startswith("a 21.0 (2 seeds) against b 10.2 (2 seeds): higher by +104.9 %")
    # A share of a negative mean would have the wrong sign.
    here = claim.decide(_samples(a=(-9.5, -10.5), b=(-29.0, -31.0))).here
    assert here.startswith("a -10.0 (2 seeds) against b -30.0 (2 seeds): higher by +20.0 (")


def test_the_size_of_a_claim_is_a_share_of_what_is_compared_with() -> None:
    """Half of a mean of 30 in size, also where it is negative."""
    values = _samples(a=(-40.0, -20.0, 0.0), b=(-50.0, -30.0, -10.0))
    needed = seeds_needed([item.values for item in values.values()], 15.0)
    expected = f"about {needed} seeds per side would show an effect as large as the claim's"
    for claim in (
        Superiority(**TEXTS, first="a", second="b", size=0.5),
        Lead(**TEXTS, ours=("a",), others=("b",), size=0.5),
    ):
        assert claim.decide(values).power.startswith(expected)


def test_a_lead_needs_all_others() -> None:
    claim = Lead(**TEXTS, ours=("a", "b"), others=("c", "d"), size=0.5)
    ahead = _samples(a=(1.0, 2.0, 3.0), b=(90.0, 91.0, 92.0), c=(10.0, 11.0, 12.0))
    found = claim.decide(ahead)
    assert (found.verdict, found.power) == ("cannot be decided with these runs", "runs of d")
    assert "1 of 2 others have runs" in found.here
    assert claim.decide({**ahead, **_samples(d=(9.0,))}) == found  # one run has no interval
    assert claim.decide({**ahead, **_samples(d=(9.0, 10.0, 11.0))}).verdict == "seen here"
    beaten = claim.decide({**ahead, **_samples(d=(190.0, 191.0, 192.0))})
    assert beaten.verdict == "not seen here"
    only_a = {name: item for name, item in ahead.items() if name != "b"}
    untried = claim.decide(only_a | _samples(c=(190.0, 191.0, 192.0)))
    assert untried.verdict == "cannot be decided with these runs"
    assert (untried.power, untried.here.partition("; ")[2]) == (
        "runs of b", "1 of 2 others have runs; behind c",
    )  # fmt: skip
    close = claim.decide({**ahead, **_samples(d=(88.0, 92.0, 93.0))})
    assert close.verdict == "cannot be decided with these runs"
    assert "significantly ahead of 1 of 2" in close.here
    # Each alone would show, by 2.4 +- 2.776 * sqrt(2 / 3); of three pairs, none does.
    same = (10.0, 11.0, 12.0)
    barely = replace(claim, ours=("a",)).decide(_samples(a=(12.4, 13.4, 14.4), c=same, d=same))
    assert "significantly ahead of 0 of 2" in barely.here


def test_a_family_is_behind_only_if_each_of_it_is() -> None:
    claim = Lead(**TEXTS, ours=("bigru", "bilstm"), others=("rival",))
    sure = _samples(bigru=(99.0, 100.0, 101.0), rival=(109.0, 110.0, 111.0))
    open_one = claim.decide(sure | _samples(bilstm=(59.0, 99.0, 139.0)))
    assert open_one.verdict == "cannot be decided with these runs"
    assert open_one.here.endswith("; behind rival")
    assert open_one.power == "more runs of bilstm"
    both = claim.decide(sure | _samples(bilstm=(98.0, 99.0, 100.0)))
    assert (both.verdict, both.power) == ("not seen here", "")
    three = replace(claim, ours=(*claim.ours, "bimamba"))
    found = three.decide(sure | _samples(bilstm=(59.0, 99.0, 139.0)))
    assert found.power == "runs of bimamba; more runs of bilstm"


def test_the_best_error_is_the_lowest_of_ours_and_of_the_others() -> None:
    claim = Lead(**TEXTS, ours=("a", "b"), others=("c", "d"), lower_is_better=True, size=0.5)
    errors = _samples(
        a=(90.0, 91.0, 92.0), b=(1.0, 2.0, 3.0), c=(10.0, 11.0, 12.0), d=(50.0, 51.0, 52.0)
    )
    found = claim.decide(errors)
    assert found.verdict == "seen here"
    assert found.here.startswith("b 2.000 (3 seeds) against c 11.0 (3 seeds): lower by +81.8 %")
    beaten = claim.decide({**errors, **_samples(d=(-90.0, -91.0, -92.0))})
    assert beaten.verdict == "not seen here"
    assert beaten.here.endswith("; behind d")


def test_a_number_that_is_no_evidence_decides_nothing() -> None:
    pool = StudyPool("ordering", {"dfs": "recmorph"})
    evidence = Evidence((), {"a": _study()}, {})
    plain = AboveThreshold(**{**TEXTS, "pool": pool, "metric": "training_return"}, label="dfs")
    assert plain.find(evidence, {}).verdict == "seen here"
    for minus in ("", "core_seconds"):
        found = replace(plain, needs="another decoder", minus=minus).find(evidence, {})
        assert (found.verdict, found.power) == (
            "cannot be decided with these runs", "another decoder",
        )  # fmt: skip
    nothing = replace(plain, needs="another decoder").find(Evidence((), {}, {}), {})
    assert nothing.verdict == "not run yet"


def test_runs_that_lack_a_number_are_no_runs_that_are_missing() -> None:
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))
    claim = Superiority(**{**TEXTS, "pool": pool, "metric": "stride"}, first="dfs", second="random")
    study = _study(seeds=(1, 2, 3))
    runs = [
        run.model_copy(update={"numbers": {**run.numbers, "stride": 1.0 if run.seed < 3 else None}})
        for run in study.runs
    ]
    found = claim.find(Evidence((), {"a": study.model_copy(update={"runs": runs})}, {}), {})
    assert found.verdict == "cannot be decided with these runs"
    assert found.here.endswith("no such number (dfs: seed 3; random: seed 3)")
    assert (found.missing, found.links) == ((), ("a",))
    # Of a family, those that have the number decide.
    whole = [
        run.model_copy(
            update={"arm": run.arm[:2], "numbers": {"env_steps": FULL, "stride": 1.0 * run.seed}}
        )
        for run in study.runs
    ]
    both = study.model_copy(update={"runs": [*runs, *whole]})
    three = replace(pool, arms=dict.fromkeys(("df", "ra", "random"), "recmorph"))
    texts = {**TEXTS, "pool": three, "metric": "stride"}
    lead = Lead(**texts, ours=("df",), others=("ra", "random")).find(
        Evidence((), {"a": both}, {}), {}
    )
    assert lead.here.startswith("df 2.000 (3 seeds) against ra 2.000 (3 seeds)")


def test_alike_means_within_a_tenth() -> None:
    claim = Equivalence(**TEXTS, first="a", second="b")
    near, far = (100.0, 100.5, 101.0), (150.0, 150.5, 151.0)
    assert claim.decide(_samples(a=near, b=near)).verdict == "seen here"
    assert claim.decide(_samples(a=near, b=far)).verdict == "not seen here"
    wild = claim.decide(_samples(a=(60.0, 100.0, 140.0), b=near))
    assert wild.verdict == "cannot be decided with these runs"
    # The interval of the gap is 10 +- 2.776 * 0.2 * sqrt(2 / 3) = 9.5 to 10.5: within a tenth of
    # the larger mean, not of the smaller one.
    tenth = _samples(a=(99.8, 100.0, 100.2), b=(109.8, 110.0, 110.2))
    for first, second in (("a", "b"), ("b", "a")):
        found = Equivalence(**TEXTS, first=first, second=second).decide(tenth)
        assert found.verdict == "seen here"
        assert found.here.endswith("(alike: within 11.0)")
    # 10 +- 3.4, all above 0 and on both sides of 11: neither alike nor shown to be unlike.
    astride = _samples(a=(98.5, 100.0, 101.5), b=(108.5, 110.0, 111.5))
    for first, second in (("a", "b"), ("b", "a")):
        found = Equivalence(**TEXTS, first=first, second=second).decide(astride)
        assert found.verdict == "cannot be decided with these runs"


def test_what_would_show_equivalence_follows_from_the_measured_difference() -> None:
    """Means of 100 and 94: 4 inside the margin of 10; a seed's deviation is 7."""
    spread = np.array([-9.0, -3.0, 0.0, 0.0, 3.0, 9.0]) * 7.0 / np.std([-9, -3, 0, 0, 3, 9], ddof=1)
    values = _samples(a=tuple(100.0 + spread), b=tuple(94.0 + spread))
    found = Equivalence(**TEXTS, first="a", second="b").decide(values)
    needed = seeds_needed([item.values for item in values.values()], 4.0)
    assert needed is not None
    assert needed > 20
    assert found.power == (
        f"about {needed} seeds per side would show that they are in 80 % of cases, if the "
        f"difference is the one measured"
    )
    turned = Equivalence(**TEXTS, first="b", second="a").decide(values)
    assert turned.power == found.power
    far = _samples(a=tuple(100.0 + spread), b=tuple(88.0 + spread))
    claim = Equivalence(**TEXTS, first="a", second="b")
    assert "would show that they are not in" in claim.decide(far).power
    # The second is worse, and by less than the margin: 10 + 6 inside.
    one_sided = Equivalence(**TEXTS, first="b", second="a", one_sided=True)
    assert one_sided.decide(values).power == found.power
    # The first is better: 10 + 6 inside, with twice the deviation.
    wild = _samples(a=tuple(100.0 + 2.0 * spread), b=tuple(94.0 + 2.0 * spread))
    better = Equivalence(**TEXTS, first="a", second="b", one_sided=True).decide(wild)
    needed = seeds_needed([item.values for item in wild.values()], 16.0)
    assert better.power.startswith(f"about {needed} seeds per side would show that they are in")


def test_not_worse_by_more_than_a_tenth() -> None:
    claim = Equivalence(**TEXTS, first="a", second="b", one_sided=True)
    near, far = (100.0, 100.5, 101.0), (150.0, 150.5, 151.0)
    assert claim.decide(_samples(a=near, b=near)).verdict == "seen here"
    assert claim.decide(_samples(a=near, b=far)).verdict == "not seen here"
    better = claim.decide(_samples(a=far, b=near))
    assert better.verdict == "seen here"
    assert better.here.endswith("(not worse: by at most 15.1)")
    astride = _samples(a=(98.5, 100.0, 101.5), b=(108.5, 110.0, 111.5))
    assert claim.decide(astride).verdict == "cannot be decided with these runs"
    wild = claim.decide(_samples(a=(60.0, 100.0, 140.0), b=near))
    assert wild.verdict == "cannot be decided with these runs"


def test_a_value_is_compared_with_zero() -> None:
    claim = AboveThreshold(**TEXTS, label="a", unit="%", size=62.0)
    assert claim.decide(_samples(a=(60.0, 62.0, 64.0))).verdict == "seen here"
    assert claim.decide(_samples(a=(-60.0, 62.0, 64.0))).power.startswith("about ")
    errors = _samples(a=(60.0, -62.0, -64.0))
    turned = replace(claim, size=-62.0, lower_is_better=True)
    assert turned.decide(errors).power == claim.decide(_samples(a=(-60.0, 62.0, 64.0))).power
    # Of what is above a threshold, only the rest must be shown: 2 with a deviation of 2.
    near = replace(claim, threshold=60.0).decide(_samples(a=(59.0, 61.0, 63.0)))
    needed = seeds_needed([(59.0, 61.0, 63.0)], 2.0)
    assert near.power.startswith(f"about {needed} seeds would show an effect as large as the claim")


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_a_value_is_compared_with_a_threshold(lower_is_better: bool) -> None:
    """Its interval is 62 +- 5."""
    sign = -1.0 if lower_is_better else 1.0
    sample = _samples(a=tuple(sign * value for value in (60.0, 62.0, 64.0)))
    claim = AboveThreshold(**TEXTS, label="a", lower_is_better=lower_is_better)
    for threshold, verdict in (
        (56.0, "seen here"), (61.0, "cannot be decided with these runs"), (68.0, "not seen here"),
    ):  # fmt: skip
        assert replace(claim, threshold=threshold).decide(sample).verdict == verdict


def test_a_change_is_what_comes_after_less_what_was_before() -> None:
    pool = StudyPool("ordering", {"dfs": "recmorph"})
    texts = {**TEXTS, "pool": pool, "metric": "training_return", "minus": "core_seconds"}
    found = AboveThreshold(**texts, label="dfs").find(Evidence((), {"a": _study()}, {}), {})
    assert [sample.values for sample in found.samples] == [
        (101.0, 102.0), (1000.0, 1000.0), (-899.0, -898.0),
    ]  # fmt: skip
    assert found.verdict == "not seen here"
    assert found.here.startswith("1,000.0 to 101.5: -898.5 (")


def test_an_effect_would_have_shown_with_the_runs_of_both_sides() -> None:
    many = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]) * 2.0 / np.sqrt(28.0 / 6.0)
    few = _samples(a=(8.0, 10.0, 12.0), b=tuple(many))  # both deviate by 2; see `seeds_needed`
    assert power_text(list(few.values()), 4.0, 0.0) == (
        "about 6 seeds per side would show an effect as large as the claim's in 80 % of cases"
    )
    enough = _samples(a=tuple(many[:6]), b=tuple(many))
    needed = seeds_needed([item.values for item in enough.values()], 4.0)
    assert needed is not None
    assert needed <= 6
    assert power_text(list(enough.values()), 4.0, 0.0) == (
        "an effect as large as the claim's would have shown in 80 % of cases"
    )


def test_as_many_runs_as_an_effect_needs_are_enough() -> None:
    three = _samples(a=(8.0, 10.0, 12.0))["a"]
    assert seeds_needed([three.values], 100.0) == 3
    assert power_text([three], 100.0, 0.0).startswith("an effect as large as the claim's would hav")


def test_how_many_seeds_are_told_up_to_a_thousand() -> None:
    runs = _samples(a=(8.0, 10.0, 12.0))["a"]
    for size, needed, told in (
        (0.17738, 1000, "about 1,000 seeds would"), (0.17, 1001, "more than 1,000 seeds would")
    ):  # fmt: skip
        assert seeds_needed([runs.values], size) == needed
        assert power_text([runs], None, size).startswith(told)


def test_figures_have_as_many_digits_as_their_size_asks_for() -> None:
    assert [figure(x) for x in (-1000.0, 999.5, -10.0, 9.5)] == [
        "-1,000",
        "999.5",
        "-10.0",
        "9.500",
    ]


def test_equal_runs_show_nothing() -> None:
    same = _samples(a=(1.0, 1.0, 1.0), b=(1.0, 1.0, 1.0))
    found = Superiority(**TEXTS, first="a", second="b").decide(same)
    assert found.verdict == "cannot be decided with these runs"


@pytest.mark.parametrize("high", [0.0, 30.0])
def test_runs_without_any_spread_decide_nothing(high: float) -> None:
    """Three equal runs do not show that a fourth would be equal, whatever others vary by."""
    open_ = "cannot be decided with these runs"
    still = _samples(a=(high,) * 3, b=(0.0,) * 3, c=(1.0, 2.0, 3.0), d=(1.0, 2.0, 4.0))
    why = ", without an interval, because no run differs from the others of its side"
    texts = {**TEXTS, "unit": "%"}
    gap = Superiority(**texts, first="a", second="b", size=0.5).decide(still)
    assert (gap.verdict, gap.power) == (open_, "")
    assert gap.here.endswith(f"higher by +{high:.1f} percentage points{why}")
    lead = Lead(**texts, ours=("a",), others=("b",), size=0.5).decide(still)
    assert (lead.verdict, lead.power) == (open_, "")
    assert lead.here.endswith(f"{why}; significantly ahead of 0 of 1")
    alike = Equivalence(**texts, first="a", second="b").decide(still)
    assert (alike.verdict, alike.power) == (open_, "")
    value = AboveThreshold(**texts, label="a", size=50.0, threshold=-1.0).decide(still)
    assert (value.verdict, value.power) == (open_, "")
    assert value.here == f"+{high:.1f} %, 3 runs{why}"
    # One side that varies is enough.
    varied = Superiority(**texts, first="c", second="b").decide(still)
    assert "percentage points (" in varied.here
    assert varied.power


def test_several_claims_at_once() -> None:
    both = Conjunction(id="x", says="x", printed="", source="x", parts=("a", "b"))
    seen, no, open_ = (
        Finding(v) for v in ("seen here", "not seen here", "cannot be decided with these runs")
    )
    nothing = Evidence((), {}, {})
    assert both.find(nothing, {"a": seen, "b": seen}).verdict == "seen here"
    assert both.find(nothing, {"a": no, "b": open_}).verdict == "not seen here"
    linked = {name: replace(seen, links=("page", name)) for name in "ab"}
    assert both.find(nothing, linked).links == ("page", "a", "b")
    assert both.find(nothing, {"a": seen, "b": open_}).verdict == open_.verdict
    assert both.find(nothing, dict.fromkeys("ab", Finding("not run yet"))).verdict == "not run yet"


def test_seeds_needed_follow_from_the_spread() -> None:
    # An effect of two standard deviations; R's power.t.test says 5.1 and, of one sample, 4.2.
    assert seeds_needed([(8.0, 10.0, 12.0), (0.0, 2.0, 4.0)], 4.0) == 6
    assert seeds_needed([(8.0, 10.0, 12.0)], 4.0) == 5
    assert seeds_needed([(8.0, 10.0, 12.0)], 100.0) == 3
    assert seeds_needed([(8.0, 10.0, 12.0)], 0.01) == 1001
    assert seeds_needed([(8.0,), (0.0, 2.0)], 4.0) is None
    assert seeds_needed([(8.0, 10.0)], 0.0) is None
    assert seeds_needed([(8.0, 8.0), (1.0, 1.0)], 1.0) == 3  # nothing varies


def _study(seeds: tuple[int, ...] = (1, 2), steps: float = FULL, **changes: object) -> KeptStudy:
    bodies = BodySetId(id="unimals_100", digest=digest_of("set"))
    rules = rules_of_variants("unimal-v1", "unimal-ft-v1", "lite", "recmorph", "lite")
    assert rules is not None
    runs = tuple(
        StudyNumbers(
            arm=arm, task="unimal-ft-v1", seed=seed, method="recmorph",
            record_digest=digest_of(f"{arm}{seed}"), git_commit="0" * 40, git_dirty=False,
            morphologies=bodies, method_version=rules.method_version, preset="lite",
            protocol_digest=rules.protocol, task_digest=rules.task, changes=(),
            numbers={"training_return": value + seed, "env_steps": steps, "core_seconds": 1e3},
        )
        for arm, value in (("dfs", 100.0), ("random", 50.0))
        for seed in seeds
    )  # fmt: skip
    fields = {"study": "ordering", "suite": "unimal-v1", "protocol": "lite", "status": "complete"}
    return KeptStudy(**{**fields, "runs": runs, "versions": ENGINE, **changes})


def test_a_kept_study_is_evidence(tmp_path: Path) -> None:
    folder, board = tmp_path / "ordering_recmorph", tmp_path / "board"
    folder.mkdir()
    (folder / "study.json").write_bytes(seal(_study()))
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
    (folder / "study.json").write_bytes(seal(_study()))
    monkeypatch.chdir(folder)
    kept, _ = keep_all([Path()], board)
    assert kept == [board / "studies" / "ordering_recmorph.json"]
    monkeypatch.chdir(_scaling(tmp_path / "costs"))
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


def _board(
    *, version: int = 1, bodies: str = "unimals_100", **scores: tuple[float, ...]
) -> Evidence:
    """Return the board of `POOL` with test and train scores of methods by seed."""
    sets = {**make_record().morphologies.model_dump(), "id": bodies, "num_test": 1}
    same = {"morphologies": sets, "protocol_seeds": (1, 2, 3)}
    stored = [
        make_stored(
            make_record(
                method=method, seed=seed, method_version=version,
                returns=make_returns("train", {"a": [score], "b": [score]})
                + make_returns("test", {"c": [score]}),
                **same, **({**UNTRAINED, "parameters": 0} if method == "zero-action" else {}),
            ),
            f"{method}{seed}.json",
        )
        for method, values in scores.items()
        for seed, score in enumerate(values, 1)
    ]  # fmt: skip
    tables, _ = aggregate(stored)
    return Evidence(tuple(map(analyse, tables)), {}, {})


def test_seeds_added_where_a_table_was_close_decide_no_claim() -> None:
    found = POOL.samples(_board(swat=(1.0, 2.0, 3.0, 100.0)), "test_score")["swat"]
    assert (found.seeds, found.values) == ((1, 2, 3), (1.0, 2.0, 3.0))
    assert len(found.sources) == 3


def test_runs_without_the_first_seed_decide_no_claim() -> None:
    (table,) = _board(swat=(1.0, 2.0, 3.0), bot=(1.0, 2.0, 3.0)).analyses
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


def test_runs_with_the_values_before_tuning_count_for_costs() -> None:
    stored = [make_stored(make_record(**tuned), f"{k}.json")
              for k, tuned in enumerate(({}, AFTER_TUNING))]  # fmt: skip
    tables, _ = aggregate(stored)
    evidence = Evidence(tuple(map(analyse, tables)), {}, {})
    assert {item.digest for item in evidence.stored()} == {item.digest for item in stored}


def test_of_two_engine_versions_the_table_with_most_rows_counts() -> None:
    same = (1.0, 2.0, 3.0)
    old, new = _board(swat=same), _board(swat=same, bot=same)
    (table,) = old.analyses
    for engine in ("1.0.0", "3.10.0"):
        key = replace(table.table.key, mujoco=engine)
        older = replace(table, table=replace(table.table, key=key))
        for analyses in ((older, *new.analyses), (*new.analyses, older)):
            assert Evidence(analyses, {}, {}).board(POOL.suite, POOL.task) is new.analyses[0]


def test_links_lead_to_the_table_that_the_runs_belong_to(tmp_path: Path) -> None:
    more = _board(swat=(1.0, 2.0, 3.0), recmorph=(4.0, 5.0, 6.0))
    (table,) = _board(swat=(1.0, 2.0, 3.0)).analyses
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
        _board(version=1, swat=low, bot=high, **{"zero-action": (5.0, 5.1, 5.2)}),
        _board(version=2, swat=high, bot=low),
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
    board = _board(swat=high, bot=low, **{"zero-action": idle})
    claim = Superiority(**TEXTS, first="swat", second="bot")
    found = claim.find(board, {})
    assert found.here.endswith("; by mean return, bot does no better than no action at all")
    assert found.idle == ("bot",)
    without_floor = claim.find(_board(swat=high, bot=low), {})
    assert "no action" not in without_floor.here
    assert without_floor.idle == ()
    both = _board(swat=idle, bot=low, **{"zero-action": idle})
    assert claim.find(both, {}).here.endswith(
        "; by mean return, bot, swat do no better than no action at all"
    )


def test_nothing_is_what_no_action_reaches_on_the_same_bodies() -> None:
    """A policy for each body has no other bodies; first weights are not nothing."""
    board = _board(swat=(90.0, 91.0, 92.0), **{"zero-action": (5.0, 5.1, 5.2)})
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
    (today,) = _board(swat=(1.0,)).analyses
    key = replace(today.table.key, protocol_digest=digest_of("earlier"))
    earlier = replace(today, table=replace(today.table, key=key))
    assert read_evidence((earlier, today), tmp_path).analyses == (today,)


def test_what_does_not_decide_is_told_beside_what_does() -> None:
    board = _board(
        swat=(90.0, 91.0, 92.0), bot=(4.0, 4.1, 4.2), smr=(95.0, 95.0, 95.0),
        **{"zero-action": (5.0, 5.1, 5.2)},
    )  # fmt: skip
    plain = Superiority(**TEXTS, first="swat", second="bot").find(board, {})
    found = Superiority(
        **TEXTS, first="swat", second="bot", also=("smr", "gcnt"), tells_floor=True, unit="m",
        also_metric=("train_score", "on the train bodies"),
    ).find(board, {})  # fmt: skip
    assert (found.verdict, found.missing) == (plain.verdict, plain.missing)
    assert found.here.endswith(
        "; not in the paper's comparison: smr 95.0 m; on the train bodies: swat 91.0 m, "
        "bot 4.100 m; no action at all: 5.100 m"
    )
    assert found.samples == plain.samples
    assert [sample.label for sample in plain.samples] == ["swat", "bot"]
    nothing = Superiority(**TEXTS, first="swat", second="gcnt", tells_floor=True).find(board, {})
    assert (nothing.verdict, nothing.here) == ("not run yet", "")
    assert nothing.links == plain.links != ()
    assert Superiority(**TEXTS, first="bigru", second="gcnt").find(board, {}).links == ()


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
    board = _board(swat=(1.0,), **{"zero-action": (5.0, 5.1, 5.2)})
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
    board = _board(swat=(1.0, 2.0, 3.0))  # no rules of today
    pending = {item.what: item for item in pending_runs(board, find_all(board), Costs(board))}
    assert (pending["Flat terrain"].done, pending["Flat terrain"].wanted) == (0, 30)


def test_longer_runs_on_other_bodies_are_none_of_the_board() -> None:
    (table,) = _board(recmorph=(1.0, 2.0, 3.0)).analyses
    for bodies, done in (("unimals_100", 3), ("gmc-unimal-mini-v2", 0)):
        key = replace(table.table.key, protocol="standard", morphologies=bodies)
        long = Evidence((replace(table, table=replace(table.table, key=key)),), {}, {})
        pending = pending_runs(long, find_all(long), Costs(long))
        (found,) = (item for item in pending if item.what == "Flat terrain, standard")
        assert (found.done, found.wanted) == (done, 20)


def test_runs_that_plans_share_are_made_once(tmp_path: Path) -> None:
    arms = dict.fromkeys(("dfs", "random"), "recmorph")
    study = [*StudyPool("ordering", arms, ranked=("dfs",)).runs(()).values()]
    board = [*POOL.runs(["recmorph"]).values()]
    assert made_once([*study, *study]) == study
    assert made_once([*study, *board]) == [*study[3:], *board]
    assert {run.study for run in study[3:]} == {"ordering random"}
    evidence = _board(swat=(1.0,))
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


def test_only_finished_runs_of_clean_checkouts_are_done() -> None:
    study = _study(study="budget")
    for changes, done in (({}, 2), ({"git_dirty": True}, 0), ({"record_digest": None}, 0)):
        evidence = Evidence((), {"s": _with(study, arm="recmorph-x10", **changes)}, {})
        pending = pending_runs(evidence, find_all(evidence), Costs(evidence))
        (ten,) = (item for item in pending if item.what == "study budget, ten times")
        assert (ten.done, ten.wanted) == (done, 8), changes


def test_first_weights_of_quadrupeds_are_measured_on_frictions_too() -> None:
    (table,) = _board(bodies="quadrupeds-v1", swat=(1.0,)).analyses
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


def test_what_somebody_could_have_chosen_is_no_evidence(tmp_path: Path) -> None:
    pool = StudyPool("ordering", dict.fromkeys(("dfs", "random"), "recmorph"))
    late = Evidence((), {"a": _study(seeds=(2, 3))}, {})
    assert pool.samples(late, "training_return") == {}
    long = Evidence((), {"a": _study(seeds=tuple(range(1, 9)))}, {})  # the protocol asks for five
    assert pool.samples(long, "training_return")["dfs"].seeds == (1, 2, 3, 4, 5)
    other = Evidence((), {"a": _study(protocol="smoke")}, {})
    assert pool.samples(other, "training_return") == {}
    short = Evidence((), {"a": _study(steps=FULL - 4096)}, {})
    assert pool.samples(short, "training_return") == {}
    for name in "ab":
        (tmp_path / "studies").mkdir(exist_ok=True)
        (tmp_path / "studies" / f"{name}.json").write_bytes(seal(_study()))
    with pytest.raises(RecordError, match=r"both hold dfs of recmorph, seed 1; keep the study"):
        read_evidence((), tmp_path)
    (tmp_path / "study.json").write_bytes(seal(_study(status="incomplete")))
    with pytest.raises(RecordError, match="is not complete"):
        study_file(tmp_path, tmp_path)
    (tmp_path / "study.json").write_bytes(seal(_study(versions={"mujoco": "3.1, 3.2"})))
    with pytest.raises(RecordError, match=r"several versions of MuJoCo \(3.1, 3.2\), so that"):
        study_file(tmp_path, tmp_path)
    rules = ("method_version", "preset", "protocol_digest", "changes")
    unclean = {"git_dirty": "was not made from a clean clone"} | dict.fromkeys(rules, "by which")
    for name, problem in unclean.items():  # none is known
        (tmp_path / "study.json").write_bytes(seal(_with(_study(), **{name: None})))
        with pytest.raises(RecordError, match=f"run dfs, seed 1, in .* {problem}"):
            study_file(tmp_path, tmp_path)


def test_numbers_of_a_study_are_those_that_are_there() -> None:
    """Also of what was measured as a whole number; neither texts, truth values nor lists."""
    content = {"a": 1, "b": 2.5, "c": None, "d": float("nan"), "e": float("inf")}
    others = {"f": True, "g": "1", "h": [1.0]}
    assert plain_numbers(content | others) == {"a": 1.0, "b": 2.5, "c": None, "d": None, "e": None}


def _with(study: KeptStudy, **changes: object) -> KeptStudy:
    """Return a study with other fields in all runs."""
    runs = tuple(run.model_copy(update=changes) for run in study.runs)
    return study.model_copy(update={"runs": runs})


def test_runs_that_were_never_made_are_missing_beside_one_without_a_number(tmp_path: Path) -> None:
    study = _study()
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

    assert arms(_study()) == {"dfs", "random"}
    board = _board(recmorph=(1.0, 2.0))
    assert arms(_study(), board) == {"dfs", "random"}
    other = BodySetId(id="unimals_100", digest=digest_of("other"))
    assert arms(_with(_study(), morphologies=other), board) == set()
    assert arms(_study(status="incomplete")) == set()
    for changes in (
        {"protocol_digest": digest_of("x")}, {"task_digest": digest_of("x")}, {"preset": "paper"},
        {"method_version": 99}, {"changes": ("the protocol's ppo.lr was changed",)},
        {"git_dirty": True}, {"git_dirty": None},
    ):  # fmt: skip
        assert arms(_with(_study(), **changes), board) == set(), changes
    for engine in ("1.2.2", "1.2.2, 1.2.3"):
        assert arms(_study(versions={"mujoco": engine}), board) == set()
    # An older file does not say it: its ranked run, which the board has, does.
    old = _with(_study(), protocol_digest=None)
    assert arms(old) == arms(old, board) == set()
    first = next(stored.digest for stored in board.stored())
    assert arms(_with(old, record_digest=first), board) == {"dfs", "random"}
    (newer,) = _board(recmorph=(1.0,), version=99).stored()
    assert newer.record.method_version == 99
    assert (
        arms(_with(old, record_digest=newer.digest), _board(recmorph=(1.0,), version=99)) == set()
    )


def test_one_study_is_not_added_twice_under_two_names(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_bytes(seal(_study()))
    twice = r"studies/second.json and studies/first.json both hold dfs of recmorph, seed 1"
    with pytest.raises(RecordError, match=twice):
        keep_all([tmp_path / "first", tmp_path / "second"], tmp_path / "board")
    keep_all([tmp_path / "first"], tmp_path / "board")
    with pytest.raises(RecordError, match=twice):
        keep_all([tmp_path / "second"], tmp_path / "board")
    assert [path.name for path in (tmp_path / "board").rglob("*.json")] == ["first.json"]


def _evaluation(bodies: MorphologySet, **changes: object) -> dict[str, Any]:
    """Return what `evaluate --json` would print of a policy on the test bodies of a set."""
    record = make_record(method="recmorph")
    chosen = bodies.split("test")
    returns = make_returns("test", {body.name: (10.0, 20.0) for body in chosen})
    named = {"id": bodies.id, "digest": bodies.digest}
    return {
        **{name: getattr(record, name) for name in ("method", "suite", "task", "protocol", "seed")},
        "weights_digest": record.weights_digest,
        "trained_on": named,
        "morphologies": named,
        "episodes_per_body": 2,
        "silent_limbs": None,
        "versions": record.versions,
        "hardware": record.hardware.model_dump(),
        "git_commit": "0" * 40,
        "git_dirty": False,
        "returns": [
            {**item.model_dump(), "body_digest": body.digest}
            for item, body in zip(returns, chosen, strict=True)
        ],
        **changes,
    }


def test_an_evaluation_is_kept_as_one_score(tmp_path: Path, tiny_set: MorphologySet) -> None:
    content = _evaluation(tiny_set)
    (tmp_path / "e.json").write_text(json.dumps(content))
    (path,), _ = keep_all([tmp_path / "e.json"], tmp_path)
    (found,) = read_evidence((), tmp_path).evaluations.values()
    assert path.parent.name == "evaluations"
    assert f"_seed0-{content['weights_digest'][:8]}_" in path.name  # two policies, two files
    assert (found.score, found.bodies, found.episodes) == (15.0, 2, 2)
    assert found.git_commit == "0" * 40
    assert found.hardware == make_record().hardware
    assert keep_all([tmp_path / "e.json"], tmp_path)[0] == [path]  # the same once more
    better = json.dumps(content).replace("20.0", "30.0")
    (tmp_path / "better.json").write_text(better)
    said = r"is there and says something else; .* added once"
    with pytest.raises(RecordError, match=said):
        keep_all([tmp_path / "better.json"], tmp_path)
    with pytest.raises(RecordError, match=said):  # nor at the same time
        keep_all([tmp_path / "e.json", tmp_path / "better.json"], tmp_path / "empty")
    again = path.with_name("a-later-look.json")
    path.rename(again)
    twin = rf"{re.escape(path.name)} and .*{again.name} both score recmorph, seed 0, on the test"
    with pytest.raises(RecordError, match=twin):
        keep_all([tmp_path / "e.json"], tmp_path)
    path.write_bytes(again.read_bytes())
    with pytest.raises(RecordError, match=r"a-later-look\.json both score recmorph"):
        read_evidence((), tmp_path)
    again.write_bytes(seal(found.model_copy(update={"seed": found.seed + 1})))
    assert len(read_evidence((), tmp_path).evaluations) == 2
    other = BodySetId(id=tiny_set.id, digest=digest_of("other"))
    again.write_bytes(seal(found.model_copy(update={"seed": 2, "morphologies": other})))
    with pytest.raises(RecordError, match="name sets tiny with different content"):
        read_evidence((), tmp_path)


def test_only_mean_actions_are_kept_of_an_evaluation(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    content = _evaluation(tiny_set)
    sampled = [
        {**item, "mode": "stochastic", "episodes": item["episodes"][:1]}
        for item in content["returns"]
    ]
    content["returns"] = [*sampled, *reversed(content["returns"])]  # in any order
    (tmp_path / "e.json").write_text(json.dumps(content))
    keep_all([tmp_path / "e.json"], tmp_path)
    (found,) = read_evidence((), tmp_path).evaluations.values()
    assert (found.score, found.bodies) == (15.0, 2)


def test_scores_of_unlike_evaluations_stand_beside_each_other() -> None:
    first = _varied(make_record(method="recmorph"))
    for changes in (
        {"task": "unimal-vt-v1"}, {"protocol": "paper"}, {"method": "swat"}, {"seed": 7},
        {"weights_digest": digest_of("x")}, {"split": "train"}, {"sensor_dropout": True},
        {"morphologies": BodySetId(id="another", digest=digest_of("b"))},
    ):  # fmt: skip
        require_once(Kept({}, {"a": first, "b": first.model_copy(update=changes)}, {}, {}))
    again = first.model_copy(update={"score": 8.0})
    with pytest.raises(RecordError, match="b and a both score recmorph"):
        require_once(Kept({}, {"a": first, "b": again}, {}, {}))


def test_runs_of_unlike_studies_stand_beside_each_other() -> None:
    first = _study(seeds=(1,))
    for changes in ({"study": "components"}, {"suite": "larger-bodies-v1"}, {"protocol": "paper"}):
        require_once(Kept({"a": first, "b": first.model_copy(update=changes)}, {}, {}, {}))
    for run_changes in (
        {"seed": 2}, {"arm": "bfs"}, {"task": "unimal-vt-v1"}, {"method": "swat"},
        {"morphologies": BodySetId(id="another", digest=digest_of("b"))},
    ):  # fmt: skip
        other = first.model_copy(update={"runs": (first.runs[0].model_copy(update=run_changes),)})
        require_once(Kept({"a": first, "b": other}, {}, {}, {}))


def test_an_unseen_limb_is_the_one_that_the_seed_draws(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    bodies = tiny_set.split("test")
    for seed in (0, 1):
        drawn = draw_silent_limbs(bodies, seed).tolist()
        limbs = {body.name: body.limbs[i].name for body, i in zip(bodies, drawn, strict=True)}
        content = _evaluation(tiny_set, silent_limbs={"test": limbs}, seed=seed)
        (tmp_path / "e.json").write_text(json.dumps(content))
        (path,), _ = keep_all([tmp_path / "e.json"], tmp_path)
        assert path.name.endswith("tiny-test-dropout.json")
    assert drawn != draw_silent_limbs(bodies, 0).tolist()
    for other in ("x", {"train": limbs}, {"test": dict.fromkeys(limbs, "torso")}):
        (tmp_path / "e.json").write_text(json.dumps(_evaluation(tiny_set, silent_limbs=other)))
        with pytest.raises(RecordError, match="names other unseen limbs in 'silent_limbs'"):
            keep_all([tmp_path / "e.json"], tmp_path)


def test_quadrupeds_have_no_unseen_limbs(tmp_path: Path) -> None:
    bodies = load_morphologies("quadrupeds-v1")
    task = SUITES.get("quadruped-friction-v3").tasks[0]
    changes = {"suite": "quadruped-friction-v3", "task": task, "silent_limbs": {}}
    robots = [
        {**item, "body_digest": body.digest, "split": "train", "seen_in_train": True}
        for body in bodies.split("train")
        for item in [make_returns("train", {body.name: (1.0, 2.0)})[0].model_dump()]
    ]
    ended = TASKS.get(task).termination_names[0]
    for item in robots:
        item["episodes"] = [{**episode, "ended": ended} for episode in item["episodes"]]
    (tmp_path / "e.json").write_text(json.dumps(_evaluation(bodies, returns=robots, **changes)))
    with pytest.raises(RecordError, match="'silent_limbs', but the bodies of quadrupeds-v1 are"):
        keep_all([tmp_path / "e.json"], tmp_path)


def _episodes(**changes: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what changes the first episode of the first body."""

    def change(content: dict[str, Any]) -> dict[str, Any]:
        first, *others = content["returns"]
        episode, *more = first["episodes"]
        return {"returns": [{**first, "episodes": [{**episode, **changes}, *more]}, *others]}

    return change


FORGED: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (_episodes(episode_return=1e308), "is not the score .*less than or equal to 1000"),
    (lambda _: {"weights_digest": None}, r"is not the score of a trained policy \(field"),
    (lambda _: {"silent_limbs": ...}, r"\(it has no 'silent_limbs'\); give what"),
    (lambda _: {"returns": ...}, r"\(it has no 'returns'\); give what"),
    (lambda _: {"hardware": ...}, r"\(it has no 'hardware'\); give what"),
    (lambda _: {"hardware": {"cpu": "x"}}, r"\(field 'cores' is invalid: Field required\); give"),
    (lambda _: {"morphologies": {"id": "a/../../b", "digest": "0" * 64}}, "field 'id' is inv"),
    (lambda _: {"returns": []}, "holds no episodes; give what"),
    (lambda _: {"learning_curve": []}, "is the record of a run; give the run's folder"),
    (lambda _: {"x": json.loads("[" * 64 + "]" * 64)}, "nested more than 64 levels deep"),
    (lambda _: {"episodes_per_body": 10**400}, "field 'episodes' is invalid"),
    (lambda _: {"episodes_per_body": 3}, "says 3 episodes per body, but has 2;"),
    (
        lambda c: {"returns": [{**c["returns"][0], "episodes": c["returns"][0]["episodes"] * 2},
                               c["returns"][1]]},
        "says 2 episodes per body, but has 2 or 4;",
    ),
    (
        lambda c: {"returns": [{**c["returns"][0], "episodes": c["returns"][0]["episodes"][:1]},
                               c["returns"][1]]},
        "says 2 episodes per body, but has 1 or 2;",
    ),
    (_episodes(ended="made_up"), "ended by 'made_up', expected one of diverged, fell, time_limit;"),
    (lambda _: {"versions": {"x": "y"}}, "lacks the version of gmc-bench, python,"),
    (lambda _: {"git_dirty": True}, "was not made from a clean clone"),
    (lambda _: {"git_dirty": "no"}, "field 'git_dirty' is invalid"),
    (lambda _: {"git_commit": ..., "git_dirty": ...}, "or by a version that did not say"),
    (lambda _: {"git_dirty": ...}, "or by a version that did not say"),
    (lambda _: {"git_commit": None}, "or by a version that did not say"),
    (
        lambda _: {"morphologies": {"id": "tiny", "digest": "0" * 64}},
        "names the set tiny with the hash 000000000000, but here it has",
    ),
    (lambda _: {"trained_on": {"id": "tiny", "digest": "0" * 64}}, "names the set tiny with the"),
    (lambda c: {"returns": c["returns"][:1]}, "does not score each test body of tiny once"),
    (lambda c: {"returns": c["returns"][:1] * 2}, "does not score each test body of tiny once"),
    (
        lambda c: {"returns": [*c["returns"], c["returns"][0]]},
        "does not score each test body of tiny once",
    ),
    (
        lambda c: {"returns": [{**item, "body_digest": digest_of("x")} for item in c["returns"]]},
        "does not score each test body of tiny once",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("forge", "reason"), FORGED, ids=[reason for _, reason in FORGED])
def test_what_no_evaluation_prints_is_not_kept(
    tmp_path: Path,
    tiny_set: MorphologySet,
    forge: Callable[[dict[str, Any]], dict[str, Any]],
    reason: str,
) -> None:
    content = _evaluation(tiny_set)
    content |= forge(content)
    content = {name: value for name, value in content.items() if value is not ...}
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=rf"e\.json .*{reason}"):
        keep_all([tmp_path / "e.json"], tmp_path)
    assert list(tmp_path.rglob("*.json")) == [tmp_path / "e.json"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("5", "must hold a JSON object, got a int"),
        ("[]", "must hold a JSON object, got a list"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
    ],
    ids=["number", "list", "deep", "half"],
)
def test_what_is_no_object_is_not_kept(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(RecordError, match=rf"e\.json {problem}"):
        keep_all([tmp_path / "e.json"], tmp_path)


def test_a_score_needs_the_record_of_its_policy(tmp_path: Path, tiny_set: MorphologySet) -> None:
    (tmp_path / "e.json").write_text(json.dumps(_evaluation(tiny_set)))
    board = tmp_path / "board"
    files, _ = files_to_keep([tmp_path / "e.json"], board)
    named = {"id": tiny_set.id, "digest": tiny_set.digest}
    bodies = {**make_record().morphologies.model_dump(), **named}
    scored = make_record(method="recmorph", morphologies=bodies)
    require_policies(files, board, [scored])
    for other in (
        [],
        [make_record(method="swat", morphologies=bodies)],
        [make_record(method="recmorph", seed=1, morphologies=bodies)],
        [make_record(method="recmorph", protocol="standard", morphologies=bodies)],
        [make_record(method="recmorph")],
        [make_record(method="recmorph", weights_digest=digest_of("other"))],
    ):
        with pytest.raises(RecordError, match=r"has no record of the policy .*\(recmorph, seed 0"):
            require_policies(files, board, other)
    versions = {**scored.versions, "mujoco": "1.2.4"}
    with pytest.raises(RecordError, match=r"scored with MuJoCo 1\.2\.3, but its run was made with"):
        require_policies(files, board, [scored.model_copy(update={"versions": versions})])
    assert not board.exists()


def test_scores_on_a_set_that_is_not_here_are_not_kept(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    content = _evaluation(replace(tiny_set, id="elsewhere"))
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(UnknownNameError, match="unknown morphology set 'elsewhere'"):
        keep_all([tmp_path / "e.json"], tmp_path)


LINEAR = LinearCost(
    id="x", says="x", printed="", source="x", method="recmorph", key="act-time/act_ms",
    beside="metamorph-star",
)  # fmt: skip


def _scaling(folder: Path, **changes: object) -> Path:
    """Write the outcome of a study of scaling: the exponent of a method, with other fields."""
    folder.mkdir(exist_ok=True)
    (folder / "scaling.json").write_text("{}")
    version = METHODS.get("recmorph").version
    item = {"kind": "act-time", "key": "act_ms", "method": "recmorph", "method_version": version}
    numbers = {"value": 0.9, "low": 0.8, "high": 1.05, "sizes": [128, 1024]}
    exponent = {name: changes.pop(name, value) for name, value in {**item, **numbers}.items()}
    content = {
        "request": {"preset": changes.pop("preset", "lite")},
        "setting": {"hardware": {"cpu": "x"}},
        "exponents": [exponent],
        "git_commit": "0" * 40,
        "git_dirty": False,
        **changes,
    }
    kept = {name: value for name, value in content.items() if value is not ...}
    (folder / "study.json").write_bytes(sealed(kept))
    return folder


def test_the_growth_of_a_cost_is_at_most_linear_or_not(tmp_path: Path) -> None:
    for low, high, verdict in (
        (0.8, 1.05, "seen here"),
        (0.8, 1.3, "cannot be decided with these runs"),
        (1.05, 1.3, "cannot be decided with these runs"),
        (1.2, 1.4, "not seen here"),
    ):
        (path,), _ = keep_all([_scaling(tmp_path / "s", low=low, high=high)], tmp_path)
        found = LINEAR.find(read_evidence((), tmp_path), {})
        assert (found.verdict, found.links) == (verdict, (f"scaling/{path.name}",))
        assert found.here == f"exponent recmorph 0.90 ({low:.2f} to {high:.2f})"
        path.unlink()
    assert LINEAR.find(Evidence((), {}, {}), {}).verdict == "not run yet"


def test_a_cost_is_measured_once_and_on_the_networks_of_the_runs(tmp_path: Path) -> None:
    """Else the file whose name comes first would count."""
    board = tmp_path / "board"
    keep_all([_scaling(tmp_path / "a", preset="paper")], board)
    keep_all([_scaling(tmp_path / "other", kind="train-time")], board)
    assert LINEAR.find(read_evidence((), board), {}).verdict == "not run yet"
    keep_all([_scaling(tmp_path / "b", high=1.3)], board)
    assert LINEAR.find(read_evidence((), board), {}).links == ("scaling/b.json",)
    with pytest.raises(RecordError, match=r"b\.json is there and says something else"):
        keep_all([_scaling(tmp_path / "b", high=1.0)], board)
    with pytest.raises(
        RecordError, match=r"c\.json and .*b\.json both hold act-time/act_ms of rec"
    ):
        keep_all([_scaling(tmp_path / "c", high=1.0)], board)


def test_an_exponent_is_that_of_the_installed_version_and_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = tmp_path / "board"
    (path,), _ = keep_all([_scaling(tmp_path / "a")], board)
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
    (other,), _ = keep_all([_scaling(tmp_path / "c", **nobodys)], board)
    assert other.name == "c.json"
    for changes, problem in (
        ({"method_version": 99}, "has version 99 of recmorph, 1 is installed; run the study again"),
        ({"method_version": None}, "has version None of recmorph, 1 is installed"),
        ({"git_dirty": True}, "was not made from a clean clone, or at several commits"),
        ({"git_commit": None, "git_dirty": None}, "was not made from a clean clone"),
        ({"git_commit": ...}, r"holds no result of a study of scaling \(KeyError\('git_commit'"),
    ):
        with pytest.raises(RecordError, match=problem):
            keep_all([_scaling(tmp_path / "b", **changes)], board)


def _varied(record: RunRecord, **changes: object) -> KeptEvaluation:
    """Return the score of a recorded policy on varied bodies."""
    fields = {name: getattr(record, name) for name in ("method", "seed", "weights_digest")}
    return KeptEvaluation(
        suite="unimal-v1", task="unimal-ft-v1", protocol="lite", split="test",
        sensor_dropout=False, **{**fields, "versions": ENGINE, **changes},
        trained_on=BodySetId(id="unimals_100", digest=digest_of("set")),
        morphologies=BodySetId(id="unimals_100+dynamics-v1", digest=digest_of("b")),
        bodies=1600, episodes=2, score=7.0,
    )  # fmt: skip


def test_scores_on_other_bodies_count_for_policies_with_a_record() -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    records = [
        make_record(
            method="recmorph", seed=seed, protocol_seeds=(1, 2, 3), morphologies=bodies,
            weights_digest=digest_of(f"weights {seed}"),
        )
        for seed in (1, 2, 3, 4)
    ]  # fmt: skip
    pool = VariantPool("dynamics-v1", 1600)
    stored = [make_stored(item, f"{item.seed}.json") for item in records]
    (table,), _ = aggregate(stored)

    def seeds(
        *kept: KeptEvaluation, analyses: tuple[TableAnalysis, ...] = (analyse(table),)
    ) -> object:
        found = pool.samples(Evidence(analyses, {}, dict(zip("abcd", kept, strict=False))), "score")
        return {method: (item.seeds, item.values) for method, item in found.items()}

    first, second, third, further = map(_varied, records)
    assert seeds(first) == {"recmorph": ((1,), (7.0,))}
    assert seeds(first, analyses=()) == {}
    assert seeds(second) == {}  # the first seed is missing
    # Nor does the seed that was added where the table was close.
    assert seeds(first, second, third, further) == {"recmorph": ((1, 2, 3), (7.0,) * 3)}
    # One policy is neither another seed nor another method.
    assert seeds(first, _varied(records[0], seed=2)) == seeds(first)
    assert seeds(first, _varied(records[0], method="swat")) == seeds(first)
    # Fewer episodes or bodies than asked for are other scores.
    for change in ({"episodes": 1}, {"bodies": 800}):
        assert seeds(first.model_copy(update=change), second) == {}
    other = BodySetId(id="unimals_100", digest=digest_of("other"))
    assert seeds(first.model_copy(update={"trained_on": other})) == {}
    assert seeds(first.model_copy(update={"versions": {"mujoco": "1.2.4"}})) == {}
    # Nor are policies of settings that the method has no more those of its row.
    config = {"training": {"gamma": 0.5}}
    older = make_record(
        **{**records[0].model_dump(), "config": config, "config_digest": config_digest(config),
           "weights_digest": digest_of("older"), "method_version": 1}
    )  # fmt: skip
    newer = [item.model_copy(update={"method_version": 2}) for item in records]
    (both,), _ = aggregate(
        [make_stored(item, f"{place}.json") for place, item in enumerate([older, *newer])]
    )
    assert seeds(_varied(older), analyses=(analyse(both),)) == {}
    assert seeds(first, analyses=(analyse(both),)) == {"recmorph": ((1,), (7.0,))}


def test_scores_with_an_unseen_limb_are_of_train_bodies() -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    record = make_record(method="recmorph", seed=1, protocol_seeds=(1,), morphologies=bodies)
    tables, _ = aggregate([make_stored(record)])
    dropped = {
        "split": "train", "sensor_dropout": True, "bodies": 100,
        "morphologies": BodySetId(id="unimals_100", digest=digest_of("set")),
    }  # fmt: skip
    item = _varied(record).model_copy(update=dropped)
    for change, count in (
        ({}, 1), ({"split": "test"}, 0), ({"sensor_dropout": False}, 0),
        ({"morphologies": BodySetId(id="unimals_100+dynamics-v1", digest=digest_of("b"))}, 0),
    ):  # fmt: skip
        kept = {"a": item.model_copy(update=change)}
        evidence = Evidence(tuple(map(analyse, tables)), {}, kept)
        assert len(VariantPool("", 100).samples(evidence, "score")) == count


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
    content = load_yaml(Path(__file__).parents[3] / "examples" / "boards.yaml")
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
