"""UNIMAL variable terrain (VT): run along +x over slopes, steps and rugged ground."""

from gmc_bench.sim.model import Scene
from gmc_bench.sim.terrain import SURFACE, Corridor
from gmc_bench.tasks.metrics import position_x
from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import MetricTerm, RewardTerm, Task, TerminationTerm
from gmc_bench.tasks.terminations import beside_track, fallen

TERRAIN = Corridor(
    start=-3.0,
    length=110.0,
    half_width=20.0,
    walled=False,
    first_flat=3.0,
    flats=(1.0, 2.0, 3.0),
    slopes=(4.0, 8.0),
    slope_heights=(0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2),
    steps=(12.0, 16.0),
    step_profile=(0.0, 0.2, 0.4, 0.6, 0.6, 0.4, 0.2, 0.0),
    rugged=(4.0, 8.0),
    strip_cells=(10, 19),
    frequencies=(10, 15),
    clip_heights=(0.2, 0.3),
)

TASK = Task(
    id="unimal-vt-v1",
    title="Variable terrain (VT)",
    description=(
        "Run along +x over flat pieces, slopes, steps and rugged ground in random order, drawn "
        "anew at every reset; reward is the torso's speed along x in m/s. Observations hold a "
        "height map."
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
        TerminationTerm("fell", fallen(0.3)),
        TerminationTerm("left_track", beside_track(19.0)),
    ),
    ground_height=SURFACE,
    metrics=(MetricTerm("x", "m", position_x),),
    source=(
        "Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, configuration csr. Differs: the height "
        "map is turned to the heading right after a reset, too, and shows rugged ground as it is; "
        "that of the public environments is mirrored in y."
    ),
)
