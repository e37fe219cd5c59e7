"""UNIMAL incline: run up a slope of 10 degrees."""

import math

from gmc_bench.sim.model import Scene
from gmc_bench.tasks.metrics import distance_along_slope
from gmc_bench.tasks.rewards import speed_along_slope
from gmc_bench.tasks.spec import MetricTerm, RewardTerm, Slope, Task, TerminationTerm
from gmc_bench.tasks.terminations import beside_track, fallen

ANGLE = 10.0  # degrees, rising along +x
FLOOR_HEIGHT = 1.0  # m, of the slope at x = 0
START = -73.0  # m, along the slope: 2 m above its low end

_COS, _SIN = math.cos(math.radians(ANGLE)), math.sin(math.radians(ANGLE))
# Turns +x uphill: a rotation about y by minus the angle.
_TILT = (math.cos(math.radians(ANGLE / 2)), 0.0, -math.sin(math.radians(ANGLE / 2)), 0.0)

TASK = Task(
    id="unimal-incline-v1",
    title="Incline",
    description=(
        "Run up a slope of 10 degrees along +x; reward is the torso's speed along the slope in "
        "m/s, without its part along y."
    ),
    scene=Scene(
        floor=(
            f'<geom name="floor/0" type="box" size="75 20 1" pos="0 0 0" '
            f'quat="{_TILT[0]!r} 0 {_TILT[2]!r} 0" friction="0.7 0.1 0.1"/>'
        ),
        spawn=(0.0, 0.0, FLOOR_HEIGHT),
        start_offset=(START * _COS, 0.0, START * _SIN),
        start_orientation=_TILT,
        num_substeps=4,
    ),
    rewards=(RewardTerm("slope_velocity", 1.0, speed_along_slope(ANGLE)),),
    terminations=(
        TerminationTerm("fell", fallen(0.2)),
        TerminationTerm("left_track", beside_track(19.0)),
    ),
    ground_height=FLOOR_HEIGHT,
    slope=Slope(rise=_SIN / _COS, half_length=75.0, half_width=20.0),
    metrics=(MetricTerm("distance", "m", distance_along_slope(ANGLE, START * _COS)),),
    source=(
        "Gupta et al. 2021 (DERL), arXiv:2102.02202, and Xiong et al. 2023 (ModuMorph), "
        "arXiv:2302.11070, configuration incline. As there, the height of the torso is that above "
        "a cell of 0.1 m, which lies 1.5 to 3.3 cm below the surface of the tilted box. Differs: "
        "the torso's start position in the tokens is (0, 0, height + 1), as on every other task."
    ),
)
