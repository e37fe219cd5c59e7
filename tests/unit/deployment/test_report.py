import math

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.deployment.deploy import DeployOptions
from gmc_bench.deployment.loop import Latency, TrialOutcome
from gmc_bench.deployment.report import (
    DISCLAIMER,
    Attempt,
    make_table,
    success_interval,
    table_rows,
    to_dict,
)
from gmc_bench.deployment.trials import TRIALS, draw_conditions
from gmc_bench.robots.schema import BUILT_IN


def attempt(number, outcome, robot="go2", origin=BUILT_IN):
    result = TrialOutcome(
        outcome=outcome, reason="", steps=750, mean_velocity=0.4, wanted_velocity=0.5,
        progress=5.9, turned=-3.0,
        policy_ms=Latency(median=0.5, p95=1.0, largest=2.0 + number),
        tick_ms=Latency(median=3.5, p95=4.0, largest=5.0 + number),
        deadline_misses=number, states=np.zeros((2, 19)),
    )  # fmt: skip
    trial = TRIALS["forward"]
    conditions = draw_conditions(trial, 1, number)
    return Attempt(
        trial=trial, robot=robot, number=number, seed=1, conditions=conditions, result=result,
        origin=origin,
    )  # fmt: skip


def test_rows_are_the_papers():
    found = [attempt(0, "success"), attempt(1, "fell")]
    found += [attempt(0, "success", name) for name in ("go1", "anymal-b", "anymal-c")]
    assert table_rows(found) == [
        ("Go2", "forward walking", "2", "1/2", "10/10"),
        # Not in the paper.
        ("Go1", "forward walking", "1", "1/1", "-"),
        ("ANYmal B", "forward walking", "1", "1/1", "-"),
        ("ANYmal C", "forward walking", "1", "1/1", "-"),
    ]
    assert (
        make_table(found, True, 15.0, planned=1).to_csv().splitlines()[0]
        == "Robot,Setting,Trials,Success,Published (hardware)"
    )
    text = make_table(found, True, 15.0, planned=1).to_markdown()
    assert DISCLAIMER in text
    assert (
        "Policy: median 0.50 ms, 95 % 1.00 ms, max 3.00 ms; whole control step, simulation "
        "included: median 3.50 ms, 95 % 4.00 ms, max 6.00 ms; deadlines missed: 1 of 3750."
    ) in text


def test_json_holds_every_trial():
    content = to_dict(
        [attempt(0, "success"), attempt(1, "fell")], {"method": "m"}, False, 15.0, planned=1
    )
    assert content["note"] == DISCLAIMER
    assert content["summary"][0]["successes"] == 1
    # At least one of two, and at most one, have a chance of 2.5 % at its ends.
    interval = content["summary"][0]["success_interval_95"]
    assert interval == pytest.approx([1.0 - math.sqrt(0.975), math.sqrt(0.975)])
    first = content["trials"][0]
    assert (first["seed"], first["number"], first["outcome"]) == (1, 1, "success")
    assert first["conditions"]["floor"] == "flat"
    assert first["policy_ms"] == {"median": 0.5, "p95": 1.0, "largest": 2.0}
    assert first["tick_ms"] == {"median": 3.5, "p95": 4.0, "largest": 5.0}


def test_trials_that_were_not_run_are_missed():
    found = [attempt(0, "success"), attempt(1, "fell")]
    stopped = "Incomplete: stopped after 2 of 3 trials."
    assert stopped in make_table(found, False, 15.0, planned=3).notes
    assert "Incomplete" not in make_table(found, False, 15.0, planned=2).to_markdown()
    assert to_dict(found, {}, False, 15.0, planned=3)["planned_trials"] == 3


def test_intervals_of_success_leave_2_5_percent_at_either_end():
    # The lower ends are the tenth and the fortieth root of 0.025.
    assert success_interval(10, 10) == (pytest.approx(0.6915, abs=1e-4), 1.0)
    assert success_interval(40, 40)[0] == pytest.approx(0.9119, abs=1e-4)
    assert success_interval(0, 10) == (0.0, pytest.approx(1.0 - 0.6915, abs=1e-4))
    # Between them, either end leaves what was seen, or more, a chance of 2.5 %.
    low, high = success_interval(3, 10)
    for rate, counts in ((low, range(3, 11)), (high, range(4))):
        chance = [math.comb(10, k) * rate**k * (1.0 - rate) ** (10 - k) for k in counts]
        assert sum(chance) == pytest.approx(0.025)


def test_what_was_simulated_and_whether_headings_were_held_is_said():
    ours = [attempt(0, "success")]
    assert "model files" not in make_table(ours, False, 15.0, planned=1).to_markdown()
    text = make_table(ours, False, 15.0, planned=1, hold_heading=False).to_markdown()
    assert "Nothing corrects the heading." in text
    assert to_dict(ours, {}, False, 15.0, planned=1, hold_heading=False)["heading"] == "free"
    found = [attempt(0, "success", origin="go2.xml (sha256 12ab)")]
    assert (
        "other model files: go2: go2.xml (sha256 12ab)."
        in make_table(found, False, 15.0, planned=1).notes[2]
    )
    content = to_dict(found, {}, False, 15.0, planned=1)
    assert (content["heading"], content["trials"][0]["robot_origin"]) == (
        "held", "go2.xml (sha256 12ab)",
    )  # fmt: skip
    assert content["trials"][0]["progress"] == 5.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, "'trials' must be a number of trials of each kind, at least 1, got 0"),
        ({"video": "frist"}, "'video' must be 'first' or 'failed' or 'all' or none, got 'frist'"),
        ({"seed": 2**53}, "'seed' must be between 0 and 4294967295, got 9007199254740992"),
        ({"seed": -1}, "'seed' must be between 0 and 4294967295, got -1"),
        ({"seconds": 1e308}, "a trial is at most 3,600 s long, got 1e\\+308 s"),
        ({"seconds": float("nan")}, "'seconds' must be a finite number, got nan"),
        ({"seconds": None}, "'seconds' must be "),
        ({"trial": 3}, "'trial' must be "),
        ({"robot": 3}, "'robot' must be "),
    ],
)
def test_options_of_trials_are_looked_at_before_anything_is_made(changes, message):
    with pytest.raises(ConfigError, match=message):
        DeployOptions(**changes)
