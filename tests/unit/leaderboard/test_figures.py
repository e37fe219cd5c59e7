"""Figures of analysed tables: what is drawn, from equal bytes to hostile names."""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from gmc_bench.leaderboard import figures
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.figures import COLOURS, DASHES, draw_figures, row_labels
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import StoredRecord, record_digest
from tests.support.leaderboards import synthetic_records
from tests.support.records import make_record, make_returns

NAMES = [
    "learning-curves.svg",
    "performance-profiles.svg",
    "scores.svg",
    "bodies.svg",
    "improvement.svg",
]
HOSTILE = [
    "$\\frac{$",  # not mathematics
    "--><script>alert(1)</script>",
    "a\u202eb\u0000\nc",
    "手足 🦿",
    "x" * 500,
]


def _analysis(records: Sequence[RunRecord]) -> TableAnalysis:
    stored = [
        StoredRecord(f"{place}.json", record, record_digest(record))
        for place, record in enumerate(records)
    ]
    (table,), _ = aggregate(stored)
    return analyse(table)


def write_figures(analysis: TableAnalysis, folder: Path) -> list[Path]:
    pictures = draw_figures(analysis)
    for name, data in pictures.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return [folder / name for name in pictures]


def _renamed(records: Sequence[RunRecord], names: dict[str, Any]) -> list[RunRecord]:
    return [
        record.model_copy(update={"method": names.get(record.method, record.method)})
        for record in records
    ]


@pytest.fixture(scope="module")
def analysis() -> TableAnalysis:
    return _analysis(synthetic_records(3, 3, 6, reference=True))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _texts(path: Path) -> set[str]:
    """Return the texts of a picture; outlines of letters are preceded by their text."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.parse(path, parser).getroot()
    return {(node.text or "").strip() for node in root.iter(ElementTree.Comment)}


def test_every_figure_is_written_and_names_its_rows(
    analysis: TableAnalysis, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "figures"
    assert write_figures(analysis, folder) == [folder / name for name in NAMES]
    assert _names(folder) == sorted(NAMES)
    for name in NAMES:
        assert {"method-01", "method-02", "method-03"} <= _texts(folder / name), name
        assert "mlp" not in _texts(folder / name), name
    assert {"test-001", "test-005"} <= _texts(folder / "bodies.svg")
    assert "train-000" not in _texts(folder / "bodies.svg")
    assert {row.group for row in analysis.rows} <= _texts(folder / "scores.svg")


@pytest.mark.slow
def test_equal_bytes_whatever_the_settings_of_the_user(
    analysis: TableAnalysis, tmp_path: Path
) -> None:
    write_figures(analysis, tmp_path / "here")
    settings = tmp_path / "settings"
    settings.mkdir()
    lines = "font.size: 20\nsvg.hashsalt: x\nfont.family: serif\naxes.titlepad: 40\n"
    (settings / "matplotlibrc").write_text(lines, encoding="utf-8")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from test_figures import _analysis, synthetic_records, write_figures\n"
        "records = synthetic_records(3, 3, 6, reference=True)\n"
        "write_figures(_analysis(records), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "there")]
    environment = {**os.environ, "MATPLOTLIBRC": str(settings), "SOURCE_DATE_EPOCH": "1"}
    root = Path(__file__).parents[3]  # where `tests` is imported from
    subprocess.run(command, check=True, env=environment, cwd=root)
    for name in NAMES:
        content = (tmp_path / "here" / name).read_bytes()
        assert content == (tmp_path / "there" / name).read_bytes(), name
        assert b"<dc:date>" not in content
        assert mpl.__version__.encode() not in content


@pytest.mark.slow
def test_global_settings_are_left_as_they_were(analysis: TableAnalysis, tmp_path: Path) -> None:
    with mpl.rc_context({"font.size": 17.0}):
        before = dict(mpl.rcParams)
        write_figures(analysis, tmp_path)
        assert dict(mpl.rcParams) == before


def test_a_cell_says_how_likely_its_row_beats_its_column(analysis: TableAnalysis) -> None:
    axes = figures._draw_improvement(analysis).axes[0]
    shown = {text.get_position(): text for text in axes.texts}
    (pair,) = (item for item in analysis.comparisons if (item.first, item.second) == (0, 2))
    assert pair.probability_of_improvement.value > 0.9
    beats, is_beaten = shown[2.5, 0.5], shown[0.5, 2.5]  # x, y
    assert float(beats.get_text().strip("<>")) > 0.9
    assert float(is_beaten.get_text().strip("<>")) < 0.1
    weight = "bold" if pair.significant else "normal"
    assert beats.get_fontweight() == is_beaten.get_fontweight() == weight


def test_the_hardest_body_is_on_the_left(analysis: TableAnalysis) -> None:
    axes = figures._draw_bodies(analysis).axes[0]
    means = np.mean([row.scores.mean(axis=0) for row in analysis.rows], axis=0)
    names = [label.get_text() for label in axes.get_xticklabels()]
    drawn = dict(zip(analysis.rows[0].bodies, means, strict=True))
    assert [drawn[name] for name in names] == sorted(means)


def test_figures_with_nothing_to_show_are_left_out(tmp_path: Path) -> None:
    lone = _analysis(synthetic_records(1, 1, 3))
    assert [path.name for path in write_figures(lone, tmp_path / "lone")] == NAMES[:4]
    unranked = make_record(official=False, unofficial_reasons=["short"])
    assert write_figures(_analysis([unranked]), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    bodies = [*HOSTILE, "$x$ and $y$"]
    records = [
        make_record(
            preset=preset,
            returns=make_returns("train", {"a": [1.0], "b": [2.0]})
            + make_returns("test", {body: [3.0 + place] for place, body in enumerate(bodies)}),
            morphologies={
                **make_record().morphologies.model_dump(),
                "num_test": len(bodies),
            },
        )
        for preset in HOSTILE
    ]
    write_figures(_analysis(records), tmp_path)
    for name in NAMES:
        root = ElementTree.parse(tmp_path / name).getroot()
        assert not list(root.iter("{http://www.w3.org/2000/svg}script")), name
    labels = _texts(tmp_path / "scores.svg")
    assert "demo ($\\frac{$)" in labels
    assert "demo (a b c)" in labels
    assert "$x$ and $y$" in _texts(tmp_path / "bodies.svg")


@pytest.mark.parametrize("level", [0.0, -50.0])
def test_constant_scores_can_be_drawn(level: float, tmp_path: Path) -> None:
    returns = make_returns("train", {"a": [level], "b": [level]}) + make_returns(
        "test", {"c": [level], "d": [level], "e": [level]}
    )
    curve = [{"env_steps": 2000, "mean_return": level, "mean_length": 1.0, "episodes": 5}]
    records = [
        make_record(method=method, seed=seed, returns=returns, learning_curve=curve)
        for method in ("one", "two")
        for seed in (0, 1)
    ]
    assert len(write_figures(_analysis(records), tmp_path)) == 5


def test_labels_say_as_much_as_is_needed() -> None:
    def record(method: str, preset: str, gamma: float) -> RunRecord:
        return make_record(method=method, preset=preset, config={"training": {"gamma": gamma}})

    records = [record("a", "lite", 0.1), record("b", "lite", 0.1), record("b", "paper", 0.1)]
    records += [record("c", "lite", 0.1), record("c", "lite", 0.2)]
    rows = _analysis(records).rows
    digests = {row.row.key.config_digest[:8] for row in rows if row.row.key.method == "c"}
    assert set(row_labels(rows)) == {
        "a",
        "b (lite)",
        "b (paper)",
        *(f"c (lite, {digest})" for digest in digests),
    }
    assert len(digests) == 2
    long = [record(f"{'x' * 29}{end}", "lite", gamma) for end in "ab" for gamma in (0.1, 0.2)]
    labels = row_labels(_analysis(long).rows)
    assert len(set(labels)) == 4
    assert all(label.startswith("xxxxx") and ", " in label for label in labels)


def test_a_method_keeps_its_look_and_none_is_used_twice() -> None:
    known = ["recmorph", "metamorph", "metamorph-star", "recmorph-bigru", "mine"]
    many = synthetic_records(20, 1, 2)
    names = {f"method-{place + 1:02d}": name for place, name in enumerate(known)}
    looks: dict[str, set[Any]] = {name: set() for name in known}
    for records in (_renamed(many, names), _renamed(many[:5], names), _renamed(many[4::-1], names)):
        rows = _analysis(records).rows
        styles = figures._styles(rows)
        assert len(set(styles)) == len(rows)
        for row, style in zip(rows, styles, strict=True):
            if row.row.key.method in looks:
                looks[row.row.key.method].add(style)
    assert looks["recmorph"] == {(COLOURS["vermilion"], DASHES[0])}
    assert looks["metamorph-star"] == {(COLOURS["blue"], DASHES[1])}
    assert [len(seen) for seen in looks.values()] == [1] * len(known)


def test_looks_repeat_only_when_there_are_none_left() -> None:
    rows = _analysis(synthetic_records(40, 1, 2)).rows
    assert len(set(figures._styles(rows))) == len(COLOURS) * len(DASHES)


def test_labels_of_lines_are_moved_apart_as_little_as_possible() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 7, 15):
        places = rng.random(count).tolist()
        moved = figures._spread(places, 0.05)
        order = np.argsort(places)
        assert all(moved[b] - moved[a] >= 0.05 - 1e-9 for a, b in pairwise(order))
        assert min(moved) >= 0.0
        assert max(moved) <= 1.0 + 1e-9
    assert figures._spread([0.2, 0.9, 0.5], 0.1) == pytest.approx([0.2, 0.9, 0.5])
    assert figures._spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert figures._spread([0.0, 0.0, 1.0], 0.1) == pytest.approx([0.0, 0.1, 1.0])
    assert figures._spread([0.3] * 11, 0.5) == pytest.approx(np.linspace(0, 1, 11))
    assert figures._spread([], 0.5) == []


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0"), (1.0, "1"), (0.004, "<.01"), (0.996, ">.99"), (0.5, ".50"), (0.0649, ".06")],
)
def test_shares_are_short_and_never_rounded_to_certainty(share: float, text: str) -> None:
    assert figures._share_text(share) == text


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    steps = np.arange(5000)
    curve = figures.Curve(steps, steps * 2.0, None, steps * 3.0)
    thin = figures._thinned(curve)
    assert len(thin.env_steps) == 200
    assert thin.low is None
    assert thin.high is not None
    assert (thin.env_steps[0], thin.env_steps[-1]) == (0, 4999)
    np.testing.assert_array_equal(thin.high, thin.env_steps * 3.0)
