"""A policy bound to bodies: the one way from their observations to their actions."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.policies.exploration import Explorer
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.tokens.serialization import Serialization
from gmc_bench.tokens.table import MorphologyTable

Pick = Callable[[MaskedGaussian], torch.Tensor]
"""Takes actions (B, L, J) from their distribution."""


class Shown(Protocol):
    """Observation of B rows (environments); every environment core is one."""

    @property
    def dynamic(self) -> FloatArray:
        """(B, L, Fd) float32, raw time-varying features, limbs in the order of the engine."""

    @property
    def morphology_index(self) -> IntArray:
        """(B,) int64, the body of each row."""

    @property
    def height_map(self) -> FloatArray | None:
        """(B, G) float32, m; `None` for tasks without random terrain."""


class Observed(NamedTuple):
    """Observation of B rows, as plain arrays; see `Shown`."""

    dynamic: FloatArray
    morphology_index: IntArray
    height_map: FloatArray | None = None


class BoundPolicy:
    """A policy on B rows, each of which hosts one of M bodies, and what it remembers of them.

    Features are normalised, put into the order in which the policy reads limbs, and given to its
    actor; actions enter its state, are put back into the order of the engine and returned.

    Args:
        model: its networks.
        normalizer: its statistics; they are looked up at every step, so that training may update
            them meanwhile (those of features fixed by the body are not).
        table: the M bodies.
        num_rows: B.
        serialization: order of the limbs; where a body has several sequences, `start` says which
            one is shown.
        silent_limbs: (M,) int64, a limb of each body whose features are zero for the policy;
            default none.

    Raises:
        ConfigError: a method with separate weights per body is to read a body in several orders.
    """

    def __init__(
        self,
        model: ActorCritic,
        normalizer: TokenNormalizer,
        table: MorphologyTable,
        num_rows: int,
        *,
        serialization: Serialization,
        silent_limbs: IntArray | None = None,
    ) -> None:
        self.model = model
        self.normalizer = normalizer
        self.serialization = serialization
        if model.per_body and len(self.serialization) != len(table):
            raise ConfigError(
                "a method with separate weights per body reads each body in one order of its "
                "limbs, got several sequences for a body; choose another token order, or a method "
                "with shared weights"
            )
        fixed = token_table(table, normalizer, model.action_std.device)
        if silent_limbs is not None:
            fixed = _silenced(fixed, silent_limbs)
        self.table = fixed.serialized(self.serialization)
        """What is fixed by the bodies, a row for every sequence."""
        self.padding = table.limb_padding_mask
        """(M, L) bool, limbs in the order of the engine."""
        self._silent_limbs = silent_limbs
        self.state = model.initial_state(num_rows)
        """(B, L, S), the policy's recurrent state in the running episodes."""
        self.sequences: IntArray = np.zeros(num_rows, np.int64)
        """(B,) int64, the sequence of tokens that shows each row's body."""
        self.explorer = Explorer(model)

    def start(self, rows: IntArray, sequences: IntArray) -> None:
        """Begin episodes: reset the recurrent state of some rows.

        Args:
            rows: (K,) int64.
            sequences: (K,) int64, what is shown of their bodies from now on; where every body has
                one sequence, that is the body.
        """
        if self.state.is_inference():  # of `torch.inference_mode`, which may be over
            self.state = self.state.clone()
        self.state[torch.from_numpy(rows)] = 0.0
        self.sequences[rows] = sequences

    def arranged(self, dynamic: FloatArray, bodies: IntArray, sequences: IntArray) -> FloatArray:
        """Return (K, L, Fd) float32 features as networks see them.

        Args:
            dynamic: (K, L, Fd) float32, raw, limbs in the order of the engine.
            bodies: (K,) int64.
            sequences: (K,) int64, what is shown of them.
        """
        found = self.normalizer.normalize(dynamic, self.padding[bodies], bodies)
        if self._silent_limbs is not None:
            found[np.arange(len(found)), self._silent_limbs[bodies]] = 0.0
        return self.serialization.arrange(found, sequences)

    def see(self, shown: Shown) -> TokenBatch:
        """Return the observation of all rows as the networks take it."""
        device = self.table.context.device
        dynamic = self.arranged(shown.dynamic, shown.morphology_index, self.sequences)
        heights = None
        if shown.height_map is not None:
            heights = _to_device(shown.height_map.copy(), device)
        index = _to_device(self.sequences.copy(), device)
        return TokenBatch(self.table, index, _to_device(dynamic, device), heights)

    def choose(self, tokens: TokenBatch, pick: Pick | None = None) -> torch.Tensor:
        """Choose actions and remember them.

        Args:
            tokens: from `see`.
            pick: takes them from their distribution; default the most likely ones.

        Returns:
            The actions (B, L, J) in the order that is shown.
        """
        distribution, state = self.model.step(tokens, self.state, critic=False)
        actions = distribution.mode if pick is None else pick(distribution)
        self.state = self.model.remember(state, actions)
        return actions

    def explore(self, tokens: TokenBatch, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw actions for training and remember them, the critic too.

        Args:
            tokens: from `see`.
            noise: (B, L, J) standard normal numbers.

        Returns:
            The actions (B, L, J) in the order that is shown, and their log-densities (B,); the next
            call overwrites both.
        """
        found = self.explorer(tokens, noise, self.state, self.sequences)
        self.state = found.state
        return found.actions, found.log_prob

    def restore(self, actions: torch.Tensor) -> FloatArray:
        """Return actions (B, L, J) of `choose` in the order of the engine, float32."""
        found: FloatArray = self.serialization.restore(actions.cpu().numpy(), self.sequences)
        return found

    def act(self, shown: Shown, pick: Pick | None = None) -> FloatArray:
        """Return (B, L, J) float32 actions of all rows; call it within `Policy.acting`.

        Args:
            shown: observation of the rows.
            pick: see `choose`.
        """
        return self.restore(self.choose(self.see(shown), pick))


def token_table(
    table: MorphologyTable, normalizer: TokenNormalizer, device: torch.device | str = "cpu"
) -> TokenTable:
    """Return the bodies' fixed part as networks see it, normalised, on a device."""
    return TokenTable(
        spec=table.spec,
        context=torch.from_numpy(normalizer.normalize_context(table)),
        scaled_context=torch.from_numpy(normalizer.scale_context(table)),
        limb_padding_mask=torch.from_numpy(table.limb_padding_mask),
        action_padding_mask=torch.from_numpy(table.action_padding_mask),
        parents=torch.from_numpy(table.parents),
        num_limbs=torch.from_numpy(table.num_limbs),
        loops=None if table.loops is None else torch.from_numpy(table.loops),
    ).to(device)


def _to_device(values: Array, device: torch.device) -> torch.Tensor:
    """Return an array on a device; a GPU fetches it while this process goes on."""
    found = torch.from_numpy(values)
    if device.type != "cuda":
        return found
    return found.pin_memory().to(device, non_blocking=True)


def _silenced(table: TokenTable, silent_limbs: IntArray) -> TokenTable:
    """Return a table whose silent limbs have zeros in place of the features fixed by the body."""
    context, scaled = table.context.clone(), table.scaled_context.clone()
    limbs = torch.from_numpy(silent_limbs).to(context.device)
    rows = torch.arange(len(table), device=context.device)
    context[rows, limbs] = 0.0
    scaled[rows, limbs] = 0.0
    return replace(table, context=context, scaled_context=scaled)
