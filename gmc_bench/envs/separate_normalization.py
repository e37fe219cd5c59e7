"""Running normalisation where every body has statistics of its own, as in runs of its own."""

from dataclasses import replace

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.normalization import (
    CLIP,
    EPSILON,
    Mode,
    RewardNormalizer,
    RunningMoments,
    TokenNormalizer,
    scale,
    standardize,
)
from gmc_bench.tokens.table import MorphologyTable


def make_normalizer(table: MorphologyTable, mode: Mode, *, separate: bool) -> TokenNormalizer:
    """Return the observation statistics of a method.

    Args:
        table: M bodies that training uses.
        mode: see `TokenNormalizer`.
        separate: each body has its own, for methods with separate weights per body.
    """
    return SeparateTokenNormalizer(table, mode) if separate else TokenNormalizer(table, mode)


class SeparateTokenNormalizer(TokenNormalizer):
    """M normalisers, one per body: each has what a `TokenNormalizer` of its body alone has.

    All statistics have a first dimension over bodies. `morphology_index` must be given.

    Args:
        table: M bodies that training uses.
        mode: see `TokenNormalizer`.
    """

    def __init__(self, table: MorphologyTable, mode: Mode = "per_feature") -> None:
        super().__init__(table, mode)
        alone = [
            TokenNormalizer(
                replace(
                    table,
                    context=table.context[body : body + 1],
                    limb_padding_mask=table.limb_padding_mask[body : body + 1],
                ),
                mode,
            )
            for body in range(len(table))
        ]
        self.dynamic = RunningMoments.start((len(table), *self.dynamic.mean.shape))
        self.context_mean = np.stack([part.context_mean for part in alone])
        self.context_variance = np.stack([part.context_variance for part in alone])
        self.context_low = np.stack([part.context_low for part in alone])
        self.context_high = np.stack([part.context_high for part in alone])

    def update(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> None:
        """Merge the features of a batch into the running statistics of its bodies.

        Args:
            dynamic: (M * E, L, Fd) float32, raw; the E rows of a body stand side by side.
            padding: (M * E, L) bool, True = padding.
            morphology_index: (M * E,) int64, the body of each row.

        Raises:
            ConfigError: the rows are not those of all bodies in order.
        """
        bodies = len(self.context_mean)
        in_order = np.repeat(np.arange(bodies), len(dynamic) // bodies)
        if morphology_index is None or not np.array_equal(morphology_index, in_order):
            raise ConfigError(
                f"statistics of {bodies} separate bodies need equally many rows of each, body by "
                f"body, got bodies {None if morphology_index is None else list(morphology_index)}"
            )
        values = np.where(padding[..., None], 0.0, dynamic.astype(np.float64))
        values = values.reshape(bodies, -1, *values.shape[1:])  # (M * E, ...) -> (M, E, L, Fd)
        if self._slots:
            count = np.full(self.dynamic.mean.shape, float(values.shape[1]))
            self.dynamic.merge(values.mean(axis=1), values.var(axis=1), count)
            return
        real = ~padding.reshape(bodies, -1, 1)  # (M, E * L, 1)
        values = values.reshape(bodies, -1, values.shape[-1])
        number = real.sum(axis=1).astype(np.float64)  # (M, 1)
        mean = values.sum(axis=1) / number
        variance = np.square((values - mean[:, None]) * real).sum(axis=1) / number
        self.dynamic.merge(mean, variance, np.broadcast_to(number, mean.shape))

    def normalize(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> FloatArray:
        """Return time-varying features normalised by the statistics of each row's body.

        Args:
            dynamic: (B, L, Fd) float32, raw, of any bodies in any order.
            padding: (B, L) bool, True = padding.
            morphology_index: (B,) int64, the body of each row.

        Returns:
            (B, L, Fd) float32, 0 in padding.

        Raises:
            ConfigError: nothing says which body a row is of.
        """
        if morphology_index is None:
            raise ConfigError("separate statistics need the body of each row, got none")
        mean, variance = (
            self._over_slots(part)[morphology_index]
            for part in (self.dynamic.mean, self.dynamic.variance)
        )
        return standardize(dynamic, mean, variance, padding)

    def normalize_context(self, table: MorphologyTable) -> FloatArray:
        """Return the normalised context of the bodies it was made with, (M, L, Fc) float32.

        Raises:
            ConfigError: the table has another number of bodies.
        """
        self._require_own(table)
        mean, variance = map(self._over_slots, (self.context_mean, self.context_variance))
        return standardize(table.context, mean, variance, table.limb_padding_mask)

    def scale_context(self, table: MorphologyTable) -> FloatArray:
        """Return the context scaled by its range over each body's own limbs.

        Args:
            table: the bodies it was made with.

        Returns:
            (M, L, Fc) float32, 0 in padding.

        Raises:
            ConfigError: the table has another number of bodies.
        """
        self._require_own(table)
        return scale(table, self.context_low[:, None], self.context_high[:, None])

    def _over_slots(self, values: DoubleArray) -> DoubleArray:
        """Return (M, 1, F) or (M, L, F), broadcastable over token slots."""
        return values if self._slots else values[:, None]

    def _require_own(self, table: MorphologyTable) -> None:
        if len(table) != len(self.context_mean):
            raise ConfigError(
                f"statistics of {len(self.context_mean)} separate bodies cannot normalise a table "
                f"of {len(table)} bodies; use the bodies they were trained on"
            )


class SeparateRewardNormalizer(RewardNormalizer):
    """M reward scales, one per body, each as `RewardNormalizer` with the body's environments.

    Args:
        num_bodies: M.
        num_envs: M * E; the E environments of a body stand side by side.
        gamma: discount.
    """

    def __init__(self, num_bodies: int, num_envs: int, gamma: float) -> None:
        super().__init__(num_envs, gamma)
        self.moments = RunningMoments.start((num_bodies,))

    def __call__(self, reward: DoubleArray, done: BoolArray) -> DoubleArray:
        """Update with one step of rewards (M * E,) and return them scaled and clipped to +-10."""
        bodies = len(self.moments.mean)
        self.discounted = self.gamma * self.discounted + reward
        batch = self.discounted.reshape(bodies, -1)  # (M * E,) -> (M, E)
        count = np.full(bodies, float(batch.shape[1]))
        self.moments.merge(batch.mean(axis=1), batch.var(axis=1), count)
        deviation = np.sqrt(self.moments.variance + EPSILON)
        scaled = np.clip(reward / deviation.repeat(batch.shape[1]), -CLIP, CLIP)
        self.discounted[done] = 0.0
        result: DoubleArray = scaled
        return result
