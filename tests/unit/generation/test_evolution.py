"""Selection and breeding, without training."""

import math
import re
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.generation import breeding
from gmc_bench.generation import judge as judge_module
from gmc_bench.generation.evolution import Evolution, Generation
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.lineage import grow_lineage

SMALL = Evolution(seed=3, population=6, survivors=3, kin=2)


def test_defaults_are_the_documented_ones():
    text = (Path(__file__).parents[3] / "docs" / "bodies.md").read_text(encoding="utf-8")
    documented = {}
    for options, numbers in re.findall(r"^\| (`--.*`) \|.*\| ([\d, ]+) \|$", text, re.MULTILINE):
        names = [name.replace("-", "_") for name in re.findall(r"--([a-z-]+) ", options)]
        values = [int(number.replace(",", "")) for number in numbers.split(", ")]
        documented |= dict(zip(names, values, strict=False))
    defaults = asdict(Evolution())
    assert defaults == {name: documented.get(name) for name in defaults}


def _generation(returns, **options):
    return Generation(number=1, lineages=tuple(returns), returns=tuple(returns.values()), **options)


def test_the_best_survive_but_few_of_each_founder():
    found = _generation({(1,): 5.0, (1, 7): 9.0, (1, 8): 8.0, (2,): 1.0, (3,): -math.inf}, births=8)
    assert found.ranked == ((1, 7), (1, 8), (1,), (2,), (3,))
    assert found.survivors(SMALL) == ((1, 7), (1, 8), (2,))
    level = _generation({(4,): 1.0, (2,): 1.0, (9,): 2.0, (3,): 1.0}, births=9)
    assert level.ranked == ((9,), (4,), (2,), (3,))  # equal returns in the order of the population
    # The rest of a family takes places that nobody else can.
    lonely = _generation({(1,): 1.0, (1, 2): 3.0, (1, 3): 2.0}, births=3)
    assert lonely.survivors(SMALL) == ((1, 2), (1, 3), (1,))
    assert found.mean_return == pytest.approx(23.0 / 4)
    assert math.isnan(_generation({(1,): -math.inf}, births=1).mean_return)


def test_children_fill_up_what_survivors_leave(monkeypatch):
    monkeypatch.setattr(judge_module, "CHECK_DURATION", 1.0)
    founders, births = breeding.breed(SMALL, None)
    assert len(founders) == 6
    assert all(len(lineage) == 1 for lineage in founders)
    assert births == max(lineage[0] for lineage in founders)
    last = _generation({k: float(n) for n, k in enumerate(founders)}, births=births)
    following, later = breeding.breed(SMALL, last)
    kept, children = list(islice(following, 3)), list(following)[3:]
    assert tuple(kept) == last.survivors(SMALL) == tuple(founders)[:2:-1]
    assert {child[:-1] for child in children} == set(kept)
    assert births < min(child[-1] for child in children) <= later
    assert len({body.digest for body in following.values()}) == 6
    assert all(body == grow_lineage(SMALL.seed, key) for key, body in following.items())
    assert breeding.breed(SMALL, last) == (following, later)


def test_bodies_that_fail_the_checks_are_not_born(monkeypatch):
    def judge(body, seed, *, gaits):
        assert not gaits
        assert seed[0] == SMALL.seed
        return Verdict(fault="mass" if seed[1] % 2 else "")

    monkeypatch.setattr(breeding, "judge", judge)
    founders, _ = breeding.breed(SMALL, None)
    assert len(founders) == 6
    assert all(number % 2 == 0 for (number,) in founders)


def test_no_body_is_born_twice(monkeypatch):
    """Three lineages in a row end in the same body."""
    grown = [chain(num_limbs) for num_limbs in range(2, 8)]
    monkeypatch.setattr(breeding, "judge", lambda *given, gaits: Verdict())
    monkeypatch.setattr(
        breeding, "grow_lineage", lambda seed, lineage: grown[(lineage[-1] - 1) // 3]
    )
    founders, births = breeding.breed(SMALL, None)
    assert list(founders) == [(1,), (4,), (7,), (10,), (13,), (16,)]
    assert births == 16
    # A child that is like a survivor, or like another child, is none either.
    last = _generation({(1,): 3.0, (4,): 2.0, (7,): 1.0}, births=0)
    following, _ = breeding.breed(SMALL, last)
    assert [lineage[-1] for lineage in following] == [1, 4, 7, 10, 13, 16]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"survivors": 6, "population": 6}, "6 of 6 bodies were to survive"),
        ({"survivors": 0}, "0 of 160 bodies were to survive"),
        *(
            ({name: 0}, f"'{name}' must be at least 1, got 0")
            for name in ("kin", "generations", "env_steps", "num_envs")
        ),
        ({"seed": -1}, "'seed' must not be negative"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    least = {"seed": 0, "survivors": 1, "kin": 1, "generations": 1, "env_steps": 1, "num_envs": 1}
    assert Evolution(**least, population=2)
    with pytest.raises(ConfigError, match=message):
        Evolution(**change)
