"""The batched environment: B environments over M bodies behind gymnasium's `VectorEnv`."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from gmc_bench.core.arguments import FITTING_STATE, require_finite, require_fitting_state
from gmc_bench.core.config import require_type, shown
from gmc_bench.core.errors import ConfigError, reject_unknown
from gmc_bench.core.integers import require_seed
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.envs.guide_table import GuideTable
from gmc_bench.envs.terms import NUMBERS
from gmc_bench.sim.batch import require_streams, spawn_streams
from gmc_bench.sim.layout import CONTROL_LIMIT
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable

Observation = dict[str, Any]
WHERE_SHOWN = "a policy is shown by gmc-bench watch, replay and render"
"""Half a sentence for those who look for pictures in an environment."""


def action_space_of(task: Task, spec: TokenSpec) -> gymnasium.Space[Any]:
    """Return the action space of one body on a task, (L, J) float32: what is not clipped.

    The bound is the task's `action_clip`, infinite without one, and for bodies made of limbs at
    most 1, where the engine clamps controls.
    """
    bound = np.inf if task.action_clip is None else task.action_clip
    if task.parts == "limbs":
        bound = min(CONTROL_LIMIT, bound)
    return gymnasium.spaces.Box(-bound, bound, (spec.max_limbs, spec.joints_per_limb), np.float32)


def height_map_space(spec: TokenSpec) -> gymnasium.Space[Any]:
    """Return the height map of one environment: (G,) float32, m."""
    return gymnasium.spaces.Box(-np.inf, np.inf, (spec.num_heights,), np.float32)


def fresh_seed() -> int:
    """Return a seed from the system's entropy, for an environment that was never given one."""
    return secrets.randbits(64)


def refuse_render() -> NoReturn:
    """Say where pictures are made, which is not in environments.

    Raises:
        ConfigError: always.
    """
    raise ConfigError(f"environments have no render modes and draw nothing; {WHERE_SHOWN}")


def reset_option(options: Any, name: str) -> Any:
    """Return the one option that a reset takes, `None` if it is not given.

    Raises:
        ConfigError: there are others, which would pass for a choice that nobody made.
    """
    if not isinstance(options, Mapping | None):
        raise ConfigError(f"options of a reset map names to values, got {shown(options)}")
    reject_unknown(options or {}, [name], "a reset of this environment")
    return (options or {}).get(name)


class MorphologyVectorEnv(gymnasium.vector.VectorEnv[Observation, FloatArray, Any]):
    """B environments of one task, each hosting one of M bodies, stepped in one call.

    Observation: `dynamic` (B, L, Fd) float32, the time-varying token features, and
    `morphology_index` (B,) int64, the row of `table` with everything fixed by the body
    (features, masks, parents); tasks with random terrain add `height_map` (B, G) float32, heights
    around the torso in m (see `EnvironmentCore.height_map`). Action: (B, L, J) float32, clipped to
    the bounds of the action space (see `action_space_of`); entries without an actuator are ignored.

    An episode that ends is reset within the same step (`AutoresetMode.SAME_STEP`): the step
    returns the first observation of the next episode, and `info` holds

    - `final_obs`: object array (B,), the last observation of each ended episode;
    - `final_info`: `episode_return`, `episode_length`, `morphology_index` and `ended` (the name
      of the termination term, `time_limit` or `diverged`) of ended episodes, (B,) each;
    - `_final_obs`, `_final_info`: (B,) bool, which entries are valid.

    `info["reward/<term>"]` (B,) holds each weighted reward term, `info["metric/<name>"]` (B,) each
    metric of the task after the step, both 0 where `ended` is `diverged`. Where bodies have closed
    loops, `info["loops_opened"]` (B,) int64 counts those that have come open in the step (see
    `StepResult`).

    Args:
        task: what to do.
        morphologies: M bodies.
        num_envs: B.
        token_spec: token layout; default the smallest that fits all bodies.
        num_threads: threads that step; default all.
        fixed: keep each environment's body for all its episodes; otherwise the next body is
            drawn at every reset (see `set_sampling`).

    Raises:
        GmcBenchError: see `EnvironmentCore`; or `fixed` is no truth value.
    """

    def __init__(
        self,
        task: Task,
        morphologies: Sequence[Any],
        num_envs: int,
        *,
        token_spec: TokenSpec | None = None,
        num_threads: int | None = None,
        fixed: bool = False,
    ) -> None:
        require_type(fixed, bool, "fixed")
        self.core = EnvironmentCore(
            task, morphologies, num_envs, token_spec=token_spec, num_threads=num_threads
        )
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.num_envs = num_envs
        self.render_mode = None
        spec = self.core.spec
        spaces: dict[str, gymnasium.Space[Any]] = {
            "dynamic": gymnasium.spaces.Box(
                -np.inf, np.inf, (spec.max_limbs, spec.num_dynamic), np.float32
            ),
            "morphology_index": gymnasium.spaces.Discrete(len(morphologies)),
        }
        if spec.num_heights:
            spaces["height_map"] = height_map_space(spec)
        self.single_observation_space = gymnasium.spaces.Dict(spaces)
        self.single_action_space = action_space_of(task, spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.fixed = fixed
        """Whether every environment keeps its body."""
        self.set_sampling(np.full(len(morphologies), 1.0 / len(morphologies)))
        self.episode_return: DoubleArray = np.zeros(num_envs)
        """(B,) float64, undiscounted sum of rewards since the last reset."""
        self._has_streams = False  # whether a seed or `set_streams` has set them

    @property
    def table(self) -> MorphologyTable:
        """Everything that is fixed by the bodies."""
        return self.core.table

    @property
    def token_spec(self) -> TokenSpec:
        """Layout of the tokens."""
        return self.core.spec

    def set_sampling(self, probabilities: ArrayLike) -> None:
        """Set how often each body is drawn at the next resets.

        Args:
            probabilities: (M,) numbers, zero or positive, summing to one.

        Raises:
            ConfigError: wrong length, no numbers, negative, or not summing to one.
        """
        self._set_sampling(self._checked_sampling(probabilities))

    def _set_sampling(self, sampling: DoubleArray) -> None:
        self._sampling = sampling
        self._guide = GuideTable(sampling)

    def _checked_sampling(self, probabilities: ArrayLike) -> DoubleArray:
        count = len(self.table)
        try:
            found = np.asarray(probabilities)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, of a GPU
            raise ConfigError(f"sampling probabilities must be numbers ({error})") from None
        if found.dtype.kind not in NUMBERS:
            raise ConfigError(f"sampling probabilities must be numbers, got the type {found.dtype}")
        sampling: DoubleArray = found.astype(np.float64)
        if sampling.shape != (count,):
            raise ConfigError(
                f"sampling needs one probability for each of {count} bodies, "
                f"got the shape {sampling.shape}"
            )
        if (sampling < 0).any():
            raise ConfigError(f"sampling probabilities must not be negative, got {sampling.min()}")
        if not np.isclose(sampling.sum(), 1.0):
            raise ConfigError(f"sampling probabilities must sum to 1, got {sampling.sum()}")
        return sampling

    def set_streams(self, streams: Array) -> None:
        """Set the random stream of every environment, (B, 4) uint64, see `spawn_streams`.

        Raises:
            ConfigError: they have another shape, such as that of a single stream, or another type,
                or one is all zeros.
        """
        require_streams(streams, self.num_envs)
        self.core.simulator.streams[:] = streams
        self._has_streams = True

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every environment.

        Args:
            seed: restarts every environment's random stream; one integer for all. Without one the
                streams go on; those of a new environment begin with a seed that is drawn, and
                which `np_random_seed` says.
            options: `morphology_index`, (B,) or one for all, chooses the bodies; by default they
                are drawn, or dealt in turn where bodies are fixed.

        Raises:
            ConfigError: a seed that is no integer or negative, an index that names no body, or an
                option that does not exist.
        """
        chosen = reset_option(options, "morphology_index")
        if isinstance(seed, (list, tuple)):
            raise ConfigError("pass one integer seed: every environment gets its own stream of it")
        if seed is None and not self._has_streams:
            seed = fresh_seed()
        if seed is not None:
            super().reset(seed=require_seed(seed))
            self.set_streams(spawn_streams(seed, self.num_envs))
        rows = np.arange(self.num_envs)
        if chosen is not None:
            index = self._chosen(chosen)
        elif self.fixed:
            index = rows % len(self.table)
        else:
            index = self._draw(rows)
        self.core.reset(rows, index)
        self.episode_return[:] = 0.0
        return self.observe(), {}

    def step(
        self, actions: FloatArray
    ) -> tuple[Observation, DoubleArray, BoolArray, BoolArray, dict[str, Any]]:
        """Advance every environment by one control step (see the class for `info`).

        Args:
            actions: (B, L, J) float32.

        Raises:
            ConfigError: the actions have another shape or are no numbers, or there was no reset
                yet.
            PluginError: a function of the task fails or returns something else.
        """
        result = self.core.step(actions)
        self.episode_return += result.reward
        info: dict[str, Any] = {
            f"reward/{name}": value for name, value in result.reward_terms.items()
        }
        info |= {f"metric/{name}": value for name, value in result.metrics.items()}
        if result.loops_opened is not None:
            info["loops_opened"] = result.loops_opened
        done = result.terminated | result.truncated
        if done.any():
            info |= self._finish(done, result)
        return self.observe(), result.reward, result.terminated, result.truncated, info

    def _finish(self, done: BoolArray, result: StepResult) -> dict[str, Any]:
        rows = np.flatnonzero(done)
        core = self.core
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in rows:
            final_obs[row] = {
                "dynamic": core.dynamic[row].copy(),
                "morphology_index": core.morphology_index[row],
            }
            if core.height_map is not None:
                final_obs[row]["height_map"] = core.height_map[row].copy()
        ended = np.full(self.num_envs, "", dtype=object)
        for name, hit in result.events.items():
            ended[hit & (ended == "")] = name
        final_info = {
            "episode_return": np.where(done, self.episode_return, 0.0),
            "episode_length": np.where(done, core.episode_length, 0),
            "morphology_index": core.morphology_index.copy(),
            "ended": ended,
        }
        core.reset(rows, core.morphology_index[rows] if self.fixed else self._draw(rows))
        self.episode_return[rows] = 0.0
        return {
            "final_obs": final_obs,
            "_final_obs": done,
            "final_info": final_info,
            "_final_info": done,
        }

    def _chosen(self, chosen: Any) -> IntArray:
        try:
            index = np.asarray(chosen)
        except ValueError:  # ragged
            index = np.asarray(None)
        known = np.issubdtype(index.dtype, np.integer) and np.isin(
            index, np.arange(len(self.table))
        )
        if index.shape not in ((), (self.num_envs,)) or not np.all(known):
            raise ConfigError(
                f"morphology_index must be one integer in 0..{len(self.table) - 1}, or one for "
                f"each of {self.num_envs} environments, got {shown(chosen)}"
            )
        return np.broadcast_to(index, self.num_envs).astype(np.int64)

    def _draw(self, rows: IntArray) -> IntArray:
        return self._guide.find(self.core.simulator.draw_uniform(rows))

    def observe(self) -> Observation:
        """Return a copy of the current observation."""
        found = {
            "dynamic": self.core.dynamic.copy(),
            "morphology_index": self.core.morphology_index.copy(),
        }
        if self.core.height_map is not None:
            found["height_map"] = self.core.height_map.copy()
        return found

    def render(self) -> NoReturn:
        """Refuse: environments draw nothing.

        Raises:
            ConfigError: always; it says where pictures are made.
        """
        refuse_render()

    def get_state(self) -> dict[str, Array]:
        """Return a copy of all that the environments need to continue bit for bit, by name.

        Raises:
            ConfigError: there was no reset yet.
        """
        own = {"episode_return": self.episode_return.copy(), "sampling": self._sampling.copy()}
        return self.core.get_state() | own

    @staticmethod
    def join_states(states: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Return the state of all rows of several environments, one after the other."""
        joined = {name: np.concatenate([part[name] for part in states]) for name in states[0]}
        return joined | {"sampling": states[0]["sampling"]}  # the same for all rows

    def part_of_state(self, state: Mapping[str, Array], rows: slice) -> dict[str, Array]:
        """Return the part of a state that belongs to some of its environments."""
        part = {name: value[rows] for name, value in state.items()}
        physics = self.core.simulator.part_of_physics(state, rows)
        return part | {"physics": physics, "sampling": state["sampling"]}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of an environment built the same way.

        Raises:
            ConfigError: it is no state, or of another task, of bodies of other sizes or of another
                number of environments, its arrays are of other types, or its bodies are nowhere
                (nan); then nothing was taken over.
        """
        own = {"episode_return": self.episode_return, "sampling": self._sampling}
        require_fitting_state(state, own)
        sampling = self._checked_sampling(state["sampling"])
        self.core.require_fitting(state)
        # Rows that break are reset within the same step, so that no state of this class has any.
        physics = np.asarray(state["physics"])
        require_finite(physics, "number {} of 'physics' in this state".format, FITTING_STATE)
        self.core.set_state(state)
        self._has_streams = True
        self.episode_return[:] = state["episode_return"]
        self._set_sampling(sampling)
