"""The plain environment: one body at a time behind gymnasium's `Env`."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np

from gmc_bench.core.arguments import require_fitting_state
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_integer, require_seed
from gmc_bench.core.types import Array, FloatArray
from gmc_bench.envs.core import EnvironmentCore, as_actions
from gmc_bench.envs.morphology_vector_env import (
    Observation,
    action_space_of,
    fresh_seed,
    height_map_space,
    refuse_render,
    reset_option,
)
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec


class MorphologyEnv(gymnasium.Env[Observation, FloatArray]):
    """One environment whose observation is complete in itself.

    Observation: `tokens` (L, F) float32, all features in the documented order, raw units;
    `limb_padding_mask` (L,) int8 and `action_padding_mask` (L, J) int8, 1 = padding;
    `parents` (L,) int64, slot of each limb's parent, -1 torso, -2 padding; tasks with random
    terrain add `height_map` (G,) float32, heights around the torso in m; sets with closed loops
    add `loops` (E, 2) int64, slots of limbs that are joined outside the tree, -1 where a body has
    fewer. Action: (L, J) float32, clipped to the bounds of the action space: ±1 for bodies made of
    limbs, ±`action_clip` of the task for those with joint drives (see `action_space_of`).

    Args:
        task: what to do.
        morphologies: bodies; one is drawn at every reset, unless `options["morphology"]` names
            one by name or index.
        token_spec: token layout; default the smallest that fits all bodies.

    Raises:
        GmcBenchError: see `EnvironmentCore`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as an instance attribute

    def __init__(
        self,
        task: Task,
        morphologies: Sequence[Any],
        *,
        token_spec: TokenSpec | None = None,
    ) -> None:
        self.core = EnvironmentCore(task, morphologies, 1, token_spec=token_spec, num_threads=1)
        self.render_mode = None
        spec = self.core.spec
        limbs, slots = spec.max_limbs, spec.joints_per_limb
        box, binary = gymnasium.spaces.Box, gymnasium.spaces.MultiBinary
        spaces: dict[str, gymnasium.Space[Any]] = {
            "tokens": box(-np.inf, np.inf, (limbs, spec.num_features), np.float32),
            "limb_padding_mask": binary(limbs),
            "action_padding_mask": binary((limbs, slots)),
            "parents": box(-2, limbs - 1, (limbs,), np.int64),
        }
        if spec.num_heights:
            spaces["height_map"] = height_map_space(spec)
        if self.core.table.loops is not None:
            spaces["loops"] = box(-1, limbs - 1, self.core.table.loops.shape[1:], np.int64)
        self.observation_space = gymnasium.spaces.Dict(spaces)
        self.action_space = action_space_of(task, spec)
        self._has_stream = False  # whether a seed has started the random stream
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: restarts the environment's random stream. Without one the stream goes on; that of
                a new environment begins with a seed that is drawn, and which `np_random_seed` says.
            options: `morphology`, name or index of the body.

        Returns:
            The observation, and `info` with `morphology`, the name of the body.

        Raises:
            ConfigError: the body or the option does not exist, or the seed is no integer or
                negative.
        """
        chosen = reset_option(options, "morphology")
        if seed is None and not self._has_stream:
            seed = fresh_seed()
        if seed is not None:
            super().reset(seed=require_seed(seed))
            self.core.simulator.seed(seed)
            self._has_stream = True
        table = self.core.table
        if chosen is None:
            index = int(self.core.simulator.draw_uniform(np.array([0]))[0] * len(table))
        elif isinstance(chosen, str) and chosen in table.names:
            index = table.names.index(chosen)
        elif is_integer(chosen) and 0 <= chosen < len(table):
            index = int(chosen)
        else:
            raise ConfigError(
                f"no body {chosen!r} in this environment; name one of its {len(table)} bodies"
            )
        self.core.reset(np.array([0]), np.array([index]))
        self._ended = False
        return self._observe(), {"morphology": table.names[index]}

    def step(self, action: FloatArray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one control step.

        Call `reset` after the end of an episode: a further step warns, and its result is undefined.

        `info` holds each weighted reward term under `reward/<term>`, each metric of the task under
        `metric/<name>`, and at the end of an episode under `ended` why it ended: the name of the
        termination term, `time_limit` or `diverged`. Where bodies have closed loops,
        `loops_opened` counts those that have come open in the step (see `StepResult`).

        Raises:
            ConfigError: the action has another shape or is no numbers, or there was no reset yet.
        """
        assert self.action_space.shape is not None
        if self._ended:
            gymnasium.logger.warn(
                "step() was called after the episode ended, which leaves its result undefined; "
                "call reset() where 'terminated' or 'truncated' is true"
            )
        result = self.core.step(as_actions(action, self.action_space.shape)[None])
        info: dict[str, Any] = {
            f"reward/{name}": float(value[0]) for name, value in result.reward_terms.items()
        }
        info |= {f"metric/{name}": float(value[0]) for name, value in result.metrics.items()}
        if result.loops_opened is not None:
            info["loops_opened"] = int(result.loops_opened[0])
        self._ended = bool(result.terminated[0] or result.truncated[0])
        ended = [name for name, hit in result.events.items() if hit[0]]
        if ended:
            info["ended"] = ended[0]
        return (
            self._observe(),
            float(result.reward[0]),
            bool(result.terminated[0]),
            bool(result.truncated[0]),
            info,
        )

    def render(self) -> NoReturn:
        """Refuse: environments draw nothing.

        Raises:
            ConfigError: always; it says where pictures are made.
        """
        refuse_render()

    def get_state(self) -> dict[str, Array]:
        """Return a copy of all that the environment needs to continue bit for bit, by name.

        Raises:
            ConfigError: there was no reset yet.
        """
        return self.core.get_state() | {"ended": np.array(self._ended)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of an environment built the same way.

        Raises:
            ConfigError: it is no state, or of another task, or of bodies of other sizes, or its
                arrays are of other types; then nothing was taken over.
        """
        require_fitting_state(state, {"ended": np.array(self._ended)})
        self.core.set_state(state)
        self._has_stream = True
        self._ended = bool(state["ended"])

    def _observe(self) -> Observation:
        core = self.core
        index = int(core.morphology_index[0])
        tokens = np.zeros((core.spec.max_limbs, core.spec.num_features), np.float32)
        tokens[:, core.spec.dynamic_indices] = core.dynamic[0]
        tokens[:, core.spec.context_indices] = core.table.context[index]
        found = {
            "tokens": tokens,
            "limb_padding_mask": core.table.limb_padding_mask[index].astype(np.int8),
            "action_padding_mask": core.table.action_padding_mask[index].astype(np.int8),
            "parents": core.table.parents[index].copy(),
        }
        if core.height_map is not None:
            found["height_map"] = core.height_map[0].copy()
        if core.table.loops is not None:
            found["loops"] = core.table.loops[index].copy()
        return found
