"""UNIMAL exploration: visit as many cells of a walled flat arena as possible."""

from gmc_bench.sim.model import Scene
from gmc_bench.sim.terrain import box, walls
from gmc_bench.tasks.metrics import visited_cells
from gmc_bench.tasks.rewards import newly_visited_cells
from gmc_bench.tasks.spec import MetricTerm, RewardTerm, Task, TerminationTerm, VisitGrid
from gmc_bench.tasks.terminations import fallen

FLOOR_HEIGHT = 1.0  # m
LENGTH = 100.0  # m, along x from 0 and along y from -50

TASK = Task(
    id="unimal-exploration-v1",
    title="Exploration",
    description=(
        "Visit as many cells of 1 m of a walled flat arena of 100 x 100 m as possible; reward is "
        "1 for every cell that the torso enters for the first time."
    ),
    scene=Scene(
        floor="\n".join(
            [
                box("floor/0", (LENGTH / 2, 0.0, 0.0), (LENGTH / 2, LENGTH / 2, FLOOR_HEIGHT)),
                walls(0.0, LENGTH, LENGTH / 2),
            ]
        ),
        spawn=(0.0, 0.0, FLOOR_HEIGHT),
        start_offset=(LENGTH / 2, 0.0, 0.0),
        num_substeps=4,
    ),
    rewards=(RewardTerm("new_cells", 1.0, newly_visited_cells),),
    terminations=(TerminationTerm("fell", fallen(0.5)),),
    ground_height=FLOOR_HEIGHT,
    metrics=(MetricTerm("cells", "1", visited_cells),),
    grid=VisitGrid(low=(0.0, -LENGTH / 2), shape=(100, 100), cell_size=1.0),
    source=(
        "Gupta et al. 2021 (DERL), arXiv:2102.02202, and Xiong et al. 2023 (ModuMorph), "
        "arXiv:2302.11070, configuration exploration. Differs: the torso's start position in the "
        "tokens is (0, 0, height + 1), as on every other task."
    ),
)
