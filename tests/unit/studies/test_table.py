"""Tables of studies: our numbers by hand, incomplete cells, and the paper's columns apart."""

import csv
import io
import math

import pytest

from gmc_bench.core.table import Table
from gmc_bench.studies import outcome as read
from gmc_bench.studies.catalogue import (
    ATTRIBUTES,
    COMPONENTS,
    GAIT,
    REPRESENTATION,
    SIBLINGS,
    STUDIES,
)
from gmc_bench.studies.figures import draw_probes, draw_siblings
from gmc_bench.studies.measurements import MEASUREMENTS
from gmc_bench.studies.outcome import Outcome, Summary, area, summarize, training_return
from gmc_bench.studies.request import Request
from gmc_bench.studies.table import (
    INCOMPLETE,
    PROBES,
    PUBLISHED,
    env_steps_text,
    gait_table,
    probe_table,
    sibling_table,
    training_table,
)
from tests.support.records import make_record, make_returns

FT = "unimal-ft-v1"


def finished(arm, value, *, seed=1, task=FT, measured=None, **changes):
    curve = [
        {"env_steps": 1000, "mean_return": value / 2, "mean_length": 9.0, "episodes": 3},
        {"env_steps": 2000, "mean_return": value, "mean_length": 9.0, "episodes": 5},
    ]
    record = make_record(
        seed=seed, task=task, training_return=value, learning_curve=curve, **changes
    )
    return Outcome(arm, task, seed, record, measured or {})


def column(table, name):
    place = table.headings.index(name)
    return [row[place] for row in table.rows]


def test_a_number_over_seeds_is_mean_and_sample_deviation():
    arm = COMPONENTS.arms[0]
    runs = [finished(arm, value, seed=seed) for seed, value in enumerate((10.0, 20.0, 60.0))]
    found = summarize(runs, training_return)
    assert (found.mean, found.count) == (30.0, 3)
    assert found.sd == pytest.approx(26.4575131)
    assert found.text() == "30.0 ± 26.5"
    assert summarize(runs[:1], training_return) == Summary(10.0, None, 1)
    zeros = Summary(-0.04, None, 1), Summary(-0.04, 0.5, 2)
    assert [item.text() for item in zeros] == ["0.0", "0.0 ± 0.5"]
    odd = [finished(arm, 1.0, measured={"x": value}) for value in (1.0, math.inf)]
    assert summarize(odd, read.measured("x")) is None
    assert area(runs[0]) == 7.5


def test_a_missing_run_is_never_averaged_away():
    arm = COMPONENTS.arms[0]
    runs = [finished(arm, 10.0), Outcome(arm, FT, 2, None)]
    assert summarize(runs, training_return) is None
    table = training_table(COMPONENTS, runs)
    assert column(table, "Training return") == [INCOMPLETE]
    assert column(table, "Runs") == ["1 of 2"]


def test_the_component_table_has_the_papers_rows_columns_and_values():
    runs = [
        finished(arm, 100.0 * place + seed, seed=seed)
        for place, arm in enumerate(COMPONENTS.arms)
        for seed in (1, 2)
    ]
    table = training_table(COMPONENTS, runs)
    assert column(table, "Variant") == [
        "Plain BiRNN", "Param.-matched", "+ Residual", "+ RMSNorm", "Full RecMorph",
    ]  # fmt: skip
    assert column(table, "Residual") == ["-", "-", "yes", "yes", "yes"]
    assert column(table, "RMSNorm") == ["-", "-", "-", "yes", "yes"]
    assert column(table, "Channel modulation") == ["-", "-", "-", "-", "yes"]
    assert column(table, "Training return")[4] == "401.5 ± 0.7"
    assert column(table, "Training return against Plain BiRNN")[1:3] == [
        "+100.0 ± 0.0", "+200.0 ± 0.0",
    ]  # fmt: skip
    assert column(table, f"{PUBLISHED}: training return") == [
        "2188.6 ± 418.7", "2785.2 ± 488.5", "3577.0 ± 260.7", "4027.7 ± 110.6", "4367.4 ± 71.6",
    ]  # fmt: skip
    assert any("must not be compared" in note for note in table.notes)


def test_gains_are_those_of_the_same_seeds():
    first, second = COMPONENTS.arms[:2]
    runs = [finished(first, 10.0, seed=1), finished(first, 20.0, seed=2)]
    runs += [finished(second, 24.0, seed=2), finished(second, 12.0, seed=1)]
    table = training_table(COMPONENTS, runs)
    assert column(table, f"Training return against {first.label}") == ["-", "+3.0 ± 1.4"]
    table = training_table(COMPONENTS, [finished(first, 10.04), finished(second, 10.0)])
    assert column(table, f"Training return against {first.label}") == ["-", "+0.0"]
    table = training_table(COMPONENTS, [runs[0], Outcome(first, FT, 2, None), *runs[2:]])
    assert column(table, f"Training return against {first.label}") == ["-", INCOMPLETE]


def test_studies_without_printed_numbers_have_no_such_column():
    runs = [
        finished(arm, 1.0, task=task) for task in (FT, "unimal-vt-v1") for arm in ATTRIBUTES.arms
    ]
    table = training_table(ATTRIBUTES, runs)
    assert not any(heading.startswith(PUBLISHED) for heading in table.headings)
    assert column(table, "Task") == [FT, FT, "unimal-vt-v1", "unimal-vt-v1"]
    assert column(table, "Features per limb") == ["52", "32", "52", "32"]


def test_the_sibling_table_has_a_row_per_run_and_the_papers_beside_it():
    measured = {
        "canonical": 200.0, "permuted": 50.0, "drop": 75.0, "tail": 20.5, "permuted_all": 55.0,
        "num_bodies": 3, "num_unseen": 12, "num_orders": 20,
    }  # fmt: skip
    canonical, permuted = SIBLINGS.arms
    runs = [
        finished(canonical, 1.0, measured=measured),
        finished(permuted, 1.0, seed=2, measured={**measured, "drop": None}),
        Outcome(permuted, FT, 3, None),
    ]
    table = sibling_table(SIBLINGS, runs)
    assert column(table, "Train / seed") == ["C / 1", "P / 2", "P / 3"]
    assert column(table, "C test") == ["200.0", "200.0", INCOMPLETE]
    assert column(table, "Drop (%)") == ["75.0", "-", INCOMPLETE]
    assert column(table, "Tail")[0] == "20.5"
    assert column(table, "Unseen orders")[0] == "12"
    assert column(table, f"{PUBLISHED}: C test") == [
        "1095.0 / 1064.8", "1369.3 / 1138.3", "1369.3 / 1138.3",
    ]  # fmt: skip
    assert column(table, f"{PUBLISHED}: drop (%)")[0] == "63.5 / 61.1"
    assert column(table, f"{PUBLISHED}: tail")[1] == "1164.4 / 993.7"


def test_the_probe_table_has_the_papers_rows_in_its_units():
    names = ("robot_id", "limb_id", "action_r2", "action_nrmse", "ch")
    measured = {f"{name}_before": 0.5 for name in names} | {f"{name}_after": 0.25 for name in names}
    table = probe_table(REPRESENTATION, [finished(REPRESENTATION.arms[0], 1.0, measured=measured)])
    assert column(table, "Pre") == ["50.00", "50.00", "0.500", "0.500", "0.5"]
    assert column(table, "Difference") == ["-25.00", "-25.00", "-0.250", "-0.250", "-0.2"]
    assert column(table, f"{PUBLISHED}: post")[0] == "61.46 ± 3.19"
    assert column(table, f"{PUBLISHED}: difference")[2] == "+0.425 ± 0.028"


def test_a_row_of_the_gait_table_has_every_number_under_its_heading():
    measured = {
        "body": "a", "episode_return": 1234.5, "speed": 1.5, "stride_frequency": 2.25,
        "regularity": 0.75, "duty_factor": 0.6, "phase_coherence": 0.5,
    }  # fmt: skip
    arm = GAIT.arms[0]
    runs = [
        finished(arm, 1.0, measured=measured),
        finished(arm, 1.0, seed=2, measured={**measured, "regularity": None}),
        Outcome(arm, FT, 3, None),
        finished(GAIT.arms[1], 1.0, seed=3),  # which alone is not compared
    ]
    table = gait_table(GAIT, runs)
    assert dict(zip(table.headings, table.rows[0], strict=True)) == {
        "Task": "ft", "Seed": "1", "Body": "a", "Method": "demo", "Return": "1,234.50",
        "Speed (m/s)": "1.50", "Stride frequency (Hz)": "2.25", "Regularity": "0.75",
        "Mean duty factor": "0.60", "Phase coherence": "0.50",
    }  # fmt: skip
    assert column(table, "Regularity") == ["0.75", "-", INCOMPLETE, INCOMPLETE]
    assert column(table, "Method") == ["demo", "demo", arm.label, "demo"]
    assert column(table, "Body") == ["a", "a", INCOMPLETE, INCOMPLETE]


def test_env_steps_that_differ_are_all_named():
    record = make_record()
    runs = [
        Outcome(COMPONENTS.arms[2], FT, seed, record.model_copy(update={"env_steps": steps}))
        for seed, steps in enumerate((3000, 2000, 3000))
    ]
    assert env_steps_text(runs) == "2,000, 3,000"
    assert env_steps_text([]) == INCOMPLETE


def test_files_hold_every_cell():
    table = training_table(COMPONENTS, [finished(COMPONENTS.arms[2], 7.0)])
    headings = [
        "Task", "Variant", "Residual", "RMSNorm", "Channel modulation", "Runs", "Parameters",
        "Training return", "Train score", "Test score", "Mean return over training",
        "Training return against Plain BiRNN", f"{PUBLISHED}: training return",
    ]  # fmt: skip
    cells = [
        FT, "+ Residual", "yes", "-", "-", "1", "1,000", "7.0", "150.0", "30.0", "5.2", "-",
        "3577.0 ± 260.7",
    ]  # fmt: skip
    first, second = csv.reader(io.StringIO(table.to_csv()))
    assert first == headings
    # A spreadsheet would take the variant for a formula, but not a lone sign.
    assert second == [f"'{cell}" if cell[0] == "+" else cell for cell in cells]
    page = table.to_markdown()
    assert page.startswith("# Component ablation\n")
    for line in (headings, cells):
        assert f"\n| {' | '.join(line)} |\n" in page


@pytest.mark.slow
def test_pictures_are_the_same_every_time_and_show_the_runs():
    names = ("robot_id", "limb_id", "action_r2", "action_nrmse", "ch")
    measured = {f"{name}_{stage}": 0.5 for name in names for stage in ("before", "after")}
    measured |= {"canonical": 2.0, "permuted": 1.0, "tail": 0.5}
    returns = make_returns("train", {"a": [9.0]}) + make_returns("test", {"c": [9.0]})
    drawn = {MEASUREMENTS[study.measure].figure: study for study in STUDIES.values()}
    for draw, study in drawn.items():
        if draw is not None and study.measure != "friction":  # it has tests of its own
            arms = Request.make(study.id).arms
            runs = [finished(arm, 5.0, measured=measured) for arm in arms]
            first = draw(study, runs)
            assert first == draw(study, runs)
            assert first[:4] == b"\x89PNG"
            others = dict.fromkeys(measured, 0.1)
            changed = [finished(arm, 9.0, measured=others, returns=returns) for arm in arms]
            assert draw(study, changed) != first


def bars(axes):
    """Return the heights of the bars over each name, in the order of the legend."""
    names = [label.get_text() for label in axes.get_xticklabels()]
    heights = zip(*(group.datavalues.tolist() for group in axes.containers), strict=True)
    return dict(zip(names, heights, strict=True))


def test_bars_stand_over_the_names_of_what_they_show(drawn):
    measured = {"canonical": 9.0, "permuted": 4.0, "tail": 2.0}
    runs = [
        finished(arm, 1.0, measured={name: factor * value for name, value in measured.items()})
        for arm, factor in zip(SIBLINGS.arms, (1.0, 0.5), strict=True)
    ]
    draw_siblings(SIBLINGS, runs)
    names = ("robot_id", "limb_id", "action_r2", "action_nrmse", "ch")
    probes = {f"{name}_before": 0.1 * k for k, name in enumerate(names, 1)}
    probes |= {f"{name}_after": 2.0 * k for k, name in enumerate(names, 1)}
    draw_probes(REPRESENTATION, [finished(REPRESENTATION.arms[0], 1.0, measured=probes)])
    siblings, representation = drawn
    assert bars(siblings.axes[0]) == {
        "canonical": (9.0, 4.5), "permuted": (4.0, 2.0), "worst decile": (2.0, 1.0),
    }  # fmt: skip
    legend = [text.get_text() for text in siblings.axes[0].get_legend().get_texts()]
    assert legend == [arm.parts["Trained on"] for arm in SIBLINGS.arms]
    panels = [axes for axes in representation.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [label for label, *_ in PROBES]
    for number, axes in enumerate(panels, 1):
        factor = 100.0 if "%" in axes.get_title() else 1.0
        before, after = bars(axes)["before"], bars(axes)["after"]
        assert (*before, *after) == pytest.approx((factor * 0.1 * number, factor * 2.0 * number))


def test_numbers_with_a_sign_are_no_formulas_but_other_text_may_be():
    table = Table(tuple("abcde"), (("-10.5", "+1.0 ± 2.0", "=1+1", "-x", "-1+1"),))
    assert table.to_csv().splitlines()[1] == "-10.5,+1.0 ± 2.0,'=1+1,'-x,'-1+1"
