"""One task for B bodies at a time: the part that every kind of environment shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.ground_kernels import visit_cells
from gmc_bench.sim.loops import OPEN
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.spec import Task, Transition
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

TIME_LIMIT = "time_limit"
DIVERGED = "diverged"

_OPTIONAL = ("height_map", "visited", "loops_open")
"""Names of what only the states of some tasks and bodies hold."""


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
        metrics: name -> (B,) float64, the task's metrics after this step.
        loops_opened: (B,) int64, closed loops whose limbs have come apart in this step by more
            than `OPEN` of the shorter one's length; `None` where no body has loops. It ends no
            episode.
    """

    reward: DoubleArray
    reward_terms: dict[str, DoubleArray]
    terminated: BoolArray
    truncated: BoolArray
    diverged: BoolArray
    events: dict[str, BoolArray]
    metrics: dict[str, DoubleArray] = field(default_factory=dict)
    loops_opened: IntArray | None = None


class EnvironmentCore:
    """B environments of one task over M bodies, without any reset of its own.

    Args:
        task: what to do.
        morphologies: M bodies that rows can host.
        num_envs: B.
        token_spec: token layout; default the smallest that fits all bodies.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no bodies, or a layout with another height map than the task's.
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
            num_heights=task.num_heights,
        )
        if self.spec.num_heights != task.num_heights:
            raise ConfigError(
                f"the token layout has {self.spec.num_heights} heights, but the task {task.id!r} "
                f"has {task.num_heights}; use a TokenSpec with num_heights={task.num_heights}"
            )
        models = compile_models(morphologies, task.scene)
        self.table = build_table(models, self.spec)
        assert self.table.layout is not None
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
        self._all_rows = np.arange(num_envs)
        self.height_map: FloatArray | None = None
        """(B, G) float32, m, heights around the torso relative to the ground under it, turned to
        its heading, see `read_maps_alone`; `None` for tasks without random terrain."""
        self._spare_map: FloatArray | None = None
        if task.num_heights:
            self.height_map = np.zeros((num_envs, task.num_heights), np.float32)
            self._spare_map = np.zeros((num_envs, task.num_heights), np.float32)
        self._ground = np.full(num_envs, task.ground_height)
        self._visited: Array | None = None
        if task.grid:
            self._visited = np.zeros((num_envs, *task.grid.shape), np.uint8)
        # Counting the cells of all grids anew would take a tenth of a step.
        self._num_visited: DoubleArray = np.zeros(num_envs)
        self._loops_open: BoolArray | None = None
        if self.table.loops is not None:
            self._loops_open = np.zeros(self.simulator.loop_residual.shape[:2], np.bool_)

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
        if self.height_map is not None:
            self.simulator.read_ground(rows, self.height_map, self._ground)
        if self._visited is not None:
            self._visited[rows] = 0
            self._num_visited[rows] = 0.0
        if self._loops_open is not None:
            self._loops_open[rows] = False

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
        if self.height_map is not None and self._spare_map is not None:
            self.height_map, self._spare_map = self._spare_map, self.height_map
            simulator.read_ground(self._all_rows, self.height_map, self._ground)
        diverged = self._contain_divergence()
        new_cells, num_cells = self._visit(diverged)
        transition = Transition(
            torso_before=before,
            torso_after=simulator.torso_position,
            standing_height=self._standing_height[simulator.model_index],
            ground_height=self._ground_height(),
            control_dt=simulator.control_dt,
            new_cells=new_cells,
            num_cells=num_cells,
        )
        return self._judge(transition, diverged, self._watch_loops(diverged))

    def _watch_loops(self, diverged: BoolArray) -> IntArray | None:
        """Return how many loops of each row were closed before this step and are open now."""
        if self._loops_open is None:
            return None
        is_open = self.simulator.loop_residual[..., 0] > OPEN
        is_open[diverged] = False
        opened: IntArray = (is_open & ~self._loops_open).sum(axis=1)
        self._loops_open = is_open
        return opened

    def _contain_divergence(self) -> BoolArray:
        diverged = self.simulator.diverged.copy()
        if diverged.any():
            self.dynamic[diverged] = self._spare[diverged]
            if self.height_map is not None and self._spare_map is not None:
                self.height_map[diverged] = self._spare_map[diverged]
        return diverged

    def _visit(self, diverged: BoolArray) -> tuple[DoubleArray | float, DoubleArray | float]:
        """Return the cells each row has entered in this step, and since its episode began."""
        grid = self.task.grid
        if grid is None or self._visited is None:
            return 0.0, 0.0
        new_cells = np.zeros(self.num_envs)
        visit_cells(
            self.simulator.torso_position, np.array(grid.low), grid.cell_size, diverged,
            self._visited, new_cells,
        )  # fmt: skip
        self._num_visited += new_cells
        return new_cells, self._num_visited.copy()

    def _ground_height(self) -> DoubleArray | float:
        task = self.task
        if self.height_map is not None:
            return self._ground
        if task.slope:
            return task.slope.height(self.simulator.torso_position, task.ground_height)
        return task.ground_height

    def _judge(
        self, transition: Transition, diverged: BoolArray, loops_opened: IntArray | None
    ) -> StepResult:
        terms = {
            term.name: np.where(diverged, 0.0, term.weight * term.function(transition))
            for term in self.task.rewards
        }
        events = {
            term.name: term.function(transition) & ~diverged for term in self.task.terminations
        }
        metrics = {term.name: term.function(transition) for term in self.task.metrics}
        nobody = np.zeros(self.num_envs, np.bool_)
        terminated = np.logical_or.reduce([nobody, *events.values()])
        time_up = (self.episode_length >= self.task.horizon) & ~terminated & ~diverged
        events |= {TIME_LIMIT: time_up, DIVERGED: diverged}
        reward = np.sum([np.zeros(self.num_envs), *terms.values()], axis=0)
        truncated = time_up | diverged
        return StepResult(
            reward, terms, terminated, truncated, diverged, events, metrics, loops_opened
        )

    def _kept(self) -> dict[str, Array]:
        """Return what continues the rows beside the simulator, by name; only what the task has."""
        kept: dict[str, Array | None] = {
            "dynamic": self.dynamic,
            "episode_length": self.episode_length,
            "height_map": self.height_map,
            "visited": self._visited,
            "loops_open": self._loops_open,
        }
        return {name: value for name, value in kept.items() if value is not None}

    def get_state(self) -> dict[str, Array]:
        """Return a copy of everything that continues the rows to the same bits, by name."""
        kept = {name: value.copy() for name, value in self._kept().items()}
        return self.simulator.get_state() | kept

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a core with the same task and bodies.

        Raises:
            ConfigError: the state lacks what this task needs.
        """
        kept = self._kept()
        if any((name in kept) != (name in state) for name in (*kept, *_OPTIONAL)):
            raise ConfigError(
                f"this state belongs to another task than {self.task.id!r} or to other bodies; use "
                f"one of this task and these bodies"
            )
        self.simulator.set_state(state)
        for name, value in kept.items():
            value[:] = state[name]
        if self._visited is not None:
            self._num_visited[:] = self._visited.sum(axis=(1, 2))
