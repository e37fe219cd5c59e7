"""Recording of a gait: contacts of the limbs and angles of the joints at every step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import BoolArray, DoubleArray, FloatArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.one_episode import EpisodeWatcher, WantedEpisode
from gmc_bench.policies.policy import Policy
from gmc_bench.studies.gait_signals import autocorrelation, joint_phases, stride_lag

SETTLING = 1.0
"""s at the start of an episode that the numbers leave out: a body starts in the air."""
LONGEST_STRIDE = 2.0
"""s; see `stride_lag`."""


class BrokenEpisodeError(ConfigError):
    """A simulation broke in its first step, so that nothing was recorded."""


@dataclass(frozen=True, kw_only=True)
class Gait:
    """One episode of T control steps of a body with L limbs and J joints."""

    body: str
    limbs: tuple[str, ...]
    """Names; the first is the torso."""
    joints: tuple[str, ...]
    """Names, in the order of the engine's positions."""
    contact: BoolArray
    """(T, L) bool, whether a limb touches the world: the ground, a wall or a box."""
    force: DoubleArray
    """(T, L) float64, N, sum of the normal forces between a limb and the world."""
    angles: DoubleArray
    """(T, J) float64, rad."""
    speed: DoubleArray
    """(T,) float64, m/s, of the torso along world x."""
    episode_return: float
    """Sum of the rewards of the T steps."""
    ended: str | None
    """Why the episode ended; `None` if it was cut short."""
    control_dt: float
    """s."""

    @property
    def length(self) -> int:
        """T, control steps."""
        return len(self.angles)

    @property
    def phases(self) -> DoubleArray:
        """(T, J) float64, rad, see `joint_phases`."""
        return joint_phases(self.angles)

    def part(self, start: float, stop: float = np.inf) -> "Gait":
        """Return the steps from `start` to `stop`, both in s since the start of the episode."""
        time = (np.arange(self.length) + 1) * self.control_dt
        kept = (time > start + 1e-9) & (time <= stop + 1e-9)
        steps = {
            name: getattr(self, name)[kept] for name in ("contact", "force", "angles", "speed")
        }
        return replace(self, **steps)


@dataclass(frozen=True, kw_only=True)
class GaitMetrics:
    """Summary of a gait of T steps after its settling time; NaN where a number is undefined."""

    feet: tuple[int, ...]
    """Limbs that touch the world at least once."""
    duty_factors: DoubleArray
    """(L,) float64; D_l = (number of steps in which limb l touches the world) / T."""
    stride_frequency: float
    """Hz, see `stride_lag`: 1 / (lag x control step)."""
    regularity: float
    """0 to 1; max(0, R(k)), R of all joint angles as in `autocorrelation`, k the stride's lag
    rounded to steps. 1 for joints that repeat their motion exactly."""
    phase_coherence: DoubleArray
    """(J, J) float64, 0 to 1; C_ij = |(1 / T) sum_t exp(i (p_ti - p_tj))|, p the phases. 1 for two
    joints that keep their phase difference, near 0 for two that do not follow each other."""
    mean_phase_coherence: float
    """Mean of C_ij over all pairs i < j of joints that move."""
    mean_speed: float
    """m/s along world x."""


def gait_metrics(gait: Gait, *, settling: float = SETTLING) -> GaitMetrics:
    """Sum up a gait.

    Args:
        gait: what was recorded.
        settling: s at its start to leave out.

    Raises:
        ConfigError: the episode is not longer than that.
    """
    part = gait.part(settling)
    if part.length < 2:
        raise ConfigError(
            f"the episode of {gait.body!r} has {gait.length} steps, of which none is left after a "
            f"settling time of {settling} s; choose a shorter one or a longer episode"
        )
    duty: DoubleArray = part.contact.mean(axis=0)
    lag = stride_lag(part.angles, LONGEST_STRIDE / gait.control_dt + 1e-9)
    regularity = np.nan
    if np.isfinite(lag):
        regularity = max(0.0, float(autocorrelation(part.angles)[round(lag)]))
    phases = part.phases
    moving = np.isfinite(phases).all(axis=0)
    turns = np.exp(1j * phases)
    coherence: DoubleArray = np.abs(turns.T @ turns.conj() / part.length)
    pairs = coherence[np.ix_(moving, moving)][np.triu_indices(int(moving.sum()), 1)]
    return GaitMetrics(
        feet=tuple(np.flatnonzero(duty > 0.0).tolist()),
        duty_factors=duty,
        stride_frequency=float(1.0 / (lag * gait.control_dt)),
        regularity=regularity,
        phase_coherence=coherence,
        mean_phase_coherence=float(pairs.mean()) if len(pairs) else np.nan,
        mean_speed=float(part.speed.mean()),
    )


def record_gait(
    policy: Policy, wanted: WantedEpisode, on_step: Callable[[], None] | None = None
) -> Gait:
    """Play an evaluation again and record one episode of it.

    With the settings of a scored evaluation the episode is the scored one, and the one that
    `gmc_bench.rendering.replay.replay_episode` shows. Contacts and forces are those of the last
    engine step of each control step, 5 ms before the angles.

    Args:
        policy: who acts.
        wanted: the episode, of an evaluation on bodies of limbs.
        on_step: called after each control step of the whole batch.

    Raises:
        ConfigError: the simulation diverged in the first step.
    """
    recorder = GaitRecorder(wanted, on_step)
    recorder.watch(policy)
    return recorder.gait()


class GaitRecorder(EpisodeWatcher):
    """Records one episode; see `EpisodeWatcher`."""

    def __init__(self, wanted: WantedEpisode, on_step: Callable[[], None] | None = None) -> None:
        super().__init__(wanted, on_step)
        self._morphology: Morphology = wanted.morphology
        self._contact: list[BoolArray] = []
        self._force: list[DoubleArray] = []
        self._angles: list[DoubleArray] = []
        self._speed: list[float] = []
        self._return = 0.0

    def begin(self, core: EnvironmentCore, row: int) -> None:
        """Nothing is recorded before the first step."""

    def keep(self, core: EnvironmentCore, row: int, actions: FloatArray, step: StepResult) -> None:
        """Take notice of one control step of the episode."""
        if not step.diverged[row]:  # a broken state says nothing
            model, data = core.simulator.model(row), core.simulator.data(row)
            touching, force = _touching(model, data, self._morphology.num_limbs)
            self._contact.append(touching)
            self._force.append(force)
            self._angles.append(np.array(data.qpos[7:]))
            self._speed.append(float(data.qvel[0]))
        self._return += float(step.reward[row])

    def gait(self) -> Gait:
        """Return what was recorded.

        Raises:
            BrokenEpisodeError: nothing was.
        """
        body = self._morphology
        if not self._angles:
            raise BrokenEpisodeError(
                f"the simulation of {body.name!r} broke in the first step of the episode; choose "
                f"another one"
            )
        return Gait(
            body=body.name,
            limbs=tuple(limb.name for limb in body.limbs),
            joints=tuple(joint.name for limb in body.limbs for joint in limb.joints),
            contact=np.stack(self._contact),
            force=np.stack(self._force),
            angles=np.stack(self._angles),
            speed=np.array(self._speed),
            episode_return=self._return,
            ended=self.ended,
            control_dt=self.control_dt,
        )


def _touching(model: Any, data: Any, num_limbs: int) -> tuple[BoolArray, DoubleArray]:
    """Return which limbs touch the world, (L,) bool, and with which normal force, (L,) float64."""
    pairs = model.geom_bodyid[data.contact.geom].reshape(-1, 2)
    contact, force = np.zeros(num_limbs, np.bool_), np.zeros(num_limbs)
    wrench = np.zeros(6)
    for index in np.flatnonzero((pairs == 0).any(axis=1)).tolist():
        limb = int(pairs[index].max()) - 1
        mujoco.mj_contactForce(model, data, index, wrench)
        contact[limb] = True
        force[limb] += wrench[0]  # the normal of a contact is its first axis
    return contact, force
