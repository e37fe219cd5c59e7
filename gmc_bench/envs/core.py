"""One task for B bodies at a time: scene, terms and memory of a batch of environments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gmc_bench.bodies.body import Body
from gmc_bench.core.arguments import require_fitting_state, require_instance
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.bodies import require_bodies, smallest_layout
from gmc_bench.envs.driven import DrivenRows
from gmc_bench.envs.terms import NUMBERS, Kind, Term, checked_command, read_only
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.ground_kernels import visit_cells
from gmc_bench.sim.layout import CONTROL_LIMIT
from gmc_bench.sim.loops import OPEN
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.motion import Motion, SensorNoise
from gmc_bench.tasks.spec import (
    CUT_OFF,
    DIVERGED,
    FAILURE,
    TIME_LIMIT,
    Moment,
    Task,
    Transition,
)
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

_NOTHING: DoubleArray = np.zeros((0, 0))

_OPTIONAL = ("height_map", "visited", "loops_open", "command", "action")
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
        metrics: name -> (B,) float64, the task's metrics after this step; zero where the simulation
            diverged.
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
    """B environments of one task over M bodies, which the caller resets.

    An environment is a row of the arrays, and hosts one body at a time.

    Args:
        task: what to do.
        morphologies: M bodies that rows can host.
        num_envs: B.
        token_spec: token layout; default the smallest that fits all bodies.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no bodies, bodies that the task is not for, a layout with other observations
            than the task's, or events, noise or ground that these bodies do not support.
        MorphologyError: a body does not compile.
        TokenOverflowError: a body does not fit the layout.
    """

    def __init__(
        self,
        task: Task,
        morphologies: Sequence[Body],
        num_envs: int,
        *,
        token_spec: TokenSpec | None = None,
        num_threads: int | None = None,
    ) -> None:
        require_bodies(task, morphologies)
        self.task = task
        if token_spec is None:
            token_spec = smallest_layout(task, morphologies)
        require_instance(token_spec, TokenSpec, "an environment", "use e.g. policy.spec")
        self.spec = token_spec
        _require_heights(task, self.spec)
        _require_own_groups(task, self.spec)
        models = compile_models(morphologies, task.scene)
        grounds = task.scene.num_grounds
        self.table = build_table(models[::grounds], self.spec)
        self.simulator = BatchSimulator(models, num_envs, self.table.layout, num_threads)
        self.num_envs = num_envs
        shape = (num_envs, self.spec.max_limbs, self.spec.num_dynamic)
        self.dynamic: FloatArray = np.zeros(shape, np.float32)
        """(B, L, Fd) float32, the current observation; see `TokenSpec.slices`."""
        self._spare: FloatArray = np.zeros(shape, np.float32)
        self.episode_length: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, control steps since the last reset."""
        self._all_rows = np.arange(num_envs)
        self.height_map: FloatArray | None = None
        """(B, G) float32, m, heights around the torso relative to the ground under it, turned to
        its heading, see `read_maps_single_threaded`; `None` for tasks without random terrain."""
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
        self.driven: DrivenRows | None = None
        if self.simulator.has_drives:
            self.driven = DrivenRows(task, models, self.simulator)
        elif task.events or task.scene.rough or task.sensor_noise != SensorNoise():
            raise ConfigError(
                f"the task {task.id!r} has events, rough ground or sensor noise, which only bodies "
                f"with joint drives have a part for; leave them out for bodies made of limbs"
            )
        self._standing_height = np.array(
            [
                model.robot.robot.pose.base_height
                if model.robot
                else model.morphology.limbs[0].position[2] - task.floor_clearance
                for model in models[::grounds]
            ]
        )
        self.command: DoubleArray = np.zeros(
            (num_envs, task.command.num_values if task.command else 0)
        )
        """(B, C) float64, what is asked of the bodies, C being the task's `Command.num_values`."""
        self._command = checked_command(task, has_headings=self.driven is not None)
        self._kept_heading: DoubleArray = np.full(num_envs, np.nan)  # rad; nan: none is kept
        padding = self.table.limb_padding_mask
        self._num_tokens = int((~padding).sum(axis=1).max())
        self._slots = {term.name: self._columns(term.name) for term in task.observations}
        self._rewards = self._terms("reward", task.rewards)
        self._terminations = self._terms("termination", task.terminations)
        self._metrics = self._terms("metric", task.metrics)
        self._observations = self._terms("observation", task.observations)
        # The simulator writes readings of limbs in place; other terms' columns keep them apart.
        self._readings: FloatArray | None = None
        if self.table.layout is not None and task.observations:
            width = self.table.layout.num_readings
            self._readings = np.zeros((*shape[:2], width), np.float32)

    def _terms(self, kind: Kind, terms: Iterable[Any]) -> dict[str, Term]:
        return {term.name: Term(self.task.id, kind, term.name, term.function) for term in terms}

    def _columns(self, name: str) -> slice:
        """Return the places of a group among the time-varying features."""
        group = self.spec.slice(name)
        if group.kind == "context":
            raise ConfigError(
                f"the task {self.task.id!r} has an observation named {name!r}, as a feature that "
                f"is fixed by the body; give the observation another name"
            )
        first = int(np.searchsorted(self.spec.dynamic_indices, group.start))
        return slice(first, first + group.width)

    def __getstate__(self) -> None:
        """Refuse to be copied or pickled, in the words of the simulation."""
        self.simulator.__getstate__()

    @property
    def morphology_index(self) -> IntArray:
        """(B,) int64, the body each row hosts."""
        return self.driven.bodies if self.driven else self.simulator.model_index

    @property
    def motion(self) -> Motion:
        """How bodies with joint drives move; not for bodies made of limbs."""
        assert self.driven is not None
        return self.driven.motion()

    @property
    def action(self) -> DoubleArray:
        """(B, A) float64, the latest action of bodies with A joint drives, after clipping."""
        assert self.driven is not None
        return self.driven.action

    def reset(self, rows: IntArray, morphology_index: IntArray) -> None:
        """Start new episodes.

        Args:
            rows: (K,) int64, without repeats.
            morphology_index: (K,) int64, the body each of them hosts from now on.

        Raises:
            ConfigError: the task's command holds headings, which these bodies lack.
            PluginError: a function of the task fails or returns something else.
        """
        if self.driven:
            self.driven.start(rows, morphology_index)
        else:
            self.simulator.assign(rows, morphology_index)
            readings = self.dynamic if self._readings is None else self._readings
            self.simulator.reset(rows, self.task.reset_noise, readings)
        self.episode_length[rows] = 0
        if self.height_map is not None:
            self.simulator.read_ground(rows, self.height_map, self._ground)
        if self._visited is not None:
            self._visited[rows] = 0
            self._num_visited[rows] = 0.0
        if self._loops_open is not None:
            self._loops_open[rows] = False
        self._draw_commands(rows)
        self._observe(rows)

    def step(self, actions: ArrayLike, rows: IntArray | None = None) -> StepResult:
        """Apply one action to every row.

        Args:
            actions: (B, L, J) float; entries without an actuator are ignored, the others are
                clipped to the task's `action_clip` and, except with joint drives, clamped to
                [-1, 1] by the engine. An action that is not a number (nan) breaks the simulation
                of its row, whose episode ends as `diverged`.
            rows: (K,) int64, without repeats, those that are simulated; default all. The others
                are frozen until they are reset, even if their simulation has diverged; their
                observations and results are meaningless.

        Raises:
            ConfigError: the actions have another shape or are no numbers, or a row was never reset.
            PluginError: a function of the task fails or returns something else.
        """
        expected = (self.num_envs, self.spec.max_limbs, self.spec.joints_per_limb)
        given = as_actions(actions, expected)
        simulator = self.simulator
        before = simulator.torso_position.copy()
        self.dynamic, self._spare = self._spare, self.dynamic
        flat = np.ascontiguousarray(given).reshape(self.num_envs, -1)
        previous = joint_velocity = _NOTHING
        if self.driven:
            previous = self.driven.action
            joint_velocity = simulator.drive_state.joint_state[..., 1].copy()
            self.driven.action = self.driven.clip(flat)
            simulator.step(self.driven.targets(self.driven.action), rows=rows)
        else:
            if self.task.action_clip is not None:
                flat = np.clip(flat, -self.task.action_clip, self.task.action_clip)
            readings = self.dynamic if self._readings is None else self._readings
            simulator.step(flat, readings, rows)
        self.episode_length += 1
        if self.height_map is not None and self._spare_map is not None:
            self.height_map, self._spare_map = self._spare_map, self.height_map
            seen = self._all_rows if rows is None else rows
            simulator.read_ground(seen, self.height_map, self._ground)
        diverged = simulator.diverged.copy()
        new_cells, num_cells = self._visit(diverged)
        transition = Transition(
            torso_before=before,
            torso_after=simulator.torso_position,
            standing_height=self._standing_height[self.morphology_index],
            ground_height=self._ground_height(),
            control_dt=simulator.control_dt,
            new_cells=new_cells,
            num_cells=num_cells,
            after=self._moment(self._all_rows, flat),
            previous_action=previous,
            joint_velocity_before=joint_velocity,
        )
        sound = ~diverged
        if rows is not None:
            sound[:] = False
            sound[rows] = ~diverged[rows]
        result = self._judge(read_only(transition), sound, diverged, self._watch_loops(diverged))
        self._go_on()
        self._observe(self._all_rows, flat, sound)
        self._contain(diverged)
        return result

    def _moment(self, rows: IntArray, actions: FloatArray | None = None) -> Moment:
        """Return what terms may look at, without noise."""
        everyone = rows is self._all_rows
        torso = self.simulator.torso_position
        command = self.command
        if not everyone:
            torso, command = torso[rows], command[rows]
        if self.driven:
            action, motion = self.driven.action, self.driven.motion(None if everyone else rows)
            return Moment(
                torso_position=torso,
                action=action if everyone else action[rows],
                command=command,
                driven=motion,
            )
        padding = self.table.action_padding_mask[self.morphology_index[rows]]
        flat = padding.reshape(len(rows), -1)
        action = np.zeros(flat.shape)
        if actions is not None:
            # What the motors were given, not what was sent: more than the limit moves nothing.
            applied = np.clip(actions[rows], -CONTROL_LIMIT, CONTROL_LIMIT)
            np.copyto(action, applied, where=~flat)
        return Moment(torso_position=torso, action=action, command=command)

    def _draw_commands(self, rows: IntArray) -> None:
        if self._command is None:
            return
        drawn = self.simulator.draw_uniform(rows, self._command.num_draws)
        heading = self._heading(rows)
        self.command[rows], self._kept_heading[rows] = self._command.draw(drawn, heading)
        self._steer(rows)

    def _steer(self, rows: IntArray) -> None:
        assert self._command is not None
        self.command[rows] = self._command.steer(
            self.command[rows], self._kept_heading[rows], self._heading(rows)
        )

    def _heading(self, rows: IntArray) -> DoubleArray:
        return self.driven.heading[rows] if self.driven else np.zeros(len(rows))

    def _go_on(self) -> None:
        """Draw and steer commands, and let events happen, between two control steps."""
        command = self.task.command
        if command is not None:
            steps = self.task.control_steps(command.resample_s)
            again = np.flatnonzero(self.episode_length % steps == 0)
            if len(again):
                self._draw_commands(again)
            self._steer(self._all_rows)
        if self.driven:
            self.driven.count_air_time()
            self.driven.disturb(self.episode_length)

    def _observe(
        self, rows: IntArray, actions: FloatArray | None = None, sound: BoolArray | None = None
    ) -> None:
        """Write the observation terms of some rows; the simulator has written the limbs' own.

        Args:
            rows: which.
            actions: the latest ones, of all rows; `None` after a reset.
            sound: of each of `rows`, whether it was simulated and did not break; `None` if all are.
        """
        task = self.task
        if not task.observations:
            return
        if self._readings is not None:
            self.dynamic[rows, :, : self._readings.shape[2]] = self._readings[rows]
        moment = self._moment(rows, actions)
        if moment.driven is not None and task.sensor_noise != SensorNoise():
            count = 9 + 2 * moment.driven.joint_angle.shape[1]
            drawn = 2.0 * self.simulator.draw_uniform(rows, count) - 1.0
            moment = replace(moment, driven=moment.driven.sensed(task.sensor_noise, drawn))
        moment = read_only(moment)
        padding = self.table.limb_padding_mask[self.morphology_index[rows], : self._num_tokens]
        for term in task.observations:
            slot = self._slots[term.name]
            tokens = (1, self._num_tokens, self.spec.max_limbs)
            shapes = ((len(rows), count, slot.stop - slot.start) for count in tokens)
            function = self._observations[term.name]
            value = function(moment, *shapes)[:, : self._num_tokens]
            if padding.any():
                value = np.where(padding[..., None], 0.0, value)
            function.require_finite(value, sound)
            value = term.scale * value
            self.dynamic[rows, : self._num_tokens, slot] = value

    def _contain(self, diverged: BoolArray) -> None:
        """Show rows whose simulation broke their last valid observation."""
        if diverged.any():
            self.dynamic[diverged] = self._spare[diverged]
            if self.height_map is not None and self._spare_map is not None:
                self.height_map[diverged] = self._spare_map[diverged]

    def _watch_loops(self, diverged: BoolArray) -> IntArray | None:
        """Return how many loops of each row were closed before this step and are open now."""
        if self._loops_open is None:
            return None
        is_open = self.simulator.loop_residual[..., 0] > OPEN
        is_open[diverged] = False
        opened: IntArray = (is_open & ~self._loops_open).sum(axis=1)
        self._loops_open = is_open
        return opened

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
        self,
        transition: Transition,
        sound: BoolArray,
        diverged: BoolArray,
        loops_opened: IntArray | None,
    ) -> StepResult:
        task = self.task
        one = (self.num_envs,)
        terms = {}
        for term in task.rewards:
            value = self._rewards[term.name](transition, one)
            self._rewards[term.name].require_finite(value, sound)
            terms[term.name] = term.weight * value
        if task.only_positive:
            terms[CUT_OFF] = np.maximum(-_add_up([*terms.values()]), 0.0)
        rate = transition.control_dt if task.reward_rates else 1.0
        terms = {name: np.where(diverged, 0.0, value * rate) for name, value in terms.items()}
        events = {
            name: term(transition, one) & ~diverged for name, term in self._terminations.items()
        }
        # Copies: rows that end are reset in place before anybody reads them.
        metrics = {
            name: np.array(term(transition, one), np.float64)
            for name, term in self._metrics.items()
        }
        nobody = np.zeros(self.num_envs, np.bool_)
        terminated = np.logical_or.reduce([nobody, *events.values()])
        if task.failure_cost:
            terms[FAILURE] = np.where(terminated, -task.failure_cost, 0.0)
        time_up = (self.episode_length >= task.horizon) & ~terminated & ~diverged
        events |= {TIME_LIMIT: time_up, DIVERGED: diverged}
        reward = _add_up([np.zeros(self.num_envs), *terms.values()])
        for name, measured in metrics.items():
            self._metrics[name].require_finite(measured, sound)
            measured[diverged] = 0.0
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
        if self.task.command:
            kept |= {"command": self.command, "kept_heading": self._kept_heading}
        if self.driven:
            kept |= self.driven.kept()
        return {name: value for name, value in kept.items() if value is not None}

    def get_state(self) -> dict[str, Array]:
        """Return a copy of all that the rows need to continue bit for bit, by name."""
        kept = {name: value.copy() for name, value in self._kept().items()}
        return self.simulator.get_state() | kept

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a core with the same task and bodies.

        Raises:
            ConfigError: see `require_fitting`; then nothing was taken over.
        """
        self.require_fitting(state)
        self.simulator.set_state(state)
        for name, value in self._kept().items():
            value[:] = state[name]
        if self._visited is not None:
            self._num_visited[:] = self._visited.sum(axis=(1, 2))

    def require_fitting(self, state: Mapping[str, Array]) -> None:
        """Check that `set_state` can take over a state, whose numbers may be nan in broken rows.

        Raises:
            ConfigError: it lacks what this task needs, or does not fit the simulation, see
                `BatchSimulator.require_fitting`.
        """
        kept = self._kept()
        if any((name in kept) != (name in state) for name in (*kept, *_OPTIONAL)):
            raise ConfigError(
                f"this state belongs to another task than {self.task.id!r} or to other bodies; use "
                f"one of this task and these bodies"
            )
        require_fitting_state(state, kept)
        self.simulator.require_fitting(state)


def as_actions(given: ArrayLike, expected: tuple[int, ...]) -> FloatArray:
    """Return actions as an array, float32, without a copy where they are one.

    They may be nan, see `EnvironmentCore.step`.

    Raises:
        ConfigError: they have another shape than `expected` or are no real numbers.
    """
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, of a GPU
        raise ConfigError(f"actions must be numbers of the shape {expected} ({error})") from None
    if found.dtype.kind not in NUMBERS:  # a cast would make nan of None, and read words
        raise ConfigError(
            f"actions must be numbers of the shape {expected}, got the type {found.dtype}"
        )
    if found.shape != expected:
        raise ConfigError(f"actions must have the shape {expected}, got {found.shape}")
    return found.astype(np.float32, copy=False)


def _add_up(values: Sequence[Array]) -> Array:
    """Return the sum of arrays (B,), each added to those before it.

    numpy's own sum adds one row in pairs, and more rows like this: what a row earns would depend
    on whether it is alone.
    """
    stacked = np.array(values)
    total = np.zeros(stacked.shape[1:], stacked.dtype)
    for value in stacked:
        total = total + value
    return total


def _require_heights(task: Task, spec: TokenSpec) -> None:
    if spec.num_heights != task.num_heights:
        raise ConfigError(
            f"the token layout has {spec.num_heights} heights, but the task {task.id!r} has "
            f"{task.num_heights}; use a TokenSpec with num_heights={task.num_heights}"
        )


def _require_own_groups(task: Task, spec: TokenSpec) -> None:
    """Raise unless a layout has the time-varying groups that a task adds, and no others."""
    own = task.token_spec(spec.max_limbs, spec.joints_per_limb)
    if spec.observed != own.observed:
        found, expected = (
            ", ".join(group[0] for group in layout.observed) or "nothing" for layout in (spec, own)
        )
        raise ConfigError(
            f"the token layout adds {found}, but the task {task.id!r} adds {expected}, or of "
            f"another width or unit; use what the method token_spec of the task returns"
        )
