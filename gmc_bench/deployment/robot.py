"""A simulated quadruped behind the interface of a real one: readings out, target angles in.

Everything is in the robot's native joint order. Its own part, the drives' PD law with torque
limits and the friction of its feet, runs at the physics rate.
"""

import copy
import math
from collections import deque

import mujoco
import numpy as np

from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.deployment.adapter import Readings
from gmc_bench.deployment.interface import RobotInterface
from gmc_bench.deployment.trials import Conditions
from gmc_bench.robots.friction import sliding_speeds
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.tasks.motion import SensorNoise

_CLEARANCE = 0.01  # m, of the lowest foot above the ground at the start


class SimulatedRobot:
    """One robot in simulation.

    Args:
        compiled: the robot on its ground, with contact sensors; it is not changed.
        interface: its native order and limits.
        conditions: what this trial meets.
        noise: of the sensors, before the factor of the conditions.
    """

    def __init__(
        self,
        compiled: CompiledRobot,
        interface: RobotInterface,
        conditions: Conditions,
        noise: SensorNoise,
    ) -> None:
        self.interface = interface
        self.conditions = conditions
        self._noise = noise
        self.model = model = copy.copy(compiled.model)
        self.data = mujoco.MjData(model)
        self._compiled = compiled
        feet = compiled.foot_geoms
        model.geom_size[feet, 0] += conditions.foot_growth
        # These, which the compiler made of the size, decide where contacts are looked for at all.
        model.geom_rbound[feet] += conditions.foot_growth
        model.geom_aabb[feet, 3:] += conditions.foot_growth
        model.geom_solref[feet, 0] *= conditions.foot_softness
        model.body_mass[compiled.base_body] *= conditions.base_mass
        model.body_inertia[compiled.base_body] *= conditions.base_mass
        self._rng = np.random.default_rng(conditions.sensor_seed)
        self._torques: DoubleArray = np.zeros(len(interface.native))  # shared order
        self._target: DoubleArray = interface.default_angles.copy()  # shared order
        self._waiting: deque[tuple[int, DoubleArray]] = deque()
        self._time = 0  # physics steps
        self._place()

    def _place(self) -> None:
        model, data = self.model, self.data
        height = self._compiled.robot.pose.base_height + self.conditions.foot_growth + _CLEARANCE
        if model.nhfield:
            height += float(model.hfield_size[0, 2])
        data.qpos[:] = self._compiled.standing_qpos(height)
        mujoco.mj_forward(model, data)

    @property
    def timestep(self) -> float:
        """s, of the physics."""
        return float(self.model.opt.timestep)

    def read(self) -> Readings:
        """Return what the sensors say."""
        joints = self._joints()
        true = self.base_motion()
        noise = self.conditions.observation_noise

        def off(name: str, count: int) -> DoubleArray:
            found: DoubleArray = (
                noise * getattr(self._noise, name) * self._rng.uniform(-1.0, 1.0, count)
            )
            return found

        bias = np.array(self.conditions.velocity_bias)
        return Readings(
            base_linear_velocity=true[:3] + bias + off("base_linear_velocity", 3),
            base_angular_velocity=true[3:6] + off("base_angular_velocity", 3),
            gravity=true[6:] + off("gravity", 3),
            joint_angles=self._native(joints[0] + off("joint_angle", len(joints[0]))),
            joint_velocities=self._native(joints[1] + off("joint_velocity", len(joints[1]))),
            joint_torques=self._native(self._torques),
        )

    def send(self, targets: DoubleArray, late: float = 0.0) -> None:
        """Give the drives new targets, which arrive after the latency.

        Args:
            targets: (12,) float64, rad, native order.
            late: s, what comes on top of the latency of the conditions.
        """
        steps = round(self.conditions.latency / self.timestep) + int(late / self.timestep)
        shared = np.empty_like(targets)
        shared[self.interface.native] = targets
        self._waiting.append((self._time + steps, shared))

    def advance(self, steps: int) -> None:
        """Let some physics steps pass."""
        model, data, robot = self.model, self.data, self._compiled
        drive = self.interface
        for _ in range(steps):
            while self._waiting and self._waiting[0][0] <= self._time:
                self._target = self._waiting.popleft()[1]
            # The engine's own update comes too late: it makes contacts in the same call.
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            speeds = sliding_speeds(model, data, robot.foot_geoms.tolist())
            for foot, pair, speed in zip(
                robot.foot_geoms, self.conditions.friction, speeds, strict=True
            ):
                model.geom_friction[foot, 0] = float(pair.coefficient("two-state", float(speed)))
            angles, velocities = self._joints()
            wanted = drive.kp * (self._target - angles) - drive.kd * velocities
            limit = drive.torque_limits
            self._torques = np.clip(self.conditions.strength * wanted, -limit, limit)
            data.ctrl[robot.actuators] = self._torques
            mujoco.mj_step(model, data)
            self._time += 1

    def base_motion(self) -> DoubleArray:
        """Return (9,) float64: true linear and angular velocity and gravity, base frame."""
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, self.data.qpos[3:7])
        axes = turn.reshape(3, 3)
        return np.concatenate([self.data.qvel[:3] @ axes, self.data.qvel[3:6], -axes[2]])

    def yaw_velocity(self) -> DoubleArray:
        """Return (2,) float64, m/s, true horizontal velocity in the base's yaw frame."""
        motion = self.base_motion()
        velocity, up = motion[:3], -motion[6:]
        forward = np.array([1.0, 0.0, 0.0]) - up * up[0]
        forward /= np.linalg.norm(forward) + 1e-9
        return np.array([velocity @ forward, velocity @ np.cross(up, forward)])

    def tilt(self) -> float:
        """Return the true angle between the base's vertical axis and the world's, rad."""
        return math.acos(min(max(-float(self.base_motion()[8]), -1.0), 1.0))

    def base_contact(self) -> float:
        """Return the ground's force on the base, N."""
        return float(np.linalg.norm(self.data.sensordata[-3:]))

    def is_finite(self) -> bool:
        """Return whether the state is finite and the engine has not warned."""
        state = np.concatenate([self.data.qpos, self.data.qvel])
        return bool(np.isfinite(state).all()) and not self.data.warning.number.any()

    def _joints(self) -> tuple[DoubleArray, DoubleArray]:
        """Return true angles and velocities in the shared order."""
        places = self._compiled
        return self.data.qpos[places.joint_qpos], self.data.qvel[places.joint_dofs]

    def _native(self, values: Array) -> Array:
        return np.asarray(values)[self.interface.native]
