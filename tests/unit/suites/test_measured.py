"""What the quadruped suite measures; the digest of a suite leaves defaults out."""

import pytest

from gmc_bench.suites import SUITES

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
        ("smoke", (2, 2.0, 0.5)),
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
