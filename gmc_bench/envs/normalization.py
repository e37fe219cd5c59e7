"""Running normalisation of token features and of rewards."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.tokens.table import MorphologyTable

CLIP = 10.0
EPSILON = 1e-8
CONSTANT = 1e-6
"""A feature whose range is below this, relative to its size, does not vary (float32 rounding)."""
Mode = Literal["per_feature", "per_slot"]


@dataclass
class RunningMoments:
    """Mean and variance of a stream, merged batch by batch in float64.

    Source:
        Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm for computing
        sample variances.
    """

    mean: DoubleArray
    variance: DoubleArray
    count: DoubleArray
    """Number of samples of each entry (or one number for all)."""

    @classmethod
    def start(cls, shape: tuple[int, ...]) -> "RunningMoments":
        """Return mean 0 and variance 1, with a weight that the first samples outweigh."""
        return cls(np.zeros(shape), np.ones(shape), np.full(shape, 1e-4))

    def merge(self, mean: DoubleArray, variance: DoubleArray, count: DoubleArray) -> None:
        """Merge the moments of a batch; entries with a count of zero stay as they are."""
        total = self.count + count
        delta = mean - self.mean
        spread = self.variance * self.count + variance * count
        self.mean = self.mean + delta * count / total
        self.variance = (spread + delta**2 * self.count * count / total) / total
        self.count = total


class TokenNormalizer:
    """Normalises tokens: (x - mean) / sqrt(variance + 1e-8), clipped to [-10, 10], 0 in padding.

    Time-varying features use running statistics. Features fixed by the body use the exact mean
    and variance over the bodies it was made with: they are known from the start.

    Args:
        table: the bodies that training uses.
        mode: `per_feature` keeps one statistic per feature over real limbs only; `per_slot`
            keeps one per token slot and feature with the zeros of padding counted in, as the
            public MetaMorph code does.

    Source:
        agrimgupta92/metamorph, vec_normalize.py, for `per_slot`. Differs: context statistics
        are exact instead of running, and padding stays zero.
    """

    def __init__(self, table: MorphologyTable, mode: Mode = "per_feature") -> None:
        self.mode: Mode = mode
        self._slots = mode == "per_slot"
        limbs, width = table.spec.max_limbs, table.spec.num_dynamic
        self.dynamic = RunningMoments.start((limbs, width) if self._slots else (width,))
        context = table.context.astype(np.float64)
        if self._slots:
            self.context_mean, self.context_variance = context.mean(axis=0), context.var(axis=0)
        else:
            real = context[~table.limb_padding_mask]
            self.context_mean, self.context_variance = real.mean(axis=0), real.var(axis=0)
        real = context[~table.limb_padding_mask]
        self.context_low, self.context_high = real.min(axis=0), real.max(axis=0)

    def update(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> None:
        """Merge the features of a batch into the running statistics.

        Args:
            dynamic: (B, L, Fd) float32, raw.
            padding: (B, L) bool, True = padding.
            morphology_index: (B,) int64, the body of each row; not needed where bodies share
                statistics.
        """
        if self._slots:
            values = np.where(padding[..., None], 0.0, dynamic.astype(np.float64))
            count = np.full(values.shape[1:], float(len(values)))
            self.dynamic.merge(values.mean(axis=0), values.var(axis=0), count)
        else:
            real = dynamic[~padding].astype(np.float64)
            count = np.full(real.shape[1:], float(len(real)))
            self.dynamic.merge(real.mean(axis=0), real.var(axis=0), count)

    def normalize(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> FloatArray:
        """Return normalised time-varying features, (B, L, Fd) float32, 0 in padding.

        Args:
            dynamic: (B, L, Fd) float32, raw.
            padding: (B, L) bool, True = padding.
            morphology_index: (B,) int64, see `update`.
        """
        return standardize(dynamic, self.dynamic.mean, self.dynamic.variance, padding)

    def normalize_context(self, table: MorphologyTable) -> FloatArray:
        """Return the normalised context of a table of bodies, (M, L, Fc) float32, 0 in padding.

        The bodies may be others than the ones the normaliser was made with. With `per_slot` the
        table must have the same number of slots.
        """
        return standardize(
            table.context, self.context_mean, self.context_variance, table.limb_padding_mask
        )

    def scale_context(self, table: MorphologyTable) -> FloatArray:
        """Return the context scaled by its range over the bodies used for training.

        Each feature runs from -1 to 1 over their real limbs. Other bodies may exceed that range
        by as much again; what goes further is cut off. A feature that never varies is 0.

        Args:
            table: bodies, which may be others than the ones the normaliser was made with.

        Returns:
            (M, L, Fc) float32, 0 in padding.

        Source:
            MasterXiong/ModuMorph scales by fixed ranges; there a feature that never varied in
            training is multiplied by 2e8 on a body where it differs.
        """
        return scale(table, self.context_low, self.context_high)

    def state_dict(self) -> dict[str, Array]:
        """Return all statistics as float64 arrays."""
        return {
            "dynamic_mean": self.dynamic.mean,
            "dynamic_variance": self.dynamic.variance,
            "dynamic_count": self.dynamic.count,
            "context_mean": self.context_mean,
            "context_variance": self.context_variance,
            "context_low": self.context_low,
            "context_high": self.context_high,
        }

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Take over the statistics of `state_dict`."""
        self.dynamic = RunningMoments(
            state["dynamic_mean"].copy(),
            state["dynamic_variance"].copy(),
            state["dynamic_count"].copy(),
        )
        self.context_mean = state["context_mean"].copy()
        self.context_variance = state["context_variance"].copy()
        self.context_low = state["context_low"].copy()
        self.context_high = state["context_high"].copy()


def standardize(
    values: FloatArray, mean: DoubleArray, variance: DoubleArray, padding: BoolArray
) -> FloatArray:
    """Return (values - mean) / sqrt(variance + 1e-8), clipped to [-10, 10].

    Args:
        values: (B, L, F) float32, raw.
        mean: broadcastable to `values`.
        variance: likewise.
        padding: (B, L) bool, True = padding.

    Returns:
        (B, L, F) float32, 0 in padding.
    """
    scale = (1.0 / np.sqrt(variance + EPSILON)).astype(np.float32)
    shifted = (values - mean.astype(np.float32)) * scale
    np.clip(shifted, -CLIP, CLIP, out=shifted)
    shifted[padding] = 0.0
    return shifted


def scale(table: MorphologyTable, low: DoubleArray, high: DoubleArray) -> FloatArray:
    """Return the context of a table scaled by a range, see `TokenNormalizer.scale_context`.

    Args:
        table: M bodies.
        low: least value of each feature, broadcastable to (M, L, Fc).
        high: its largest value, likewise.
    """
    span = high - low
    varies = span > CONSTANT * np.maximum(np.abs(high), 1.0)
    scaled = 2.0 * (table.context - low) / np.where(varies, span, 1.0) - 1.0
    scaled = np.where(varies, np.clip(scaled, -3.0, 3.0), 0.0)
    scaled[table.limb_padding_mask] = 0.0
    found: FloatArray = scaled.astype(np.float32)
    return found


class RewardNormalizer:
    """Divides rewards by the running standard deviation of the discounted return.

    One scalar statistic for all environments and bodies; the mean is not subtracted.

    Args:
        num_envs: B.
        gamma: discount.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.discounted: DoubleArray = np.zeros(num_envs)
        self.moments = RunningMoments.start((1,))

    def __call__(self, reward: DoubleArray, done: BoolArray) -> DoubleArray:
        """Update with one step of rewards (B,) and return them scaled and clipped to +-10."""
        self.discounted = self.gamma * self.discounted + reward
        batch = self.discounted
        count = np.array([float(len(batch))])
        self.moments.merge(batch.mean(keepdims=True), batch.var(keepdims=True), count)
        scaled = np.clip(reward / np.sqrt(self.moments.variance[0] + EPSILON), -CLIP, CLIP)
        self.discounted[done] = 0.0
        result: DoubleArray = scaled
        return result

    def state_dict(self) -> dict[str, Array]:
        """Return the statistics and the running returns as float64 arrays."""
        return {
            "discounted": self.discounted,
            "mean": self.moments.mean,
            "variance": self.moments.variance,
            "count": self.moments.count,
        }

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Take over the statistics of `state_dict`."""
        self.discounted = state["discounted"].copy()
        self.moments = RunningMoments(
            state["mean"].copy(), state["variance"].copy(), state["count"].copy()
        )
