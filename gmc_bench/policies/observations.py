"""Bodies as observations of gymnasium environments tell of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import IntArray
from gmc_bench.policies.bound import Observed
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable

Observation = Mapping[str, Any]


def is_complete(observation: Observation) -> bool:
    """Return whether an observation shows everything about one body, as single environments do."""
    return "tokens" in observation


def observed(observation: Observation, spec: TokenSpec, morphology_index: IntArray) -> Observed:
    """Return what changes in an observation of a single environment or of a batch.

    Args:
        observation: see `MorphologyEnv` and `MorphologyVectorEnv`.
        spec: layout of its tokens.
        morphology_index: (B,) int64, the bodies.

    Raises:
        ConfigError: tokens have another shape.
    """
    complete = is_complete(observation)
    shown = np.asarray(observation["tokens" if complete else "dynamic"], np.float32)
    shown = shown[None] if complete else shown
    expected = (spec.max_limbs, spec.num_features if complete else spec.num_dynamic)
    if shown.shape[1:] != expected:
        raise ConfigError(
            f"the policy reads tokens of the shape {expected}, got {shown.shape[1:]}; make the "
            f"environment with token_spec=policy.spec"
        )
    heights = observation.get("height_map")
    if heights is not None:
        heights = np.asarray(heights, np.float32).reshape(len(shown), -1)
    return Observed(
        dynamic=shown[..., spec.dynamic_indices] if complete else shown,
        morphology_index=morphology_index,
        height_map=heights,
    )


def shown_table(observation: Observation, spec: TokenSpec) -> MorphologyTable:
    """Return the body that a complete observation shows as a table of one, without a name."""
    padding = np.asarray(observation["limb_padding_mask"], np.bool_)[None]
    loops = observation.get("loops")
    tokens = np.asarray(observation["tokens"], np.float32)[None]
    return MorphologyTable(
        spec=spec,
        names=("",),
        digests=("",),
        context=tokens[..., spec.context_indices],
        limb_padding_mask=padding,
        action_padding_mask=np.asarray(observation["action_padding_mask"], np.bool_)[None],
        parents=np.asarray(observation["parents"], np.int64)[None],
        num_limbs=(~padding).sum(axis=1),
        loops=None if loops is None else np.asarray(loops, np.int64)[None],
    )
