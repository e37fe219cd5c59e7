"""Tables of the friction study: means by hand, missing runs, the paper's columns, every robot."""

from dataclasses import replace

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction_metrics import READINGS
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.studies.catalogue import FRICTION
from gmc_bench.studies.figures import draw_friction
from gmc_bench.studies.friction_table import (
    FRICTION_TABLES,
    METRICS,
    direction_table,
    friction_number,
    friction_table,
    robot_table,
    run_table,
    single_life_table,
)
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.schema import Arm
from gmc_bench.studies.table import INCOMPLETE, NONE, PUBLISHED
from tests.support.records import make_record

TASK = "quadruped-velocity-v3"
RECMORPH = Arm(name="recmorph", label="recmorph", parts={"Controller": "shared"})
MLP = Arm(name="mlp", label="mlp", method="mlp", parts={"Controller": "one per robot"})
SETTING = {
    "protocol": "lite", "num_envs": 32, "seconds": 20.0, "forward": 0.5, "episode_seconds": 20.0,
    "rule": "two-state", "heading": "held", "robots": "built-in",
}  # fmt: skip


def metrics(value):
    return {
        "velocity_rmse": value, "forward_rmse": value / 2, "progress": 10 * value,
        "tilt_rms": 20 * value, "fall_rate": 100 * value, "slip": None, "episodes": 7, "falls": 3,
        "diverged": 0,
    }  # fmt: skip


def measured(value, **changes):
    """The second robot is worse by half; to the left and in a single life, all get twice that."""
    readings = dict(zip(READINGS, (value, 2 * value), strict=True))
    results = [
        {
            "robot": robot,
            "friction": name,
            **{reading: metrics(factor * number) for reading, number in readings.items()},
        }
        for name in FRICTION_PAIRS
        for robot, factor in (("go1", 1.0), ("go2", 1.5))
    ]
    macro = {
        name: {reading: metrics(1.25 * number) for reading, number in readings.items()}
        for name in FRICTION_PAIRS
    }
    aside = [
        {**item, "direction": "left", "restarts": metrics(2.0 * item["restarts"]["velocity_rmse"])}
        for item in results
        if item["friction"] == "nominal"
    ]
    results = [*aside, *results]  # their order does not count
    left = {"restarts": metrics(1.25 * 2.0 * value)}
    directions = {"forward": macro["nominal"], "left": left}
    setting = {**SETTING, **changes}
    return {"setting": setting, "macro": macro, "directions": directions, "results": results}


def outcome(arm, seed, value, **changes):
    record = make_record(seed=seed, task=TASK)
    return Outcome(arm, TASK, seed, record, measured(value, **changes))


@pytest.fixture
def outcomes():
    return [outcome(arm, seed, 0.1 * seed) for seed in (1, 3) for arm in (RECMORPH, MLP)]


def column(table, name):
    place = table.headings.index(name)
    return [row[place] for row in table.rows]


def test_a_row_per_method_and_friction_with_the_papers_beside_it(outcomes):
    table = friction_table(FRICTION, outcomes)
    assert column(table, "Method") == ["recmorph"] * 3 + ["mlp"] * 3
    assert column(table, "Controller")[2:4] == ["shared", "one per robot"]
    assert column(table, "Friction")[:3] == [
        "low (0.3, 0.2)", "nominal (0.8, 0.6)", "high (1.2, 1.0)",
    ]  # fmt: skip
    assert column(table, "Runs") == ["2"] * 6
    assert column(table, "Velocity RMSE (m/s)")[0] == "0.250 ± 0.177"
    assert column(table, "Progress (m)")[0] == "2.50 ± 1.77"
    assert column(table, "Fall rate (%)")[0] == "25.00 ± 17.68"
    assert column(table, "Feet slid per metre (m)") == [NONE] * 6
    # Nominal friction stands in a table of its own in the paper.
    assert column(table, f"{PUBLISHED}: Velocity RMSE (m/s)") == [
        "0.907 ± 0.042", "0.156 ± 0.038", "0.133 ± 0.023",
        "0.919 ± 0.198", "0.276 ± 0.116", "0.332 ± 0.093",
    ]  # fmt: skip
    assert column(table, f"{PUBLISHED}: Fall rate (%)")[1] == "6.97 ± 11.11"


def test_notes_say_what_was_measured_and_what_the_published_numbers_are(outcomes):
    notes = "\n".join(friction_table(FRICTION, outcomes).notes)
    assert "lite says: 32 environments per robot and friction, 20 s each" in notes
    assert "commanded 0.5 m/s" in notes
    assert "Table IV and Table V" in notes
    assert "must not be compared" in notes
    assert PUBLISHED not in "\n".join(robot_table(FRICTION, outcomes).notes)


def test_methods_that_the_paper_does_not_have_get_no_published_number():
    other = replace(RECMORPH, name="swat", label="swat")
    table = friction_table(FRICTION, [outcome(other, 1, 0.1)])
    assert column(table, f"{PUBLISHED}: Progress (m)") == [NONE] * 3


def test_a_missing_run_is_never_averaged_away(outcomes):
    outcomes[0] = Outcome(RECMORPH, TASK, 1, None)
    table = friction_table(FRICTION, outcomes)
    assert column(table, "Progress (m)")[:3] == [INCOMPLETE] * 3
    assert column(table, "Runs")[:4] == ["1 of 2"] * 3 + ["2"]
    assert INCOMPLETE in column(run_table(FRICTION, outcomes), "Progress (m)")


def test_a_single_life_has_a_table_of_its_own(outcomes):
    table = single_life_table(FRICTION, outcomes)
    assert column(table, "Velocity RMSE (m/s)")[0] == "0.500 ± 0.354"
    assert not any(heading.startswith(PUBLISHED) for heading in table.headings)
    assert "first fall is the end" in table.notes[-1]


def test_every_robot_is_shown_over_runs_and_for_each_run(outcomes):
    table = robot_table(FRICTION, outcomes)
    assert column(table, "Robot")[:6] == ["go1"] * 3 + ["go2"] * 3
    assert column(table, "Velocity RMSE (m/s)")[0] == "0.200 ± 0.141"
    assert column(table, "Velocity RMSE (m/s)")[3] == "0.300 ± 0.212"
    assert column(table, "Single life: Progress (m)")[0] == "4.00 ± 2.83"
    runs = run_table(FRICTION, outcomes)
    assert len(runs.rows) == 2 * 2 * 2 * 3  # methods, seeds, robots, frictions
    assert column(runs, "Velocity RMSE (m/s)")[:4] == ["0.100"] * 3 + ["0.150"]
    assert column(runs, "Falls")[0] == "3"


def test_directions_are_told_for_all_robots_and_for_each(outcomes):
    for run in outcomes:
        for item in run.measured["results"]:
            if item["friction"] != "nominal":  # where there are no other directions
                item["restarts"] = metrics(9.0)
    table = direction_table(FRICTION, outcomes)
    shown = [*zip(column(table, "Robot"), column(table, "Direction"), strict=True)]
    assert shown[:6] == [
        (robot, direction)
        for robot in ("mean of robots", "go1", "go2")
        for direction in ("forward", "left")
    ]
    # Of 0.1 and 0.3 straight ahead; the robots are at 1, 1.5 and so 1.25 times that on average.
    assert column(table, "Velocity RMSE (m/s)")[:6] == [
        "0.250 ± 0.177", "0.500 ± 0.354",
        "0.200 ± 0.141", "0.400 ± 0.283",
        "0.300 ± 0.212", "0.600 ± 0.424",
    ]  # fmt: skip


def test_numbers_of_different_sizes_are_never_put_together(outcomes):
    mixed = [*outcomes, outcome(MLP, 4, 0.1, protocol="paper", forward=1.0)]
    for make in (friction_table, *FRICTION_TABLES.values()):
        with pytest.raises(ConfigError, match="measured in different ways"):
            make(FRICTION, mixed)


@pytest.mark.parametrize(
    "changes", [{"rule": "dynamic"}, {"heading": "free"}, {"robots": {"go1": "go1.xml, digest 12"}}]
)
def test_rules_headings_and_robots_are_in_every_row_and_never_mixed(outcomes, changes):
    mixed = [*outcomes, outcome(MLP, 4, 0.1, **changes)]
    alike = [outcome(arm, seed, 0.1, **changes) for seed in (1, 2) for arm in (RECMORPH, MLP)]
    for make in (friction_table, *FRICTION_TABLES.values()):
        with pytest.raises(ConfigError, match="measured in different ways"):
            make(FRICTION, mixed)
        table = make(FRICTION, alike)
        assert set(column(table, "Friction rule")) == {changes.get("rule", "two-state")}
        assert set(column(table, "Heading")) == {changes.get("heading", "held")}
        assert ("go1: go1.xml, digest 12" in "\n".join(table.notes)) == ("robots" in changes)


def test_runs_of_before_headings_were_held_say_so():
    old = outcome(RECMORPH, 1, 0.1)
    del old.measured["setting"]["heading"], old.measured["setting"]["robots"]
    table = friction_table(FRICTION, [old])
    assert column(table, "Heading") == ["free"] * 3
    assert "Nothing corrects the heading" in "\n".join(table.notes)


def test_a_number_that_was_not_measured_is_none():
    empty = Outcome(MLP, TASK, 1, None)
    assert friction_number("low", "progress")(empty) is None
    assert friction_number("low", "progress", robot="go1")(empty) is None


@pytest.mark.slow
def test_the_picture_is_the_same_every_time_and_shows_the_numbers(outcomes):
    first = draw_friction(FRICTION, outcomes)
    assert first == draw_friction(FRICTION, outcomes)
    assert first[:4] == b"\x89PNG"
    worse = outcome(MLP, outcomes[-1].seed, 0.9)
    assert draw_friction(FRICTION, [*outcomes[:-1], worse]) != first


def test_bars_are_means_over_robots_with_new_starts_after_falls(drawn, outcomes):
    for run in outcomes:
        for scale, content in enumerate(run.measured["macro"].values(), 1):
            content["restarts"] = metrics(scale * content["restarts"]["velocity_rmse"])
    draw_friction(FRICTION, outcomes)
    (figure,) = drawn
    found = {}
    for axes in figure.axes:
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["recmorph", "mlp"]
        names = [label.get_text().removesuffix(" friction") for label in axes.get_xticklabels()]
        first, second = (group.datavalues.tolist() for group in axes.containers)
        assert first == second  # both methods have the same seeds
        found[axes.get_title()] = dict(zip(names, first, strict=True))
    factors = (1.0, 10.0, 20.0, 100.0)
    assert list(found) == [heading for heading, *_ in METRICS]
    for (heading, *_), factor in zip(METRICS, factors, strict=True):
        low = factor * 1.25 * (0.1 + 0.3) / 2.0
        expected = {"low": low, "nominal": 2.0 * low, "high": 3.0 * low}
        assert found[heading] == pytest.approx(expected)
