"""The page on studies against the outcomes that the leaderboard keeps."""

import re
from pathlib import Path

import numpy as np

from gmc_bench.records.kept import read_study
from gmc_bench.studies.straight_line import fit_straight_line

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "studies.md").read_text()
COUNTS = (10, 30, 100, 300, 1000)


def test_the_growth_with_bodies_is_that_of_the_runs():
    study = read_study(REPOSITORY / "leaderboards" / "studies" / "bodies.json")
    numbers = {run.arm: run.numbers for run in study.runs}
    for title, method in (("RecMorph", "recmorph"), ("MetaMorph\\*", "metamorph-star")):
        scores = {
            name: [numbers[f"{method}-{count}"][name] for count in COUNTS]
            for name in ("train_score", "test_score")
        }
        for bodies, name in (("train", "train_score"), ("100 unseen", "test_score")):
            row = " | ".join(f"{score:.1f}" for score in scores[name])
            assert f"| {title}, {bodies} bodies | {row} |" in PAGE
        line = fit_straight_line(np.log10(COUNTS), np.array(scores["test_score"]))
        low, high = line.slope_interval
        text = rf"{re.escape(title)}\s+(gains )?{line.slope:.1f}\b[^()]*\((95 % interval )?"
        assert re.search(rf"{text}{low:.1f} to {high:.1f}\b", PAGE)
