"""A policy that acts with its mean actions, for measurements that are no episodes of a score."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gmc_bench.envs.cores import Core
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.evaluation.policy_file import token_table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.serialization import make_serialization
from gmc_bench.types import FloatArray, IntArray


class MeanActions:
    """Mean actions of a policy for every row of a core; call it within `acting`.

    Args:
        model: the policy.
        normalizer: its observation statistics; not changed.
        core: what it acts on.
        device: where the networks run.
        order: in which order the policy sees the tokens of a body.
    """

    def __init__(
        self,
        model: ActorCritic,
        normalizer: TokenNormalizer,
        core: Core,
        *,
        device: torch.device | str = "cpu",
        order: Order = "dfs",
    ) -> None:
        self._model = model
        self._normalizer = normalizer
        self._core = core
        self._serialization = make_serialization(order, core.table)
        self._table = token_table(core.table, normalizer, device).serialized(self._serialization)
        self._state = model.initial_state(core.num_envs)

    def start(self, rows: IntArray) -> None:
        """Forget what happened in rows (K,) int64, whose episodes begin anew."""
        self._state[torch.from_numpy(rows)] = 0.0

    def __call__(self) -> FloatArray:
        """Return (B, L, J) float32 actions for the core's present observation."""
        core, index = self._core, self._core.morphology_index
        padding = core.table.limb_padding_mask[index]
        dynamic = self._normalizer.normalize(core.dynamic, padding, index)
        # Every body has one sequence here, so that bodies and sequences have the same numbers.
        dynamic = self._serialization.arrange(dynamic, index)
        device = self._table.context.device
        heights = None
        if core.height_map is not None:
            heights = torch.from_numpy(core.height_map.copy()).to(device)
        tokens = TokenBatch(
            self._table,
            torch.from_numpy(np.array(index)).to(device),
            torch.from_numpy(dynamic).to(device),
            heights,
        )
        distribution, state = self._model.step(tokens, self._state, critic=False)
        actions = distribution.mode
        self._state = self._model.remember(state, actions)
        found: FloatArray = self._serialization.restore(actions.cpu().numpy(), index)
        return found


@contextmanager
def acting(model: ActorCritic) -> Iterator[None]:
    """Put a policy into evaluation mode, with weights that do not change."""
    was_training = model.training
    model.eval()
    try:
        with fixed_weights(model):
            yield
    finally:
        model.train(was_training)
