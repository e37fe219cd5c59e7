"""Rankings at several budgets: runs that are planned, Kendall's tau by hand, incomplete cells."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.studies.budget import (
    _scores,
    agreement,
    agreement_table,
    draw_budgets,
    kendall,
    score_table,
)
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.request import Request, read_request
from gmc_bench.suites import SUITES
from tests.support.records import make_record, make_returns

FT = "unimal-ft-v1"
REQUEST = Request.make("budget", ["recmorph", "nervenet"])
BASE = ExperimentSpec(method="recmorph", suite="unimal")


def test_every_method_is_planned_at_a_third_at_once_and_at_ten_times_the_protocol():
    steps = SUITES.load("unimal").protocol("lite").env_steps
    found = REQUEST.specs(BASE, seeds=(1, 2))
    assert list(found) == [
        f"{method}-x{budget}_ft_seed{seed}"
        for seed in (1, 2)
        for method in ("recmorph", "nervenet")
        for budget in ("1-3", "1", "10")
    ]
    asked = [found[f"nervenet-x{budget}_ft_seed2"] for budget in ("1-3", "1", "10")]
    assert [spec.settings for spec in asked] == [
        {"env_steps": round(steps / 3)}, {}, {"env_steps": 10 * steps}
    ]  # fmt: skip
    assert {(spec.method, spec.seed) for spec in asked} == {("nervenet", 2)}
    shorter = REQUEST.specs(BASE.replace(settings={"env_steps": 3000}), seeds=(1,))
    assert [spec.settings["env_steps"] for spec in shorter.values()] == 2 * [1000, 3000, 30000]
    assert len(Request.make("budget").methods) == 4


def test_other_budgets_can_be_asked_for_and_are_kept(tmp_path):
    request = Request.make("budget", ["recmorph"], budgets=("1", 0.1, "1/3", "1.0"))
    found = request.specs(BASE.replace(settings={"env_steps": 3000}), seeds=(1,))
    assert [(name, spec.settings["env_steps"]) for name, spec in found.items()] == [
        ("recmorph-x1-10_ft_seed1", 300),
        ("recmorph-x1-3_ft_seed1", 1000),
        ("recmorph-x1_ft_seed1", 3000),
    ]
    (tmp_path / "study.yaml").write_text(request.to_yaml())
    assert read_request(tmp_path / "study.yaml") == request


@pytest.mark.parametrize(
    "budgets",
    [("1",), ("1/3", "0.5/2"), ("1", "1.0"), ("0", "1"), ("1/0",), ("1e99", "1"), ("1", "1/10001"),
     ("1e999999999", "1"), ("1e-999999999", "1"), ("1", "10001"), ("nan", "1")],
)  # fmt: skip
def test_budgets_that_compare_nothing_are_refused(budgets):
    with pytest.raises(ConfigError, match=f"--budgets takes .*, got '{' '.join(budgets)}'"):
        Request.make("budget", budgets=budgets)


@pytest.mark.parametrize("study", ["budget", "bodies"])
def test_a_budget_for_each_body_is_no_equal_one(study):
    with pytest.raises(ConfigError, match="but 'mlp' has a budget of its own for each body"):
        Request.make(study, ["recmorph", "mlp"])


def test_kendalls_tau_counts_pairs():
    ranks = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall(ranks, ranks) == 1.0
    assert kendall(ranks, -ranks) == -1.0
    assert kendall(ranks, np.array([1.0, 2.0, 4.0, 3.0])) == pytest.approx((5 - 1) / 6)
    assert kendall(ranks, np.array([1.0, 2.0, 3.0, 3.0])) == pytest.approx(5 / 6)  # a tie
    np.testing.assert_allclose(kendall(np.stack([ranks, -ranks]), ranks), [1.0, -1.0])


def test_the_interval_is_over_bodies_and_over_seeds():
    apart = [np.full((2, 3), value) for value in (1.0, 2.0, 3.0)]
    found = agreement(apart, apart)
    assert (found.tau, found.low, found.high, found.same, found.pairs) == (1.0, 1.0, 1.0, 3, 3)
    single = [scores[:1, :1] for scores in apart]
    assert agreement(single, single[::-1]).low is None
    assert agreement(single, single[::-1]).tau == -1.0
    # The first is better by 1 on one of three bodies and worse by 0.4 on each of two.
    bodies = [np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.4, 0.4]])]
    clear = [np.full((1, 3), 1.0), np.full((1, 3), 0.0)]
    over_bodies = agreement(bodies, clear, np.arange(3))
    assert (over_bodies.tau, over_bodies.low, over_bodies.high) == (1.0, -1.0, 1.0)
    seeds = [np.array([[3.0], [0.0]]), np.array([[1.0], [1.0]])]
    over_seeds = agreement(seeds, [scores[:1, :1] for scores in clear])
    assert (over_seeds.tau, over_seeds.low, over_seeds.high) == (1.0, -1.0, 1.0)
    assert agreement(bodies, clear, np.arange(3)) == over_bodies
    fixed = agreement(bodies, clear)  # neither bodies nor runs vary
    assert (fixed.tau, fixed.low, fixed.high) == (1.0, None, None)


def test_one_run_less_than_there_are_is_drawn():
    # Two draws of three runs are both 0 in one of nine cases, and the other method's single draw
    # is 1 in half of them: the order is turned in 1 of 18. With three and two draws, it would be
    # in 1 of 108.
    runs = [np.array([[0.0], [6.0], [6.0]]), np.array([[-1.0], [1.0]])]
    clear = [np.full((1, 1), 1.0), np.full((1, 1), 0.0)]
    found = agreement(runs, clear)
    assert (found.tau, found.low, found.high) == (1.0, -1.0, 1.0)


def test_the_interval_leaves_out_one_in_forty_at_each_end():
    # The second is better only where all three draws are the third body: 1 in 27.
    bodies = [np.array([[3.0, 3.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])]
    clear = [np.full((1, 3), 1.0), np.full((1, 3), 0.0)]
    found = agreement(bodies, clear, np.arange(3))
    assert (found.tau, found.low, found.high) == (1.0, -1.0, 1.0)


def test_bodies_of_a_cluster_are_drawn_together():
    # Better by 1 on one half of the bodies and worse by 0.5 on the other. A quarter of the draws
    # of two halves has the second alone; of draws of 40 bodies, one in 50 is worse.
    half = np.repeat([0, 1], 20)
    bodies = [1.0 * (half == 0)[None], 0.5 * (half == 1)[None]]
    clear = [np.full((1, 40), 1.0), np.full((1, 40), 0.0)]
    single, together = (agreement(bodies, clear, each) for each in (np.arange(40), half))
    assert (single.tau, single.low, single.high) == (1.0, 1.0, 1.0)
    assert (together.tau, together.low, together.high) == (1.0, -1.0, 1.0)


def runs_of(scores, missing=()):
    """Return an outcome per method, budget and seed; bodies `y` and `z` differ by 2."""
    found = []
    for arm in REQUEST.arms:
        for seed in (1, 2):
            score = scores[arm.name] + seed
            record = make_record(
                seed=seed,
                training_return=score,
                returns=(
                    *make_returns("train", {"x": [score], "b": [score]}),
                    *make_returns("test", {"y": [score - 1], "z": [score + 1]}),
                    *make_returns("test", {"b": [1e6]}, seen=("b",)),
                ),
            )
            gone = (arm.name, seed) in missing
            found.append(Outcome(arm, FT, seed, None if gone else record))
    return found


SCORES = {
    "recmorph-x1-3": 10.0, "recmorph-x1": 50.0, "recmorph-x10": 100.0,
    "nervenet-x1-3": 30.0, "nervenet-x1": 40.0, "nervenet-x10": 70.0,
}  # fmt: skip


def test_rankings_are_compared_for_every_pair_of_budgets():
    table = agreement_table(REQUEST.study, runs_of(SCORES))
    assert [row[1:] for row in table.rows] == [
        (by, budgets, *cells)
        for by in ("Training return", "Train score", "Test score")
        for budgets, *cells in (
            ("1/3 x, 1 x", "-1.00", "-1.00 to -1.00", "0 of 1 pairs"),
            ("1/3 x, 10 x", "-1.00", "-1.00 to -1.00", "0 of 1 pairs"),
            ("1 x, 10 x", "+1.00", "+1.00 to +1.00", "1 of 1 pairs"),
        )
    ]
    shown = score_table(REQUEST.study, runs_of(SCORES))
    places = {row[1:3]: row[-1] for row in shown.rows}
    assert places["nervenet", "1/3 x"] == places["recmorph", "10 x"] == "1"
    assert places["recmorph", "1/3 x"] == places["nervenet", "10 x"] == "2"
    assert shown.rows[0][5:8] == ("11.5 ± 0.7", "11.5 ± 0.7", "11.5 ± 0.7")


def test_a_place_is_that_on_one_task():
    terrain = runs_of({**SCORES, "nervenet-x1": 60.0})
    other = [replace(run, task="unimal-vt-v1") for run in terrain]
    shown = score_table(REQUEST.study, [*runs_of(SCORES), *other])
    places = {row[:3]: row[-1] for row in shown.rows}
    assert [places[task, "nervenet", "1 x"] for task in (FT, "unimal-vt-v1")] == ["2", "1"]


def test_only_unseen_bodies_stand_for_others():
    """One method is better on two bodies and worse on the third, the same ones in both splits."""
    scores = {
        "recmorph-x1-3": (3.0, 3.0, 0.0), "nervenet-x1-3": (0.0, 0.0, 1.0),
        "recmorph-x1": (1.0, 1.0, 1.0), "nervenet-x1": (0.0, 0.0, 0.0),
    }  # fmt: skip
    outcomes, bodies = [], make_record().morphologies.model_dump() | {"num_train": 3}
    for arm in REQUEST.arms:
        if arm.name in scores:
            train, test = (
                {f"{split}-{k}": [value] for k, value in enumerate(scores[arm.name])}
                for split in ("train", "test")
            )
            returns = (*make_returns("train", train), *make_returns("test", test))
            record = make_record(
                training_return=scores[arm.name][0], returns=returns, morphologies=bodies
            )
            outcomes.append(Outcome(arm, FT, 1, record))
    spans = {row[1]: row[4] for row in agreement_table(REQUEST.study, outcomes).rows}
    assert spans == {
        "Training return": "-", "Train score": "-", "Test score": "-1.00 to +1.00"
    }  # fmt: skip


def test_a_body_that_a_set_lists_twice_counts_once():
    record = make_record(returns=make_returns("test", {"y": [0.0], "z": [3.0], "z-again": [5.0]}))
    twin = record.returns[2].model_copy(update={"body_digest": record.returns[1].body_digest})
    record = record.model_copy(update={"returns": (*record.returns[:2], twin)})
    (scores,) = _scores([Outcome(REQUEST.arms[0], FT, 1, record)], "Test score")
    assert scores.tolist() == [0.0, 4.0]
    assert scores.mean() == record.score("test", "deterministic")


def test_nothing_is_compared_before_all_runs_are_there():
    table = agreement_table(REQUEST.study, runs_of(SCORES, missing={("nervenet-x10", 2)}))
    found = {row[2]: row[3:] for row in table.rows}
    assert found["1/3 x, 1 x"][0] == "-1.00"
    assert set(found["1 x, 10 x"]) == {"incomplete"}
    shown = score_table(REQUEST.study, runs_of(SCORES, missing={("nervenet-x10", 2)}))
    assert [row[-1] for row in shown.rows if row[2] == "10 x"] == ["-", "-"]


def test_learning_curves_are_marked_where_trainings_end(steps_below):
    outcomes = runs_of(SCORES)
    for place, run in enumerate(outcomes):
        if run.arm.parts["Budget"] == "1/3 x":
            points = [
                point.model_copy(update={"env_steps": point.env_steps // 3})
                for point in run.record.learning_curve
            ]
            short = run.record.model_copy(update={"learning_curve": tuple(points)})
            outcomes[place] = replace(run, record=short)
    assert steps_below(lambda: draw_budgets(REQUEST.study, outcomes)) == ["666.0", "2.0k"]
    # Of a variant that lacks a run, there is no mean.
    for place, run in enumerate(outcomes):
        if run.arm.parts["Budget"] == "1/3 x" and run.seed == 1:
            outcomes[place] = replace(run, record=None)
    assert steps_below(lambda: draw_budgets(REQUEST.study, outcomes)) == ["2.0k"]
