"""Speeds of methods: what a leaderboard keeps of them, and who is fastest."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.findings.evidence import Evidence, KeptFiles, read_kept, require_once
from gmc_bench.leaderboard.findings.speed_claims import Fastest, median_interval
from gmc_bench.leaderboard.front import grid, speeds_on
from gmc_bench.leaderboard.keeping import files_to_keep, keep
from gmc_bench.leaderboard.overview import make_overview
from gmc_bench.methods import METHODS
from gmc_bench.records.kept import KeptSpeeds, TimedRounds
from recmorph import SPEC
from tests.support.records import digest_of, make_record, make_stored
from tests.support.three_methods import FAR, NEAR, analysis_of

ONE_THREAD = make_record().hardware.model_copy(update={"threads": 1})
FASTEST = Fastest(
    id="f", says="", printed="", source="", suite="unimal-v1", task="unimal-ft-v1",
    method="recmorph", others=("swat", "gcnt"),
)  # fmt: skip


def _speeds(task: str = "unimal-ft-v1", **ratios: Sequence[float]) -> Evidence:
    """Return times of which the reference's are 2 s a round, 1.6 s of them for acting."""
    rounds = [
        TimedRounds(
            method=name,
            method_version=1,
            preset="lite",
            parameters=1,
            seconds=(9.0,) * len(values),
            acting_seconds=tuple(1.6 * value for value in values),
            reference_seconds=(2.0,) * len(values),
            reference_acting_seconds=(1.6,) * len(values),
        )
        for name, values in ratios.items()
    ]
    kept = KeptSpeeds(
        suite="unimal-v1",
        task=task,
        protocol="lite",
        morphologies={"id": "unimals_100", "digest": digest_of("set")},
        steps_per_iteration=4096,
        reference={"method": "recmorph", "method_version": 1, "preset": "lite", "parameters": 1},
        methods=tuple(rounds),
        hardware=ONE_THREAD,
        versions={},
        git_commit="0" * 40,
        git_dirty=False,
    )
    return Evidence((), {}, {}, speeds={"speeds/a.json": kept})


def _around(middle: float) -> list[float]:
    """Return the ratios of 15 rounds, 0.01 apart."""
    return [middle + 0.01 * place for place in range(-7, 8)]


SLOWER, AS_FAST = _around(1.27), _around(1.02)
"""Ratios of methods that take longer than the reference, and that nobody can tell from it."""


def test_the_fastest_is_faster_than_each_other() -> None:
    found = FASTEST.find(_speeds(swat=SLOWER, gcnt=SLOWER), {})
    assert found.verdict == "seen here"
    # Of 15 rounds, the ends are the fourth from either side: 2 P(at most 3 of 15) = 0.035.
    assert found.here == (
        "recmorph 2,560 control steps/s, 1.27 times as many as swat (1.23 to 1.31, 15 rounds)"
    )
    assert found.links == ("speeds/a.json",)
    found = FASTEST.find(_speeds(swat=SLOWER, gcnt=AS_FAST), {})
    assert (found.verdict, found.power) == ("cannot be decided with these runs", "more rounds")
    assert ", 1.02 times as many as gcnt (" in found.here  # the next after it
    found = FASTEST.find(_speeds(swat=SLOWER), {})
    assert (found.verdict, found.power) == ("cannot be decided with these runs", "times of gcnt")
    found = FASTEST.find(_speeds(swat=[1 / ratio for ratio in SLOWER]), {})
    assert found.verdict == "not seen here"
    assert found.here.endswith("; 1 of 2 others were timed; slower than swat")


def test_that_one_of_several_is_faster_needs_a_surer_interval_than_that_none_is() -> None:
    # Faster than both at 95 %, which is enough: at 97.5 % the intervals reach 1.
    barely = _around(1.045)
    assert median_interval(barely, 0.975)[0] < 1.0 < median_interval(barely, 0.95)[0]
    assert FASTEST.find(_speeds(swat=barely, gcnt=barely), {}).verdict == "seen here"
    # That one of two is faster may be chance: at 97.5 % the interval reaches 1.
    nearly = _around(0.955)
    assert median_interval(nearly, 0.95)[1] < 1.0 < median_interval(nearly, 0.975)[1]
    found = FASTEST.find(_speeds(swat=nearly, gcnt=AS_FAST), {})
    assert found.verdict == "cannot be decided with these runs"


def test_a_single_slow_round_does_not_move_the_rate() -> None:
    (kept,) = _speeds(swat=SLOWER).speeds.values()
    slow = {"reference_acting_seconds": (1.6,) * 14 + (16.0,)}
    rate = FASTEST.find(Evidence((), {}, {}, speeds={"a": _changed_timing(slow)(kept)}), {}).here
    assert rate.startswith("recmorph 2,560 control steps/s, ")


def test_speeds_of_other_methods_tasks_or_references_decide_nothing() -> None:
    (kept,) = _speeds(swat=SLOWER, gcnt=SLOWER).speeds.values()
    others = [Evidence((), {}, {}), _speeds("unimal-vt-v1", swat=SLOWER), _speeds(bot=SLOWER)]
    for change in ({"preset": "paper"}, {"method": "metamorph"}):
        reference = kept.reference.model_copy(update=change)
        beside = kept.model_copy(update={"reference": reference})
        others.append(Evidence((), {}, {}, speeds={"a": beside}))
    assert [FASTEST.find(other, {}).verdict for other in others] == ["not run yet"] * 5


def _changed_timing(change: dict[str, Any]) -> Callable[[KeptSpeeds], KeptSpeeds]:
    def changed(kept: KeptSpeeds) -> KeptSpeeds:
        return kept.model_copy(update={"methods": (kept.methods[0].model_copy(update=change),)})

    return changed


OUTDATED: list[Callable[[KeptSpeeds], KeptSpeeds]] = [
    lambda kept: kept.model_copy(update={"protocol": "standard"}),
    lambda kept: kept.model_copy(update={"suite": "elsewhere-v1"}),
    *(
        lambda kept, machine=machine: kept.model_copy(
            update={"hardware": kept.hardware.model_copy(update=machine)}
        )
        for machine in ({"threads": 2}, {"gpu": "Test GPU"})
    ),
    *(
        lambda kept, body=body: kept.model_copy(
            update={"morphologies": kept.morphologies.model_copy(update=body)}
        )
        for body in ({"id": "gmc-unimal-mini-v2"}, {"digest": digest_of("other")})
    ),
    *(
        lambda kept, change=change: kept.model_copy(
            update={"reference": kept.reference.model_copy(update=change)}
        )
        for change in ({"preset": "paper"}, {"method_version": 99})
    ),
    *map(_changed_timing, ({"preset": "paper"}, {"method_version": 99})),
]


@pytest.mark.parametrize("change", OUTDATED)
def test_speeds_by_other_rules_than_todays_do_not_count(
    change: Callable[[KeptSpeeds], KeptSpeeds],
) -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    (table,), _ = aggregate([make_stored(make_record(morphologies=bodies))])
    board = (analyse(table),)
    (kept,) = _speeds(swat=[1.2] * 15).speeds.values()
    board_and = [Evidence(board, {}, {}, speeds={"a": item}) for item in (kept, change(kept))]
    assert [bool(FASTEST.find(evidence, {}).here) for evidence in board_and] == [True, False]
    assert FASTEST.find(board_and[1], {}).verdict == "not run yet"
    overview = make_overview(board, ())
    assert [speeds_on(overview, evidence) is None for evidence in board_and] == [False, True]


def test_speeds_are_kept_once_per_board() -> None:
    (kept,) = _speeds(swat=[5.625]).speeds.values()  # its iterations are nothing but acting
    twice = KeptFiles({}, {}, {}, {"speeds/a.json": kept, "speeds/b.json": kept})
    with pytest.raises(RecordError, match=r"b\.json and speeds/a\.json both hold speeds"):
        require_once(twice)


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    assert median_interval([3.0, 1.0, 2.0], 0.95) == (-math.inf, math.inf)
    assert median_interval([5.0, 1.0, 2.0, 4.0, 3.0, 6.0], 0.95) == (1.0, 6.0)  # 2 / 2^6 = 0.03
    rng = np.random.default_rng(0)
    samples = np.sort(rng.exponential(size=(2000, 15)))
    low, high = map(int, median_interval(list(range(15)), 0.95))
    shuffled = list(rng.permutation(samples[0]))
    assert median_interval(shuffled, 0.95) == (samples[0, low], samples[0, high])
    hits = (samples[:, low] <= math.log(2.0)) & (math.log(2.0) <= samples[:, high])
    assert 0.955 < np.mean(hits) < 0.975  # 1 - 0.035, with a standard error of 0.004


def test_the_front_shows_speeds_beside_the_reference() -> None:
    (kept,) = _speeds(next=[0.5] * 2, near=[2.0]).speeds.values()
    # The rate is that of the median of all rounds: of 1.7, 2 and 9 s.
    rounds = kept.methods[0].model_copy(update={"reference_seconds": (1.7, 9.0)})
    # The ratio is the median of the rounds' own ones: of 2, 2 / 9 and 1 / 2.
    three = {"seconds": (1.0, 9.0, 4.0), "reference_seconds": (2.0,) * 3}
    near = kept.methods[1].model_copy(update=three)
    kept = kept.model_copy(update={"methods": (rounds, near)})
    found = make_overview([analysis_of([*FAR, *NEAR])], ())
    rows = {line.split(" | ")[0]: line for line in grid(found, kept)}
    assert rows["| Method"].endswith(" | Speed |")
    assert rows["| far"].endswith(" | — |")  # its speed was not measured
    assert rows["| near"].endswith(" | 0.50 |")
    of_far = kept.reference.model_copy(update={"method": "far"})
    others = grid(found, kept.model_copy(update={"reference": of_far}))
    (row,) = [line for line in others if line.startswith("| far |")]
    assert row.endswith(" | 1.00 |")
    assert "*Speed*" not in grid(found)[-2]
    assert "a multiple of recmorph's (2,048 on one core of an" in grid(found, kept)[-2]
    # Of several boards with one task, the one that was measured is named.
    assert "on the board 'Flat terrain', as" in grid(found, kept)[-2]
    other = kept.morphologies.model_copy(update={"id": "demo-set-v1"})
    told = grid(found, kept.model_copy(update={"morphologies": other}))[-2]
    assert "on the board 'Flat terrain, lite, demo-set-v1', as" in told


PRINTED = {
    "measurement": "methods",
    "suite": "unimal-v1",
    "task": "unimal-ft-v1",
    "protocol": "lite",
    "steps_per_iteration": 4096,
    "reference": {
        "method": "recmorph",
        "method_version": SPEC.version,
        "preset": "lite",
        "parameters": 7,
    },
    "git_commit": "0" * 40,
    "git_dirty": False,
}


def _printed(tiny_set: MorphologySet, **changes: Any) -> dict[str, Any]:
    """Return what `gmc-bench profile methods --json` prints."""
    times = ("seconds", "acting_seconds", "reference_seconds", "reference_acting_seconds")
    swat = {"method": "swat", "method_version": METHODS.get("swat").version}
    rounds = dict(zip(times, ([2.0, 3.0], [1.0, 1.0], [2.0, 2.0], [1.0, 0.5]), strict=True))
    return {
        **PRINTED,
        "methods": [{**PRINTED["reference"], **swat, **rounds}],
        "setting": {
            "morphologies": {"id": tiny_set.id, "digest": tiny_set.digest, "bodies": 2},
            "num_envs": 256,
            "threads": 1,
            "task": "unimal-ft-v1",
            "hardware": ONE_THREAD.model_dump(),
            "versions": {"torch": "2.13.0"},
        },
        **changes,
    }


def test_what_profile_prints_is_kept(tmp_path: Path, tiny_set: MorphologySet) -> None:
    file, board = tmp_path / "speeds.json", tmp_path / "board"
    file.write_text(json.dumps(_printed(tiny_set)), encoding="utf-8")
    files, others = files_to_keep([file], board)
    assert others == []
    (path,) = keep(files)
    assert path == board / "speeds" / f"unimal-v1_unimal-ft-v1_lite_{tiny_set.id}.json"
    (kept,) = read_kept(board).speeds.values()
    assert kept.methods[0].seconds == (2.0, 3.0)
    assert kept.morphologies.digest == tiny_set.digest
    path.rename(path.with_name("earlier.json"))
    with pytest.raises(RecordError, match=r"speeds/earlier\.json both hold speeds on unimal-ft-v1"):
        files_to_keep([file], board)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda found: found.update(git_dirty=True), "git_dirty"),
        (lambda found: found.pop("methods"), "it has no 'methods'"),
        (lambda found: found["methods"][0].update(seconds=[1.0]), "every round needs four times"),
        (
            lambda found: found["methods"][0].update(acting_seconds=[2.5, 1.0]),
            "choosing actions cannot take longer",
        ),
        (
            lambda found: found["methods"][0].update(reference_acting_seconds=[1.0, 2.5]),
            "choosing actions cannot take longer",
        ),
        (lambda found: found["methods"][0].update(seconds=[0.0, 3.0]), "times must be positive"),
        (lambda found: found["methods"].append(found["methods"][0]), "is listed twice"),
        (lambda found: found["methods"][0].update(method="recmorph"), "is listed twice"),
        (
            lambda found: found["methods"][0].update(method_version=99),
            "has version 99 of swat, 1 is installed",
        ),
        (
            lambda found: found.update(reference={**found["reference"], "method_version": 99}),
            f"has version 99 of recmorph, {SPEC.version} is installed",
        ),
        (
            lambda found: found["setting"]["morphologies"].update(digest="1" * 64),
            "but here that has other bodies",
        ),
        (
            lambda found: found["setting"]["hardware"].update(threads=2),
            "was measured on 2 threads of the CPU, expected one thread of the CPU",
        ),
        (
            lambda found: found["setting"]["hardware"].update(gpu="Test GPU"),
            "was measured on Test GPU, expected one thread of the CPU",
        ),
    ],
)
def test_what_is_no_measurement_is_refused(
    tmp_path: Path,
    tiny_set: MorphologySet,
    change: Callable[[dict[str, Any]], object],
    complaint: str,
) -> None:
    found = _printed(tiny_set)
    change(found)
    file = tmp_path / "speeds.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(RecordError, match=complaint) as caught:
        files_to_keep([file], tmp_path / "board")
    again = "run 'gmc-bench profile methods --threads 1 --json' again"
    assert again in str(caught.value)
    assert not (tmp_path / "board").exists()
