"""UNIMAL flat terrain (FT): run along +x on a flat floor."""

from gmc_bench.sim.model import Scene
from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import RewardTerm, Task, TerminationTerm
from gmc_bench.tasks.terminations import fallen

FLOOR_HEIGHT = 1.0
"""m; a box of half sizes 100 x 100 x 1 at the origin, so the floor ends at x = 100, which caps
the return near 5000."""

TASK = Task(
    id="unimal-ft-v1",
    title="Flat terrain (FT)",
    description="Run along +x on a flat floor; reward is the torso's speed along x in m/s.",
    scene=Scene(
        floor=(
            '<geom name="floor/0" type="box" size="100 100 1" pos="0 0 0" condim="3" '
            'friction="0.7 0.1 0.1"/>'
        ),
        spawn=(0.0, 0.0, FLOOR_HEIGHT),
        num_substeps=4,
    ),
    rewards=(RewardTerm("forward_velocity", 1.0, forward_velocity),),
    terminations=(TerminationTerm("fell", fallen(0.5)),),
    ground_height=FLOOR_HEIGHT,
    source=(
        "Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, configuration ft. Differs: a broken "
        "simulation is reported as an event of its own instead of a time-out."
    ),
)
