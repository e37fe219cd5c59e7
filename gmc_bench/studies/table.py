"""The table of a study: our numbers, and the paper's in columns of their own."""

from collections.abc import Sequence

import numpy as np

from gmc_bench.core.table import Table
from gmc_bench.leaderboard.published import PublishedScore, published_scores
from gmc_bench.studies import outcome as read
from gmc_bench.studies.outcome import Number, Outcome, runs_of, summarize
from gmc_bench.studies.schema import Study
from gmc_bench.suites.schema import short_name

INCOMPLETE = "incomplete"
NONE = "-"
PUBLISHED = "Published"
"""Begins the heading of every column that is not ours."""

SIBLING_CONDITIONS = {"canonical": "canonical order", "permuted": "permuted orders"}


def training_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task and arm: returns, scores, and the difference to the first arm."""
    tasks = list(dict.fromkeys(outcome.task for outcome in outcomes))
    parts = list(dict.fromkeys(part for arm in study.arms for part in arm.parts))
    printed = _published_returns(study)
    numbers: tuple[tuple[str, Number, int], ...] = (
        ("Training return", read.training_return, 1),
        ("Train score", read.train_score, 1),
        ("Test score", read.test_score, 1),
        ("Mean return over training", read.area, 1),
    )
    first = study.arms[0]
    headings = (
        "Task", "Variant", *parts, "Runs", "Parameters", *(name for name, _, _ in numbers),
        f"Training return against {first.label}",
        *((f"{PUBLISHED}: training return",) if printed else ()),
    )  # fmt: skip
    rows = []
    for task in tasks:
        base = runs_of(outcomes, task, first)
        for arm in study.arms:
            runs = runs_of(outcomes, task, arm)
            if not runs:
                continue
            rows.append(
                (
                    task, arm.label, *(arm.parts.get(part, NONE) for part in parts),
                    count_runs(runs), _parameters(runs),
                    *(cell_text(runs, number, digits) for _, number, digits in numbers),
                    _difference(runs, base, read.training_return),
                    *((printed.get(arm.name, NONE),) if printed else ()),
                )
            )  # fmt: skip
    return Table(headings, rows, study.title, _notes(study))


def sibling_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per run, as in the paper, and the paper's runs of the same arm beside it."""
    printed = {
        arm.name: [
            score
            for score in published_of(study)
            if SIBLING_CONDITIONS.get(arm.name, "?") in score.condition
        ]
        for arm in study.arms
    }
    names = ("Return, canonical order", "Return, permuted order", "Drop",
             "Return, worst decile, permuted order")  # fmt: skip
    ours: tuple[tuple[str, str, int], ...] = (
        ("C test", "canonical", 1),
        ("P test", "permuted", 1),
        ("Drop (%)", "drop", 1),
        ("Tail", "tail", 1),
        ("P test, all orders", "permuted_all", 1),
        ("Bodies", "num_bodies", 0),
        ("Unseen orders", "num_unseen", 0),
        ("All orders", "num_orders", 0),
    )
    headings = (
        "Task", "Train / seed", *(name for name, _, _ in ours),
        *(f"{PUBLISHED}: {name}" for name in ("C test", "P test", "drop (%)", "tail")),
    )  # fmt: skip
    rows = [
        (
            outcome.task, f"{outcome.arm.label} / {outcome.seed}",
            *(cell_text([outcome], read.measured(key), digits) for _, key, digits in ours),
            *(join_printed(printed[outcome.arm.name], name) for name in names),
        )
        for outcome in outcomes
    ]  # fmt: skip
    return Table(headings, rows, study.title, _notes(study))


PROBES = (
    ("Robot-ID acc. (%)", "robot_id", "Robot-ID balanced accuracy", 2, 100.0),
    ("Limb-ID acc. (%)", "limb_id", "Limb-ID balanced accuracy", 2, 100.0),
    ("Action R2", "action_r2", "Action R2", 3, 1.0),
    ("Action NRMSE", "action_nrmse", "Action NRMSE", 3, 1.0),
    ("Calinski-Harabasz index", "ch", "", 1, 1.0),
)
"""Row of the table, name in `measured`, name among the published numbers, digits, factor."""


def probe_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per probe: before, after and their difference, the paper's beside them."""
    printed = published_of(study)
    headings = (
        "Task", "Probe", "Runs", "Pre", "Post", "Difference",
        *(f"{PUBLISHED}: {stage}" for stage in ("pre", "post", "difference")),
    )  # fmt: skip
    rows = []
    for task in dict.fromkeys(outcome.task for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.task == task]
        for label, name, metric, digits, factor in PROBES:
            before = read.measured(f"{name}_before", factor)
            after = read.measured(f"{name}_after", factor)
            stages = [
                join_printed([s for s in printed if s.condition == condition], metric)
                for condition in ("before recurrence", "after recurrence", "after minus before")
            ]
            cells = [cell_text(runs, number, digits) for number in (before, after)]
            change = cell_text(runs, _minus(after, before), digits)
            rows.append((task, label, count_runs(runs), *cells, change, *stages))
    return Table(headings, rows, study.title, _notes(study))


_GAIT_NOTE = (
    "One episode of mean actions per policy, the first of its evaluation. Regularity is the "
    "autocorrelation of the joint angles one stride apart, the duty factor the share of control "
    "steps in which a limb that ever touches the ground does so. One episode on one body is an "
    "illustration, not a comparison of methods."
)
GAIT_NUMBERS = {
    "Return": "episode_return",
    "Speed (m/s)": "speed",
    "Stride frequency (Hz)": "stride_frequency",
    "Regularity": "regularity",
    "Mean duty factor": "duty_factor",
    "Phase coherence": "phase_coherence",
}
"""Heading and name in what was measured."""


def gait_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per run: how it moves the body that all are shown on."""
    rows = [
        (
            short_name(run.task),
            str(run.seed),
            run.measured.get("body", INCOMPLETE),
            run.arm.label if run.record is None else run.record.method,
            *(_gait_cell(run, name) for name in GAIT_NUMBERS.values()),
        )
        for run in outcomes
    ]
    headings = ("Task", "Seed", "Body", "Method", *GAIT_NUMBERS)
    return Table(headings, rows, study.title, (_GAIT_NOTE,))


def _gait_cell(run: Outcome, name: str) -> str:
    if not run.measured:
        return INCOMPLETE
    value = run.measured[name]
    return NONE if value is None else f"{value:z,.2f}"


def _minus(first: Number, second: Number) -> Number:
    def difference(outcome: Outcome) -> float | None:
        values = first(outcome), second(outcome)
        return None if values[0] is None or values[1] is None else values[0] - values[1]

    return difference


def count_runs(runs: Sequence[Outcome]) -> str:
    """Return how many runs are finished, and of how many where some are not."""
    done = sum(outcome.record is not None for outcome in runs)
    return str(done) if done == len(runs) else f"{done} of {len(runs)}"


def _parameters(runs: Sequence[Outcome]) -> str:
    """Return the parameters of actor and critic together, which all seeds share."""
    return _counts_text({run.record.parameters for run in runs if run.record})


def env_steps_text(runs: Sequence[Outcome]) -> str:
    """Return the control steps that finished runs were trained for, usually one number."""
    return _counts_text({run.record.env_steps for run in runs if run.record})


def _counts_text(found: set[int]) -> str:
    return ", ".join(f"{number:,}" for number in sorted(found)) or INCOMPLETE


def cell_text(runs: Sequence[Outcome], number: Number, digits: int) -> str:
    """Return mean and deviation of a number over runs, or why there is none."""
    found = summarize(runs, number)
    return why_none(runs) if found is None else found.text(digits)


def why_none(runs: Sequence[Outcome]) -> str:
    """Return the cell of a number that there is not: a run is missing, or it has none."""
    return INCOMPLETE if any(outcome.record is None for outcome in runs) else NONE


def _difference(runs: Sequence[Outcome], base: Sequence[Outcome], number: Number) -> str:
    """Return the mean difference over the seeds that both arms share."""
    if not base or runs[0].arm.name == base[0].arm.name:
        return NONE
    usual = {outcome.seed: number(outcome) for outcome in base}
    pairs = [(number(outcome), usual.get(outcome.seed)) for outcome in runs]
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    if len(gains) < len(runs):
        return why_none([*runs, *base])
    text = f"{np.mean(gains):+z,.1f}"
    return text if len(gains) < 2 else f"{text} ± {np.std(gains, ddof=1):,.1f}"


def published_of(study: Study) -> list[PublishedScore]:
    """Return what the paper prints in the table of a study."""
    if not study.published_label:
        return []
    return [score for score in published_scores() if score.label == study.published_label]


def _published_returns(study: Study) -> dict[str, str]:
    presets = {f"paper{arm.preset_suffix}": arm.name for arm in study.arms}
    return {
        presets[score.preset]: score.printed
        for score in published_of(study)
        if score.metric == "Training return" and score.preset in presets
    }


def join_printed(scores: Sequence[PublishedScore], metric: str) -> str:
    """Return the printed values of one metric, as a cell."""
    return " / ".join(score.printed for score in scores if score.metric == metric) or NONE


def _notes(study: Study) -> tuple[str, ...]:
    notes = [
        f"{study.question} {study.source}",
        "Mean ± sample standard deviation over runs, which differ in their seed. Scores are those "
        "of mean actions; the test score counts bodies that were not trained on.",
    ]
    published = published_of(study)
    if published:
        first = published[0]
        notes.append(
            f"Columns headed '{PUBLISHED}' hold what a paper printed ({first.source}; "
            f"{first.protocol}). They were measured under other rules, with other code and far "
            f"longer training, and must not be compared with ours number by number. {first.note}"
        )
    return tuple(notes)
