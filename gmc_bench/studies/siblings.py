"""Scores of a policy that reads the children of limbs in another order.

Bodies and motors stay as they are: only the sequence of tokens changes, and actions are put back.

Source:
    The RecMorph paper, Table II: every training body under 50 unseen sibling orders. Most bodies
    have fewer orders; all of them are tested then.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.envs.bodies import tabulate
from gmc_bench.evaluation.evaluate import Observer, Scoring
from gmc_bench.policies.policy import Policy
from gmc_bench.records.parts import WIDEST_INTEGER
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.serialization import make_sibling_test

TAIL_SHARE = 0.1
"""Share of a body's orders that the tail counts, rounded up."""


def score_sibling_orders(
    policy: Policy,
    task: Task,
    morphologies: Sequence[Morphology],
    *,
    episodes: int,
    seed: int,
    num_threads: int | None = None,
    observers: Sequence[Observer] = (),
) -> dict[str, Any]:
    """Score a policy in the canonical order of each body, and once in every other one.

    Args:
        policy: who acts, with its mean actions.
        task: what to do.
        morphologies: M bodies.
        episodes: in the canonical order, per body; other orders get one each.
        seed: of the start states.
        num_threads: threads that step; default all.
        observers: of both evaluations.

    Returns:
        See `summarize_orders`; and `bodies`: per body `name`, `digest`, `total_orders`,
        `canonical` (mean return), and `orders`, each with `limbs`, `unseen` and `return`; beyond
        2^53 - 1 orders, `total_orders` is that number.
    """
    table = tabulate(task, morphologies, policy.spec)
    test, unseen, totals = make_sibling_test(table)

    rules = Scoring(
        task=task, bodies=morphologies, episodes=episodes, seed=seed, num_threads=num_threads
    )
    canonical = rules.run(policy, observers)
    permuted = replace(rules, episodes=1, seed=seed + 1, serialization=test).run(policy, observers)
    bodies = []
    for index, body in enumerate(morphologies):
        others = np.flatnonzero(test.body == index)[1:].tolist()  # the first is the canonical one
        bodies.append(
            {
                "name": body.name,
                "digest": body.digest,
                "total_orders": min(totals[index], WIDEST_INTEGER),
                "canonical": _mean([item.episode_return for item in canonical[index]]),
                "orders": [
                    {
                        "limbs": test.limbs[row, : body.num_limbs].tolist(),
                        "unseen": bool(unseen[row]),
                        "return": permuted[row][0].episode_return,
                    }
                    for row in others
                ],
            }
        )
    return {**summarize_orders(bodies), "bodies": bodies}


def count_episodes(policy: Policy, task: Task, morphologies: Sequence[Morphology]) -> int:
    """Return how many episodes `score_sibling_orders` runs beside the canonical ones."""
    table = tabulate(task, morphologies, policy.spec)
    return len(make_sibling_test(table)[0])


def summarize_orders(bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of the paper's table from the scores of single orders.

    Bodies with one order only are left out everywhere, so that all numbers are about the same
    bodies.

    Args:
        bodies: as `score_sibling_orders` lists them.

    Returns:
        `canonical` C and `permuted` P, means over bodies of their mean returns, P over the held-out
        orders, which augmented training does not use; `drop` 100 (1 - P / C), `None` unless C is
        positive; `tail`, mean over bodies of the mean over the lowest tenth of the held-out orders;
        `permuted_all`, P over all tested orders, those of training too; `num_bodies`,
        `num_unseen`, `num_orders`.
    """
    counted = [body for body in bodies if body["orders"]]
    if not counted:
        return {
            "canonical": None, "permuted": None, "drop": None, "tail": None, "permuted_all": None,
            "num_bodies": 0, "num_unseen": 0, "num_orders": 0,
        }  # fmt: skip
    unseen = [[o["return"] for o in body["orders"] if o["unseen"]] for body in counted]
    everything = [[o["return"] for o in body["orders"]] for body in counted]
    canonical = _mean([body["canonical"] for body in counted])
    permuted = _mean([_mean(values) for values in unseen])
    return {
        "canonical": canonical,
        "permuted": permuted,
        "drop": 100.0 * (1.0 - permuted / canonical) if canonical > 0.0 else None,
        "tail": _mean([_tail(values) for values in unseen]),
        "permuted_all": _mean([_mean(values) for values in everything]),
        "num_bodies": len(counted),
        "num_unseen": sum(map(len, unseen)),
        "num_orders": sum(map(len, everything)),
    }


def _tail(values: Sequence[float]) -> float:
    return _mean(sorted(values)[: math.ceil(TAIL_SHARE * len(values))])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
