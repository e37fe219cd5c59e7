"""Published numbers: all there, well labelled, and printed like that in the paper's source."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard.published import (
    FOLDER,
    PublishedScore,
    published_for,
    published_scores,
    read_published,
)
from gmc_bench.methods import METHODS
from gmc_bench.suites import SUITES

PAPER = Path(__file__).parents[4] / "shared" / "paper"
RECMORPH = FOLDER / "recmorph.json"
RESULT_TABLES = ("tab:ablation", "tab:sibling", "tab:probes", "tab:friction_all")
NUMBER = r"[+-]?\d+(?:\.\d+)?"


def _latex() -> str:
    if not PAPER.is_dir():
        pytest.skip(f"no folder {PAPER} with the paper's LaTeX source")
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(PAPER.glob("*.txt")))


def _table(latex: str, label: str) -> str:
    """Return the rows of one table, without the lines of its frame."""
    (table,) = (
        found
        for found in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", latex, re.DOTALL)
        if f"\\label{{{label}}}" in found
    )
    return str(re.split(r"\\midrule", table)[1].split(r"\bottomrule")[0])


def _of(label: str, source: str = "Table ") -> list[PublishedScore]:
    return [s for s in published_scores() if s.label == label and f", {source}" in s.source]


def test_every_result_table_is_whole() -> None:
    counts = Counter(score.source.rsplit(", ", 1)[1] for score in published_scores())
    assert counts == {
        "Table I": 5,
        "Text under Table I": 2 * 2,
        "Table II": 4 * 4,
        "Table III": 3 * 4,
        "Table IV": 6 * 4,
        "Table V": 6 * 2 * 4,  # the nominal third is table IV
        "Table X": 4,
        "Text on Fig. 4": 5,
        "Appendix on larger bodies (single robots)": 1,
        "Appendix on larger bodies (single robots on them)": 1,
        "Appendix on larger bodies (throughput)": 3,
    }


@pytest.mark.parametrize("label", RESULT_TABLES)
def test_tables_hold_the_numbers_of_the_source(label: str) -> None:
    cells = _table(_latex(), label)
    if label == "tab:sibling":
        rows = [row.split("&")[1:] for row in cells.split(r"\\")[:-1]]
        expected = [value.strip() for row in rows for value in row]
    else:
        pairs = re.findall(rf"({NUMBER}) *\\pm *({NUMBER})", cells)
        expected = [f"{value} ± {sd}" for value, sd in pairs]
    ours = _of(label) + (_of("tab:friction") if label == "tab:friction_all" else [])
    assert expected
    assert Counter(score.printed for score in ours) == Counter(expected)


def test_nominal_rows_stand_beside_their_method_in_both_tables() -> None:
    latex = _latex()
    both = [_table(latex, "tab:friction"), _table(latex, "tab:friction_all")]
    nominal = _of("tab:friction")
    for place, score in enumerate(nominal):
        value = score.printed.replace(" ± ", r" \pm ")
        for cells in both:
            block = cells[cells.index(score.paper_method) :]
            numbers = [
                f"{v} \\pm {sd}" for v, sd in re.findall(rf"({NUMBER}) \\pm ({NUMBER})", block)
            ]
            first = 4 if cells is both[1] else 0  # after the row of low friction
            assert numbers[first + place % 4] == value


def test_every_other_number_is_in_the_source() -> None:
    latex = _latex()
    others = [score for score in published_scores() if ", Table" not in score.source]
    assert len(others) == 14
    for score in others:
        assert re.search(rf"(?<![\d.]){re.escape(score.printed)}(?![\d]|\.\d)", latex), score
    trials = _table(latex, "tab:hardware_results")
    assert trials.count("10/10") == len(_of("tab:hardware_results")) == 4
    assert {score.value for score in _of("tab:hardware_results")} == {10.0}


def test_ids_presets_suites_and_tasks_are_registered() -> None:
    for score in published_scores():
        assert (score.suite is None) == (score.task is None)
        assert score.suite is None or score.task in SUITES.get(score.suite).tasks
        if score.method is None:
            continue
        spec = METHODS.load(score.method)
        assert score.preset is None or score.preset in spec.presets


def test_task_has_its_numbers() -> None:
    scores = published_for("unimal-v1", "unimal-ft-v1")
    full = next(score for score in scores if score.paper_method == "Full RecMorph")
    assert (full.method, full.preset, full.value, full.sd, full.seeds, full.split) == (
        "recmorph",
        "paper",
        4367.4,
        71.6,
        4,
        "train",
    )
    assert full.printed == "4367.4 ± 71.6"
    assert full.source.endswith("Morphology Control, Table I")
    reference = next(score for score in scores if score.value == 4671)
    assert (reference.method, reference.controller, reference.sd) == (
        "mlp-10m",
        "single_robot",
        None,
    )
    assert all(score.note for score in scores)
    assert published_for("unimal-v1", "unimal-ft-v2") == ()


def test_parameters_drops_errors_and_falls_are_better_when_low() -> None:
    assert {score.metric for score in published_scores() if not score.higher_is_better} == {
        "Actor and critic parameters", "Drop", "Robot-ID balanced accuracy",
        "Limb-ID balanced accuracy", "Action NRMSE", "Velocity RMSE", "Tilt RMS", "Fall rate",
    }  # fmt: skip


def test_numbers_of_other_bodies_are_kept_apart() -> None:
    larger = published_for("larger-bodies-v1", "unimal-ft-v1")
    assert larger
    assert all("up to 30 limbs" in score.bodies for score in larger)
    assert not set(larger) & set(published_for("unimal-v1", "unimal-ft-v1"))
    assert published_for("closed-loop-v1", "unimal-ft-v1") == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.update(values=[["nan", None]]), "values.0.0"),
        (lambda row: row.update(values=[["1", None]] * 2), "2 values for 1 metrics"),
        (lambda row: row.update(method=None), "has a preset but no id"),
        (lambda row: row.update(extra=1), "extra"),
    ],
)
def test_invalid_files_are_refused(change, message: str, tmp_path: Path) -> None:
    content = json.loads(RECMORPH.read_text(encoding="utf-8"))
    change(content["tables"][0]["rows"][0])
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        read_published(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json: No such file"):
        read_published(tmp_path / "none.json")
