"""Scores over numbers of train bodies: lines by hand, crossing points, and planned runs."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import store_set
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.studies import generalisation
from gmc_bench.studies.generalisation import (
    MethodRuns,
    _verdict,
    crossing,
    crossing_table,
    draw_growth,
    fit_line,
    growth_table,
    score_table,
)
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.request import Request, read_request
from gmc_bench.suites import SUITES
from tests.support.records import make_record, make_returns

BASE = ExperimentSpec(method="recmorph", suite="unimal", bodies="gmc-unimal-mini-v2")
COUNTS = np.repeat([1.0, 10.0, 100.0], 2)


def _series(means: tuple[float, ...], scatter: float = 1.0) -> MethodRuns:
    scores = np.repeat(means, 2) + np.tile([-scatter, scatter], len(means))
    return MethodRuns(COUNTS[: len(scores)], scores)


def test_a_line_is_fitted_over_the_logarithm_of_bodies() -> None:
    line = fit_line(_series((5.0, 15.0, 25.0)))
    assert line is not None
    assert (line.level, line.slope, line.at(1000)) == pytest.approx((5.0, 10.0, 35.0))
    # six runs 1 off the line: variance 6 / 4, over sum of squares 4; t(0.975, 4) = 2.776
    assert (line.high or 0.0) - line.slope == pytest.approx(2.7764 * (1.5 / 4) ** 0.5, rel=1e-4)
    assert line.p_bent == pytest.approx(1.0)
    bent = fit_line(_series((5.0, 25.0, 25.0)))
    assert bent is not None
    assert bent.p_bent is not None
    assert bent.p_bent < 0.01
    # 5 - 2 x 18 + 25 = -6 has the sum of squares 2 x 36 / 6 = 12, and runs scatter by 6 / 3 = 2:
    # F(1, 3) is 6, the square of a t(3), whose distribution function has a closed form.
    mild = fit_line(_series((5.0, 18.0, 25.0)))
    assert mild is not None
    angle = np.arctan(np.sqrt(6.0 / 3.0))
    expected = 1.0 - 2.0 / np.pi * (angle + np.sin(angle) * np.cos(angle))
    assert mild.p_bent == pytest.approx(expected)
    assert fit_line(_series((5.0,))) is None
    exact = fit_line(_series((5.0, 18.0, 25.0), scatter=0.0))  # nothing to test a bend against
    assert exact is not None
    assert exact.p_bent is None


@pytest.mark.slow
def test_lines_cross_inside_or_nowhere() -> None:
    up, flat = _series((5.0, 15.0, 25.0)), _series((15.0, 15.0, 15.0))
    found = crossing(up, flat)
    assert found is not None
    assert found.count == pytest.approx(10.0)
    assert found.low is not None
    assert found.high is not None
    assert 1.0 < found.low < 10.0 < found.high < 100.0
    assert found.share == 1.0
    above = crossing(up, _series((50.0, 50.0, 50.0)))
    assert above is not None
    assert (above.count, above.low, above.share) == (None, None, 0.0)
    assert crossing(up, _series((5.0,))) is None
    # Lines meet at three bodies, of which one of the two was never trained on.
    part = crossing(MethodRuns(up.counts[2:], up.scores[2:]), _series((10.0, 10.0, 10.0)))
    assert part is not None
    assert (part.count, part.share) == (None, 0.0)
    # Where runs scatter much, many resamples cross elsewhere: there is no interval.
    vague = crossing(_series((14.0, 15.0, 16.0), scatter=5.0), flat)
    assert vague is not None
    assert vague.count == pytest.approx(10.0)
    assert (vague.low, vague.high) == (None, None)
    assert vague.share is not None
    assert 0.0 < vague.share < 0.95


def test_a_single_run_says_nothing_about_how_runs_scatter() -> None:
    up, flat = _series((5.0, 15.0, 25.0)), _series((15.0, 15.0, 15.0))
    single = MethodRuns(up.counts[:-1], np.array([5.0, 5.0, 15.0, 15.0, 25.0]))
    for sides in ((single, flat), (flat, single)):
        found = crossing(*sides)
        assert found is not None
        assert found.count == pytest.approx(10.0)
        assert (found.low, found.high, found.share) == (None, None, None)


def test_the_interval_of_a_crossing_is_that_of_single_runs() -> None:
    """Of two runs at each number one is drawn: 2^6 pairs of lines, all as likely."""
    up, flat = _series((5.0, 15.0, 25.0)), _series((15.0, 15.0, 15.0))
    places = []
    for signs in itertools.product((-1.0, 1.0), repeat=6):
        one, other = np.array([5.0, 15.0, 25.0]) + signs[:3], 15.0 + np.array(signs[3:])
        slopes = (one[2] - one[0]) / 2.0, (other[2] - other[0]) / 2.0  # at 0, 1 and 2 on the axis
        levels = one.mean() - slopes[0], other.mean() - slopes[1]
        places.append((levels[1] - levels[0]) / (slopes[0] - slopes[1]))
    places.sort()
    found = crossing(up, flat)
    assert found is not None
    # The second of 64 lies between the shares of 1.6 % and 3.1 %.
    assert (found.low, found.high) == pytest.approx((10 ** places[1], 10 ** places[-2]))


def test_tables_say_what_lines_and_scores_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generalisation, "RESAMPLES", 50)
    request = Request.make("bodies", ["recmorph", "nervenet", "swat"], counts=(1, 10, 100))
    means = {"recmorph": (5.0, 15.0, 25.0), "nervenet": (15.0,) * 3, "swat": (5.0, 25.0, 25.0)}
    outcomes = []
    bodies = make_record().morphologies.model_dump() | {"num_train": 1, "num_test": 1}
    for place, arm in enumerate(request.arms):
        for seed, off in ((1, -1.0), (2, 1.0)):
            test = means[arm.parts["Method"]][place % 3] + off
            record = make_record(
                seed=seed,
                training_return=test + 7.0,
                returns=(
                    *make_returns("train", {"a": [test + 2.0]}),
                    *make_returns("test", {"c": [test]}),
                ),
                morphologies=bodies,
            )
            outcomes.append(Outcome(arm, "unimal-ft-v1", seed, record))
    rows = [row[1:] for row in growth_table(request.study, outcomes).rows]
    assert rows[0] == (
        "recmorph", "6", "+10.0", "+8.3 to +11.7", "5.0", "25.0", "yes (p = 1.00)",
    )  # fmt: skip
    assert rows[1][2:] == ("+0.0", "-1.7 to +1.7", "15.0", "15.0", "yes (p = 1.00)")
    assert rows[2][-1] == "no (p = 0.00)"
    shown = score_table(request.study, outcomes)
    assert shown.rows[0][4:] == ("2", "12.0 ± 1.4", "7.0 ± 1.4", "5.0 ± 1.4", "2.0 ± 0.0")
    crossings = crossing_table(request.study, outcomes).rows
    assert [row[1:3] for row in crossings] == [
        ("recmorph, nervenet", "10"),
        ("recmorph, swat", "not among these numbers"),
        ("nervenet, swat", "5"),
    ]
    assert crossings[0][4] == "100 %"
    del outcomes[0]
    gone = Outcome(request.arms[0], "unimal-ft-v1", 1, None)
    assert growth_table(request.study, [gone, *outcomes]).rows[0][2:] == (
        "5 of 6", *["incomplete"] * 5
    )  # fmt: skip


def test_a_line_fits_where_a_bend_is_not_significant() -> None:
    assert [_verdict(p_bent) for p_bent in (0.04, 0.06, 0.94)] == ["no", "yes", "yes"]


def test_every_method_meets_the_same_bodies_and_every_seed_others() -> None:
    request = Request.make("bodies", ["recmorph", "nervenet"], counts=(4, 24))
    found = request.specs(BASE, seeds=(1, 2, 7))
    assert found["recmorph-4_ft_seed2"].bodies == found["nervenet-4_ft_seed2"].bodies
    bodies = [found[f"recmorph-4_ft_seed{seed}"].bodies for seed in (1, 2, 7)]
    assert bodies == [f"gmc-unimal-mini-v2:4{at}" for at in ("", "@5", "")]
    assert {found[f"nervenet-24_ft_seed{seed}"].bodies for seed in (1, 2)} == {
        "gmc-unimal-mini-v2:24"
    }
    assert all("env_steps" not in spec.settings for spec in found.values())
    with pytest.raises(ConfigError, match="has 24 train bodies; choose another set"):
        Request.make("bodies", counts=(24, 25)).specs(BASE, seeds=(1,))


def test_bodies_that_some_runs_train_on_are_not_scored(tiny_set: MorphologySet) -> None:
    """They would be unseen ones to the runs on few bodies."""
    splits = {**tiny_set.splits, "test": tiny_set.split("train")[:1]}
    store_set(replace(tiny_set, id="again", splits=splits))
    with pytest.raises(ConfigError, match="but 1 test bodies of again are train bodies, too"):
        Request.make("bodies", counts=(1, 2)).specs(BASE.replace(bodies="again"), seeds=(1,))


def test_numbers_that_finished_runs_do_not_have_are_not_incomplete() -> None:
    request = replace(Request.make("bodies", ["recmorph", "nervenet"]), counts=(4,))
    one = [Outcome(arm, "unimal-ft-v1", 1, make_record()) for arm in request.arms]
    assert growth_table(request.study, one).rows[0][3:] == ("-",) * 5
    assert crossing_table(request.study, one).rows[0][2:] == ("-",) * 3
    missing = [one[0], replace(one[1], record=None)]
    assert crossing_table(request.study, missing).rows[0][2:] == ("incomplete",) * 3


def test_each_body_can_have_as_many_steps(tmp_path) -> None:
    request = Request.make("bodies", ["recmorph"], counts=(4, 20), steps="per-body")
    steps = SUITES.load("unimal").protocol("lite").env_steps
    found = [spec.settings["env_steps"] for spec in request.specs(BASE, seeds=(1,)).values()]
    assert found == [steps * 4 // 100, steps * 20 // 100]
    assert Request.make("bodies", counts=[20, 4, 20]).counts == (20, 4)
    (tmp_path / "study.yaml").write_text(request.to_yaml())
    assert read_request(tmp_path / "study.yaml") == request
    with pytest.raises(ConfigError, match="--steps is equal or per-body, got 'each'"):
        Request.make("bodies", steps="each")
    with pytest.raises(ConfigError, match="--counts is for the study 'bodies'"):
        Request.make("budget", counts=(1,))


def test_the_axis_names_the_numbers_of_bodies(
    steps_below: Callable[[Callable[[], bytes]], list[str]],
) -> None:
    request = Request.make("bodies", ["recmorph"], counts=(4, 1000))
    outcomes = [Outcome(arm, "unimal-ft-v1", 1, make_record()) for arm in request.arms]
    assert steps_below(lambda: draw_growth(request.study, outcomes)) == ["4", "1,000"]


def test_every_panel_has_the_dots_and_the_line_of_its_own_score(drawn: list[Figure]) -> None:
    request = Request.make("bodies", ["recmorph"], counts=(1, 10))
    bodies = make_record().morphologies.model_dump() | {"num_train": 1, "num_test": 1}
    returns = [
        (*make_returns("train", {"a": [train]}), *make_returns("test", {"c": [test]}))
        for train, test in ((7.0, 5.0), (9.0, 15.0))
    ]
    outcomes = [
        Outcome(arm, "unimal-ft-v1", 1, make_record(returns=each, morphologies=bodies))
        for arm, each in zip(request.arms, returns, strict=True)
    ]
    draw_growth(request.study, outcomes)
    (figure,) = drawn
    found = {}
    for axes in figure.axes:
        dots, line = axes.lines
        found[axes.get_title()] = list(dots.get_ydata())
        assert list(line.get_ydata()) == pytest.approx(list(dots.get_ydata()))
    assert found == {"ft: Test score": [5.0, 15.0], "ft: Train score": [7.0, 9.0]}
