"""Scores of a policy on a list of bodies in one call."""

from collections.abc import Sequence
from typing import Any

from gmc_bench.core.types import Mode
from gmc_bench.evaluation.evaluate import EpisodeResult, Scoring
from gmc_bench.policies.policy import Policy
from gmc_bench.tasks.spec import Task


def evaluate(
    policy: Policy,
    task: Task,
    bodies: Sequence[Any],
    *,
    episodes: int,
    mode: Mode = "deterministic",
    seed: int,
    num_threads: int | None = None,
) -> list[list[EpisodeResult]]:
    """Run complete episodes of every body; see `Scoring`, which has further options.

    Returns:
        For every body its episodes.
    """
    rules = Scoring(
        task=task, bodies=bodies, episodes=episodes, mode=mode, seed=seed, num_threads=num_threads
    )
    return rules.run(policy)
