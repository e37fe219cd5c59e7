"""UNIMAL obstacles: run along +x between boxes at random places."""

from gmc_bench.sim.model import Scene
from gmc_bench.sim.terrain import SURFACE, ObstacleField
from gmc_bench.tasks.metrics import position_x
from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import MetricTerm, RewardTerm, Task, TerminationTerm
from gmc_bench.tasks.terminations import beside_track, fallen

TERRAIN = ObstacleField(
    start=-3.0,
    length=100.0,
    half_width=20.0,
    walled=True,
    flats=(3.0, 20.0),
    num_boxes=50,
    half_sizes=(0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    clearance=6.0,
    num_tries=10,
)

TASK = Task(
    id="unimal-obstacles-v1",
    title="Obstacles",
    description=(
        "Run along +x between up to 50 boxes on a walled flat field of 100 x 40 m, drawn anew at "
        "every reset; reward is the torso's speed along x in m/s. Observations hold a height map."
    ),
    scene=Scene(
        floor=TERRAIN.floor,
        assets=TERRAIN.assets,
        terrain=TERRAIN,
        spawn=(0.0, 0.0, SURFACE),
        num_substeps=4,
    ),
    rewards=(RewardTerm("forward_velocity", 1.0, forward_velocity),),
    terminations=(
        TerminationTerm("fell", fallen(0.5)),
        TerminationTerm("left_track", beside_track(19.0)),
    ),
    ground_height=SURFACE,
    metrics=(MetricTerm("x", "m", position_x),),
    source=(
        "Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, configuration obstacle. Differs: the "
        "height map is turned to the heading right after a reset, too."
    ),
)
