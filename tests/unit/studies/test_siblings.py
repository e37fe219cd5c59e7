import math
from collections import defaultdict

import numpy as np
import pytest

from gmc_bench.evaluation.evaluate import EpisodeCounter, Observer, Scoring
from gmc_bench.records.store import sealed
from gmc_bench.studies import siblings
from gmc_bench.studies.siblings import count_episodes, score_sibling_orders, summarize_orders


def body(canonical, unseen, known=()):
    orders = [{"return": value, "unseen": True} for value in unseen]
    orders += [{"return": value, "unseen": False} for value in known]
    return {"canonical": canonical, "orders": orders}


def test_numbers_by_hand():
    found = summarize_orders(
        [
            body(100.0, [10.0, 20.0, 30.0], [60.0]),
            body(300.0, [100.0, 200.0]),
            body(999.0, []),  # one order only: not counted anywhere
        ]
    )
    assert found["canonical"] == 200.0
    assert found["permuted"] == (20.0 + 150.0) / 2
    assert found["drop"] == pytest.approx(57.5)
    assert found["tail"] == (10.0 + 100.0) / 2
    assert found["permuted_all"] == (30.0 + 150.0) / 2
    assert (found["num_bodies"], found["num_unseen"], found["num_orders"]) == (2, 5, 6)


def test_the_tail_counts_the_lowest_tenth_rounded_up():
    found = summarize_orders([body(1.0, [float(k) for k in range(21)])])
    assert found["tail"] == 1.0  # of 0, 1, 2


def test_a_drop_needs_something_to_drop_from():
    assert summarize_orders([body(-1.0, [2.0])])["drop"] is None
    nothing = summarize_orders([body(5.0, [])])
    assert nothing["canonical"] is None
    assert nothing["num_bodies"] == 0


def test_more_orders_than_a_file_can_hold_are_counted_as_the_most(trained, monkeypatch):
    made = siblings.make_sibling_test
    monkeypatch.setattr(
        siblings, "make_sibling_test", lambda table: (*made(table)[:2], [math.factorial(19)] * 3)
    )
    found = score_sibling_orders(
        trained.policy, trained.task, trained.bodies, episodes=1, seed=3, num_threads=1
    )
    assert [item["total_orders"] for item in found["bodies"]] == [2**53 - 1] * 3
    assert sealed(found)


def test_every_order_of_every_body_is_run(trained):
    done = []
    found = score_sibling_orders(
        trained.policy, trained.task, trained.bodies,
        episodes=2, seed=3, num_threads=1, observers=(EpisodeCounter(done.append),),
    )  # fmt: skip
    assert [item["total_orders"] for item in found["bodies"]] == [1, 24, 2]
    assert [len(item["orders"]) for item in found["bodies"]] == [0, 23, 1]
    assert found["num_unseen"] == 12 + 1
    assert found["num_orders"] == 24
    assert sum(done) == 2 * 3 + count_episodes(trained.policy, trained.task, trained.bodies)
    for item, morphology in zip(found["bodies"], trained.bodies, strict=True):
        assert item["digest"] == morphology.digest
        for order in item["orders"]:
            assert sorted(order["limbs"]) == list(range(morphology.num_limbs))


class Sums(Observer):
    """Adds up the rewards of every episode, evaluation by evaluation."""

    def __init__(self):
        self.found = []

    def stepped(self, core, numbers, actions, step):
        if not self.found or self.found[-1][0] is not core:
            self.found.append((core, defaultdict(float)))
        for row in np.flatnonzero(numbers >= 0):
            self.found[-1][1][int(numbers[row])] += float(step.reward[row])


def test_every_order_has_the_return_of_its_own_episode(trained):
    sums = Sums()
    found = score_sibling_orders(
        trained.policy, trained.task, trained.bodies,
        episodes=2, seed=3, num_threads=1, observers=(sums,),
    )  # fmt: skip
    canonical, permuted = (totals for _, totals in sums.found)
    means = [(canonical[2 * body] + canonical[2 * body + 1]) / 2 for body in range(3)]
    assert [item["canonical"] for item in found["bodies"]] == pytest.approx(means)
    # One episode per order, body by body: 1, 24 and 2 orders, the canonical one of each first.
    returns = [[order["return"] for order in item["orders"]] for item in found["bodies"]]
    assert returns[1] == pytest.approx([permuted[number] for number in range(2, 25)])
    assert returns[2] == pytest.approx([permuted[26]])
    # They start otherwise than the canonical ones.
    rules = Scoring(task=trained.task, bodies=trained.bodies, episodes=1, seed=4, num_threads=1)
    assert permuted[0] == pytest.approx(rules.run(trained.policy)[0][0].episode_return)
