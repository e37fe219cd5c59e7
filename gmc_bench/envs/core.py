"""One task for B bodies at a time: the part that every kind of environment shares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmc_bench.errors import ConfigError
from gmc_bench.morphology.schema import Morphology
from gmc_bench.sim.batch import BatchSimulator, BatchState
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.spec import Task, Transition
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table
from gmc_bench.types import BoolArray, DoubleArray, FloatArray, IntArray

TIME_LIMIT = "time_limit"
DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What happened in one control step.

    Args:
        reward: (B,) float64; zero where the simulation diverged.
        reward_terms: name -> (B,) float64, weighted; they add up to `reward`.
        terminated: (B,) bool, a termination term was true.
        truncated: (B,) bool, time limit or diverged simulation.
        diverged: (B,) bool, the simulation broke; its observation is the last valid one.
        events: name -> (B,) bool, every reason to end an episode.
    """

    reward: DoubleArray
    reward_terms: dict[str, DoubleArray]
    terminated: BoolArray
    truncated: BoolArray
    diverged: BoolArray
    events: dict[str, BoolArray]


@dataclass(frozen=True)
class CoreState:
    """Everything that continues an environment core to the same bits."""

    batch: BatchState
    dynamic: FloatArray
    episode_length: IntArray


class EnvironmentCore:
    """B environments of one task over M bodies, without any reset of its own.

    Args:
        task: what to do.
        morphologies: M bodies that rows can host.
        num_envs: B.
        token_spec: token layout; default the smallest that fits all bodies.
        num_threads: threads that step; default all.

    Raises:
        MorphologyError: a body does not compile.
        TokenOverflowError: a body does not fit the layout.
    """

    def __init__(
        self,
        task: Task,
        morphologies: Sequence[Morphology],
        num_envs: int,
        *,
        token_spec: TokenSpec | None = None,
        num_threads: int | None = None,
    ) -> None:
        if not morphologies:
            raise ConfigError("an environment needs at least one body, got none")
        self.task = task
        self.spec = token_spec or TokenSpec(
            max_limbs=max(body.num_limbs for body in morphologies),
            joints_per_limb=max(body.joints_per_limb for body in morphologies),
        )
        models = compile_models(morphologies, task.scene)
        self.table = build_table(models, self.spec)
        self.simulator = BatchSimulator(models, num_envs, self.table.layout, num_threads)
        self.num_envs = num_envs
        self._standing_height = np.array(
            [body.limbs[0].position[2] - task.floor_clearance for body in morphologies]
        )
        shape = (num_envs, self.spec.max_limbs, self.spec.num_dynamic)
        self.dynamic: FloatArray = np.zeros(shape, np.float32)
        """(B, L, Fd) float32, the current observation; see `TokenSpec.slices`."""
        self._spare: FloatArray = np.zeros(shape, np.float32)
        self.episode_length: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, control steps since the last reset."""

    @property
    def morphology_index(self) -> IntArray:
        """(B,) int64, the body each row hosts."""
        return self.simulator.model_index

    def reset(self, rows: IntArray, morphology_index: IntArray) -> None:
        """Start new episodes.

        Args:
            rows: (K,) int64, without repeats.
            morphology_index: (K,) int64, the body each of them hosts from now on.
        """
        self.simulator.assign(rows, morphology_index)
        self.simulator.reset(rows, self.task.reset_noise, self.dynamic)
        self.episode_length[rows] = 0

    def step(self, actions: FloatArray) -> StepResult:
        """Apply one action to every row.

        Args:
            actions: (B, L, J) float; entries without an actuator are ignored, the others are
                clamped to [-1, 1] by the engine.

        Raises:
            ConfigError: the actions have another shape, or a row was never reset.
        """
        expected = (self.num_envs, self.spec.max_limbs, self.spec.joints_per_limb)
        if np.shape(actions) != expected:
            raise ConfigError(f"actions must have the shape {expected}, got {np.shape(actions)}")
        simulator = self.simulator
        before = simulator.torso_position.copy()
        self.dynamic, self._spare = self._spare, self.dynamic
        flat = np.ascontiguousarray(actions, np.float32).reshape(self.num_envs, -1)
        simulator.step(flat, self.dynamic)
        self.episode_length += 1
        diverged = self._contain_divergence()
        transition = Transition(
            torso_before=before,
            torso_after=simulator.torso_position,
            standing_height=self._standing_height[simulator.model_index],
            ground_height=self.task.ground_height,
            control_dt=simulator.control_dt,
        )
        return self._judge(transition, diverged)

    def _contain_divergence(self) -> BoolArray:
        diverged = self.simulator.diverged.copy()
        if diverged.any():
            self.dynamic[diverged] = self._spare[diverged]
        return diverged

    def _judge(self, transition: Transition, diverged: BoolArray) -> StepResult:
        terms = {
            term.name: np.where(diverged, 0.0, term.weight * term.function(transition))
            for term in self.task.rewards
        }
        events = {
            term.name: term.function(transition) & ~diverged for term in self.task.terminations
        }
        nobody = np.zeros(self.num_envs, np.bool_)
        terminated = np.logical_or.reduce([nobody, *events.values()])
        time_up = (self.episode_length >= self.task.horizon) & ~terminated & ~diverged
        events |= {TIME_LIMIT: time_up, DIVERGED: diverged}
        reward = np.sum([np.zeros(self.num_envs), *terms.values()], axis=0)
        return StepResult(reward, terms, terminated, time_up | diverged, diverged, events)

    def get_state(self) -> CoreState:
        """Return a copy of everything that continues the rows to the same bits."""
        return CoreState(
            self.simulator.get_state(), self.dynamic.copy(), self.episode_length.copy()
        )

    def set_state(self, state: CoreState) -> None:
        """Continue from a state of `get_state` of a core with the same task and bodies."""
        self.simulator.set_state(state.batch)
        self.dynamic[:] = state.dynamic
        self.episode_length[:] = state.episode_length
