import json
from dataclasses import replace

import pytest

from gmc_bench.bodies.sets import load_morphologies, resolve_set
from gmc_bench.core.errors import MorphologySetError
from gmc_bench.generation import produce
from gmc_bench.generation.journal import read_line, write_line
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.produce import SCORES, journal_path, make_set, prospects
from gmc_bench.generation.recipe import Recipe
from gmc_bench.generation.search import search

RECIPE = Recipe(seed=1, train=2, test=1, limbs=(3, 4))


def _half(body, seed):
    fault = "" if int(body.digest, 16) % 2 else "viability"
    return Verdict(fault=fault, best_distance=1.5, surviving_share=0.25)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """Judge by hash: what the search finds out is tested elsewhere."""

    def quick_search(*args, **options):
        return search(*args, judge_body=_half, **options)

    monkeypatch.setattr(produce, "search", quick_search)


def test_a_set_is_kept_under_its_name(quick):
    product = make_set("mine", RECIPE, 1)
    assert resolve_set("mine") == "mine"
    bodies = load_morphologies("mine")
    assert bodies == product.bodies
    assert {split: len(members) for split, members in bodies.splits.items()} == {
        "train": 2,
        "test": 1,
    }
    assert bodies.seen_in_train == frozenset()
    assert f"judged  {product.found.num_judged}\n" in product.text
    assert f"  viability: {product.found.faults['viability']}" in product.text
    assert "turned down  none" in replace(product, found=replace(product.found, faults={})).text


def test_scores_are_kept_beside_the_bodies(quick):
    product = make_set("mine", RECIPE, 1)
    content = json.loads((product.folder / SCORES).read_text())
    assert content["recipe_digest"] == RECIPE.digest
    assert content["num_judged"] == product.found.num_judged
    for split, rows in content["splits"].items():
        assert [row["name"] for row in rows] == [b.name for b in product.bodies.splits[split]]
        assert [row["digest"] for row in rows] == [b.digest for b in product.bodies.splits[split]]
        assert all(row["verdict"]["best_distance"] == 1.5 for row in rows)


def test_the_same_recipe_gives_the_same_set_again(quick, folder):
    first = make_set("mine", RECIPE, 1)
    assert journal_path(RECIPE).is_relative_to(folder)
    assert journal_path(RECIPE).stem == RECIPE.digest[:16]
    assert make_set("mine", RECIPE, 1).bodies.digest == first.bodies.digest
    journal_path(RECIPE).unlink()
    assert make_set("other", RECIPE, 1).bodies.digest == first.bodies.digest


def test_what_is_there_already_is_said_before_the_search(quick):
    assert prospects("mine", RECIPE) == []
    make_set("mine", RECIPE, 1)
    going_on = f"Going on with the search in {journal_path(RECIPE)}."
    assert prospects("mine", RECIPE) == [going_on]
    replaced = "'mine' holds other bodies; the new ones replace them at the end."
    assert prospects("mine", replace(RECIPE, seed=2)) == [replaced]
    make_set("other", replace(RECIPE, seed=2), 1)
    assert prospects("other", RECIPE) == [replaced.replace("mine", "other"), going_on]
    with pytest.raises(MorphologySetError, match="reserved for generated sets"):
        prospects("gmc-mine", RECIPE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gmc-mine", "reserved for generated sets"),
        ("unimals_100", "id of a published set"),
        ("No Name", "cannot be the id"),
    ],
)
def test_names_that_are_taken_are_refused_before_the_search(name, message):
    with pytest.raises(MorphologySetError, match=message):
        make_set(name, RECIPE, 1)
    assert not journal_path(RECIPE).exists()


def test_a_candidate_that_grows_into_another_body_is_noticed(quick):
    make_set("mine", RECIPE, 1)
    journal = journal_path(RECIPE)
    header, *lines = journal.read_bytes().splitlines()
    judged = [replace(row, digest=row.digest[::-1]) for row in map(read_line, lines)]
    journal.write_text("\n".join([header.decode(), *map(write_line, judged)]) + "\n")
    with pytest.raises(MorphologySetError, match="grew into another body"):
        make_set("mine", RECIPE, 1)
