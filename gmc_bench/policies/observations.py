"""Bodies and features, read from the observations of gymnasium environments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gmc_bench.core.arguments import require_finite
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, IntArray
from gmc_bench.policies.bound import Observed
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import NO_LOOP, MorphologyTable

Observation = Mapping[str, Any]
_GRAPH = ("limb_padding_mask", "action_padding_mask", "parents", "loops")
_UNIT = {"limbs": ("body_iquat", "geom_quat"), "actuators": ("joint_axis", "active")}
"""Features of length 1 in every token, unless a wrapper normalised, disturbed or dropped them."""
_ROUNDING = 1e-3  # of a feature: half precision has as much
_FIX = "give what the environment returned, or mend the sensor or wrapper that it comes from"


def is_complete(observation: Observation) -> bool:
    """Return whether an observation shows everything about one body, as single environments do.

    Raises:
        ConfigError: it is no observation.
    """
    if not isinstance(observation, Mapping):
        raise ConfigError(
            f"an observation of gmc_bench maps names to arrays, got {shown(observation)}; give "
            f"what the environment returned"
        )
    return "tokens" in observation


def observed(observation: Observation, spec: TokenSpec, morphology_index: IntArray) -> Observed:
    """Return what changes in an observation of a single environment or of a batch.

    Args:
        observation: see `MorphologyEnv` and `MorphologyVectorEnv`.
        spec: layout of its tokens.
        morphology_index: (B,) int64, the bodies.

    Raises:
        ConfigError: tokens or a height map have another shape, or are not one for each body, or a
            number is not finite: it would come out as an action, or be clipped like one that is
            large.
    """
    complete = is_complete(observation)
    tokens = part_of(observation, "tokens" if complete else "dynamic", np.float32)
    tokens = tokens[None] if complete else tokens
    expected = (spec.max_limbs, spec.num_features if complete else spec.num_dynamic)
    if complete and tokens.shape[2:] == expected:
        raise ConfigError(
            f"the observation is a batch of {tokens.shape[1]} single environments, as gymnasium "
            f"puts them together, which a policy does not read; make the batch with "
            f"gmc_bench.make_env(TASK, num_envs={tokens.shape[1]}, token_spec=policy.spec)"
        )
    if tokens.shape[1:] != expected:
        raise ConfigError(
            f"the policy reads tokens of the shape {expected}, got {tokens.shape[1:]}; make the "
            f"environment with token_spec=policy.spec"
        )
    if len(tokens) != len(morphology_index):
        raise ConfigError(
            f"the observation shows {len(tokens)} bodies, but the policy acts in an environment of "
            f"{len(morphology_index)}; say which environment it is of with policy.reset(env)"
        )

    def feature(row: int, token: int, place: int) -> str:
        name = spec.name_at(place if complete else int(spec.dynamic_indices[place]))
        return f"the feature {name!r} of token {token}{_of(row, complete)}"

    require_finite(tokens, feature, _FIX)
    heights = None
    if spec.num_heights or observation.get("height_map") is not None:
        heights = part_of(observation, "height_map", np.float32)
        wanted = (spec.num_heights,) if complete else (len(tokens), spec.num_heights)
        if heights.shape != wanted:
            raise ConfigError(
                f"the policy reads a 'height_map' of the shape {wanted}, got {heights.shape}; "
                f"make the environment with token_spec=policy.spec"
            )
        heights = heights[None] if complete else heights
        require_finite(
            heights, lambda row, cell: f"height {cell} of the map{_of(row, complete)}", _FIX
        )
    return Observed(
        dynamic=tokens[..., spec.dynamic_indices] if complete else tokens,
        morphology_index=morphology_index,
        height_map=heights,
    )


def _of(row: int, complete: bool) -> str:
    return "" if complete else f" of environment {row}"


def part_of(observation: Observation, name: str, dtype: DTypeLike | None) -> Array:
    """Return a part of an observation as an array.

    Raises:
        ConfigError: it is not there, or does not hold such numbers.
    """
    try:
        return np.asarray(observation[name], dtype)
    except (LookupError, TypeError, ValueError, RuntimeError) as error:  # the latter of tensors
        raise ConfigError(
            f"an observation of gmc_bench has numbers for {name!r}, got {shown(observation)}; give "
            f"what the environment returned"
        ) from error


def shown_table(observation: Observation, spec: TokenSpec) -> MorphologyTable:
    """Return the body that a complete observation shows as a table of one, without a name.

    Its arrays are copies: whoever gave the observation may write the next one into its memory.

    Raises:
        ConfigError: masks, parents or loops are missing, or have another shape.
    """
    limbs, slots = spec.max_limbs, spec.joints_per_limb
    padding = _shaped(observation, "limb_padding_mask", np.bool_, (limbs,))
    loops = observation.get("loops")
    if loops is not None:
        loops = part_of(observation, "loops", np.int64)
        loops = _shaped(observation, "loops", np.int64, (len(np.atleast_1d(loops)), 2))[None]
    tokens = part_of(observation, "tokens", np.float32)[None]
    return MorphologyTable(
        spec=spec,
        names=("",),
        digests=("",),
        context=tokens[..., spec.context_indices],
        limb_padding_mask=padding[None],
        action_padding_mask=_shaped(observation, "action_padding_mask", np.bool_, (limbs, slots))[
            None
        ],
        parents=_shaped(observation, "parents", np.int64, (limbs,))[None],
        num_limbs=(~padding[None]).sum(axis=1),
        loops=loops,
    )


def shown_content(observation: Observation, spec: TokenSpec) -> bytes:
    """Return all that a complete observation shows of its body as bytes.

    Equal ones say the same; 0.0 and -0.0 are one number.

    Raises:
        ConfigError: a part does not hold numbers.
    """
    tokens = part_of(observation, "tokens", np.float32)
    parts = [tokens.take(spec.context_indices, axis=1) + 0.0]
    parts += [
        part_of(observation, name, None) for name in _GRAPH if observation.get(name) is not None
    ]
    return b"".join([part.tobytes() for part in parts])


def require_same_body(observation: Observation, table: MorphologyTable, body: int) -> None:
    """Check that a complete observation shows a body, as far as it shows any.

    Parts that are left out say nothing, nor do features that a wrapper has normalised or dropped:
    the policy does not read them where the environment says which body it is.

    Args:
        observation: with tokens that fit the layout of the table.
        table: bodies of an environment.
        body: row of the table.

    Raises:
        ConfigError: it shows another one.
    """
    for name in _GRAPH:
        if observation.get(name) is None:
            continue
        part, whole = part_of(observation, name, None), getattr(table, name)
        if name == "loops":
            same = _loops_of(part) == _loops_of(None if whole is None else whole[body])
        else:
            same = np.array_equal(part, whole[body])
        if not same:
            raise _another_body(name)
    spec, count = table.spec, int(table.num_limbs[body])
    tokens = part_of(observation, "tokens", np.float32)[:count]
    shown_features, own = tokens[:, spec.context_indices], table.context[body, :count]
    apart = ~np.isclose(shown_features, own, rtol=_ROUNDING, atol=1e-6)
    differ = np.flatnonzero(apart.any(axis=0) & shown_features.any(axis=0))  # zero: left out
    if len(differ) and _is_raw(tokens, spec):
        raise _another_body(spec.name_at(int(spec.context_indices[differ[0]])))


def _is_raw(tokens: Array, spec: TokenSpec) -> bool:
    """Return whether the features fixed by a body, of all its tokens, look like those of one."""
    groups = [group for group in spec.slices if group.name in _UNIT[spec.parts]]
    lengths = [np.linalg.norm(tokens[:, group.start : group.stop], axis=1) for group in groups]
    return bool(np.allclose(lengths, 1.0, rtol=0.0, atol=2 * _ROUNDING))


def _loops_of(loops: Array | None) -> list[Any]:
    """Return the loops of a body without the rows that stand for none."""
    rows = [] if loops is None else np.atleast_1d(loops).tolist()
    return [row for row in rows if row != [NO_LOOP, NO_LOOP]]


def _another_body(name: str) -> ConfigError:
    return ConfigError(
        f"the observation shows another body, by its {name!r}, than the environment to which the "
        f"policy was reset; give what that environment returned last, or call policy.reset(env) "
        f"with the environment that gave it"
    )


def _shaped(observation: Observation, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
    """Return a copy of a part of an observation as an array of a shape.

    Raises:
        ConfigError: it is not there, does not hold such numbers, or has another shape.
    """
    found = part_of(observation, name, dtype)
    if found.shape != shape:
        raise ConfigError(
            f"the policy reads {name!r} of the shape {shape}, got {found.shape}; make the "
            f"environment with token_spec=policy.spec"
        )
    return found.copy()


def require_body(table: MorphologyTable) -> None:
    """Check that the limbs in a table of one body, made from an observation, form a tree.

    Other graphs have no order of limbs, or the walk over them would never end.

    Raises:
        ConfigError: limbs are not the first tokens, their parents lead elsewhere than to the
            torso, or a loop joins other than two limbs that no joint joins.
    """
    count, parents = int(table.num_limbs[0]), table.parents[0]
    tree, limbs = parents[:count], np.arange(count)
    fits = count > 0 and not table.limb_padding_mask[0, :count].any() and tree[0] == -1
    fits = fits and bool(np.all((tree[1:] >= 0) & (tree[1:] < count)))
    if fits:
        for _ in range(count):  # so many steps from a limb to the torso, at most
            limbs = np.where(limbs == 0, 0, tree[limbs])
    if not fits or limbs.any():
        raise ConfigError(
            f"the 'parents' of an observation lead from each limb to the torso, the first token, "
            f"got {shown(parents.tolist())} with {count} limbs that are no padding; {_FIX}"
        )
    if table.loops is not None:
        ends = np.sort(table.loops[0], axis=1)
        joins = (ends[:, 0] >= 0) & (ends[:, 1] < count) & (ends[:, 0] != ends[:, 1])
        joints = np.stack([tree, np.arange(count)], axis=1)
        joins &= ~(ends[:, None] == np.sort(joints, axis=1)).all(axis=2).any(axis=1)
        if not np.all(joins | (ends == NO_LOOP).all(axis=1)):
            raise ConfigError(
                f"the 'loops' of an observation join two of its {count} limbs each that no joint "
                f"joins, or are [-1, -1], got {shown(table.loops[0].tolist())}; {_FIX}"
            )
