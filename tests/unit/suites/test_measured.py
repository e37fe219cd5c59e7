"""How long the quadruped suite trains and what it measures; its digest leaves defaults out."""

from dataclasses import replace

import pytest

from gmc_bench.suites import SUITES
from gmc_bench.tasks.quadruped_velocity import TASK

PAIRS = {"low": (0.3, 0.2), "nominal": (0.8, 0.6), "high": (1.2, 1.0)}
DIRECTIONS = {
    "backward": (-0.5, 0.0, 0.0),
    "left": (0.0, 0.3, 0.0),
    "right": (0.0, -0.3, 0.0),
    "turn-left": (0.0, 0.0, 0.5),
    "turn-right": (0.0, 0.0, -0.5),
}


@pytest.mark.parametrize(
    ("protocol", "sizes"),
    [
        ("smoke", (2, 4.0, 0.5)),
        ("lite", (16, 20.0, 0.5)),
        ("standard", (32, 20.0, 0.5)),
        ("paper", (256, 100.0, 1.0)),
    ],
)
def test_frictions_commands_and_times_are_those_of_the_suites_page(protocol, sizes):
    found = SUITES.get("quadruped-friction").measurements[protocol]
    assert (found.num_envs, found.seconds, found.forward) == sizes
    assert (found.rule, found.heading, found.noise) == ("two-state", "held", False)
    assert {name: (pair.static, pair.dynamic) for name, pair in found.pairs.items()} == PAIRS
    assert (found.direction_pair, found.directions) == ("nominal", DIRECTIONS)


def test_training_is_as_long_as_in_the_paper():
    suite = SUITES.get("quadruped-friction")
    paper = suite.protocol("paper")
    assert (paper.num_envs, paper.rollout_length, paper.num_iterations) == (512, 32, 10_000)
    assert paper.env_steps == 163_840_000
    assert {item.env_steps for item in suite.protocols.values()} == {
        4_096, 3_000_000, 10_000_000, 163_840_000
    }  # fmt: skip


def test_every_robot_runs_in_every_condition():
    """For 4 s at 50 Hz in 2 environments: 3 frictions straight ahead, 5 directions on one."""
    found = SUITES.get("quadruped-friction").measurements["smoke"]
    assert found.control_steps(TASK, 4) == 200 * 2 * 4 * (3 + 5)
    elsewhere = replace(found, pairs={"low": found.pairs["low"]})
    assert elsewhere.control_steps(TASK, 4) == 200 * 2 * 4
