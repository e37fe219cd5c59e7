"""Quadrupeds follow velocity commands, on flat and micro-rough ground, on any friction."""

from dataclasses import replace

from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair
from gmc_bench.sim.model import RoughGround, Scene
from gmc_bench.tasks import events, observations
from gmc_bench.tasks import velocity_rewards as rewards
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.metrics import tilt, velocity_error
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.spec import (
    EventTerm,
    MetricTerm,
    ObservationTerm,
    RewardTerm,
    Task,
    TerminationTerm,
)
from gmc_bench.tasks.terminations import tumbled

FELL = "fell"
MAX_TILT = 70.0
"""Degrees; more is a fall, as is the base on the ground."""
BASE_CONTACT = 1.0
"""Force on the base from which it counts as on the ground, N."""
SIGMA = 0.25
"""Width of the tracking terms, (m/s)^2 and (rad/s)^2."""
NOISE = SensorNoise(
    base_linear_velocity=0.1,
    base_angular_velocity=0.2,
    gravity=0.05,
    joint_angle=0.01,
    joint_velocity=1.5,
)
"""Source: isaac-sim/IsaacLab, velocity task; the same as legged_gym's."""

TASK = Task(
    id="quadruped-velocity-v3",
    title="Quadruped velocity tracking",
    description=(
        "Follow commands for forward, lateral and yaw velocity at 50 Hz; the reward is how well, "
        "less what it costs."
    ),
    scene=Scene(floor="", num_substeps=4, rough=RoughGround(share=0.25, height=0.035)),
    parts="actuators",
    ground_height=0.0,
    observations=(
        ObservationTerm("base_linear_velocity", observations.base_linear_velocity),
        ObservationTerm("base_angular_velocity", observations.base_angular_velocity, scale=0.25),
        ObservationTerm("gravity", observations.gravity),
        ObservationTerm("command", observations.command),
        ObservationTerm("joint_offset", observations.joint_offset),
        ObservationTerm("joint_velocity", observations.joint_velocity, scale=0.05),
        ObservationTerm("previous_action", observations.previous_action),
        ObservationTerm("above_lower_limit", observations.above_lower_limit),
        ObservationTerm("below_upper_limit", observations.below_upper_limit),
    ),
    sensor_noise=NOISE,
    command=VelocityCommand(),
    rewards=(
        RewardTerm("track_linear", 1.5, rewards.tracked_velocity(SIGMA)),
        RewardTerm("track_yaw", 0.75, rewards.tracked_turn(SIGMA)),
        RewardTerm("progress", 2.5, rewards.progress),
        RewardTerm("turning", 0.75, rewards.turning),
        RewardTerm("vertical", -2.0, rewards.vertical_speed),
        RewardTerm("roll_pitch", -0.05, rewards.roll_and_pitch_rate),
        RewardTerm("tilt", -2.5, rewards.tilted_base),
        RewardTerm("height", -10.0, rewards.lowered_base),
        RewardTerm("torque", -0.02, rewards.relative_torque),
        RewardTerm("acceleration", -2.5e-7, rewards.joint_acceleration),
        RewardTerm("action_rate", -0.01, rewards.action_rate),
        RewardTerm("air_time", 0.25, rewards.long_steps),
        RewardTerm("joint_limits", -1.0, rewards.beyond_soft_limits),
    ),
    reward_rates=True,
    only_positive=True,
    failure_cost=2.0,
    terminations=(TerminationTerm(FELL, tumbled(MAX_TILT, BASE_CONTACT)),),
    # Low and high friction are for measuring: on the low pair, feet slide away under the stance.
    events=(
        EventTerm("friction", "friction", events.one_of_pairs((FRICTION_PAIRS["nominal"],))),
        EventTerm("motor_strength", "strength", events.factor(0.9, 1.1)),
        EventTerm("base_mass", "base_mass", events.factor(0.85, 1.15)),
        EventTerm("start_place", "position", events.within(1.0, 1.0)),
        EventTerm("start_heading", "heading", events.any_heading),
        EventTerm("start_velocity", "base_velocity", events.within(*6 * (0.2,))),
        EventTerm("start_pose", "joint_angle", events.per_joint(0.1)),
        EventTerm("push", "base_velocity", events.within(0.3, 0.3), every=(10.0, 15.0)),
    ),
    action_clip=4.0,
    metrics=(
        MetricTerm("velocity_error", "m/s", velocity_error),
        MetricTerm("tilt", "degrees", tilt),
    ),
    source=(
        "The RecMorph paper fixes robots, interface, friction pairs and metrics, not commands, "
        "rewards, disturbances or terminations: these follow isaac-sim/IsaacLab's velocity tasks. "
        "Differs: torques count relative to their limits and masses scatter by a share, because "
        "the robots weigh between 13 and 52 kg; progress and turning are paid beside tracking; "
        "some commands ask for one velocity alone; the reward is cut off at zero, and a fall costs "
        "after that, as in legged_gym; a base lower than in the stance costs, or robots learn to "
        "crawl."
    ),
)


def undisturbed(task: Task, friction: FrictionPair, command: VelocityCommand) -> Task:
    """Return a task of velocity tracking as it is measured.

    One friction, one command, on the plane; no disturbances but small random offsets of the start.
    """
    return replace(
        task,
        scene=replace(task.scene, rough=None),
        command=command,
        sensor_noise=SensorNoise(),
        events=(
            EventTerm("friction", "friction", events.one_of_pairs((friction,))),
            EventTerm("start_place", "position", events.within(1.0, 1.0)),
            EventTerm("start_pose", "joint_angle", events.per_joint(0.02)),
        ),
    )
