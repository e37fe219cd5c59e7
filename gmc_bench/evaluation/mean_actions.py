"""What a policy sees of environments, and how it acts with its mean actions."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.envs.cores import Core
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.evaluation.dropout import silence_dynamic
from gmc_bench.evaluation.policy_file import token_table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.serialization import Serialization, make_serialization


def see_tokens(
    core: Core,
    normalizer: TokenNormalizer,
    table: TokenTable,
    serialization: Serialization,
    sequences: IntArray,
    silent_limbs: IntArray | None = None,
) -> TokenBatch:
    """Return what a policy sees of every row's present observation.

    Args:
        core: B environments.
        normalizer: observation statistics; not changed.
        table: the bodies' fixed part, serialized.
        serialization: order of the tokens.
        sequences: (B,) int64, the sequence that shows each row's body.
        silent_limbs: (M,) int64, a limb of each body that is not seen.
    """
    bodies, device = core.morphology_index, table.context.device
    dynamic = normalizer.normalize(core.dynamic, core.table.limb_padding_mask[bodies], bodies)
    if silent_limbs is not None:
        silence_dynamic(dynamic, silent_limbs[bodies])
    dynamic = serialization.arrange(dynamic, sequences)
    heights = None
    if core.height_map is not None:
        heights = torch.from_numpy(core.height_map.copy()).to(device)
    index = torch.from_numpy(sequences.copy()).to(device)
    return TokenBatch(table, index, torch.from_numpy(dynamic).to(device), heights)


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
        # Every body has one sequence here, so that bodies and sequences have the same numbers.
        index = self._core.morphology_index
        tokens = see_tokens(self._core, self._normalizer, self._table, self._serialization, index)
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
