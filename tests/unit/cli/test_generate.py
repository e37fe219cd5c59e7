import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.cli.main import main
from gmc_bench.generation import produce
from gmc_bench.generation.journal import Journal, Judged
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.released import RELEASED, build_released
from gmc_bench.generation.search import search


def _all(body, seed):
    return Verdict()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))
    monkeypatch.setattr(
        produce, "search", lambda *a, **options: search(*a, judge_body=_all, **options)
    )
    return tmp_path


def _generate(*options):
    return main(["morphologies", "generate", *options])


def test_a_set_is_generated_and_can_be_loaded(capsys):
    options = ("--train", "2", "--test", "1", "--limbs", "4-5", "--workers", "1")
    assert _generate("mine", *options, "--seed", "7") == 0
    out = capsys.readouterr().out
    bodies = load_morphologies("mine")
    assert bodies.digest[:12] in out
    assert "judged  " in out
    assert {b.num_limbs for members in bodies.splits.values() for b in members} <= {4, 5}
    assert _generate("mine", *options, "--seed", "7") == 0
    assert "replace" not in capsys.readouterr().err
    assert _generate("mine", *options, "--seed", "8") == 0
    assert "'mine' holds other bodies; the new ones replace them" in capsys.readouterr().err
    assert load_morphologies("mine").digest != bodies.digest


def test_options_reach_the_recipe(capsys):
    assert (
        _generate(
            *("mine", "--train", "1", "--test", "1", "--limbs", "6-8", "--mean-limbs", "7.5"),
            *("--asymmetric", "--size", "0.8-1.2", "--loops", "1", "--seed", "5", "--workers", "1"),
        )
        == 0
    )
    bodies = load_morphologies("mine")
    scores = json.loads(next(iter(produce.data_dir().rglob("scores.json"))).read_text())
    assert scores["recipe"] == {
        "seed": 5,
        "train": 1,
        "test": 1,
        "limbs": [6, 8],
        "spread": "mean",
        "mean_limbs": 7.5,
        "form": {"symmetric": False, "size": [0.8, 1.2]},
        "loops": [1, 1],
        "loop_share": 1.0,
    }
    assert all(len(b.loops) == 1 for members in bodies.splits.values() for b in members)


@pytest.mark.parametrize(
    ("options", "share"),
    [((), 0.0), (("--loops", "0-2"), 1.0), (("--loops", "1-2", "--loop-share", "0.5"), 0.5)],
)
def test_all_bodies_have_loops_where_any_are_asked_for(monkeypatch, options, share):
    asked = []

    def make_set(name, recipe, workers, show):
        asked.append(recipe)
        return SimpleNamespace(text="made")

    monkeypatch.setattr(produce, "make_set", make_set)
    assert _generate("mine", *options) == 0
    assert [recipe.loop_share for recipe in asked] == [share]


def test_an_interrupted_search_says_how_to_go_on(capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(produce, "search", interrupt)
    assert _generate("mine") == 130
    assert "the same command goes on with the search" in capsys.readouterr().err


def test_the_bar_writes_little_to_a_log(capsys):
    assert _generate("mine", "--train", "9", "--test", "9", "--limbs", "3-4", "--workers", "1") == 0
    assert 1 <= capsys.readouterr().err.count("body/s") <= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--limbs", "9-4"), "two whole numbers as LO-HI, the lower first, got '9-4'"),
        (("--limbs", "many"), "two whole numbers as LO-HI, the lower first, got 'many'"),
        (("--size", "0.1-9"), "sizes of limbs are 0.1-9"),
        (("--mean-limbs", "40"), "the mean of 40 limbs does not lie between 5 and 11"),
        (("--mean-limbs", "7", "--histogram", "unimal"), "not allowed with"),
        (("--loop-share", "0.5"), "share of bodies with loops is 0.5"),
        (("--train", "0"), "must be an integer of at least 1"),
        (("--limb", "4"), "did you mean '--limbs'"),
    ],
)
def test_bad_options_are_one_sentence(options, message, capsys):
    assert _generate("mine", *options) == 2
    assert message in capsys.readouterr().err


def test_reserved_names_are_refused(capsys):
    assert _generate("gmc-mine") == 2
    assert "reserved for generated sets" in capsys.readouterr().err


def test_several_sets_are_described_in_one_table(capsys):
    names = ("gmc-unimal-mini-v1", "gmc-unimal-mini-v1:3")
    assert main(["morphologies", "describe", *names]) == 0
    assert "| bodies | 20 | 20 | 3 | 20 |" in capsys.readouterr().out
    assert main(["morphologies", "describe", *names, "--limit", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == ["gmc-unimal-mini-v1", "gmc-unimal-mini-v1.first3"]
    measured = [part["measured"] for row in rows for part in row["splits"].values()]
    assert measured == [4, 4, 3, 4]


def test_what_is_measured_of_a_set_is_what_was_asked_for(capsys, monkeypatch):
    asked = []

    def measure(bodies, on_body, **options):
        asked.append((bodies.id, options))
        return {}

    monkeypatch.setattr("gmc_bench.generation.measures.measure_set", measure)
    name = "gmc-unimal-mini-v1"
    for argv in (("--behaviour",), ("--behaviour", "--limit", "2"), (f"{name}:3",)):
        assert main(["morphologies", "describe", name, *argv, "--json"]) == 0
    assert asked == [
        (name, {"behaviour": True, "limit": None}),
        (name, {"behaviour": True, "limit": 2}),
        (name, {"behaviour": False, "limit": None}),
        ("gmc-unimal-mini-v1.first3", {"behaviour": False, "limit": None}),
    ]


def _documented(name):
    lines = (Path(__file__).parents[3] / "docs" / "bodies.md").read_text().splitlines()
    start = f"gmc-bench morphologies generate {name} "
    return next(line for line in lines if line.startswith(start)).split()[3:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "released"),
    [
        ("loops-again", "gmc-loops-v1"),
        ("unimal-again", "gmc-unimal-v1"),
        ("large-again", "gmc-large-v1"),
    ],
)
def test_a_released_set_comes_out_of_its_documented_search(name, released, capsys, monkeypatch):
    """Given the verdicts that were reached then, the command makes the same set."""
    with monkeypatch.context() as patch:
        patch.delenv("GMC_BENCH_DATA")  # the user's own folder, where it has been grown before
        pins, bodies = RELEASED[released], build_released(released)
    accepted = {
        index: body.digest
        for split, indices in (("train", pins.train_seeds), ("test", pins.test_seeds))
        for index, body in zip(indices, bodies.split(split), strict=True)
    }
    journal = Journal(produce.journal_path(pins.recipe), pins.recipe)
    for index in range(max(accepted) + 1):
        fault = "" if index in accepted else "viability"
        digest = accepted.get(index, "")
        journal.add(Judged(index=index, digest=digest, verdict=Verdict(fault=fault)))
    journal.close()
    assert main(["morphologies", "generate", *_documented(name), "--workers", "1"]) == 0
    assert load_morphologies(name).digest == bodies.digest
    assert load_morphologies(name).splits == bodies.splits
