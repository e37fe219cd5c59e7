"""Observation statistics of policies: running normalisation of token features."""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.suites.protocol import Normalization
from gmc_bench.tokens.table import MorphologyTable

CLIP = 10.0
EPSILON = 1e-8
CONSTANT_RANGE = 1e-6
"""A feature whose range is below this, relative to its size, does not vary (float32 rounding)."""


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

    def get_state(self) -> dict[str, Array]:
        """Return the moments as float64 arrays."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over what `get_state` returned; other entries do not matter."""
        self.mean, self.variance = state["mean"].copy(), state["variance"].copy()
        self.count = state["count"].copy()


class TokenNormalizer:
    """Normalises tokens: (x - mean) / sqrt(variance + 1e-8), clipped to [-10, 10], 0 in padding.

    Time-varying features use running statistics. Features fixed by the body use the exact mean
    and variance over the bodies it was made with: they are known from the start.

    Statistics are shared by all bodies, or separate: then all of them have a first dimension over
    bodies, and each body's are those that a normaliser of this body alone would have.

    Args:
        table: the M bodies that training uses.
        mode: `per_feature` keeps one statistic per feature over real limbs only; `per_slot`
            keeps one per token slot and feature with the zeros of padding counted in, as the
            public MetaMorph code does.
        separate: every body has statistics of its own, for methods with weights per body.

    Source:
        agrimgupta92/metamorph, vec_normalize.py, for `per_slot`. Differs: context statistics
        are exact instead of running, and padding stays zero.
    """

    def __init__(
        self, table: MorphologyTable, mode: Normalization = "per_feature", *, separate: bool = False
    ) -> None:
        self.mode: Normalization = mode
        self.separate = separate
        self._slots = mode == "per_slot"
        limbs, width = table.spec.max_limbs, table.spec.num_dynamic
        count = (len(table),) if separate else ()
        self.dynamic = RunningMoments.start((*count, *((limbs,) if self._slots else ()), width))
        groups = [slice(k, k + 1) for k in range(len(table))] if separate else [slice(None)]
        found = [self._of_context(table, group) for group in groups]
        self.context_mean, self.context_variance, self.context_low, self.context_high = (
            np.stack(parts) if separate else parts[0] for parts in zip(*found, strict=True)
        )

    def _of_context(self, table: MorphologyTable, rows: slice) -> tuple[DoubleArray, ...]:
        """Return mean, variance, least and largest value of the features of some bodies."""
        context = table.context[rows].astype(np.float64)
        real = context[~table.limb_padding_mask[rows]]
        counted = context if self._slots else real
        return counted.mean(axis=0), counted.var(axis=0), real.min(axis=0), real.max(axis=0)

    def update(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> None:
        """Merge the features of a batch into the running statistics; see `measure`."""
        self.dynamic.merge(*self.measure(dynamic, padding, morphology_index))

    def measure(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Return mean, variance and number of samples of a batch, as the statistics count them.

        Args:
            dynamic: (B, L, Fd) float32, raw.
            padding: (B, L) bool, True = padding.
            morphology_index: (B,) int64, the body of each row; not needed where bodies share
                statistics.

        Raises:
            ConfigError: statistics are separate, and the rows are not equally many of each body,
                body by body.
        """
        if not self.separate and not self._slots:
            real = dynamic[~padding].astype(np.float64)
            count = np.full(real.shape[1:], float(len(real)))
            return real.mean(axis=0), real.var(axis=0), count
        bodies = self._require_in_order(morphology_index, len(dynamic)) if self.separate else 1
        values = np.where(padding[..., None], 0.0, dynamic.astype(np.float64))
        values = values.reshape(bodies, -1, *values.shape[1:])  # (B, ...) -> (M, E, L, Fd)
        if self._slots:
            mean, variance = values.mean(axis=1), values.var(axis=1)
            count = np.full(mean.shape, float(values.shape[1]))
        else:
            kept = ~padding.reshape(bodies, -1, 1)  # (M, E * L, 1)
            values = values.reshape(bodies, -1, values.shape[-1])
            number = kept.sum(axis=1).astype(np.float64)  # (M, 1)
            mean = values.sum(axis=1) / number
            variance = np.square((values - mean[:, None]) * kept).sum(axis=1) / number
            count = np.broadcast_to(number, mean.shape)
        shape = self.dynamic.mean.shape
        return mean.reshape(shape), variance.reshape(shape), count.reshape(shape)

    def _require_in_order(self, morphology_index: IntArray | None, rows: int) -> int:
        bodies = len(self.context_mean)
        in_order = np.repeat(np.arange(bodies), rows // bodies)
        if morphology_index is None or not np.array_equal(morphology_index, in_order):
            raise ConfigError(
                f"statistics of {bodies} separate bodies need equally many rows of each, body by "
                f"body, got bodies {None if morphology_index is None else list(morphology_index)}"
            )
        return bodies

    def normalize(
        self, dynamic: FloatArray, padding: BoolArray, morphology_index: IntArray | None = None
    ) -> FloatArray:
        """Return normalised time-varying features, (B, L, Fd) float32, 0 in padding.

        Args:
            dynamic: (B, L, Fd) float32, raw, of any bodies in any order.
            padding: (B, L) bool, True = padding.
            morphology_index: (B,) int64, see `measure`.

        Raises:
            ConfigError: statistics are separate, and `morphology_index` is not given.
        """
        mean, variance = self.dynamic.mean, self.dynamic.variance
        if self.separate:
            if morphology_index is None:
                raise ConfigError("separate statistics need the body of each row, got none")
            mean, variance = (self._over_slots(part)[morphology_index] for part in (mean, variance))
        return standardize(dynamic, mean, variance, padding)

    def normalize_context(self, table: MorphologyTable) -> FloatArray:
        """Return the normalised context of a table of bodies, (M, L, Fc) float32, 0 in padding.

        The bodies may be others than the ones the normaliser was made with, unless statistics are
        separate. With `per_slot` the table must have the same number of slots.

        Raises:
            ConfigError: statistics are separate, and the table has another number of bodies.
        """
        self._require_own(table)
        mean, variance = map(self._over_slots, (self.context_mean, self.context_variance))
        return standardize(table.context, mean, variance, table.limb_padding_mask)

    def scale_context(self, table: MorphologyTable) -> FloatArray:
        """Return the context scaled by its range over the bodies used for training.

        Each feature runs from -1 to 1 over their real limbs. Other bodies may exceed that range
        by as much again; what goes further is clipped. A feature that never varies is 0.

        Args:
            table: bodies, see `normalize_context`.

        Returns:
            (M, L, Fc) float32, 0 in padding.

        Raises:
            ConfigError: see `normalize_context`.

        Source:
            MasterXiong/ModuMorph scales by fixed ranges; there a feature that never varied in
            training is multiplied by 2e8 on a body where it differs, and joints that a limb does
            not have are 0, which are scaled here.
        """
        self._require_own(table)
        low, high = self.context_low, self.context_high
        if self.separate:
            low, high = low[:, None], high[:, None]
        span = high - low
        varies = span > CONSTANT_RANGE * np.maximum(np.abs(high), 1.0)
        scaled = 2.0 * (table.context - low) / np.where(varies, span, 1.0) - 1.0
        scaled = np.where(varies, np.clip(scaled, -3.0, 3.0), 0.0)
        scaled[table.limb_padding_mask] = 0.0
        found: FloatArray = scaled.astype(np.float32)
        return found

    def _over_slots(self, values: DoubleArray) -> DoubleArray:
        """Return statistics that fit (M, L, F) values."""
        return values[:, None] if self.separate and not self._slots else values

    def _require_own(self, table: MorphologyTable) -> None:
        if self.separate and len(table) != len(self.context_mean):
            raise ConfigError(
                f"statistics of {len(self.context_mean)} separate bodies cannot normalise a table "
                f"of {len(table)} bodies; use the bodies they were trained on"
            )

    def get_state(self) -> dict[str, Array]:
        """Return all statistics as float64 arrays."""
        found = {f"dynamic_{name}": value for name, value in self.dynamic.get_state().items()}
        return found | {name: getattr(self, name) for name in _CONTEXT}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over what `get_state` returned."""
        self.dynamic.set_state(
            {name.removeprefix("dynamic_"): value for name, value in state.items()}
        )
        for name in _CONTEXT:
            setattr(self, name, state[name].copy())


_CONTEXT = ("context_mean", "context_variance", "context_low", "context_high")
"""Statistics of what is fixed by the bodies."""


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
