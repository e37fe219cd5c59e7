"""Quadrupeds follow velocity commands, on flat and micro-rough ground, on any friction."""

from gmc_bench.tasks.velocity import VelocityTask

TASK = VelocityTask(
    id="quadruped-velocity-v1",
    title="Quadruped velocity tracking",
    description=(
        "Follow commands for forward, lateral and yaw velocity at 50 Hz; the reward is how well, "
        "less what it costs."
    ),
    source=(
        "The RecMorph paper fixes robots, interface, friction pairs and metrics, not commands, "
        "rewards, disturbances or terminations: these follow isaac-sim/IsaacLab's velocity task. "
        "Differs: torques count relative to their limits and masses scatter by a share, because "
        "the robots weigh between 13 and 52 kg; the reward is cut off at zero, as in legged_gym."
    ),
)
