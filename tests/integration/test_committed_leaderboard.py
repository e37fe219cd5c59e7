"""The leaderboard in this repository: its ledger, its records, and the files made from them."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import correlation, fmean, median, stdev
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from gmc_bench.core.config import definition_digest
from gmc_bench.leaderboard import build
from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.build import Leaderboard, open_leaderboard
from gmc_bench.leaderboard.comparison import compare_means
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import AboveThreshold, Finding, Lead, Pooled, figure
from gmc_bench.leaderboard.findings.evidence import read_evidence
from gmc_bench.leaderboard.findings.page import find_all
from gmc_bench.leaderboard.findings.speed_claims import Fastest, LinearCost
from gmc_bench.leaderboard.today import is_earlier, is_replaced
from gmc_bench.records.ledger import read_ledger
from gmc_bench.records.store import LEDGER_NAME
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "leaderboards"
FINDINGS = ROOT / "docs" / "findings.md"
SIX = ("recmorph", "swat", "metamorph-star", "modumorph", "gcnt", "nervenet")


def _pinned(name: str) -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


@pytest.fixture(scope="module")
def opened() -> Leaderboard:
    return open_leaderboard(BOARD)


def test_every_record_is_the_one_that_was_added_and_was_verified(opened: Leaderboard) -> None:
    board = opened.board
    assert not opened.refused
    assert board.length == len(board.records) + len(board.verifications) + len(board.weights)
    assert {item.digest for item in board.records} == board.verified
    assert all(item.record.official for item in board.records)
    assert all(item.record.git_dirty is False for item in board.records)


def test_runs_of_todays_suites_and_tasks_are_found_again(opened: Leaderboard) -> None:
    """Else a sweep with `--reuse` trains them anew: rules of a released id never change."""
    made: dict[tuple[str, str], Counter[tuple[str | None, str | None]]] = {}
    for item in opened.board.records:
        record = item.record
        if record.suite in SUITES.names() and record.protocol == "lite" and record.env_steps:
            rules = record.suite_digest, record.task_digest
            made.setdefault((record.suite, record.task), Counter())[rules] += 1
    assert len(made) >= 8
    for (suite, task), rules in made.items():
        installed = (
            definition_digest(SUITES.get(suite).only(task)),
            definition_digest(TASKS.get(task)),
        )
        assert rules.most_common(1)[0][0] == installed, (suite, task)


def test_frictions_of_todays_tables_were_measured_again(opened: Leaderboard) -> None:
    board = opened.board
    measured = {
        item.verification.record_digest
        for item in board.verifications
        if item.verification.passed and item.verification.friction is not None
    }
    asked = [
        item for item in board.records if item.record.friction and not is_replaced(item.record)
    ]
    assert asked
    assert {item.digest for item in asked} <= measured


def test_weights_are_kept_of_every_record_since_weights_are(opened: Leaderboard) -> None:
    board, entries = opened.board, read_ledger(BOARD / LEDGER_NAME).entries
    first = next((item.number for item in entries if item.kind == "weights"), len(entries))
    later = {item.digest for item in entries[first:] if item.kind == "record"}
    assert later
    for item in board.records:
        if item.digest in later and item.record.controller == "shared":
            assert item.record.weights_digest in board.weights, item.path


def test_tables_readme_and_findings_are_what_the_records_give(
    opened: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "open_leaderboard", {BOARD: opened}.__getitem__)  # takes seconds
    outdated = build.check(BOARD, BOARD, ROOT / "README.md", FINDINGS)
    if version("matplotlib") != _pinned("matplotlib"):
        outdated = [path for path in outdated if path.suffix != ".svg"]
        if not outdated:
            pytest.skip("figures are compared with the pinned matplotlib only")
    assert outdated == []


def _raw(path: str, number: str, arm: str, seed: int) -> float:
    """Read a number from a committed file, with no code of the package."""
    content = json.loads((BOARD / path).read_bytes())
    if path.startswith("evaluations/"):
        return float(content["score"])
    if path.startswith("studies/"):
        (run,) = [r for r in content["runs"] if (r["arm"], r["seed"]) == (arm, seed)]
        return float(run["numbers"][number])
    if number == "test_score":
        return _unseen(content)
    if "/" in number:
        return _straight_ahead(content, *number.split("/", 1))
    return float(content[number])


def _unseen(content: Mapping[str, Any]) -> float:
    return fmean(score for score, _ in _by_body(content, "test"))


def _straight_ahead(content: Mapping[str, Any], friction: str, heading: str) -> float:
    names = {"Vel": "velocity_rmse", "Pro": "progress", "Til": "tilt_rms", "Fal": "fall_rate"}
    items = [i for i in content["friction"] if i["friction"] == friction and "direction" not in i]
    return fmean(item["restarts"][names[heading[:3]]] for item in items)


def test_correlations_of_equal_seeds_are_those_that_the_docs_state(opened: Leaderboard) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    flat = _flat_board(opened)
    assert flat.before_tuning is not None
    found: dict[str, list[float]] = {"score": [], "training_return": []}
    for ranking in (flat.rows, flat.before_tuning.rows):
        rows = [row for row in ranking if row.row.key.method in SIX]
        assert len(rows) == len(SIX)
        for name, values in found.items():
            columns = [_first_five(row.row, name) for row in rows]
            values.append(fmean(correlation(*pair) for pair in combinations(columns, 2)))
    told = (
        "by {:.2f} in the first ranking and by {:.2f}\nin the one before tuning, "
        "training returns by {:.2f} and {:.2f}"
    )
    assert told.format(*found["score"], *found["training_return"]) in page


def test_deviations_grow_with_means_as_the_docs_state(opened: Leaderboard) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").replace("\n", " ")
    found = {}
    for item in opened.analyses:
        key = item.table.key
        if key.protocol != "lite" or len(item.rows) < 3 or is_earlier(item.table):
            continue
        means = np.array([row.scores.mean() for row in item.rows])
        if (means > 0.0).all():
            deviations = [row.scores.mean(axis=1).std(ddof=1) for row in item.rows]
            (slope, _) = np.polyfit(np.log(means), np.log(deviations), 1)
            found[key.suite if key.task == "unimal-ft-v1" else key.task] = slope
    loops, quadrupeds, obstacles, flat, larger, varied, exploration = (
        f"{found.pop(name):.1f}"
        for name in (
            "closed-loop-v1",
            "quadruped-velocity-v3",
            "unimal-obstacles-v1",
            "unimal-v1",
            "larger-bodies-v1",
            "unimal-vt-v1",
            "unimal-exploration-v1",
        )
    )
    assert not found
    assert (
        f"from {loops} (closed loops) over {quadrupeds} (quadrupeds), {obstacles} (obstacles), "
        f"{flat} (flat terrain) and {larger} (larger bodies) to {varied} (variable terrain)"
    ) in page
    assert f"lie between 4.5 and 6.2 only, it is {exploration}." in page


def _flat_board(opened: Leaderboard) -> TableAnalysis:
    (found,) = (
        item
        for item in opened.analyses
        if (item.table.key.task, item.table.key.protocol) == ("unimal-ft-v1", "lite")
        and item.table.key.morphologies == "unimals_100"
        and item.before_tuning is not None
    )
    return found


def test_what_tuning_did_at_full_length_is_what_the_docs_state(opened: Leaderboard) -> None:
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    flat = _flat_board(opened)
    assert flat.before_tuning is not None
    for method in SIX:
        cells = [method]
        for name in ("training_return", "score"):
            samples = [
                next(_values(row.row, name) for row in ranking if row.row.key.method == method)
                for ranking in (flat.rows, flat.before_tuning.rows)
            ]
            cells += [f"{fmean(one):.1f} ± {stdev(one):.1f} ({len(one)})" for one in samples]
            cells.append(f"{ttest_ind(*samples, equal_var=False).pvalue:.2f}")
        assert f"| {' | '.join(cells)} |" in page
    first, second = (
        f"{sum(pair.significant for pair in ranking.comparisons)} of {len(ranking.comparisons)}"
        for ranking in (flat, flat.before_tuning)
    )
    told = f"In the first ranking, with {len(flat.rows)} methods, {first} pairs differ"
    assert told in page.replace("\n", " ")
    assert f"in the second, with five seeds each, {second}" in page.replace("\n", " ")


def test_what_the_docs_say_of_quadrupeds_is_what_the_records_say() -> None:
    page = (ROOT / "docs" / "quadrupeds.md").read_text(encoding="utf-8")
    folder = BOARD / "results" / "quadruped-friction-v3" / "quadruped-velocity-v3"
    headings = {"Velocity": ".3f", "Progress": ".2f", "Tilt": ".2f", "Fall": ".1f"}
    methods = ("recmorph", "metamorph-star", "bot", "gcnt", "modumorph", "swat", "nervenet")
    for method in methods:
        found = [json.loads(path.read_bytes()) for path in (folder / method).glob("lite-*")]
        records = [record for record in found if not record.get("untrained")]
        assert sorted(record["seed"] for record in records) == [1, 2, 3]
        cells = [method]
        for heading, digits in headings.items():
            values = [_straight_ahead(record, "nominal", heading) for record in records]
            cells.append(f"{fmean(values):{digits}} ± {stdev(values):{digits}}")
        assert f"| {' | '.join(cells)} |" in page


@pytest.mark.parametrize(
    ("heading", "name", "task"),
    [
        ("recmorph", "recmorph", "unimal-ft-v1"),
        ("metamorph", "metamorph", "unimal-ft-v1"),
        ("metamorph-star", "metamorph-star", "unimal-ft-v1"),
        ("modumorph", "modumorph", "unimal-ft-v1"),
        ("incline", "recmorph-incline", "unimal-incline-v1"),
        ("obstacles", "recmorph-obstacles", "unimal-obstacles-v1"),
        ("vt", "recmorph-vt", "unimal-vt-v1"),
    ],
)
def test_what_the_docs_say_of_hidden_attributes_is_what_the_studies_say(
    heading: str, name: str, task: str
) -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    path = BOARD / "studies" / f"attributes-{name}.json"
    cells = [heading]
    for arm in ("all", "hardware"):
        values = [
            run["numbers"]["training_return"]
            for run in json.loads(path.read_bytes())["runs"]
            if (run["arm"], run["task"]) == (arm, task)
        ]
        assert len(values) == 3
        cells.append(f"{fmean(values):.1f} ± {stdev(values):.1f}")
    assert f"| {' | '.join(cells)} |" in page


def test_what_the_docs_say_of_long_training_is_what_its_record_says() -> None:
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8").replace("\n", " ")
    (path,) = BOARD.glob("results/unimal-v1/unimal-ft-v1/recmorph/standard-unimals_100-seed1-*")
    content = json.loads(path.read_bytes())
    train, unseen = _by_body(content, "train"), _by_body(content, "test")
    scores = [fmean(one for one, _ in found) for found in (train, unseen)]
    metres = [content["metres_per_return"] * score for score in scores]
    fell = 100 * fmean(fell for _, fell in unseen)
    assert (
        f"Mean actions reach {scores[0]:,.0f} on the train bodies, {metres[0]:.1f} m in episodes "
        f"of at most 20 s, and {scores[1]:,.0f}, or {metres[1]:.1f} m, on bodies that the policy "
        f"has never seen, where {fell:.0f} % of the episodes end in a fall;"
    ) in page
    curve = {point["env_steps"]: point["mean_return"] for point in content["learning_curve"]}
    told = "The training return is 259 after 2,000,000 steps, 584 after 4,000,000, 1,016 after "
    assert f"{told}8,000,000, 1,550 after 15,000,000 and 1,708 at the end." in page
    for steps, value in ((2e6, 259), (4e6, 584), (8e6, 1016), (15e6, 1550), (20e6, 1708)):
        assert round(curve[max(point for point in curve if point <= steps)]) == value


def _by_body(content: Mapping[str, Any], split: str) -> list[tuple[float, float]]:
    """Return mean return and share of falls of bodies scored with mean actions, each once."""
    found: dict[str, list[tuple[float, float]]] = {}
    for item in content["returns"]:
        if (item["split"], item["mode"]) == (split, "deterministic") and (
            split == "train" or not item["seen_in_train"]
        ):
            score = fmean(episode["episode_return"] for episode in item["episodes"])
            falls = fmean(episode["ended"] == "fell" for episode in item["episodes"])
            found.setdefault(item["body_digest"], []).append((score, falls))
    return [(fmean(a for a, _ in same), fmean(b for _, b in same)) for same in found.values()]


def _values(row: Row, name: str) -> list[float]:
    """Return the training returns, or the scores on unseen bodies, of all seeds."""
    records = [run.record for run in row.runs]
    if name == "score":
        return [float(record.score("test", "deterministic") or 0.0) for record in records]
    return [float(record.training_return or 0.0) for record in records]


def _first_five(row: Row, name: str) -> list[float]:
    runs = {run.record.seed: run.record for run in row.runs}
    records = [runs[seed] for seed in range(1, 6)]
    if name == "score":
        return [float(record.score("test", "deterministic") or 0.0) for record in records]
    return [float(record.training_return or 0.0) for record in records]


def test_every_number_of_the_findings_is_in_a_committed_file(opened: Leaderboard) -> None:
    found = find_all(read_evidence(opened.analyses, BOARD))
    page = FINDINGS.read_text(encoding="utf-8")
    for claim in CLAIMS:
        finding = found[claim.id]
        assert (finding.verdict == "not run yet") == (not finding.here), claim.id
        row = next(line for line in page.splitlines() if f'id="{claim.id}"' in line)
        assert f"*{finding.verdict}*" in row
        if isinstance(claim, Pooled):
            _check_samples(claim, finding)
            if finding.here and not finding.here.startswith("the runs are there, but some have no"):
                _check_told(claim, finding)


def _check_samples(claim: Pooled, finding: Finding) -> None:
    """Compare the numbers of single runs with those of the files that they name."""
    minus = getattr(claim, "minus", "")
    for place, sample in enumerate(finding.samples):
        assert len(sample.values) == len(sample.seeds) == len(sample.sources)
        if minus and place == 2:  # the difference of the two samples before it
            first, second = (np.array(one.values) for one in finding.samples[:2])
            assert sample.values == pytest.approx(first - second)
            continue
        metric = minus if minus and place == 1 else claim.metric
        raw = [
            _raw(path, metric, sample.label, seed)
            for path, seed in zip(sample.sources, sample.seeds, strict=True)
        ]
        assert sample.values == pytest.approx(raw, rel=1e-9), claim.id


def _check_told(claim: Pooled, finding: Finding) -> None:
    """Compute means and intervals that a row tells from the numbers of its runs."""
    if isinstance(claim, AboveThreshold):
        *sides, change = finding.samples
        digits = f",.{claim.digits}f"
        if sides:
            first, second = (fmean(side.values) for side in sides)
            assert finding.here.startswith(f"{second:{digits}} to {first:{digits}}: "), claim.id
        low, high = ttest_1samp(change.values, 0.0).confidence_interval()
        unit = f" {claim.unit}" if claim.unit else ""
        told = f"{fmean(change.values):+{digits}}{unit} ({low:+{digits}} to {high:+{digits}})"
        assert told in finding.here, claim.id
        return
    samples = {sample.label: sample.values for sample in finding.samples}
    side = r"(\S+) (\S+) \((\d+) seeds\)"
    pair = re.match(f"{side} against {side}", finding.here)
    assert pair, claim.id
    labels, means, counts = pair.group(1, 4), pair.group(2, 5), pair.group(3, 6)
    assert means == tuple(figure(fmean(samples[label])) for label in labels), claim.id
    assert counts == tuple(str(len(samples[label])) for label in labels), claim.id
    if isinstance(claim, Lead):
        best = min if claim.lower_is_better else max
        for label, side in zip(labels, (claim.ours, claim.others), strict=True):
            there = [fmean(samples[name]) for name in side if len(samples.get(name, ())) > 1]
            assert fmean(samples[label]) == best(there), claim.id
    sign = -1.0 if claim.lower_is_better else 1.0
    one, other = (np.array(samples[label]) for label in labels)
    logarithms = min(*one, *other) > 0.0
    base = other.mean() / 100.0 if logarithms else 1.0
    told = re.search(
        r"(?:higher|lower) by (\S+) [^(]*?(?:\((\S+) to (\S+)\)|, without)", finding.here
    )
    assert told, claim.id
    value, low, high = (text and float(text.replace(",", "")) for text in told.groups())
    assert value == pytest.approx(sign * (one.mean() - other.mean()) / base, abs=0.051), claim.id
    if one.std() == other.std() == 0.0:  # a few equal runs do not show how others would differ
        assert (low, high) == (None, None), claim.id
        assert finding.verdict == "cannot be decided with these runs"
        return
    # The wider of Welch's interval and that with variances of all that the claim compares, which
    # the tests of `compare_means` compute by hand.
    runs = (_without_each(one), _without_each(other)) if logarithms else (one, other)
    welch = ttest_ind(*runs, equal_var=False).confidence_interval()
    gap = np.log(one.mean() / other.mean()) if logarithms else one.mean() - other.mean()
    known = {name: values for name, values in samples.items() if len(values) > 1}
    columns = [np.array(values)[:, None] for values in known.values()]
    i, j = sorted(list(known).index(label) for label in labels)
    pooled = compare_means(columns, np.zeros(1, np.int64))[i, j].contrast.runs
    assert pooled.low is not None
    assert pooled.high is not None
    half = 0.5 * max(welch.high - welch.low, pooled.high - pooled.low)
    ends = sign * gap + np.array([-half, half])
    shares = 100.0 * sign * (np.exp(sign * ends) - 1.0) if logarithms else ends
    assert (low, high) == pytest.approx(tuple(shares), abs=0.051), claim.id


def _without_each(runs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return pseudo-values of the logarithm of a mean but for a constant (the jackknife)."""
    left_out = (runs.sum() - runs) / (len(runs) - 1)
    found: np.ndarray[Any, Any] = -(len(runs) - 1) * np.log(left_out)
    return found


def test_speeds_and_exponents_of_the_findings_are_those_measured(opened: Leaderboard) -> None:
    found = find_all(read_evidence(opened.analyses, BOARD))
    for claim in CLAIMS:
        here = found[claim.id].here
        if isinstance(claim, LinearCost):
            (path,) = found[claim.id].links
            kind, key = claim.key.split("/")
            told = {
                item["method"]: f"{item['method']} {item['value']:.2f} ({item['low']:.2f} to "
                f"{item['high']:.2f})"
                for item in json.loads((BOARD / path).read_bytes())["exponents"]
                if (item["kind"], item["key"]) == (kind, key)
            }
            assert here == f"exponent {told[claim.method]}, {told[claim.beside]}"
        elif isinstance(claim, Fastest):
            (path,) = found[claim.id].links
            rounds = {
                item["method"]: [
                    theirs / ours
                    for theirs, ours in zip(
                        item["acting_seconds"], item["reference_acting_seconds"], strict=True
                    )
                ]
                for item in json.loads((BOARD / path).read_bytes())["methods"]
            }
            assert {len(rounds[name]) for name in claim.others} == {15}
            ratios = {name: median(rounds[name]) for name in claim.others}
            nearest = min(ratios, key=ratios.__getitem__)
            assert f", {ratios[nearest]:.2f} times as many as {nearest} (" in here
            # Of 15 rounds, a median's interval at 95 % ends at the fourth from either side.
            slower = [sorted(rounds[name])[3] > 1.0 for name in claim.others]
            assert (found[claim.id].verdict == "seen here") == all(slower)
