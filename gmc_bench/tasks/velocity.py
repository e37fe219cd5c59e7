"""Velocity tracking on four legs: what is commanded, rewarded, disturbed and ended."""

from dataclasses import dataclass, field, replace

from gmc_bench.core.config import to_dict
from gmc_bench.core.errors import ConfigError
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair, FrictionRule
from gmc_bench.tasks.spec import TaskBase
from gmc_bench.tokens.spec import Parts

Range = tuple[float, float]
_NO_TERMS = ("sigma", "only_positive")


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Wanted velocities in the base's yaw frame, drawn evenly and anew from time to time."""

    forward: Range = (-0.8, 1.0)
    """m/s."""
    lateral: Range = (-0.4, 0.4)
    """m/s, to the left."""
    yaw: Range = (-0.8, 0.8)
    """rad/s."""
    standing: float = 0.05
    """Share of commands that are zero."""
    straight: float = 0.25
    """Share of commands without lateral velocity, straight on as fast as the following; they hold
    their heading."""
    straight_forward: Range = (0.4, 1.0)
    """m/s."""
    held: float = 0.5
    """Share of the other commands that hold the heading that the base has when they are given: the
    yaw rate is `heading_gain` times what is missing, at every control step."""
    heading_gain: float = 0.5
    """rad/s per rad; IsaacLab's and legged_gym's."""
    heading_limit: float = 0.8
    """rad/s, largest yaw rate of a command that holds its heading."""
    resample_s: float = 10.0
    """s between two draws."""

    @classmethod
    def fixed(
        cls, forward: float, lateral: float = 0.0, yaw: float = 0.0, *, held: bool = False
    ) -> "Commands":
        """Return one command for ever; one that holds the heading at the start has no `yaw`."""
        return cls(
            forward=(forward, forward),
            lateral=(lateral, lateral),
            yaw=(yaw, yaw),
            standing=0.0,
            straight=0.0,
            held=float(held),
            resample_s=1e9,
        )


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """Weights; the sum of the terms is multiplied by the control step, 0.02 s."""

    track_linear: float = 1.5
    """exp(-|v_xy - c_xy|^2 / 0.25)."""
    track_yaw: float = 0.75
    """exp(-(w_z - c_z)^2 / 0.25)."""
    progress: float = 2.5
    """Velocity along the command, less twice what exceeds it, m/s: a slope where the exponential
    is flat, for robots that do not walk yet."""
    vertical: float = -2.0
    """v_z^2."""
    roll_pitch: float = -0.05
    """w_x^2 + w_y^2."""
    tilt: float = -2.5
    """g_x^2 + g_y^2, gravity in the base frame."""
    torque: float = -0.02
    """Sum over joints of (torque / limit)^2: the same for light and heavy robots."""
    acceleration: float = -2.5e-7
    """Sum of squared joint accelerations, rad^2/s^4."""
    action_rate: float = -0.01
    """Sum of squared changes of the action."""
    air_time: float = 0.25
    """Sum over feet that touch down of (time in the air - 0.5 s), while asked to walk."""
    joint_limits: float = -1.0
    """Sum of what joints exceed their soft limits by, rad."""
    sigma: float = 0.25
    """Width of the tracking terms, (m/s)^2 and (rad/s)^2."""
    only_positive: bool = True
    """Cut the sum off at zero from below, so that no robot gains by falling early."""


@dataclass(frozen=True, kw_only=True)
class Disturbances:
    """What differs from episode to episode and from step to step; the defaults are for training."""

    friction: tuple[FrictionPair, ...] = (FRICTION_PAIRS["nominal"],)
    """One is drawn for each episode. Low and high friction are for measuring: on the low pair, feet
    slide away under the stance itself."""
    base_mass: Range = (0.85, 1.15)
    """Factor on mass and inertia of the base."""
    strength: Range = (0.9, 1.1)
    """Factor on torques before they are limited."""
    push_s: Range = (10.0, 15.0)
    """s between two pushes."""
    push: float = 0.3
    """Largest change of either horizontal velocity by a push, m/s; 0 = none."""
    joint_noise: float = 0.1
    """Half width of the start angles' scatter, rad."""
    velocity_noise: float = 0.2
    """Half width of the base's start velocities, m/s and rad/s."""
    observation: float = 1.0
    """Factor on the observation noise of `velocity_core.NOISE`."""

    @classmethod
    def none(cls, friction: FrictionPair) -> "Disturbances":
        """Return no disturbance but a little scatter of the start, on one friction."""
        return cls(
            friction=(friction,),
            base_mass=(1.0, 1.0),
            strength=(1.0, 1.0),
            push=0.0,
            joint_noise=0.02,
            velocity_noise=0.0,
            observation=0.0,
        )


@dataclass(frozen=True, kw_only=True)
class VelocityTask(TaskBase):
    """Velocity tracking; robots, drives and feet come from `gmc_bench.robots`."""

    commands: Commands = field(default_factory=Commands)
    rewards: Rewards = field(default_factory=Rewards)
    disturbances: Disturbances = field(default_factory=Disturbances)
    friction_rule: FrictionRule = "two-state"
    rough_share: float = 0.25
    """Share of episodes on micro-rough ground; the others are on a plane."""
    roughness: float = 0.035
    """Height of that ground, as a share of the robot's leg length."""
    num_substeps: int = 4
    """Physics steps of 5 ms per control step."""
    action_clip: float = 4.0
    """Actions beyond it are cut off; 1 is 0.25 rad."""
    max_tilt_degrees: float = 70.0
    """More is a fall, as is the base on the ground."""
    base_contact: float = 1.0
    """Force on the base from which it counts as on the ground, N."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.rough_share <= 1.0 or not self.disturbances.friction:
            raise ConfigError(
                f"'rough_share' must be in [0, 1] and some friction be given, got "
                f"{self.rough_share} and {self.disturbances.friction}"
            )

    @property
    def parts(self) -> Parts:
        """What tokens stand for."""
        return "actuators"

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weight of every reward term, by name."""
        settings = to_dict(self.rewards)
        terms = {name: settings[name] for name in settings if name not in _NO_TERMS}
        return {**terms, "cut_off": 1.0} if self.rewards.only_positive else terms

    @property
    def termination_names(self) -> tuple[str, ...]:
        """Reasons that end an episode as a failure."""
        return ("fell",)

    def undisturbed(
        self, friction: FrictionPair, commands: Commands, *, rough_share: float = 0.0
    ) -> "VelocityTask":
        """Return the task as it is measured: one friction, one command, no disturbances."""
        return replace(
            self,
            commands=commands,
            disturbances=Disturbances.none(friction),
            rough_share=rough_share,
        )
